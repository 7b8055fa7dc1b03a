"""Certificates of mutants: caught, equivalent to the forest that they were made of, or wrong."""

from __future__ import annotations

from dataclasses import fields, replace
from math import prod
from typing import Any

import numpy as np

import bitvec
from benchmarks.exactness.mutant_models import models
from benchmarks.exactness.mutants import Mutant, mutants
from bitvec.certification import oracle_of
from bitvec.core import reference, transforms
from bitvec.core.float_keys import ulps
from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD, Kind, set_codes
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.reference import turns
from bitvec.errors import BitvecError, InvalidForestError
from bitvec.verify.certificates.proof import prove
from bitvec.verify.oracle import Oracle
from bitvec.verify.source_trees import of_forest

CAUGHT, EQUIVALENT, WITHIN, WRONG = "caught", "equivalent", "within ulps", "wrongly passed"
IMPOSSIBLE, UNASKED = "no forest", "not asked"
"""`WITHIN`: of the same exits, raw scores and labels, but other scores, within the ulps that its
certificate allows. `IMPOSSIBLE`: what no Forest can hold. `UNASKED`: what neither dense rows nor
frames show, as its certificate notes."""
VERDICTS = (CAUGHT, EQUIVALENT, WITHIN, WRONG, UNASKED, IMPOSSIBLE)
MOST_CELLS = 60_000
MODELS = 4
"""Models of a library that a sample is drawn from, at most."""
_SOFTMAX = (PostTransform.SOFTMAX,)
_READ_PARAMETER = (
    PostTransform.SIGMOID,
    PostTransform.SOFTMAX,
    PostTransform.EXPONENTIAL_STANDARD_RATIO,
)
"""Post-transforms that read `softmax_sum` and `parameter`."""


def verdict(mutant: Mutant, forest: Forest, oracle: Oracle) -> str:
    """Return what became of a mutant, whose forest is exactly the oracle's model."""
    try:
        changed = mutant.make()
    except InvalidForestError:
        return IMPOSSIBLE
    of_inputs = mutant.name.startswith("inputs.")
    try:
        asked = oracle if of_inputs else replace(oracle, of_frame=None)
        certificate = bitvec.certify(changed, asked, engine="reference", progress=False)
    except BitvecError:
        return CAUGHT
    if not certificate.passed:
        return CAUGHT
    if of_inputs and (oracle.of_frame is None or "absent_is_missing" in mutant.name):
        return UNASKED
    if equivalent(changed, forest, oracle):
        return EQUIVALENT
    allowed = certificate.allowed_score_ulp
    return WITHIN if equivalent(changed, forest, oracle, score_ulps=allowed) else WRONG


def equivalent(one: Forest, other: Forest, oracle: Oracle, *, score_ulps: int = 0) -> bool:
    """Return whether two forests give equal answers to every row that the oracle accepts.

    All cells of the columns are enumerated where they are few, and a proof must not disagree; else
    a proof decides, with equal leaf ids, and equal outputs or all combinations of leaves. Ids of
    leaves that no cell reaches are no answers.
    """
    proof = prove(
        one,
        of_forest(other),
        missing=oracle.accepts_missing,
        infinite=oracle.accepts_infinite,
        leaf_ids=False,
    )
    holds = proof.holds and _same_ids(one, other)
    proved = holds and _same_output(one, other) and _same_inputs(one, other)
    rows = cells(one, other, oracle)
    if rows is None:
        return proved or (holds and _same_on_leaves(one, other, score_ulps))
    same = _equal(_told(one, rows), _told(other, rows), score_ulps)
    if proved and not same:
        raise AssertionError("a proof holds for forests that differ in a cell")
    return same


def _same_on_leaves(one: Forest, other: Forest, score_ulps: int) -> bool:
    """Return whether forests of equal trees answer alike at every combination of their leaves."""
    sizes = np.diff(one.bitvectors.leaf_ptr)
    same_trees = np.array_equal(sizes, np.diff(other.bitvectors.leaf_ptr))
    if not same_trees or one.leaves.linear is not None or prod(sizes.tolist()) > MOST_CELLS:
        return False
    exits = np.stack(np.unravel_index(np.arange(prod(sizes.tolist())), sizes.tolist()), axis=1)
    X = np.zeros((len(exits), one.n_features), one.dtype)
    return _equal(_of(one, X, exits), _of(other, X, exits), score_ulps)


