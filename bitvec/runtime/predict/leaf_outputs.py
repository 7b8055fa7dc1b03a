"""Outputs of the exit leaves: the source's ids, paths, and what each tree says or adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bitvec.core import reference, tree_paths
from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Float, Int, Int64
from bitvec.core.structure import Bitvectors
from bitvec.errors import BitvecError, needs

PAIRS = 1 << 20
"""Pairs of a row and a tree that are looked at at a time."""

NARROW = 2**31 - 1
"""The largest index that int32 holds."""

Exits = Callable[[Array], Int[Array, "batch n_trees"]]
"""From rows to leaf numbers within the trees."""


def row_parts(n_rows: int, n_trees: int) -> list[slice]:
    """Return parts of rows that have about `PAIRS` pairs of a row and a tree."""
    step = max(1, PAIRS // max(n_trees, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def fill_ids(forest: Forest, exits: Int[Array, "batch n_trees"], out: Array) -> None:
    """Fill `out` with the source's ids of exit leaves, or leaf numbers where it has none."""
    source, first_leaf = forest.source, forest.bitvectors.leaf_ptr[:-1]
    if source is None or source.leaf_id is None:
        out[...] = exits
        return
    for part in row_parts(*exits.shape):
        out[part] = source.leaf_id[exits[part] + first_leaf]


def fill_per_tree(
    forest: Forest, exits: Exits, X: Array, out: Float[Array, "batch n_trees width"]
) -> None:
    """Fill `out` with each tree's leaf vector, before weights and base score.

    Of a forest with a prediction kernel it is each tree's expected vector.
    """
    first_leaf = forest.bitvectors.leaf_ptr[:-1]
    for part in row_parts(len(X), forest.n_trees):
        rows = _cast(X[part], forest.dtype)
        if forest.kernel is not None:
            for tree, vectors in enumerate(reference.soft_vectors(forest, rows)):
                out[part, tree] = vectors
            continue
        leaf = exits(rows) + first_leaf
        if forest.leaves.linear is None:
            out[part] = forest.leaves.v[leaf]
        else:
            for tree in range(forest.n_trees):
                out[part, tree] = reference.leaf_vectors(forest, rows, leaf[:, tree])


def per_tree_kind(forest: Forest) -> tuple[tuple[int, int], np.dtype]:
    """Return the shape and dtype of what `fill_per_tree` makes of one row."""
    if forest.kernel is not None and forest.n_trees:
        return (forest.n_trees, forest.n_outputs), np.dtype(np.float64)
    v = forest.leaves.v
    return (forest.n_trees, v.shape[1]), v.dtype


def require_additive(forest: Forest) -> None:
    """Refuse a forest whose raw score is no sum over trees.

    Raises
    ------
    BitvecError
    """
    aggregate = forest.output.aggregate
    if aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        raise BitvecError(
            "`tree_contributions` needs a forest whose raw score is a sum or a mean over trees, "
            f"got the aggregate {aggregate.value}: use `per_tree`."
        )


def fill_tree_contributions(
    forest: Forest, exits: Exits, X: Array, out: Float[Array, "batch n_trees n_outputs"]
) -> None:
    """Fill `out` with what each tree adds to each output, in the dtype in which it is added."""
    output, leaves, B = forest.output, forest.leaves, forest.bitvectors
    # Where the sum starts at -0.0, adding 0.0 to an output that a tree leaves alone would show.
    starts_below = output.base_first and bool(
        np.any((output.base_score == 0) & np.signbit(output.base_score))
    )
    nothing = output.dtype.type(-0.0 if starts_below else 0.0)
    soft = forest.kernel is not None
    with np.errstate(over="ignore", invalid="ignore"):  # infinite leaves are legal
        for part in row_parts(len(X), forest.n_trees):
            rows = _cast(X[part], forest.dtype)
            every = np.arange(len(rows))
            vectors = reference.soft_vectors(forest, rows) if soft else None
            leaf = None if soft else exits(rows) + B.leaf_ptr[:-1]
            for tree in range(forest.n_trees):
                if vectors is not None:
                    vector = vectors[tree]
                else:
                    assert leaf is not None
                    vector = reference.leaf_vectors(forest, rows, leaf[:, tree])
                weighted = vector.astype(output.dtype, copy=False)
                if output.tree_weight is not None:
                    weighted = output.tree_weight[tree] * weighted
                if leaves.output is None or leaf is None:
                    out[part, tree] = weighted
                else:
                    dense = np.full((len(rows), output.n_outputs), nothing)
                    dense[every, leaves.output[leaf[:, tree]]] = weighted[:, 0]
                    out[part, tree] = dense


