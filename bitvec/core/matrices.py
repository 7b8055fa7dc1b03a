"""B as matrices: dense and packed, its decision vectors, and the product B · h."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array, ArrayLike, require
from bitvec.core.shape_annotations import Bool, Int8, Int32, UInt64
from bitvec.core.structure import Bitvectors
from bitvec.errors import InvalidForestError

DENSE_LIMIT = 1 << 28
"""Largest number of elements of a dense view; beyond it the view is refused."""


def dense(B: Bitvectors) -> Int8[Array, "n_leaves n_nodes"]:
    """Return B as a 0/1 matrix, block-diagonal over trees: for reading, teaching and small trees.

    Raises
    ------
    InvalidForestError
        If it would have more than 2**28 elements; take one tree instead.
    """
    _check_dense(B)
    leaf, tree, offset = _leaf_grid(B)
    inside = tree[:, None] == B.tree_of_node[None, :]
    in_left = (leaf >= B.lo + offset) & (leaf < B.mid + offset)
    return (inside & ~in_left).astype(np.int8)


def ternary(B: Bitvectors) -> Int8[Array, "n_leaves n_nodes"]:
    """Return the decision vectors D: +1 on a node's right leaves, -1 on its left leaves, else 0."""
    _check_dense(B)
    leaf, _, offset = _leaf_grid(B)
    lo, mid, hi = B.lo + offset, B.mid + offset, B.hi + offset
    in_left = (leaf >= lo) & (leaf < mid)
    in_right = (leaf >= mid) & (leaf < hi)
    return in_right.astype(np.int8) - in_left.astype(np.int8)


def _leaf_grid(B: Bitvectors) -> tuple[Array, Array, Array]:
    leaf = np.arange(B.n_leaves)[:, None]
    tree = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
    return leaf, tree, B.leaf_ptr[:-1][B.tree_of_node][None, :]


def _check_dense(B: Bitvectors) -> None:
    size = B.n_leaves * B.n_nodes
    if size > DENSE_LIMIT:
        raise InvalidForestError(
            f"a dense B must have at most {DENSE_LIMIT} elements, got {B.n_leaves} leaves x "
            f"{B.n_nodes} nodes: use lo, mid, hi, or one tree with forest[i]."
        )


def from_dense(matrix: ArrayLike) -> Bitvectors:
    """Read one tree from its 0/1 matrix B, (n_leaves, n_nodes), columns in breadth-first order.

    Raises
    ------
    InvalidForestError
        If an element is neither 0 nor 1, the columns' zeros are not contiguous, or the columns are
        not a tree in this order.
    """
    matrix = np.asarray(matrix)
    zero = matrix == 0
    require(bool(np.all(zero | (matrix == 1))), "each element of B must be 0 or 1.")
    require(zero.ndim == 2, f"B must have two axes (leaves, nodes), got shape {zero.shape}.")
    n_leaves, n_nodes = zero.shape
    require(n_leaves == n_nodes + 1, f"B must have one leaf more than nodes, got {zero.shape}.")
    lo = zero.argmax(axis=0)
    mid = lo + zero.sum(axis=0)
    run = (np.arange(n_leaves)[:, None] >= lo) & (np.arange(n_leaves)[:, None] < mid)
    require(np.array_equal(run, zero), "the zeros of each column of B must be one run of leaves.")
    # hi is where the parent's interval ends: walk down in breadth-first order.
    hi = np.zeros(n_nodes, np.int64)
    open_intervals = [(0, n_leaves)] if n_nodes else []
    for node in range(n_nodes):
        require(open_intervals, "the columns of B must be those of one binary tree, breadth first.")
        first, last = open_intervals.pop(0)
        require(
            first == lo[node] and lo[node] < mid[node] < last,
            "the columns of B must be those of one binary tree, breadth first.",
        )
        hi[node] = last
        halves = ((first, int(mid[node])), (int(mid[node]), last))
        open_intervals += [half for half in halves if half[1] - half[0] > 1]
    ptr = np.array([0, n_leaves], np.int64)
    return Bitvectors(lo.astype(np.int32), mid.astype(np.int32), hi.astype(np.int32), ptr)


def packed(B: Bitvectors) -> UInt64[Array, "n_nodes n_words"]:
    """Return each column of B as bits: bit l % 64 of word l // 64 is B[l, node], leaf 0 lowest.

    The exit leaf is the lowest set bit of the AND of the columns whose test is true (QuickScorer).
    All trees use as many words as the largest tree needs; bits past a tree's leaves are 0.
    """
    most = int(np.diff(B.leaf_ptr).max(initial=1))
    n_words = -(-most // 64)
    if B.n_nodes * n_words * 8 > DENSE_LIMIT:
        raise InvalidForestError(
            f"packed words must fit in {DENSE_LIMIT} bytes, got {B.n_nodes} nodes x {n_words} "
            "words: use lo, mid, hi, or one tree with forest[i]."
        )
    n_leaves = np.diff(B.leaf_ptr)[B.tree_of_node]
    return _ones_below(n_leaves, n_words) & ~(
        _ones_below(B.mid, n_words) & ~_ones_below(B.lo, n_words)
    )


def _ones_below(limit: Array, n_words: int) -> UInt64[Array, "n n_words"]:
    """Return words whose lowest `limit` bits are ones."""
    bits = np.clip(limit[:, None] - 64 * np.arange(n_words)[None, :], 0, 64).astype(np.uint64)
    partial = (np.uint64(1) << (bits & np.uint64(63))) - np.uint64(1)
    return np.where(bits == 64, ~np.uint64(0), partial)


def scores(B: Bitvectors, h: Bool[Array, "batch n_nodes"]) -> Int32[Array, "batch n_leaves"]:
    """Return B · h in O(n) per row: each true test takes 1 from its left leaves.

    A difference array and a cumulative sum over leaves; equal to the dense product.
    """
    offset = B.leaf_ptr[:-1][B.tree_of_node]
    total = np.zeros((h.shape[0], B.n_trees), np.int32)
    has_nodes = np.diff(B.node_ptr) > 0
    if B.n_nodes:
        total[:, has_nodes] = np.add.reduceat(
            h.astype(np.int32), B.node_ptr[:-1][has_nodes], axis=1
        )
    steps = np.zeros((B.n_leaves + 1, h.shape[0]), np.int32)
    np.add.at(steps, B.lo + offset, -h.T.astype(np.int32))
    np.add.at(steps, B.mid + offset, h.T.astype(np.int32))
    below = np.cumsum(steps, axis=0, dtype=np.int32)[:-1].T
    return below + np.repeat(total, np.diff(B.leaf_ptr), axis=1)
