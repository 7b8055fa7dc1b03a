"""Trees as tables to walk down, level by level, all trees in step.

Two layouts, one after the other. Above, every tree is filled up to a perfect one: position p of
a level has its children at 2p and 2p + 1 of the next, so that no child is stored. Below, where
filling up would waste space, each entry stores where its left child stands, the right one beside
it. A leaf above the bottom is met again at every level below: it goes left, to itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int64
from bitvec.core.structure import Bitvectors, children

MOST_FILLING = 4
"""Positions of the last perfect level for each leaf of the forest, at most.

A position takes 6 to 8 bytes of a file, a leaf of the entries below (with a node) 14 to 20.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of nodes and leaves; a node is its number in the forest, a leaf is `~leaf`.

    Parameters
    ----------
    levels : arrays, (n_trees · 2**depth,) each
        The perfect levels. Position t of the first is the root of tree t.
    last : (n_trees · 2**n_levels,)
        What stands below the last of them.
    entries : (n_entries,)
        The nodes and leaves from there on, each once.
    start : (n_trees · 2**n_levels,)
        The entry of each position of `last`.
    left : (n_entries,)
        The entry of the left child, whose right neighbour is the right child; a leaf's own entry.
    n_further : int
        Steps from `start` to the deepest leaf.
    """

    levels: tuple[Int64[Array, " n_positions"], ...]
    last: Int64[Array, " n_last"]
    entries: Int64[Array, " n_entries"]
    start: Int64[Array, " n_last"]
    left: Int64[Array, " n_entries"]
    n_further: int


def arrange(B: Bitvectors) -> Layout:
    """Lay out the trees of a forest.

    >>> from bitvec.core.structure import from_children
    >>> layout = arrange(from_children([1, -1], [-2, -3], [0]))
    >>> [level.tolist() for level in layout.levels], layout.last.tolist()
    ([[0], [1, -3]], [-1, -2, -3, -3])
    """
    below = np.stack(children(B), axis=1)
    position = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    levels = []
    while np.any(position >= 0) and 2 * position.size <= MOST_FILLING * B.n_leaves:
        levels.append(position)
        is_node = position >= 0
        sides = np.stack([position, position], axis=1)
        sides[is_node] = below[position[is_node]]
        position = sides.ravel()
    first, start = np.unique(position, return_inverse=True)
    blocks, left = [first], []
    n_before = 0
    while np.any(blocks[-1] >= 0):
        block = blocks[-1]
        nodes = block[block >= 0]
        own = np.arange(n_before, n_before + block.size)
        n_before += block.size
        own[block >= 0] = n_before + 2 * np.arange(nodes.size)
        left.append(own)
        blocks.append(below[nodes].ravel())
    left.append(np.arange(n_before, n_before + blocks[-1].size))
    return Layout(
        levels=tuple(levels),
        last=position,
        entries=np.concatenate(blocks),
        start=start.ravel(),
        left=np.concatenate(left),
        n_further=len(blocks) - 1,
    )
