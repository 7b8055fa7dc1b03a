"""Trees of any shape as flat tables of slots, walked level by level, all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.torch.host_arrays import as_array

LEVELS = 8
"""Levels between two looks at which pairs still move: finding them costs about two levels."""


@dataclass(frozen=True, slots=True, eq=False)
class FlatTrees:
    """Trees that share one relation, as tables over slots: one slot per node and per leaf.

    Slots of one tree lie together, in breadth-first order, so the right child of a slot follows its
    left one and a step is `first[slot] + h`. A leaf is its own first child and its threshold is
    NaN, so that h is 0 there and a traversal that has arrived stays.

    Parameters
    ----------
    trees : int64, (n_trees,)
        The deepest first, so that those with a next level are always a prefix.
    n_moving : tuple of int
        How many trees have a level 0, 1, 2 ...
    columns : two of int32, (n_slots,)
        Where slots read their values: among all compared columns, and where no value is missing.
    b : F, (n_slots,)
    first : int32, (n_slots,)
    root_columns : two of int32, (n_trees, 1)
    root_b : F, (n_trees, 1)
    root_first : int32, (n_trees, 1)
    slot_leaf : int64, (n_slots,)
        The forest's leaf index of each leaf's slot; 0 at a node.
    accepts_equal : bool
        Whether h is x >= b rather than x > b.
    """

    trees: Array
    n_moving: tuple[int, ...]
    columns: tuple[Any, Any]
    b: Any
    first: Any
    root_columns: tuple[Any, Any]
    root_b: Any
    root_first: Any
    slot_leaf: Array
    accepts_equal: bool

    @property
    def n_levels(self) -> int:
        """Tests that a row takes at most in any tree."""
        return len(self.n_moving)

    def as_arrays(self) -> FlatTrees:
        """Return the same tables as arrays for NumPy."""
        return FlatTrees(
            self.trees,
            self.n_moving,
            (as_array(self.columns[0]), as_array(self.columns[1])),
            as_array(self.b),
            as_array(self.first),
            (as_array(self.root_columns[0]), as_array(self.root_columns[1])),
            as_array(self.root_b),
            as_array(self.root_first),
            self.slot_leaf,
            self.accepts_equal,
        )

    def places(self, V: Tensor, all_present: bool) -> Tensor:
        """Return the slot in which every tree and row ends, flat, (n_trees · batch,).

        Parameters
        ----------
        V : F, (batch, n_compared), contiguous
        all_present : bool
            Whether V holds the columns only, because no value is missing.

        Notes
        -----
        About 3 ns per (tree, row, level) on one core, most of it four gathers.
        """
        batch, width = V.shape
        column, index, device = self.columns[all_present], self.first.dtype, V.device
        compare = torch.ge if self.accepts_equal else torch.gt
        shape = (len(self.trees), batch)
        places, addresses, turns = torch.empty((3, *shape), dtype=index, device=device)
        place, address, turn = places.view(-1), addresses.view(-1), turns.view(-1)
        x, b = torch.empty((2, len(place)), dtype=V.dtype, device=device)
        values = V.view(-1)
        starts = torch.arange(0, batch * width, width, dtype=index, device=device)
        torch.add(self.root_columns[all_present], starts, out=addresses)
        torch.index_select(values, 0, address, out=x)
        compare(x.view(shape), self.root_b, out=turns)
        torch.add(self.root_first, turns, out=places)
        # What moves is a prefix of `place` until the traversal is narrowed to some of its elements.
        node, narrowed, start = place, None, starts
        for level, n_moving in enumerate(self.n_moving[1:], 1):
            if narrowed is None:
                node = place[: n_moving * batch]
            if level % LEVELS == 0:
                moving = torch.nonzero(self.first.index_select(0, node) != node)[:, 0]
                if 2 * len(moving) < len(node):
                    if narrowed is None:
                        narrowed, start = moving, starts[moving % batch]
                    else:
                        place[narrowed] = node
                        narrowed, start = narrowed[moving], start[moving]
                    node = node[moving]
                    if not len(moving):
                        break
            count = len(node)
            at, h, z, t = address[:count], turn[:count], x[:count], b[:count]
            torch.index_select(column, 0, node, out=at)
            (at.view(-1, batch) if narrowed is None else at).add_(start)
            torch.index_select(values, 0, at, out=z)
            torch.index_select(self.b, 0, node, out=t)
            compare(z, t, out=h)  # into integers, which are added faster than booleans
            torch.index_select(self.first, 0, node, out=at)
            torch.add(at, h, out=node)
        if narrowed is not None:
            place[narrowed] = node
        return place

    def places_of_few(self, V: Array, all_present: bool) -> Array:
        """Return the same by NumPy, (n_trees, batch), if this is `as_arrays()`.

        Few rows are nothing but calls, of which NumPy's take a third of the time of torch's.
        """
        batch, width = V.shape
        column = self.columns[all_present]
        compare = np.greater_equal if self.accepts_equal else np.greater
        values, start = V.reshape(-1), np.arange(0, batch * width, width)
        at = self.root_columns[all_present] + start
        place = self.root_first + compare(values[at], self.root_b)
        for n_moving in self.n_moving[1:]:
            node = place[:n_moving]
            at = column[node]
            at += start
            turn = compare(values[at], self.b[node])
            np.add(self.first[node], turn, out=node)
        return place


def flatten(
    B: Bitvectors,
    trees: Array,
    depth: Array,
    node_columns: tuple[Array, Array],
    b: Array,
    accepts_equal: bool,
    device: torch.device,
) -> FlatTrees:
    """Return trees as tables of slots on a device.

    Parameters
    ----------
    depth : int, (n_trees of the forest,)
    node_columns : two of int, (n_nodes of the forest,)
        What each node reads: among all compared columns, and where no value is missing.
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
    columns = np.zeros((2, n_slots), np.int64)
    columns[:, slot_of_node] = np.stack([one[order.node] for one in node_columns])
    threshold = np.full(n_slots, np.nan, b.dtype)
    threshold[slot_of_node] = b[order.node]
    slot_leaf = np.zeros(n_slots, np.int64)
    slot_leaf[slot_of_leaf] = order.leaf
    index = np.int32 if n_slots < 2**31 else np.int64

    def put(array: Array) -> Tensor:
        return torch.tensor(
            array if array.dtype.kind == "f" else array.astype(index), device=device
        )

    # Exporters refuse the stride 0 that an axis added by None has.
    every, root_every = put(columns[0]), put(columns[0][root].reshape(-1, 1))
    if np.array_equal(columns[0], columns[1]):
        present, root_present = every, root_every
    else:
        present, root_present = put(columns[1]), put(columns[1][root].reshape(-1, 1))
    return FlatTrees(
        trees,
        tuple(int(np.count_nonzero(depth > k)) for k in range(max(1, int(depth.max(initial=0))))),
        (every, present),
        put(threshold),
        put(first),
        (root_every, root_present),
        put(threshold[root].reshape(-1, 1)),
        put(first[root].reshape(-1, 1)),
        slot_leaf,
        accepts_equal,
    )
