"""The comparison of a forest with an oracle, over rows of `bitvec.verify.probing` and the
caller's."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bitvec.core import reference, transforms
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.distribution import version
from bitvec.errors import UnsupportedModelError
from bitvec.verify.certificates.certificate import (
    LABELS,
    LEAF_IDS,
    LEAF_VALUES,
    LISTED,
    PREDICTIONS,
    PROVED,
    RAW,
    SCORES,
    TWO_SIDED,
    VALUES_ONLY,
    Certificate,
    listing,
)
from bitvec.verify.certificates.column_cuts import unseen_leaves
from bitvec.verify.certificates.comparison import Answer, Answers, Tally, score_bound
from bitvec.verify.certificates.digest import array_digest, forest_digest
from bitvec.verify.certificates.footing import (
    accepted_rows,
    columns_differ,
    names_differ,
    numbering,
    require_same_sizes,
    rounding_bound,
)
from bitvec.verify.certificates.near_ties import Settled
from bitvec.verify.certificates.proof import EXAMPLES, STEPS, Proof, prove
from bitvec.verify.oracle import Oracle
from bitvec.verify.probing import (
    LONG_RUN,
    MAGNITUDE,
    Coverage,
    can_be_searched,
    has_long_runs,
    probe_rows,
)
from bitvec.verify.source_trees import SourceTrees

FRAMES_NOTE = (
    "rows were dense arrays in training order: data frames, by names and categories of their "
    "columns, and absent entries of sparse input were not compared"
)
DENSE_NOTE = "absent entries of sparse input were not compared"
"""Rest of that note where frames were compared."""
LEAVES_NAMED = 10
"""Leaves that a note names; it counts the others."""


def compare(
    forest: Forest,
    oracle: Oracle,
    *,
    exits: Answer | None = None,
    raw: Answer | None = None,
    scores: Answer | None = None,
    predict: Answer | None = None,
    X: Array | None = None,
    seed: int = 0,
    allowed_difference: float | None = None,
    allow_values_only: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Certificate:
    """Compare a forest with an oracle by a proof, on rows made for each node, and on X.

    Parameters
    ----------
    forest : Forest
    oracle : Oracle
    exits, raw : callable, optional
        What answers for the forest: rows in its dtype to exit leaves (batch, n_trees), numbered
        within each tree, and to raw scores (batch, n_outputs). The literal reference if not given.
    scores, predict : callable, optional
        The same for scores after the post-transform, (batch, n_outputs), and for labels or values
        as a `Predictor` returns them. What `bitvec.core.transforms` makes of `raw` if not given.
    X : (n, n_features), optional
        Rows to compare on as well, and from which columns off a node's path are taken.
    seed : int
        Of those columns; the same seed and X make the same rows.
    allowed_difference : float, optional
        Of raw scores, if the oracle is not exact; by default what rounding explains.
    allow_values_only : bool
        Whether the certificate passes where the oracle shows neither trees nor leaf ids.
    progress : callable, optional
        Called with the fraction of nodes done.

    Raises
    ------
    InputError
        If the oracle has another number of trees, features or outputs, X does not have the
        forest's columns, an answer has the wrong shape, or the oracle answers with leaf ids of a
        source that the forest does not hold.
    """
    require_same_sizes(forest, oracle)
    rows, n_left_out = accepted_rows(forest, oracle, X)
    trees, proof = _proof(forest, oracle)
    found = proof.differences
    if oracle.inputs is not None:
        found = (*columns_differ(forest, oracle.inputs), *found)
    if oracle.feature_names is not None:
        found = (*names_differ(forest, oracle.feature_names), *found)
    proof = replace(proof, differences=found[:EXAMPLES])
    settled = Settled(forest)
    if oracle.rounds_columns:
        rows = settled(rows)
    tally = Tally(
        forest,
        oracle,
        _answers(forest, exits, raw, scores, predict),
        numbering(forest, oracle),
    )
    tally.add_leaf_values()
    probes = probe_rows(
        forest,
        seed=seed,
        base_rows=rows if len(rows) else None,
        missing=oracle.accepts_missing,
        infinite=oracle.accepts_infinite,
        # Given rows have gone through it.
        keep=settled if oracle.rounds_columns and not len(rows) else None,
        others=None if trees is None else trees.tests,
    )
    coverage = Coverage(*(np.zeros(0, kind) for kind in (bool, np.int32, np.int32)))
    done = 0.0
    for block, coverage in probes.blocks():
        tally.add(block)
        # What a node has shown is taken back where one of several rows for it failed.
        done = max(done, float(np.mean(coverage.seen != 0)) if forest.n_nodes else 1.0)
        if progress is not None:
            progress(done)
    n_probes = tally.n_rows
    tally.add(rows)
    if progress is not None:
        progress(1.0)
    if not oracle.exact and allowed_difference is None:
        allowed_difference = rounding_bound(forest, *tally.raw_dtypes)
    places = _places(forest, coverage)
    source = forest.source
    grade, doubts = _grade(proof, tally, trees)
    return Certificate(
        grade=grade,
        allow_values_only=allow_values_only,
        compared=listing(_given(forest, oracle, answered=tally.n_answered > 0)),
        oracle=oracle.name,
        oracle_version=oracle.version,
        source=None if source is None else source.library,
        source_version=None if source is None else source.version,
        exact=oracle.exact,
        allowed_difference=None if oracle.exact else allowed_difference,
        n_trees=forest.n_trees,
        n_nodes=forest.n_nodes,
        n_reachable=int(coverage.reachable.sum()),
        n_covered=int(coverage.is_covered.sum()),
        unreachable=tuple(map(places, np.flatnonzero(~coverage.reachable)[:LISTED])),
        missed=tuple(
            (*places(node), _names(coverage, node))
            for node in np.flatnonzero(coverage.reachable & ~coverage.is_covered)[:LISTED]
        ),
        n_probes=n_probes,
        n_rows=len(rows),
        n_rows_left_out=n_left_out,
        n_answered=tally.n_answered,
        n_structure_mismatches=len(proof.differences),
        n_unseen_leaves=0 if oracle.leaf_ids is None else int((~tally.seen).sum()),
        n_leaf_mismatches=tally.n_leaf_mismatches,
        n_value_mismatches=tally.n_value_mismatches,
        n_raw_mismatches=tally.n_raw_mismatches,
        n_label_mismatches=tally.n_label_mismatches,
        max_ulp=tally.max_ulp,
        max_difference=tally.max_difference,
        max_score_ulp=tally.max_score_ulp,
        allowed_score_ulp=score_bound(forest, oracle),
        raw_dtype=tally.raw_dtype,
        differences=(*proof.differences, *tally.examples),
        exclusions=(
            *doubts,
            *_not_answered(forest, oracle, tally),
            *_exclusions(
                forest, oracle, coverage, n_left_out, settled.n_left_out, allowed_difference
            ),
        ),
        digest=forest_digest(forest),
        rows_digest=None if X is None else array_digest(np.asarray(X)),
        seed=seed,
        versions={
            "bitvec": version(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        platform=platform.platform(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _proof(forest: Forest, oracle: Oracle) -> tuple[SourceTrees | None, Proof]:
    """Return the oracle's trees, if it shows them, and what a proof made of them."""
    if oracle.trees is None:
        return None, Proof(refused=f"{oracle.name} shows no trees to compare node by node")
    try:
        trees = oracle.trees()
    except UnsupportedModelError as error:
        return None, Proof(refused=f"the trees of {oracle.name} were not read: {error}")
    proof = prove(
        forest,
        trees,
        missing=oracle.accepts_missing,
        infinite=oracle.accepts_infinite,
        leaf_ids=oracle.ids == "source",
    )
    return trees, proof


