"""Trees in groups, which programs take side by side."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Groups(NamedTuple):
    """Groups of trees: those of group g are the trees from ptr[g] to ptr[g + 1].

    Parameters
    ----------
    ptr : int32, (n + 1,)
        On the device.
    n : int
    """

    ptr: Tensor
    n: int


class EvenGroups:
    """Groups of about as many trees, made once for each number of them.

    They are made on the device, so that a graph may be recorded meanwhile.
    """

    def __init__(self, n_trees: int, device: torch.device) -> None:
        self._n_trees, self._device = n_trees, device
        self._made: dict[int, Groups] = {}

    def __call__(self, n: int) -> Groups:
        """Return n groups."""
        if n not in self._made:
            ends = torch.arange(n + 1, device=self._device) * self._n_trees // n
            self._made[n] = Groups(ends.to(torch.int32), n)
        return self._made[n]