def cells(one: Forest, other: Forest, oracle: Oracle) -> Any:
    """Return a row of each cell of the columns that either forest tests; None if too many."""
    forests = (one, other)
    if any(not f.tests.is_one_hot.all() or f.leaves.linear or f.feature_map for f in forests):
        return None
    columns = [
        _representatives(forests, column, oracle)
        for column in range(max(f.n_features for f in forests))
    ]
    if prod(map(len, columns)) > MOST_CELLS:
        return None
    grid = np.meshgrid(*columns, indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def _representatives(forests: tuple[Forest, Forest], column: int, oracle: Oracle) -> Any:
    """Return values of one column, one for each way in which the tests of both may turn out."""
    dtype = forests[0].dtype
    most = np.finfo(dtype).max
    values = [0.0, -0.0, 1.0, -1.0, -0.5, 1e-40, -1e-40, 1e-30, most, -most]
    values += [ZERO_THRESHOLD, -ZERO_THRESHOLD, np.inf, -np.inf, np.nan]
    for forest in forests:
        tests, sentinel = forest.tests, forest.inputs.missing_sentinel
        values += [] if sentinel is None else [sentinel]
        for node in np.flatnonzero(tests.feature == column).tolist():
            if tests.kind[node] == Kind.SET:
                codes = set_codes(tests, node)
                width = 32 * (tests.set_ptr[node + 1] - tests.set_ptr[node])
                codes = np.concatenate([codes, np.arange(min(width, 64)), [width, width + 1]])
                values += np.concatenate([codes, codes + 1, codes + 0.5]).tolist()
            else:
                values.append(float(tests.b[node]))
    with np.errstate(over="ignore"):
        found = np.array(values).astype(dtype)
        near = [np.nextafter(found, np.array(end, dtype)) for end in (-np.inf, np.inf)]
    found = np.concatenate([found, *near])
    if not oracle.accepts_missing:
        found = found[~np.isnan(found)]
    if not oracle.accepts_infinite:
        found = found[~np.isinf(found)]
    sides = []
    for forest in forests:
        rule = forest.inputs.missing_sentinel
        rule = None if rule is None else float(dtype.type(rule))
        node = np.flatnonzero(forest.tests.feature == column)
        row = np.repeat(np.arange(found.size), node.size)
        X = np.zeros((found.size, forest.n_features), dtype)
        if column < forest.n_features:
            X[:, column] = found
            sides.append(turns(forest.tests, X, row, np.tile(node, found.size), rule))
    told = np.concatenate([side.reshape(found.size, -1) for side in sides], axis=1)
    return found[np.sort(np.unique(told, axis=0, return_index=True)[1])]


def _told(forest: Forest, X: Any) -> tuple[Any, ...]:
    return _of(forest, X, reference.exit_leaf_traversal(forest, reference.columns(forest, X)))


def _of(forest: Forest, X: Any, exits: Any) -> tuple[Any, ...]:
    """Return leaf ids, raw scores, transformed scores and predictions of rows at these leaves."""
    raw = reference.accumulate(forest, X, exits)
    with np.errstate(all="ignore"):
        scores = transforms.transform(forest.output, raw)
        answers = transforms.predictions(forest.output, raw)
    source = forest.source
    ids = (
        exits
        if source is None or source.leaf_id is None
        else source.leaf_id[exits + forest.bitvectors.leaf_ptr[:-1]]
    )
    return ids, raw, scores, answers


def _equal(ours: tuple[Any, ...], theirs: tuple[Any, ...], score_ulps: int) -> bool:
    """Return whether ids and raw scores are equal, and scores and predictions up to some ulps."""
    exact = all(_same(a, b) for a, b in zip(ours[:2], theirs[:2], strict=True))
    return exact and all(
        _same(a, b)
        or (
            score_ulps > 0
            and a.dtype == b.dtype
            and a.dtype.kind == "f"
            and a.shape == b.shape
            and int(ulps(a, b).max()) <= score_ulps
        )
        for a, b in zip(ours[2:], theirs[2:], strict=True)
    )


def _same(a: Any, b: Any) -> bool:
    if a.dtype.kind != b.dtype.kind or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
    return a.dtype == b.dtype and bool(same.all())


def _same_output(one: Forest, other: Forest) -> bool:
    def bits(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(bits, value))
        return (value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)

    unread = set() if one.output.post_transform in _SOFTMAX else {"softmax_sum"}
    unread |= set() if one.output.post_transform in _READ_PARAMETER else {"parameter"}
    unread |= {"base_first"} if _adds_nothing(one) and _adds_nothing(other) else set()
    return all(
        bits(getattr(one.output, field.name)) == bits(getattr(other.output, field.name))
        for field in fields(one.output)
        if field.name not in unread
    )


def _adds_nothing(forest: Forest) -> bool:
    """Return whether the base score is 0, which sums from 0 do not tell first from last."""
    output = forest.output
    zero = not output.base_score.any() and not np.signbit(output.base_score).any()
    return zero and output.aggregate is Aggregate.SUM and output.scale is None


def _same_ids(one: Forest, other: Forest) -> bool:
    """Return whether the source's ids are the same leaf by leaf, unless the trees are others."""
    if one.source is None or other.source is None or one.tests is not other.tests:
        return True
    a, b = one.source.leaf_id, other.source.leaf_id
    return a is b or np.array_equal(a, b)


def _same_inputs(one: Forest, other: Forest) -> bool:
    return repr(one.inputs) == repr(other.inputs)


def sampled(library: str, n: int | None = None, *, trees: bool = True) -> list[tuple[str, str]]:
    """Return name and verdict of a library's mutants: of all, or of n drawn with a fixed seed.

    Without `trees` certificates rest on rows and leaf ids alone.
    """
    makers = models(library)
    rng = np.random.default_rng(0)
    names, found = list(makers), []
    some = names if n is None else [names[i] for i in rng.permutation(len(names))[:MODELS]]
    for at, name in enumerate(some):
        model = makers[name]()
        forest, answers = bitvec.convert(model), oracle_of(model)
        answers = answers if trees else replace(answers, trees=None)
        every = mutants(forest)
        if n is not None:
            share = n // len(some) + (at < n % len(some))
            every = [every[i] for i in rng.permutation(len(every))[:share]]
        found += [(f"{name}: {one.name}", verdict(one, forest, answers)) for one in every]
    return found