def decision_path(forest: Forest, exits: Int[Array, "batch n_trees"]) -> Any:
    """Return the nodes that rows pass, exit leaves included, as a CSR matrix of ones.

    Its indices are int32 where that holds their number, else int64.

    Raises
    ------
    MissingLibraryError
        If scipy is not installed.
    """
    with needs("scipy", "sklearn", "`decision_path`"):
        from scipy.sparse import csr_matrix
    B = forest.bitvectors
    size, first_leaf = 1 + tree_paths.leaf_depth(B).astype(np.int64), B.leaf_ptr[:-1]
    parts = row_parts(*exits.shape)
    row_ptr = np.zeros(len(exits) + 1, np.int64)
    for part in parts:
        row_ptr[1:][part] = size[exits[part] + first_leaf].sum(axis=1)
    np.cumsum(row_ptr, out=row_ptr)
    width = B.n_nodes + B.n_leaves
    kind = np.int32 if max(int(row_ptr[-1]), width) <= NARROW else np.int64
    columns = np.empty(int(row_ptr[-1]), kind)
    place = np.empty(B.n_leaves, np.int64)
    for part in parts:
        leaf = exits[part] + first_leaf
        met = _distinct(leaf, B.n_leaves)
        place[met] = np.arange(len(met))
        path_ptr, path = _columns_of_paths(B, met)
        at = place[leaf].ravel()
        # Trees, and what a path meets from the root down, are in rising order already.
        found = path[ranges(path_ptr[at], np.diff(path_ptr)[at])]
        columns[row_ptr[part.start] : row_ptr[part.stop]] = found
    ones = np.ones(columns.size, np.int64)
    return csr_matrix((ones, columns, row_ptr.astype(kind)), shape=(len(exits), width))


def node_column_ptr(B: Bitvectors) -> Int64[Array, " n_trees_plus_1"]:
    """Return where each tree's columns begin in `decision_path`: its nodes, then its leaves."""
    return B.node_ptr + B.leaf_ptr


def _columns_of_paths(
    B: Bitvectors, leaves: Int64[Array, " n"]
) -> tuple[Int64[Array, " n_plus_1"], Int64[Array, " n_passed"]]:
    """Return the columns that the paths to some leaves pass: offsets, and columns from the root."""
    ptr, node, _ = tree_paths.path_table(B, leaves)
    tree = np.searchsorted(B.leaf_ptr, leaves, side="right") - 1
    ends = ptr[1:] + np.arange(len(leaves))
    passed = np.empty(node.size + len(leaves), np.int64)
    is_node = np.ones(passed.size, bool)
    is_node[ends] = False
    passed[is_node] = node + np.repeat(B.leaf_ptr[tree], np.diff(ptr))
    passed[ends] = leaves + B.node_ptr[tree + 1]
    return ptr + np.arange(ptr.size), passed


def _distinct(leaf: Int[Array, "batch n_trees"], n_leaves: int) -> Int[Array, " n"]:
    is_met = np.zeros(n_leaves, bool)
    is_met[leaf.ravel()] = True
    return np.flatnonzero(is_met)


def _cast(X: Array, dtype: np.dtype) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return X.astype(dtype, copy=False)