def _grade(proof: Proof, tally: Tally, trees: SourceTrees | None) -> tuple[str, tuple[str, ...]]:
    """Return the grade of a comparison, and why it is no better one."""
    if proof.holds:
        by_rows = f"known by answers to rows alone: {listing(proof.unstated)}"
        return PROVED, (by_rows,) if proof.unstated else ()
    doubts = [f"not proved: {proof.refused}"] if proof.refused else []
    oracle = tally.oracle
    if oracle.leaf_ids is None:
        return VALUES_ONLY, tuple(doubts)
    tree = np.repeat(np.arange(tally.forest.n_trees), np.diff(tally.forest.bitvectors.leaf_ptr))
    names = np.stack([tree, tally.leaf_id])[:, tally.seen]
    if np.unique(names, axis=1).shape[1] < names.shape[1]:
        doubts.append("several leaves share a leaf id")
        if not oracle.copied_leaves:
            return VALUES_ONLY, tuple(doubts)
    if trees is None:
        return TWO_SIDED, tuple(doubts)
    met, empty = unseen_leaves(
        trees,
        names,
        most_steps=STEPS,
        missing=oracle.accepts_missing,
        infinite=oracle.accepts_infinite,
    )
    if empty:
        doubts.append(f"empty in {oracle.name}'s own boxes: {_leaf_names(empty)}")
    if met:
        doubts.append(f"never seen, though not empty in {oracle.name}'s boxes: {_leaf_names(met)}")
    return VALUES_ONLY if met else TWO_SIDED, tuple(doubts)


def _leaf_names(leaves: list[tuple[int, int]]) -> str:
    """Return "leaf 3 of tree 0, leaf 5 of tree 0, and 12 more"."""
    texts = [f"leaf {leaf} of tree {tree}" for tree, leaf in leaves[:LEAVES_NAMED]]
    rest = len(leaves) - len(texts)
    return ", ".join([*texts, *([f"and {rest} more"] if rest else [])])


