"""Positions of nodes and leaves by level, and sums along the paths from root to leaf.

Level by level a sum along all paths costs one addition per node and row, where a product with the
dense D or B costs one per leaf, node and row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.train.relax.tracing import is_traced, merged, once_differentiable


@dataclass(frozen=True, slots=True, eq=False)
class SizeClass:
    """Trees whose leaves stand side by side, as many for each as the largest has.

    Parameters
    ----------
    leaf : int64, (n_trees · size,)
        The leaf in each place; any leaf where there is none.
    outside : bool, (n_trees, size)
        Which places hold no leaf.
    inside : int64, (n,)
        The places that hold one.
    """

    leaf: Tensor
    outside: Tensor
    inside: Tensor


class PathLayout:
    """Positions of nodes and leaves when trees are laid out level by level.

    Nodes are ordered by depth over all trees: `order[k]` is the node in place k. Slots hold running
    sums or products: slot t is the root of tree t, slots T + 2k and T + 2k + 1 are the left and the
    right child of the node in place k, so the children of a level are one run of slots.

    Parameters
    ----------
    B : Bitvectors
    device : torch.device, optional

    Attributes
    ----------
    order, node_slot : int64, (n_nodes,)
    leaf_slot, tree_of_leaf, leaf_depth : int64, (n_leaves,)
    place, leaf : int64, (n_slots,)
        The node place or the leaf that a slot holds, -1 where it holds none.
    levels : list of (first, last)
        The places of each level.
    leaf_ptr : int64, (n_trees + 1,)
    least_visits : int
        Nodes on the shortest paths of all trees.
    one_size : int or None
        Leaves of each tree, where all have as many.
    size_classes : list of SizeClass
        The trees by size, where they differ; `class_place`, (n_leaves,), says where the classes'
        leaves, one after the other, hold each leaf.
    """

    def __init__(self, B: Bitvectors, device: torch.device | None = None) -> None:
        self.n_trees, self.n_nodes, self.n_leaves = B.n_trees, B.n_nodes, B.n_leaves
        self.n_slots = B.n_trees + 2 * B.n_nodes
        depth = tree_paths.node_depth(B)
        order = np.argsort(depth, kind="stable")
        self.in_order = bool(np.all(order == np.arange(len(order))))
        place_of_node = np.empty(len(order), np.int64)
        place_of_node[order] = np.arange(len(order))
        parent, is_right = tree_paths.parents(B)
        node_slot = np.where(
            parent < 0, B.tree_of_node, B.n_trees + 2 * place_of_node[parent] + is_right
        )[order]
        tree_of_leaf = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
        leaf_slot = tree_of_leaf.copy()
        for side, child in enumerate(structure.children(B)):
            at = np.flatnonzero(child < 0)
            leaf_slot[~child[at]] = B.n_trees + 2 * place_of_node[at] + side
        ends = np.cumsum(np.bincount(depth)).tolist() if len(depth) else []
        self.levels = list(pairwise([0, *ends]))
        place, leaf = np.full(self.n_slots, -1, np.int64), np.full(self.n_slots, -1, np.int64)
        place[node_slot], leaf[leaf_slot] = np.arange(B.n_nodes), np.arange(B.n_leaves)
        # Gathers of a run of slots are slices: in complete trees there is nothing else.
        self._level_runs = [_run(node_slot[first:last]) for first, last in self.levels]
        self._leaf_run = _run(leaf_slot)

        def put(values: Array) -> Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        self.order, self.node_slot, self.leaf_slot = put(order), put(node_slot), put(leaf_slot)
        self.place, self.leaf = put(place), put(leaf)
        self.leaf_ptr, self.tree_of_leaf = put(B.leaf_ptr), put(tree_of_leaf)
        leaf_depth = tree_paths.leaf_depth(B)
        self.leaf_depth = put(leaf_depth)
        shortest = np.minimum.reduceat(leaf_depth, B.leaf_ptr[:-1]) if B.n_trees else leaf_depth
        self.least_visits = int(shortest.sum())
        n_leaves = np.diff(B.leaf_ptr)
        same = len(n_leaves) > 0 and bool(np.all(n_leaves == n_leaves[0]))
        self.one_size = int(n_leaves[0]) if same else None
        self.size_classes = [] if same else _size_classes(B.leaf_ptr, device)
        members = [part.leaf.index_select(0, part.inside) for part in self.size_classes]
        self.class_place = torch.argsort(torch.cat(members)) if members else self.tree_of_leaf
        self._above = []
        for level, (first, last) in enumerate(self.levels):
            begin, run = self.children(level - 1)[0] if level else 0, self._level_runs[level]
            above = put(node_slot[first:last] - begin)
            self._above.append((None if run is None else run - begin, above))

    def by_level(self, values: Tensor) -> Tensor:
        """Put per-node values, first axis in the order of B, into level order."""
        return values if self.in_order else values.index_select(0, self.order)

    def children(self, level: int) -> tuple[int, int]:
        """Return the first slot of a level's children, and the slot behind their last."""
        first, last = self.levels[level]
        return self.n_trees + 2 * first, self.n_trees + 2 * last

    def parents(self, slots: Tensor, level: int) -> Tensor:
        """Return what the slots of a level's nodes hold, (nodes of the level, batch)."""
        first, last = self.levels[level]
        start = self._level_runs[level]
        if start is not None:
            return slots[start : start + last - first]
        return slots.index_select(0, self.node_slot[first:last])

    def parents_above(self, values: Tensor, level: int) -> Tensor:
        """Return `parents` from the slots of the children of the level above alone."""
        (first, last), (start, index) = self.levels[level], self._above[level]
        return values.index_select(0, index) if start is None else values[start:][: last - first]

    def leaves(self, slots: Tensor) -> Tensor:
        """Return what the slots of the leaves hold, (n_leaves, batch)."""
        if self._leaf_run is not None:
            return slots[self._leaf_run : self._leaf_run + self.n_leaves]
        return slots.index_select(0, self.leaf_slot)

    def set_parents(self, slots: Tensor, level: int, values: Tensor) -> None:
        """Set what the slots of a level's nodes hold."""
        first, last = self.levels[level]
        start = self._level_runs[level]
        if start is not None:
            slots[start : start + last - first] = values
        else:
            slots[self.node_slot[first:last]] = values

    def set_leaves(self, slots: Tensor, values: Tensor) -> None:
        """Set what the slots of the leaves hold."""
        if self._leaf_run is not None:
            slots[self._leaf_run : self._leaf_run + self.n_leaves] = values
        else:
            slots[self.leaf_slot] = values

    def exit_leaves(self, right: Tensor) -> Tensor:
        """Return the leaf where h, (n_nodes, batch) in level order, leads.

        Returns
        -------
        int64, (n_trees, batch)
            In the numbering of all leaves of B.
        """
        slot = torch.arange(self.n_trees, device=right.device)[:, None]
        slot = slot.expand(-1, right.shape[1])
        for _ in self.levels:
            place = self.place[slot]
            at = place.clamp_min(0)
            slot = torch.where(place >= 0, self.n_trees + 2 * at + right.gather(0, at), slot)
        return self.leaf[slot]

    def reached(self, right: Tensor) -> Tensor:
        """Return which nodes lie on the hard path of each row, (n_nodes, batch) in level order."""
        on_path = right.new_ones((self.n_slots, right.shape[1]), dtype=torch.bool)
        for level, (first, last) in enumerate(self.levels):
            above = self.parents(on_path, level)
            turns = torch.stack([~right[first:last], right[first:last]], dim=1)
            start, stop = self.children(level)
            on_path[start:stop] = (above[:, None] & turns).flatten(0, 1)
        return on_path[self.node_slot]


