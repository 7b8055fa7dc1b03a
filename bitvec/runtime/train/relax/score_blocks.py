"""B · gate − c of all trees of a machine: trees of like size side by side, one product for each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.machine import DecisionMachine, block_ptr
from bitvec.runtime.train.relax.tracing import merged


class _Block(nn.Module):
    """Trees whose sizes share a power of two, padded to one size, so that it at most doubles.

    Indices of padding point to one past the end, where B, gate and c are lengthened by 0, 0 and
    infinity.
    """

    element: Tensor
    node: Tensor
    leaf: Tensor

    def __init__(self, machine: DecisionMachine, trees: list[int]) -> None:
        super().__init__()
        sizes = np.diff(machine.leaf_ptr)
        node_ptr, start = machine.frame.bitvectors.node_ptr, block_ptr(machine.leaf_ptr)
        most = int(sizes[trees].max())
        element = np.full((len(trees), most, most - 1), machine.B.size, np.int64)
        node = np.full((len(trees), most - 1), machine.n_nodes, np.int64)
        leaf = np.full((len(trees), most), machine.n_leaves, np.int64)
        for i, tree in enumerate(trees):
            n = int(sizes[tree])
            flat = np.arange(start[tree], start[tree + 1])
            element[i, :n, : n - 1] = flat.reshape(n, n - 1)
            node[i, : n - 1] = np.arange(node_ptr[tree], node_ptr[tree + 1])
            leaf[i, :n] = np.arange(machine.leaf_ptr[tree], machine.leaf_ptr[tree + 1])
        for name, table in (("element", element), ("node", node), ("leaf", leaf)):
            self.register_buffer(name, torch.tensor(table), persistent=False)

    def forward(self, B: Tensor, gate: Tensor, c: Tensor) -> Tensor:
        """Return scores, (n_trees, n_leaves, batch), −inf at padding; all arguments lengthened."""
        return torch.bmm(B[self.element], gate[self.node]) - c[self.leaf][:, :, None]


class ScoreBlocks(nn.Module):
    """All trees of a machine, to be scored and mapped to memberships."""

    def __init__(self, machine: DecisionMachine) -> None:
        super().__init__()
        sizes = np.diff(machine.leaf_ptr)
        self.n_leaves = machine.n_leaves
        self.first_leaf = machine.leaf_ptr[:-1]
        key = np.ceil(np.log2(sizes))
        self.trees = [np.flatnonzero(key == size).tolist() for size in np.unique(key)]
        self.blocks = nn.ModuleList(_Block(machine, trees) for trees in self.trees)

    def scores(self, B: Tensor, gate: Tensor, c: Tensor) -> list[Tensor]:
        """Return B · gate − c by block, (n_trees, n_leaves, batch).

        Parameters
        ----------
        B : float, (n_elements,)
        gate : float, (n_nodes, batch)
        c : float, (n_leaves,)
        """
        B = torch.cat([B, B.new_zeros(1)])
        gate = torch.cat([gate, gate.new_zeros((1, gate.shape[1]))])
        c = torch.cat([c, c.new_full((1,), torch.inf)])
        return [block(B, gate, c) for block in self.blocks]

    def memberships(self, scores: list[Tensor], score_map: Callable[[Tensor], Tensor]) -> Tensor:
        """Return u, (n_leaves, batch)."""
        batch = scores[0].shape[2]
        u = scores[0].new_zeros((self.n_leaves + 1, batch))
        for block, score in zip(self.blocks, scores, strict=True):
            assert isinstance(block, _Block)
            u = u.index_copy(0, block.leaf.flatten(), merged(score_map(score)))
        return u[:-1]

    def first_maximum(self, scores: list[Tensor]) -> Tensor:
        """Return the forest's index of the first leaf of highest score, (n_trees, batch)."""
        found = scores[0].new_zeros((len(self.first_leaf), scores[0].shape[2]), dtype=torch.int64)
        for trees, block, score in zip(self.trees, self.blocks, scores, strict=True):
            assert isinstance(block, _Block)
            # torch.argmax does not say which of several maxima it returns.
            is_maximum = score == score.amax(dim=1, keepdim=True)
            place = torch.arange(score.shape[1], device=score.device)[None, :, None]
            first = torch.where(is_maximum, place, score.shape[1]).amin(dim=1)
            found[trees] = block.leaf.gather(1, first)
        return found
