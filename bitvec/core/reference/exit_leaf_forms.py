"""The four equivalent hard forms of the exit leaf, and the traversal that they all equal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bitvec.core import matrices, structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.reference.node_outcomes import columns, hard_tests, outcomes
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.core.structure import Bitvectors

DENSE_LEAVES = 2048
"""Trees with more leaves than this use the interval form of B · h instead of the dense product."""
BLOCK = 1 << 22
"""Elements of h held at a time."""


def exit_leaf_bitvector(
    B: Bitvectors, h: Bool[Array, "batch n_nodes"]
) -> Int64[Array, "batch n_trees"]:
    """(a) First argmax of B · h, per tree, as leaf numbers within the tree (Eq. 3)."""
    exits = np.zeros((len(h), B.n_trees), np.int64)
    for tree, first, last in _trees(B):
        part = B.tree(tree)
        if part.n_leaves <= DENSE_LEAVES:
            # Counts below 2**24 are exact in float32, so BLAS may do the product.
            counts = h[:, first:last].astype(np.float32) @ matrices.dense(part).T.astype(np.float32)
        else:
            counts = matrices.scores(part, h[:, first:last])
        exits[:, tree] = counts.argmax(axis=1)
    return exits


def exit_leaf_ternary(
    B: Bitvectors, h: Bool[Array, "batch n_nodes"]
) -> Int64[Array, "batch n_trees"]:
    """(b) Argmax of D(2h − 1) − depth: its maximum 0 is unique (Eq. 8)."""
    exits = np.zeros((len(h), B.n_trees), np.int64)
    for tree, first, last in _trees(B):
        part = B.tree(tree)
        sign = 2 * h[:, first:last].astype(np.int64) - 1
        score = sign @ matrices.ternary(part).T.astype(np.int64) - tree_paths.leaf_depth(part)
        exits[:, tree] = score.argmax(axis=1)
    return exits


def exit_leaf_two_sided(
    B: Bitvectors, m: Float[Array, "batch n_nodes"]
) -> Int64[Array, "batch n_trees"]:
    """(c) Argmax of B · relu(m) + B⁻ · relu(−m), for margins m none of which is 0.

    In floating point a gap below about eps · sum|m| can flip: for training, not for answers.
    """
    exits = np.zeros((len(m), B.n_trees), np.int64)
    for tree, first, last in _trees(B):
        D = matrices.ternary(B.tree(tree))
        part = m[:, first:last]
        score = np.maximum(part, 0) @ (D != -1).T + np.maximum(-part, 0) @ (D != 1).T
        exits[:, tree] = score.argmax(axis=1)
    return exits


def exit_leaf_packed(
    B: Bitvectors, h: Bool[Array, "batch n_nodes"]
) -> Int64[Array, "batch n_trees"]:
    """(d) Lowest set bit of the AND of the columns whose test is true (QuickScorer)."""
    exits = np.zeros((len(h), B.n_trees), np.int64)
    for tree, first, last in _trees(B):
        part = B.tree(tree)
        words = matrices.packed(part)
        for row in range(len(h)):
            alive = np.bitwise_and.reduce(
                words[h[row, first:last]], axis=0, initial=~np.uint64(0), dtype=np.uint64
            )
            bits = (alive[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
            exits[row, tree] = bits.ravel().argmax()
    return exits


def exit_leaf_traversal(
    forest: Forest, Z: Float[Array, "batch n_columns"]
) -> Int64[Array, "batch n_trees"]:
    """Walk every row down every tree; only the nodes on its path are evaluated."""
    B = forest.bitvectors
    left, right = structure.children(B)
    has_nodes = np.diff(B.leaf_ptr) > 1
    start = np.where(has_nodes, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    at = np.tile(start, (len(Z), 1)).ravel()
    row = np.repeat(np.arange(len(Z)), B.n_trees)
    moving = np.flatnonzero(at >= 0)
    while moving.size:
        node = at[moving]
        goes_right = outcomes(forest, Z, row[moving], node)
        at[moving] = np.where(goes_right, right[node], left[node])
        moving = moving[at[moving] >= 0]
    return ~at.reshape(len(Z), B.n_trees) - B.leaf_ptr[:-1]


def _trees(B: Bitvectors) -> Iterator[tuple[int, int, int]]:
    node_ptr = B.node_ptr
    return ((t, int(node_ptr[t]), int(node_ptr[t + 1])) for t in range(B.n_trees))


def exit_leaves(forest: Forest, X: Array) -> Int64[Array, "batch n_trees"]:
    """Return argmax(B · σ(Sx − b)) for every row and tree, as leaf numbers within the tree."""
    Z = columns(forest, X)
    exits = np.zeros((len(Z), forest.n_trees), np.int64)
    block = max(1, BLOCK // max(forest.n_nodes, 1))
    for start in range(0, len(Z), block):
        part = slice(start, start + block)
        exits[part] = exit_leaf_bitvector(forest.bitvectors, hard_tests(forest, Z[part]))
    return exits
