"""Pruning after hardening: branches that nothing reaches, and subtrees whose leaves are equal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest, require_forest
from bitvec.core.leaves import LinearTerms
from bitvec.core.shape_annotations import Bool
from bitvec.core.source import Source
from bitvec.core.structure import Bitvectors, Reordering
from bitvec.errors import BitvecError, InputError, UnsupportedModelError
from bitvec.runtime.predict import tables
from bitvec.runtime.predict.engine import Engine, create
from bitvec.runtime.train.pruning.nesting import around
from bitvec.runtime.train.pruning.unreachable import unreachable_leaves

PAIRS = 1 << 22
"""Pairs of a row and a tree, or an output, that are looked at at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PruneResult:
    """Result of pruning.

    Parameters
    ----------
    forest : Forest
        The one that went in, itself, where there was nothing to remove.
    empty, unreachable, equal : int
        Nodes removed because no row of X, or no row at all, takes one of their sides, with the
        nodes of that side; and because all leaves below them are equal.
    certified : bool
        Whether raw scores were compared on rows of X, and found equal bit for bit.
    kept : Reordering
        Where each node and leaf stood in the forest that went in; of leaves that became one, the
        first.
    """

    forest: Forest
    empty: int
    unreachable: int
    equal: int
    certified: bool
    kept: Reordering

    @property
    def removed(self) -> int:
        """Number of nodes removed; each took one leaf with it."""
        return self.empty + self.unreachable + self.equal

    def __repr__(self) -> str:
        return f"PruneResult({self})"

    def __str__(self) -> str:
        n_nodes = self.forest.n_nodes + self.removed
        where = "on the rows given, bit for bit" if self.certified else "not compared on any row"
        return (
            f"{self.removed} of {n_nodes} nodes removed: {self.empty} that rows pass one way only, "
            f"{self.unreachable} that every row passes one way only, {self.equal} over equal "
            f"leaves; raw scores {'equal ' if self.certified else ''}{where}"
        )


def prune(
    forest: Forest,
    X: Any = None,
    *,
    empty: bool = True,
    equal: bool = True,
    unreachable: bool = True,
) -> PruneResult:
    """Remove the nodes that decide nothing, and certify that the answers stay the same.

    Parameters
    ----------
    forest : Forest
    X : array, sparse matrix or data frame, (batch, n_features), optional
        Rows by which `empty` goes, as a rule the training rows, and on which the result is
        compared with what went in.
    empty : bool
        Put in the place of a node that all rows of X pass one way the child that they come to.
        **The answers are promised for the rows of X only**: any other row, one with a missing value
        or a category that X does not show among them, may have taken the branch that is gone.
        Without X nothing is removed for this reason.
    equal : bool
        Put one leaf in the place of a node whose leaves hold the same vector, output and linear
        terms, bit for bit. No row's answer changes.
    unreachable : bool
        Put in the place of a node the one child that any row can come to, as far as comparisons
        of its column further up prove it. No row's answer changes.

    Returns
    -------
    PruneResult
        Its forest keeps the source's ids of nodes, and of leaves unless some became one, whose
        rows the source tells apart. Its covers count the rows of merged leaves together; where
        source rows reached a branch that is gone there are none.

    Raises
    ------
    UnsupportedModelError
        If the forest has a prediction kernel.
    InputError
        If X has no rows, or does not fit the forest.
    BitvecError
        If an answer has changed, which is never passed over.

    Notes
    -----
    A pruning is a choice of leaves: in the interval form of B a node stays where leaves of both its
    sides stay. Each kind is a choice made at once for all trees, so that none is left to repeat.
    Cost: O(n log n), the exit leaves of X, and its raw scores twice.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> tree = Forest.from_matrices([[1], [1]], [0, 5], [[0, 0], [0, 1], [1, 1]], [1, 1, 3])
    >>> prune(tree, [[-1.0], [9.0]]).forest
    Forest(1 tree, 1 nodes, 2 leaves, 1 features -> 1 outputs, float64)
    """
    require_forest(forest)
    if forest.kernel is not None:
        raise UnsupportedModelError(
            "a forest to be pruned must predict hard, got one with a prediction kernel: its soft "
            "prediction reaches every leaf for every row, so none can go and leave the answers as "
            "they are. Prune dataclasses.replace(forest, kernel=None) if that one is used."
        )
    rows = None if X is None else tables.rows(X, forest.inputs, forest.dtype)
    if rows is not None and empty and not len(rows):
        raise InputError("`X` must have at least one row to prune by, got none: pass the rows.")
    everything = Reordering(np.arange(forest.n_nodes), np.arange(forest.n_leaves))
    pruned, kept, removed = forest, everything, {"empty": 0, "unreachable": 0, "equal": 0}
    engine = None if rows is None else create("auto", forest)[0]
    if engine is not None and rows is not None and empty:
        pruned, kept = _keep(pruned, kept, _reached(pruned, engine, rows))
        removed["empty"] = forest.n_nodes - pruned.n_nodes
    if unreachable:
        before = pruned.n_nodes
        pruned, kept = _keep(pruned, kept, ~unreachable_leaves(pruned))
        removed["unreachable"] = before - pruned.n_nodes
    if equal:
        before = pruned.n_nodes
        pruned, kept = _merge(pruned, kept)
        removed["equal"] = before - pruned.n_nodes
    if engine is not None and rows is not None and pruned is not forest:
        _certify(engine, create("auto", pruned)[0], rows, forest)
    return PruneResult(pruned, **removed, certified=rows is not None and len(rows) > 0, kept=kept)


