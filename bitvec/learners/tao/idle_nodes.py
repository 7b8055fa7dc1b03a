"""Pruning: nodes that decide nothing for the training rows, removed until none is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.learners.tao.training_rows import Rows, route
from bitvec.learners.tao.tree import NodeKind, Tree


def prune(tree: Tree, rows: Rows) -> Tree:
    """Return the tree without nodes that decide nothing; no training row's prediction changes.

    A node goes, and the one child that is wanted takes its place, where it has no weights (its
    threshold selects a child), where no training row comes to one of its children, or where both
    its sides are leaves that hold the same. So dead branches and pure subtrees disappear, however
    deep.
    """
    paths = route(rows, tree)
    reached = np.zeros(tree.n_leaves, bool)
    reached[~paths[-1]] = True
    return _kept(tree, reached)


def _kept(tree: Tree, reached: Bool[Array, " n_leaves"]) -> Tree:
    """Return the tree of the leaves that are reached, equal leaves next to each other made one."""
    new: list[int] = [0] * tree.n_nodes
    alive = np.zeros(tree.n_nodes, bool)
    selected = _selected(tree)
    order = np.argsort(tree.depth, kind="stable")[::-1]

    def stands_for(child: int) -> int:
        return child if child < 0 else new[child]

    def is_dead(child: int) -> bool:
        return not (reached[~child] if child < 0 else alive[child])

    for node in order.tolist():
        left, right = int(tree.left[node]), int(tree.right[node])
        alive[node] = not (is_dead(left) and is_dead(right))
        first, second = stands_for(left), stands_for(right)
        if selected[node] >= 0:
            new[node] = second if selected[node] else first
        elif is_dead(left) != is_dead(right):
            new[node] = second if is_dead(left) else first
        elif first < 0 and second < 0 and _same(tree, ~first, ~second):
            new[node] = first
        else:
            new[node] = node
    root = new[0] if tree.n_nodes else ~0
    return _renumbered(tree, root, np.array(new, np.int64))


def _selected(tree: Tree) -> Int64[Array, " n_nodes"]:
    """Return the side, 0 or 1, that a node without weights sends every row to; -1 elsewhere."""
    side = np.full(tree.n_nodes, -1)
    if len(tree.W):
        dead = (tree.kind == NodeKind.OBLIQUE) & ~np.any(tree.W != 0, axis=1)
        above = np.where(tree.at_least, tree.threshold <= 0, tree.threshold < 0)
        side[dead] = above[dead]
    return side


def _same(tree: Tree, a: int, b: int) -> bool:
    if not np.array_equal(tree.V[a], tree.V[b]):
        return False
    return tree.U is None or bool(np.array_equal(tree.U[a], tree.U[b]))


def _renumbered(tree: Tree, root: int, new: Int64[Array, " n_nodes"]) -> Tree:
    """Return the tree below `root`, nodes breadth first and leaves in the order they are met."""
    nodes: list[int] = []
    leaves: list[int] = []
    left: list[int] = []
    right: list[int] = []
    level = [root] if root >= 0 else []
    if root < 0:
        leaves.append(~root)
    while level:
        below: list[int] = []
        first_below = len(nodes) + len(level)
        for node in level:
            nodes.append(node)
            for side, names in ((tree.left, left), (tree.right, right)):
                child = int(side[node])
                child = child if child < 0 else int(new[child])
                if child < 0:
                    leaves.append(~child)
                    names.append(~(len(leaves) - 1))
                else:
                    below.append(child)
                    names.append(first_below + len(below) - 1)
        level = below
    node_at, leaf_at = np.array(nodes, np.int64), np.array(leaves, np.int64)
    per_node = ("kind", "feature", "threshold", "above", "at_least", "missing_right")
    return replace(
        tree,
        left=np.array(left, np.int64),
        right=np.array(right, np.int64),
        W=tree.W[node_at] if len(tree.W) else tree.W,
        V=tree.V[leaf_at],
        U=None if tree.U is None else tree.U[leaf_at],
        missing_rule=tree.missing_rule[node_at],
        **{name: getattr(tree, name)[node_at] for name in per_node},
    )