def _size_classes(leaf_ptr: Array, device: torch.device | None) -> list[SizeClass]:
    """Return the trees by the power of two that holds their leaves, so padding at most doubles."""
    n_leaves = np.diff(leaf_ptr)
    exponent = np.ceil(np.log2(n_leaves)).astype(int)
    classes = []
    for value in np.unique(exponent):
        trees = np.flatnonzero(exponent == value)
        number = np.arange(n_leaves[trees].max())
        inside = number < n_leaves[trees][:, None]
        leaf = np.where(inside, leaf_ptr[trees][:, None] + number, leaf_ptr[trees][:, None])
        classes.append(
            SizeClass(
                torch.tensor(leaf.ravel(), device=device),
                torch.tensor(~inside, device=device),
                torch.tensor(np.flatnonzero(inside), device=device),
            )
        )
    return classes


def _run(index: Array) -> int | None:
    """Return where a run of consecutive numbers starts, None if they are no run."""
    if len(index) and np.all(np.diff(index) == 1):
        return int(index[0])
    return None


def at_slots(
    turns: Tensor, layout: PathLayout, combine: Callable[..., Tensor], start: float
) -> Tensor:
    """Return what the turns above each slot combine to, (n_slots, batch).

    Parameters
    ----------
    turns : float, (n_nodes, 2, batch)
        In level order.
    combine : torch.add or torch.mul
    start : float
        What a path without a turn has.
    """
    batch = turns.shape[2]
    if is_traced():
        return plain_slots(turns, layout, combine, start)
    total = turns.new_empty((layout.n_slots, batch))
    total[: layout.n_trees] = start
    for level, (first, last) in enumerate(layout.levels):
        begin, end = layout.children(level)
        combine(
            layout.parents(total, level)[:, None],
            turns[first:last],
            out=total[begin:end].view(last - first, 2, batch),
        )
    return total


