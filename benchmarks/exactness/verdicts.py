"""Certificates of mutants: caught, equivalent to the forest that they were made of, or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from math import prod
from typing import Any

import numpy as np

import bitvec
from benchmarks.exactness.mutants import Mutant
from bitvec import reference, transforms
from bitvec.certificates.proof import prove
from bitvec.errors import BitvecError, InvalidForestError
from bitvec.forest import Forest
from bitvec.node_tests import Kind, MissingRule, ZERO_THRESHOLD, set_codes
from bitvec.reference import turns
from bitvec.source_trees import of_forest
from bitvec.subject import Subject

CAUGHT, EQUIVALENT, WRONG = "caught", "equivalent", "wrongly passed"
IMPOSSIBLE, UNASKED = "no forest", "not asked"
"""What no Forest can hold; and what dense rows and frames do not show, as certificates note."""
MOST_CELLS = 60_000


def verdict(mutant: Mutant, forest: Forest, subject: Subject) -> str:
    """Return what became of a mutant, whose forest is the exact lift of the subject's model."""
    try:
        changed = mutant.make()
    except InvalidForestError:
        return IMPOSSIBLE
    of_inputs = mutant.name.startswith("inputs.")
    try:
        asked = subject if of_inputs else replace(subject, of_frame=None)
        certificate = bitvec.certify(changed, asked, engine="reference", progress=False)
    except BitvecError:
        return CAUGHT
    if not certificate.passed:
        return CAUGHT
    if of_inputs and (subject.of_frame is None or "absent_is_missing" in mutant.name):
        return UNASKED
    return EQUIVALENT if equivalent(changed, forest, subject) else WRONG


def equivalent(one: Forest, other: Forest, subject: Subject) -> bool:
    """Whether two forests give equal answers to every row that the subject accepts.

    All cells of the columns are enumerated where they are few, and a proof must not disagree; else
    a proof and equal outputs decide.
    """
    proof = prove(
        one,
        of_forest(other),
        missing=subject.accepts_missing,
        infinite=subject.accepts_infinite,
        leaf_ids=False,
    )
    proved = proof.holds and _same_output(one, other) and _same_inputs(one, other)
    rows = cells(one, other, subject)
    if rows is None:
        return proved or (proof.holds and _same_on_leaves(one, other))
    same = all(_same(a, b) for a, b in zip(_told(one, rows), _told(other, rows), strict=True))
    if proved and not same:
        raise AssertionError("a proof holds for forests that differ in a cell")
    return same


def _same_on_leaves(one: Forest, other: Forest) -> bool:
    """Whether forests of equal trees give equal answers at every combination of their leaves."""
    sizes = np.diff(one.bitvectors.leaf_ptr)
    same_trees = np.array_equal(sizes, np.diff(other.bitvectors.leaf_ptr))
    if not same_trees or one.leaves.linear is not None or prod(sizes.tolist()) > MOST_CELLS:
        return False
    exits = np.stack(np.unravel_index(np.arange(prod(sizes.tolist())), sizes.tolist()), axis=1)
    X = np.zeros((len(exits), one.n_features), one.dtype)
    return all(
        _same(a, b) for a, b in zip(_of(one, X, exits), _of(other, X, exits), strict=True)
    )


def cells(one: Forest, other: Forest, subject: Subject) -> Any:
    """Return a row of each cell of the columns that either forest tests; None if too many."""
    forests = (one, other)
    if any(not f.tests.is_one_hot.all() or f.leaves.linear or f.feature_map for f in forests):
        return None
    columns = [
        _representatives(forests, column, subject)
        for column in range(max(f.n_features for f in forests))
    ]
    if prod(map(len, columns)) > MOST_CELLS:
        return None
    grid = np.meshgrid(*columns, indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def _representatives(forests: tuple[Forest, Forest], column: int, subject: Subject) -> Any:
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
    if not subject.accepts_missing:
        found = found[~np.isnan(found)]
    if not subject.accepts_infinite:
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
    ids = exits if source is None or source.leaf_id is None else source.leaf_id[
        exits + forest.bitvectors.leaf_ptr[:-1]
    ]
    return ids, raw, scores, answers


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

    pairs = [(f.name, getattr(one.output, f.name), getattr(other.output, f.name))
             for f in fields(one.output)]
    return all(bits(a) == bits(b) for _, a, b in pairs)


def _same_inputs(one: Forest, other: Forest) -> bool:
    return repr(one.inputs) == repr(other.inputs)


def count(chosen: Iterable[tuple[Mutant, Forest, Subject]]) -> Counter[str]:
    """Return how many mutants came to each verdict."""
    return Counter(verdict(*each) for each in chosen)
