"""The rows that a tree is optimised on, and their ways through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float, Float64, Int64
from bitvec.learners.tao import tree_kernels
from bitvec.learners.tao.tree import Tree, Walk, walk_of
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.threads import for_each_block

BLOCK = 4096
"""Rows that one thread takes at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Training rows. F is the dtype in which trees compare.

    Parameters
    ----------
    Z : F, (n_rows, n_features)
        What the tests read.
    mean, scale : float64, (n_features,)
        Mean and standard deviation of the columns, over finite values, each of its row's weight; a
        scale of 0 becomes 1.
    order : int64, (n_features, n_rows), or (0, 0)
        The rows by rising value of each column, NaN last, where axis-aligned nodes may move.
    X : float64, (n_rows, n_columns), optional
        What linear leaves read, where there are any.
    outcomes : bool, (n_fixed, n_rows)
    outcome_row : int64, (n_nodes,)
        See `tree.walk_of`.
    n_threads : int
    """

    Z: Float[Array, "n_rows n_features"]
    mean: Float64[Array, " n_features"]
    scale: Float64[Array, " n_features"]
    order: Int64[Array, "n_sorted n_rows"]
    X: Float64[Array, "n_rows n_columns"] | None
    outcomes: Bool[Array, "n_fixed n_rows"] | None
    outcome_row: Int64[Array, " n_nodes"] | None
    n_threads: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.Z)

    def walk(self, tree: Tree) -> Walk:
        """Return what kernels walk of a tree on these rows."""
        return walk_of(tree, self.outcomes, self.outcome_row)


def make_rows(
    Z: Float[Array, "n_rows n_features"],
    weight: Float64[Array, " n_rows"] | None = None,
    *,
    n_threads: int,
    is_sorted: bool,
    X: Array | None = None,
    outcomes: Array | None = None,
    outcome_row: Array | None = None,
) -> Rows:
    """Return rows with what the solvers need to know of them once.

    Parameters
    ----------
    is_sorted : bool
        Whether to sort each column, which axis-aligned nodes are searched by.
    """
    Z = constant(Z)
    finite = np.where(np.isfinite(Z), Z, np.nan).astype(np.float64)
    known = ~np.isnan(finite)
    whole = np.ones(len(Z)) if weight is None else weight / weight.max()
    share = np.where(known, whole[:, None], 0.0)
    count = share.sum(axis=0)
    count = np.where(count > 0, count, 1.0)
    # A row of weight 0 counts nothing, however large its values are.
    filled = np.where(share > 0, finite, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (share * filled).sum(axis=0) / count
        scale = np.sqrt((share * np.where(share > 0, filled - mean, 0.0) ** 2).sum(axis=0) / count)
    usable = (scale > 0) & np.isfinite(scale)
    mean, scale = np.where(np.isfinite(mean), mean, 0.0), np.where(usable, scale, 1.0)
    order = np.zeros((0, 0), np.int64)
    if is_sorted:
        order = np.empty((Z.shape[1], len(Z)), np.int64)
        for column in range(Z.shape[1]):
            order[column] = np.argsort(Z[:, column], kind="stable")
    return Rows(Z, mean, scale, constant(order), X, outcomes, outcome_row, n_threads)


def route(rows: Rows, tree: Tree) -> Int64[Array, "n_levels n_rows"]:
    """Return the path of each row: a node at each level, and ~leaf from its leaf on."""
    paths = np.zeros((tree.n_levels, rows.n_rows), np.int64)
    if not tree.n_nodes:
        paths[:] = ~0
        return paths
    _fill(rows, tree, np.zeros(tree.n_nodes, bool), False, paths)
    return paths


def reroute(
    rows: Rows, tree: Tree, changed: Bool[Array, " n_nodes"], paths: Int64[Array, "n_levels n_rows"]
) -> Int64[Array, "n_levels n_rows"]:
    """Return the paths in a tree that differs from the one of `paths` in some nodes alone."""
    if not changed.any():
        return paths
    paths = paths.copy()
    _fill(rows, tree, changed, True, paths)
    return paths


def _fill(rows: Rows, tree: Tree, changed: Array, known: bool, paths: Array) -> None:
    walk, changed = rows.walk(tree), constant(changed)

    def work(part: slice) -> None:
        tree_kernels.fill_paths(walk, rows.Z, part.start, part.stop, changed, known, paths)

    for_each_block(work, rows.n_rows, block=BLOCK, n_threads=rows.n_threads)


def sides(
    rows: Rows, tree: Tree, which: Int64[Array, " n"], nodes: Int64[Array, " n"]
) -> tuple[Int64[Array, " n"], Int64[Array, " n"]]:
    """Return the leaves that rows come to from the left and from the right child of a node each."""
    left, right = np.empty(which.size, np.int64), np.empty(which.size, np.int64)
    walk, which, nodes = rows.walk(tree), constant(which), constant(nodes)

    def work(part: slice) -> None:
        tree_kernels.fill_sides(walk, rows.Z, which, nodes, part.start, part.stop, left, right)

    for_each_block(work, which.size, block=BLOCK, n_threads=rows.n_threads)
    return left, right


def turns(walk: Walk, rows: Rows, which: Int64[Array, " n"], node: int) -> Bool[Array, " n"]:
    """Return which of some rows go right at a node."""
    result = np.empty(which.size, np.bool_)
    tree_kernels.fill_turns(walk, rows.Z, constant(which), node, result)
    return result
