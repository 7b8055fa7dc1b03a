"""Positions of the parts of a drawn tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bitvec.converters.native import children
from bitvec.converters.native.native_tree import NativeTree
from bitvec.core.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Positions of a tree's parts: leaves at 0, 1, ... from left to right, a node amid its own.

    Parameters
    ----------
    order : list of int
        Leaves from left to right.
    place : (n_leaves,)
        Of each leaf.
    leaf_depth : (n_leaves,)
    centre, depth : (n_nodes,)
    deepest : int
        Depth of the deepest leaf.
    """

    order: list[int]
    place: Array
    leaf_depth: Array
    centre: Array
    depth: Array
    deepest: int

    def links(
        self, tree: NativeTree, leaf_depth: int | None = None
    ) -> Iterator[tuple[int, int, float, float]]:
        """Yield each node, a child of it, and the child's place and depth, or one of all leaves."""
        for sides in (tree.left, tree.right):
            for node, child in enumerate(sides.tolist()):
                if child >= 0:
                    yield node, child, self.centre[child], self.depth[child]
                    continue
                depth = self.leaf_depth[~child] if leaf_depth is None else leaf_depth
                yield node, child, self.place[~child], depth


def layout_of(tree: NativeTree) -> Layout:
    """Lay a tree out."""
    order: list[int] = []
    place, leaf_depth = np.zeros(tree.n_leaves), np.zeros(tree.n_leaves, int)
    centre, depth = np.zeros(tree.n_nodes), np.zeros(tree.n_nodes, int)

    def put(at: int, level: int) -> tuple[float, float]:
        if at < 0:
            place[~at], leaf_depth[~at] = len(order), level
            order.append(~at)
            return place[~at], place[~at]
        depth[at] = level
        first, _ = put(int(tree.left[at]), level + 1)
        _, last = put(int(tree.right[at]), level + 1)
        centre[at] = (first + last) / 2
        return first, last

    put(children.root(tree.left, tree.right), 0)
    return Layout(order, place, leaf_depth, centre, depth, int(leaf_depth.max()))
