"""Sums along the paths from the roots to the leaves, for all trees of a forest at once.

Every score of a leaf that this package uses, soft or hard, is a sum of one term per turn on its
path. Level by level that costs one addition per node and row, where a product with the dense D or B
would cost one per leaf, node and row.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitvec import structure, tree_paths
from bitvec.arrays import Array
from bitvec.structure import Bitvectors


class PathLayout(nn.Module):
    """Where each node and leaf stands when a forest is laid out level by level.

    Nodes are ordered by depth over all trees: `order[k]` is the forest's node in place k. Slots
    hold running sums: slot t is the root of tree t, slots T + 2k and T + 2k + 1 are the left and
    the right child of the node in place k, so the children of a level are one run of slots.
    """

    order: Tensor
    node_slot: Tensor
    leaf_slot: Tensor
    place: Tensor
    leaf: Tensor
    leaf_ptr: Tensor
    tree_of_leaf: Tensor

    def __init__(self, B: Bitvectors) -> None:
        super().__init__()
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
        leaf_slot = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
        for side, child in enumerate(structure.children(B)):
            at = np.flatnonzero(child < 0)
            leaf_slot[~child[at]] = B.n_trees + 2 * place_of_node[at] + side
        ends = np.cumsum(np.bincount(depth)).tolist() if len(depth) else []
        self.levels = list(pairwise([0, *ends]))
        place, leaf = np.full(self.n_slots, -1, np.int64), np.full(self.n_slots, -1, np.int64)
        place[node_slot], leaf[leaf_slot] = np.arange(B.n_nodes), np.arange(B.n_leaves)
        tables: dict[str, Array] = {
            "order": order,
            "node_slot": node_slot,
            "leaf_slot": leaf_slot,
            "place": place,
            "leaf": leaf,
            "leaf_ptr": B.leaf_ptr,
            "tree_of_leaf": np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr)),
        }
        for name, table in tables.items():
            self.register_buffer(name, torch.tensor(table, dtype=torch.int64), persistent=False)

    def by_level(self, values: Tensor) -> Tensor:
        """Put per-node values, first axis in the forest's order, into level order."""
        return values if self.in_order else values[self.order]

    def exit_leaves(self, right: Tensor) -> Tensor:
        """Return the forest's leaf index where h, (n_nodes, batch) in level order, leads.

        Returns
        -------
        int64, (n_trees, batch)
        """
        slot = torch.arange(self.n_trees, device=right.device)[:, None]
        slot = slot.expand(-1, right.shape[1]).clone()
        for _ in self.levels:
            place = self.place[slot]
            at = place.clamp_min(0)
            turn = right.gather(0, at).to(torch.int64) if self.n_nodes else at
            slot = torch.where(place >= 0, self.n_trees + 2 * at + turn, slot)
        return self.leaf[slot]

    def reached(self, right: Tensor) -> Tensor:
        """Return which nodes lie on the hard path of each row, (n_nodes, batch) in level order."""
        on_path = right.new_ones((self.n_slots, right.shape[1]), dtype=torch.bool)
        for first, last in self.levels:
            above = on_path[self.node_slot[first:last]]
            turns = torch.stack([~right[first:last], right[first:last]], dim=1)
            start = self.n_trees + 2 * first
            on_path[start : start + 2 * (last - first)] = (above[:, None] & turns).flatten(0, 1)
        return on_path[self.node_slot]


class _PathSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, turns: Tensor, layout: PathLayout) -> Tensor:
        batch = turns.shape[2]
        total = turns.new_empty((layout.n_slots, batch))
        total[: layout.n_trees] = 0
        for first, last in layout.levels:
            start, stop = layout.n_trees + 2 * first, layout.n_trees + 2 * last
            torch.add(
                total[layout.node_slot[first:last]][:, None],
                turns[first:last],
                out=total[start:stop].view(last - first, 2, batch),
            )
        ctx.layout = layout
        return total[layout.leaf_slot]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        layout, grad = ctx.layout, grads[0]
        batch = grad.shape[1]
        total = grad.new_zeros((layout.n_slots, batch))
        total[layout.leaf_slot] = grad
        for first, last in reversed(layout.levels):
            start, stop = layout.n_trees + 2 * first, layout.n_trees + 2 * last
            children = total[start:stop].view(last - first, 2, batch)
            total[layout.node_slot[first:last]] = children[:, 0] + children[:, 1]
        return total[layout.n_trees :].view(layout.n_nodes, 2, batch), None


def path_sum(turns: Tensor, layout: PathLayout) -> Tensor:
    """Return for each leaf the sum of the terms of the turns on its path.

    Parameters
    ----------
    turns : float, (n_nodes, 2, batch)
        In level order, what the left and the right turn at each node add.

    Returns
    -------
    float, (n_leaves, batch)
        In the forest's order. Cost: O(n_nodes · batch), forward and backward.
    """
    result: Tensor = _PathSum.apply(turns, layout)  # type: ignore[no-untyped-call]
    return result