def plain_slots(
    turns: Tensor, layout: PathLayout, combine: Callable[..., Tensor], start: float
) -> Tensor:
    """Return the same as `at_slots`, by operations that write into nothing."""
    slots = [turns.new_full((layout.n_trees, turns.shape[2]), start)]
    for level, (first, last) in enumerate(layout.levels):
        above = layout.parents_above(slots[-1], level)
        slots.append(merged(combine(above[:, None], turns[first:last])))
    return torch.cat(slots)


class _PathSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, turns: Tensor, layout: PathLayout) -> Tensor:
        ctx.layout = layout
        return layout.leaves(at_slots(turns, layout, torch.add, 0))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        layout = ctx.layout
        return below(grads[0], layout), None


def below(at_leaves: Tensor, layout: PathLayout) -> Tensor:
    """Return for each child slot the sum of what the leaves at and below it hold.

    Parameters
    ----------
    at_leaves : float, (n_leaves, batch)

    Returns
    -------
    float, (n_nodes, 2, batch)
        The left and the right child of each node, in level order.
    """
    batch = at_leaves.shape[1]
    total = at_leaves.new_empty((layout.n_slots, batch))
    layout.set_leaves(total, at_leaves)
    for level, (first, last) in reversed(list(enumerate(layout.levels))):
        start, stop = layout.children(level)
        both = total[start:stop].view(last - first, 2, batch)
        layout.set_parents(total, level, both[:, 0] + both[:, 1])
    return total[layout.n_trees :].view(layout.n_nodes, 2, batch)


def path_sum(turns: Tensor, layout: PathLayout) -> Tensor:
    """Return for each leaf the sum of the terms of the turns on its path.

    Parameters
    ----------
    turns : float, (n_nodes, 2, batch)
        In level order, what the left and the right turn at each node add.

    Returns
    -------
    float, (n_leaves, batch)
        In the order of B. Cost: O(n_nodes · batch), forward and backward.
    """
    if is_traced():
        return layout.leaves(at_slots(turns, layout, torch.add, 0))
    result: Tensor = _PathSum.apply(turns, layout)  # type: ignore[no-untyped-call]
    return result
