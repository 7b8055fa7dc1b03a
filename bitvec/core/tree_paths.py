"""Paths: how deep nodes and leaves lie, and which nodes a leaf lies under."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.remembered import remembered
from bitvec.core.shape_annotations import Bool, Int32, Int64
from bitvec.core.structure import Bitvectors, children


@remembered
def leaf_depth(B: Bitvectors) -> Int32[Array, " n_leaves"]:
    """Return the number of nodes on the path to each leaf: each node adds 1 to [lo, hi), O(n)."""
    offset = B.leaf_ptr[:-1][B.tree_of_node]
    steps = np.zeros(B.n_leaves + 1, np.int64)
    np.add.at(steps, B.lo + offset, 1)
    np.add.at(steps, B.hi + offset, -1)
    return np.cumsum(steps)[:-1].astype(np.int32)


@remembered
def tree_depth(B: Bitvectors) -> Int32[Array, " n_trees"]:
    """Return the number of nodes on the longest path of each tree."""
    depth: Array = np.maximum.reduceat(leaf_depth(B), B.leaf_ptr[:-1])
    return depth


@remembered
def node_depth(B: Bitvectors) -> Int32[Array, " n_nodes"]:
    """Return the number of nodes above each node (0 at a root)."""
    left, right = children(B)
    depth = np.zeros(B.n_nodes, np.int32)
    level = B.node_ptr[:-1][np.diff(B.leaf_ptr) > 1]
    below = 0
    while level.size:
        depth[level] = below
        below += 1
        level = np.stack([left[level], right[level]], axis=1).ravel()
        level = level[level >= 0]
    return depth


def preorder(B: Bitvectors) -> Int64[Array, " n_nodes"]:
    """Return the nodes of all trees, each before its left subtree and that before its right one."""
    first = B.leaf_ptr[:-1][B.tree_of_node] + B.lo
    return np.argsort(first * (int(B.hi.max(initial=0)) + 1) - B.hi)


def path(B: Bitvectors, leaf: int) -> list[tuple[int, bool]]:
    """Return the (node, goes right) pairs from the root to one leaf of the forest."""
    tree = int(np.searchsorted(B.leaf_ptr, leaf, side="right")) - 1
    local = leaf - int(B.leaf_ptr[tree])
    first, last = int(B.node_ptr[tree]), int(B.node_ptr[tree + 1])
    on_path = (B.lo[first:last] <= local) & (local < B.hi[first:last])
    nodes = first + np.flatnonzero(on_path)
    return [(int(node), bool(local >= B.mid[node])) for node in nodes]


def path_table(
    B: Bitvectors, leaves: Int64[Array, " n"] | None = None
) -> tuple[Int64[Array, " n_plus_1"], Int64[Array, " n_pairs"], Bool[Array, " n_pairs"]]:
    """Return the paths of leaves: offsets, nodes from the root down, and whether right.

    The table has one entry per node on a path, so sum(leaf_depth) entries.

    Parameters
    ----------
    leaves : int64, (n,), optional
        Leaves of the forest; all if not given.
    """
    parent, from_right = parents(B)
    wanted = np.arange(B.n_leaves) if leaves is None else leaves
    depth = leaf_depth(B)[wanted].astype(np.int64)
    ptr = np.concatenate([[0], np.cumsum(depth)])
    left, right = children(B)
    node = np.empty(int(ptr[-1]), np.int64)
    goes_right = np.empty(int(ptr[-1]), bool)
    leaf_parent = np.full(B.n_leaves, -1, np.int64)
    leaf_right = np.zeros(B.n_leaves, bool)
    for side, is_right in ((left, False), (right, True)):
        at = np.flatnonzero(side < 0)
        leaf_parent[~side[at]] = at
        leaf_right[~side[at]] = is_right
    place = np.flatnonzero(leaf_parent[wanted] >= 0)
    under = wanted[place]
    current, turn, slot = leaf_parent[under], leaf_right[under], ptr[1:][place] - 1
    while current.size:
        node[slot], goes_right[slot] = current, turn
        turn = from_right[current]
        current, slot = parent[current], slot - 1
        on = current >= 0
        current, turn, slot = current[on], turn[on], slot[on]
    return ptr, node, goes_right


def parents(B: Bitvectors) -> tuple[Int64[Array, " n_nodes"], Bool[Array, " n_nodes"]]:
    """Return each node's parent (-1 at a root) and whether it is that parent's right child."""
    parent = np.full(B.n_nodes, -1, np.int64)
    is_right = np.zeros(B.n_nodes, bool)
    for side, right in zip(children(B), (False, True), strict=True):
        at = np.flatnonzero(side >= 0)
        parent[side[at]] = at
        is_right[side[at]] = right
    return parent, is_right


def levels(B: Bitvectors, towards_deepest: float = 0.0) -> float:
    """Return levels of all trees that a row passes: the mean over leaves, or nearer the deepest."""
    if not B.n_trees:
        return 0.0
    mean = np.add.reduceat(leaf_depth(B), B.leaf_ptr[:-1]) / np.diff(B.leaf_ptr)
    return float(np.sum(mean + towards_deepest * (tree_depth(B) - mean)))
