"""The trees of a YDF model as child arrays, from nodes in depth-first order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.errors import FileFormatError


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Children of the nodes.

    Parameters
    ----------
    left, right : int64, (n_positions,)
        Negative and positive child of each position, -1 at a leaf.
    end : int64, (n_positions,)
        The position after each position's subtree.
    roots : int64, (n_trees,)
    """

    left: Int64[Array, " n_positions"]
    right: Int64[Array, " n_positions"]
    end: Int64[Array, " n_positions"]
    roots: Int64[Array, " n_trees"]

    @property
    def depth(self) -> Int64[Array, " n_positions"]:
        """The number of nodes above each position."""
        return self._above(np.flatnonzero(self.left >= 0))

    def below(self, positions: Int64[Array, " n"]) -> Bool[Array, " n_positions"]:
        """Return which positions lie below any of some positions."""
        return self._above(positions) > 0

    def _above(self, positions: Array) -> Int64[Array, " n_positions"]:
        """Return how many of some positions lie above each position."""
        change = np.zeros(self.left.size + 1, np.int64)
        np.add.at(change, positions + 1, 1)
        np.add.at(change, self.end[positions], -1)
        above: Array = np.cumsum(change)[:-1]
        return above


def shape_of(has_children: Bool[Array, " n_positions"], n_trees: int) -> Shape:
    """Return the shape of trees whose nodes stand depth first, the negative child first.

    Raises
    ------
    FileFormatError
        If the nodes are not exactly those of this many trees.

    Notes
    -----
    Let a walk rise by 1 at a node and fall by 1 at a leaf. The subtree of a position ends where the
    walk first falls below its value before the position: O(n log n), without recursion.
    """
    n = has_children.size
    walk = np.cumsum(np.where(has_children, 1, -1))
    least = np.minimum(np.minimum.accumulate(walk), 0) if n else walk
    if n < n_trees or walk[-1] != -n_trees or (n > 1 and least[-2] != 1 - n_trees):
        raise FileFormatError(f"the nodes must be those of {n_trees} trees, got others.")
    # A tree ends where the walk reaches a new depth below 0.
    fresh = np.flatnonzero(np.diff(least, prepend=0) < 0)
    roots = np.concatenate([[0], fresh[:-1] + 1])
    # The places of each value of the walk, ascending: the next fall to value - 1 is one search.
    order = np.lexsort((np.arange(n), walk))
    key = (walk[order] + n) * (n + 1) + order
    before = walk - np.where(has_children, 1, -1)
    wanted = (before - 1 + n) * (n + 1) + np.arange(n)
    end = order[np.searchsorted(key, wanted)] + 1
    left = np.where(has_children, np.arange(1, n + 1), -1)
    right = np.full(n, -1, np.int64)
    right[has_children] = end[left[has_children]]
    return Shape(left, right, end, roots)