def _answers(
    forest: Forest,
    exits: Answer | None,
    raw: Answer | None,
    scores: Answer | None,
    predict: Answer | None,
) -> Answers:
    output = forest.output
    scored = raw or (lambda X: _reference_raw(forest, X))
    return Answers(
        exits or (lambda X: reference.exit_leaf_traversal(forest, reference.columns(forest, X))),
        scored,
        scores or (lambda X: transforms.transform(output, scored(X))),
        predict or (lambda X: transforms.predictions(output, scored(X))),
    )


def _given(forest: Forest, oracle: Oracle, *, answered: bool) -> tuple[str, ...]:
    """Return the parts that the oracle gives, with what follows from raw scores or without."""
    given = {
        LEAF_IDS: oracle.leaf_ids,
        LEAF_VALUES: oracle.leaf_values,
        RAW: oracle.raw,
        SCORES: oracle.scores if answered else None,
        PREDICTIONS if forest.output.classes is None else LABELS: (
            oracle.predict if answered else None
        ),
    }
    return tuple(part for part, answer in given.items() if answer is not None)


def _not_answered(forest: Forest, oracle: Oracle, tally: Tally) -> tuple[str, ...]:
    """Return what was not compared for want of rows with equal raw scores, in a sentence."""
    if tally.n_answered or not tally.n_rows:
        return ()
    raw_only = _given(forest, oracle, answered=False)
    parts = [part for part in _given(forest, oracle, answered=True) if part not in raw_only]
    sentence = f"no row has equal raw scores: {listing(tuple(parts))} were not compared"
    return (sentence,) if parts else ()


def _reference_raw(forest: Forest, X: Array) -> Array:
    if forest.kernel is not None:
        return reference.raw(forest, X)
    exits = reference.exit_leaf_traversal(forest, reference.columns(forest, X))
    return reference.accumulate(forest, X, exits)


def _places(forest: Forest, coverage: Coverage) -> Callable[[Any], tuple[int, int]]:
    tree, first = forest.bitvectors.tree_of_node, forest.bitvectors.node_ptr
    return lambda node: (int(tree[node]), int(node - first[tree[node]]))


def _names(coverage: Coverage, node: Any) -> str:
    return ", ".join(
        str(flag.name).lower().replace("_", " ") for flag in coverage.missed(int(node))
    )


def _exclusions(
    forest: Forest,
    oracle: Oracle,
    coverage: Coverage,
    n_left_out: int,
    n_near: int,
    allowed_difference: float | None,
) -> tuple[str, ...]:
    name, labelled = oracle.name, forest.output.classes is not None
    notes = {
        f"{name} accepts no missing values: rows with NaN were not compared": (
            not oracle.accepts_missing
        ),
        f"{name} accepts no infinities: rows with them were not compared": (
            not oracle.accepts_infinite
        ),
        f"{n_left_out} given rows were left out as {name} does not accept them": n_left_out > 0,
        f"{name} adds up the feature map in another order, which may send rows whose margins lie "
        f"within rounding of a threshold another way: {n_near} such rows were left out": (
            oracle.rounds_columns
        ),
        f"{name} exposes no leaf ids: only scores were compared": oracle.leaf_ids is None,
        f"{name} shows no leaf values: they were compared through sums on the rows made only, in "
        "which rounding can hide the last bits of a value": oracle.leaf_values is None,
        f"leaf values were read from the model by bitvec: {name} itself shows them through sums on "
        "the rows made": oracle.leaf_values is not None,
        f"{name} gave no labels: the classes and their order were not compared": (
            labelled and oracle.predict is None
        ),
        f"{name} gave no probabilities: the post-transform was compared through labels at most": (
            labelled and oracle.scores is None
        ),
        f"{name} gave no predictions: the post-transform was not compared": (
            not labelled and oracle.predict is None and oracle.scores is None
        ),
        "raw scores have no bound here, so only leaf ids decide": (
            not oracle.exact and allowed_difference is None
        ),
        f"below tests of several columns, nodes count as out of reach where that is proven for "
        f"finite values of up to {MAGNITUDE:g} times the column's thresholds and given rows": bool(
            np.any(forest.tests.feature < 0) and np.any(~coverage.reachable)
        ),
        f"of more than {LONG_RUN} codes in a row that a set sends one way, those in doubling "
        "distances from both ends were shown": has_long_runs(forest),
        "the feature map cannot be inverted: coverage counts what the given rows showed": (
            forest.feature_map is not None and not can_be_searched(forest)
        ),
        "behind key tables coverage counts both sides of each node, not the values next to its "
        "threshold": forest.feature_map is not None and can_be_searched(forest),
        FRAMES_NOTE: True,
    }
    return (*oracle.notes, *(note for note, holds in notes.items() if holds))