def _reached(forest: Forest, engine: Engine, X: Array) -> Bool[Array, " n_leaves"]:
    reached = np.zeros(forest.n_leaves, bool)
    step = max(1, PAIRS // max(forest.n_trees, 1))
    for start in range(0, len(X), step):
        exits = engine.exit_leaves(X[start : start + step])
        reached[(exits + forest.bitvectors.leaf_ptr[:-1]).ravel()] = True
    return reached


def _certify(before: Engine, after: Engine, X: Array, forest: Forest) -> None:
    """Raise unless both give each row the same raw scores, bit for bit (NaN is NaN)."""
    step = max(1, PAIRS // forest.n_outputs)
    for start in range(0, len(X), step):
        old, new = (engine.raw(X[start : start + step]) for engine in (before, after))
        same = (old == new) & (np.signbit(old) == np.signbit(new)) | np.isnan(old) & np.isnan(new)
        if not np.all(same):
            raise BitvecError(
                "a pruned forest must answer as before, got other raw scores for "
                f"{np.count_nonzero(~same.all(axis=1))} of {len(old)} rows: this is a fault of "
                "bitvec, please report it, and use the forest unpruned."
            )


def _keep(
    forest: Forest, kept: Reordering, stays: Bool[Array, " n_leaves"]
) -> tuple[Forest, Reordering]:
    """Return the forest of the leaves that stay, and where its parts stood at first."""
    if stays.all():
        return forest, kept
    source = forest.source
    if source is not None and _has_cover(source, ~stays):
        source = replace(source, node_cover=None, leaf_cover=None)
    return _restrict(replace(forest, source=source), kept, stays)


def _has_cover(source: Source, leaves: Bool[Array, " n_leaves"]) -> bool:
    """Return whether the source's rows may have reached some leaves."""
    if source.leaf_cover is None:
        return source.node_cover is not None
    return bool(np.any(source.leaf_cover[leaves] != 0))


def _merge(forest: Forest, kept: Reordering) -> tuple[Forest, Reordering]:
    """Return the forest with one leaf for each subtree of equal leaves."""
    B = forest.bitvectors
    first_leaf = B.leaf_ptr[:-1][B.tree_of_node]
    lo, hi = first_leaf + B.lo, first_leaf + B.hi
    # Leaf i + 1 differs from leaf i: a subtree is of equal leaves if nothing differs within it.
    differs = np.concatenate([[0], np.cumsum(~_equals_next(forest))])
    is_equal = differs[hi - 1] == differs[lo]
    steps = np.zeros(B.n_leaves + 1, np.int64)
    np.add.at(steps, lo[is_equal] + 1, 1)
    np.add.at(steps, hi[is_equal], -1)
    stays = np.cumsum(steps)[:-1] == 0
    if stays.all():
        return forest, kept
    merged, order = _restrict(forest, kept, stays)
    source = merged.source
    if source is not None:
        assert forest.source is not None
        cover = forest.source.leaf_cover
        if cover is not None:
            cover = np.add.reduceat(cover, np.flatnonzero(stays))
        merged = replace(merged, source=replace(source, leaf_id=None, leaf_cover=cover))
    return merged, order


def _equals_next(forest: Forest) -> Bool[Array, " n_leaves_minus_1"]:
    """Return whether each leaf but the last holds bit for bit what the next one holds."""
    leaves = forest.leaves
    equal = _same_rows(leaves.v[:-1], leaves.v[1:])
    if leaves.output is not None:
        equal &= leaves.output[:-1] == leaves.output[1:]
    if leaves.linear is not None and equal.any():
        at = np.flatnonzero(equal)
        equal[at] = _same_terms(leaves.linear, at)
    return equal


def _same_terms(linear: LinearTerms, leaf: Array) -> Bool[Array, " n"]:
    """Return whether these leaves have the linear terms of the leaves behind them."""
    count = np.diff(linear.leaf_ptr)
    n_terms = count[leaf]
    same = n_terms == count[leaf + 1]
    constants = _same_rows(linear.constant[leaf], linear.constant[leaf + 1])
    same &= (n_terms == 0) | constants  # a leaf without terms does not use its constant
    pair = np.repeat(np.flatnonzero(same), n_terms[same])
    own, other = (ranges(linear.leaf_ptr[at], n_terms[same]) for at in (leaf[same], leaf[same] + 1))
    term = (linear.column[own] == linear.column[other]) & _same_rows(
        linear.weight[own], linear.weight[other]
    )
    same[pair[~term]] = False
    return same


def _same_rows(a: Array, b: Array) -> Bool[Array, " n"]:
    bits = np.dtype(f"u{a.itemsize}")
    same: Array = (a.view(bits) == b.view(bits)).all(axis=1)
    return same


def restricted(forest: Forest, stays: Bool[Array, " n_leaves"]) -> Forest:
    """Return the trees that some leaves span; each tree must keep one."""
    everything = Reordering(np.arange(forest.n_nodes), np.arange(forest.n_leaves))
    return _restrict(forest, everything, stays)[0]


def _restrict(
    forest: Forest, kept: Reordering, stays: Bool[Array, " n_leaves"]
) -> tuple[Forest, Reordering]:
    """Return the trees that some leaves span: the nodes with such leaves on both sides."""
    B = forest.bitvectors
    number = np.concatenate([[0], np.cumsum(stays)])
    first_leaf = B.leaf_ptr[:-1][B.tree_of_node]
    first = number[first_leaf]
    lo, mid, hi = (number[first_leaf + end] - first for end in (B.lo, B.mid, B.hi))
    node = np.flatnonzero((lo < mid) & (mid < hi))
    tree = B.tree_of_node[node]
    # Nodes have moved up, so breadth-first order is another one.
    depth, _ = around(tree, lo[node], hi[node])
    node = node[np.lexsort((lo[node], depth, tree))]
    leaf = np.flatnonzero(stays)
    first_leaves, middles, ends = (end[node].astype(np.int32) for end in (lo, mid, hi))
    found = replace(
        forest,
        tests=forest.tests.take(node),
        bitvectors=Bitvectors(first_leaves, middles, ends, number[B.leaf_ptr]),
        leaves=forest.leaves.take(leaf),
        source=None if forest.source is None else forest.source.take(node, leaf),
    )
    return found, Reordering(kept.node[node], kept.leaf[leaf])
