"""Trees whose nodes cost much to decide: only those on a row's path are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.torch.outcomes import DeviceTests, decide


@dataclass(frozen=True, slots=True, eq=False)
class PathTrees:
    """Trees of any kinds of nodes, walked with each node's own routine.

    A depth-10 tree of oblique nodes has a thousand rows of S, of which a row of X needs ten.

    Parameters
    ----------
    trees : int64, (n_trees,)
    roots : int64, (n_trees,)
    children : int64, (n_nodes of the forest, 2)
        A leaf is `~leaf`, with `leaf` its index in the forest.
    tests : DeviceTests
    """

    trees: Array
    roots: Tensor
    children: Tensor
    tests: DeviceTests

    def leaves(self, Z: Tensor) -> Tensor:
        """Return the forest's leaf index of every tree and row, flat, int64 (n_trees · batch,)."""
        batch, Zt = len(Z), Z.T.contiguous()
        at = self.roots[:, None].expand(-1, batch).reshape(-1).clone()
        row = torch.arange(batch, device=Z.device).repeat(len(self.roots))
        moving = torch.nonzero(at >= 0)[:, 0]
        while moving.numel():
            node = at[moving]
            right = decide(self.tests, Zt, node, row[moving])[1]
            child = self.children[node, right.to(torch.int64)]
            at[moving] = child
            moving = moving[child >= 0]
        return ~at


def follow(B: Bitvectors, trees: Array, tests: DeviceTests, device: torch.device) -> PathTrees:
    """Return trees as child arrays on a device."""
    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    children = np.stack(structure.children(B), axis=1).reshape(-1, 2)
    return PathTrees(
        trees,
        torch.tensor(roots[trees], device=device),
        torch.tensor(children, device=device),
        tests,
    )
