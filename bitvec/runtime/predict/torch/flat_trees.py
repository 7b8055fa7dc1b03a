"""Trees of any shape as flat tables of slots, walked level by level, all at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.torch.call_modes import is_plain
from bitvec.runtime.predict.torch.walked_trees import Source, WalkedTrees, flat, take

LEVELS = 8
"""Levels between two looks at which pairs still move: finding them costs about two levels."""


class FlatTrees(WalkedTrees):
    """Trees that share one relation, as tables over slots: one slot per node and per leaf.

    Slots of one tree lie together, in breadth-first order, so the right child of a slot follows its
    left one and a step is `first[slot] + h`. A leaf is its own first child and its threshold is
    NaN, so that h is 0 there and a traversal that has arrived stays.

    Parameters
    ----------
    trees : int64, (n_trees,)
        The deepest first, so that those with a next level are always a prefix.
    accepts_equal : bool
    n_moving : tuple of int
        How many trees have a level 0, 1, 2 ...
    column : int64, (n_slots,)
        The compared columns that slots read.
    b : F, (n_slots,)
    first : int64, (n_slots,)
    root_column : int64, (n_trees, 1)
    root_b : F, (n_trees, 1)
    root_first : int64, (n_trees, 1)
    leaf : int64, (n_slots,)
        The forest's leaf index of each leaf's slot; 0 at a node.
    """

    root_column: Tensor
    root_b: Tensor
    root_first: Tensor
    column: Tensor
    b: Tensor
    first: Tensor
    leaf: Tensor

    INDICES = ("root_column", "root_first", "column", "first")

    def __init__(
        self, trees: Array, accepts_equal: bool, n_moving: tuple[int, ...], **tables: Array
    ) -> None:
        super().__init__(trees, accepts_equal, **tables)
        self.n_moving = n_moving

    def forward(self, V: Tensor, source: Source | None = None) -> Tensor:
        """Return the forest's leaf index of every tree and row, (n_trees, batch).

        V holds the compared columns, or, in a plain call of some rows, those of a source.
        """
        if is_plain(V) and len(V):
            return self.leaf.index_select(0, self._slots(V, source)).view(self.n_trees, len(V))
        values, start = flat(V)
        x = take(values, self.root_column + start)
        slot = self.root_first + self.exceeds(x, self.root_b)
        arrived = []
        for n_moving in self.n_moving[1:]:
            if n_moving < slot.shape[0]:
                arrived.append(slot[n_moving:])
                slot = slot[:n_moving]
            x = take(values, take(self.column, slot) + start)
            slot = take(self.first, slot) + self.exceeds(x, take(self.b, slot))
        return take(self.leaf, torch.cat([slot, *reversed(arrived)]))

    def _slots(self, V: Tensor, source: Source | None) -> Tensor:
        """Return the slot in which every tree and row ends, flat, by int32 and in place.

        About 3 ns per (tree, row, level) on one core, most of it four gathers.
        """
        batch, width = V.shape
        root_column, root_first, column, first = self.narrow(source)
        index = first.dtype
        shape = (self.n_trees, batch)
        places, addresses, turns = torch.empty((3, *shape), dtype=index)
        place, address, turn = places.view(-1), addresses.view(-1), turns.view(-1)
        x, b = torch.empty((2, len(place)), dtype=V.dtype)
        values = V.reshape(-1)
        starts = torch.arange(0, batch * width, width, dtype=index)
        torch.add(root_column, starts, out=addresses)
        torch.index_select(values, 0, address, out=x)
        self.exceeds(x.view(shape), self.root_b, turns)
        torch.add(root_first, turns, out=places)
        # What moves is a prefix of `place` until the traversal is narrowed to some of its elements.
        node, narrowed, start = place, None, starts
        for level, n_moving in enumerate(self.n_moving[1:], 1):
            if narrowed is None:
                node = place[: n_moving * batch]
            if level % LEVELS == 0:
                moving = torch.nonzero(first.index_select(0, node) != node)[:, 0]
                if 2 * len(moving) < len(node):
                    if narrowed is None:
                        narrowed, start = moving, starts.index_select(0, moving % batch)
                    else:
                        place.scatter_(0, narrowed, node)
                        narrowed = narrowed.index_select(0, moving)
                        start = start.index_select(0, moving)
                    node = node.index_select(0, moving)
                    if not len(moving):
                        break
            count = len(node)
            at, h, z, t = address[:count], turn[:count], x[:count], b[:count]
            torch.index_select(column, 0, node, out=at)
            (at.view(-1, batch) if narrowed is None else at).add_(start)
            torch.index_select(values, 0, at, out=z)
            torch.index_select(self.b, 0, node, out=t)
            self.exceeds(z, t, h)
            torch.index_select(first, 0, node, out=at)
            torch.add(at, h, out=node)
        if narrowed is not None:
            place.scatter_(0, narrowed, node)
        return place


def flatten(
    B: Bitvectors,
    trees: Array,
    depth: Array,
    node_column: Array,
    b: Array,
    accepts_equal: bool,
) -> FlatTrees:
    """Return trees as tables of slots.

    Parameters
    ----------
    depth : int, (n_trees of the forest,)
    node_column : int, (n_nodes of the forest,)
        The compared column of each node.
    b : F, (n_nodes of the forest,)
    """
    deepest_first = np.argsort(-depth[trees], kind="stable")
    trees, depth = trees[deepest_first], depth[trees][deepest_first]
    B, order = structure.select(B, trees)
    n_slots = B.n_trees + 2 * B.n_nodes
    # The slots of tree t begin at 2 · node_ptr[t] + t: its root, then a pair for each of its nodes.
    pair = 2 * np.arange(B.n_nodes) + B.tree_of_node + 1
    root = 2 * B.node_ptr[:-1] + np.arange(B.n_trees)
    slot_of_node = np.empty(B.n_nodes, np.int64)
    slot_of_leaf = np.empty(B.n_leaves, np.int64)
    single = np.diff(B.leaf_ptr) == 1
    slot_of_node[B.node_ptr[:-1][~single]] = root[~single]
    slot_of_leaf[B.leaf_ptr[:-1][single]] = root[single]
    for side, child in enumerate(structure.children(B)):
        is_node = child >= 0
        slot_of_node[child[is_node]] = pair[is_node] + side
        slot_of_leaf[~child[~is_node]] = pair[~is_node] + side
    first = np.arange(n_slots)
    first[slot_of_node] = pair
    column = np.zeros(n_slots, np.int64)
    column[slot_of_node] = node_column[order.node]
    threshold = np.full(n_slots, np.nan, b.dtype)
    threshold[slot_of_node] = b[order.node]
    slot_leaf = np.zeros(n_slots, np.int64)
    slot_leaf[slot_of_leaf] = order.leaf
    return FlatTrees(
        trees,
        accepts_equal,
        tuple(int(np.count_nonzero(depth > k)) for k in range(max(1, int(depth.max(initial=0))))),
        # Exporters refuse the stride 0 that an axis added by None has.
        root_column=column[root].reshape(-1, 1),
        root_b=threshold[root].reshape(-1, 1),
        root_first=first[root].reshape(-1, 1),
        column=column,
        b=threshold,
        first=first,
        leaf=slot_leaf,
    )
