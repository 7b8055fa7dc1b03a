"""The processes that share one training, if torch.distributed runs several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from bitvec.core.arrays import Array


@dataclass(frozen=True, slots=True)
class Workers:
    """One of `size` processes that hold the same parameters and take shares of each batch.

    Parameters
    ----------
    rank : int
        The number of this one; 0 writes files and tells of progress.
    size : int
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Return whether this process is the one that writes."""
        return self.rank == 0

    def share(self, rows: Tensor) -> Tensor:
        """Return the rows of a batch that fall to this process."""
        return rows[self.rank :: self.size]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors of one dtype by their sums over all processes, in place."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def joined(self, array: Array) -> Array:
        """Return the rows that all processes hold, those of the first one first."""
        if self.size == 1:
            return array
        mine = torch.tensor(array)
        counts = torch.zeros(self.size, dtype=torch.int64)
        counts[self.rank] = len(mine)
        distributed.all_reduce(counts)
        padded = mine.new_zeros((int(counts.max()), *mine.shape[1:]))
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(parts, padded)
        rows = [part[: int(n)] for part, n in zip(parts, counts, strict=True)]
        result: Array = torch.cat(rows).numpy()
        return result


def current() -> Workers:
    """Return this process among those of the default process group; alone if there is none."""
    if distributed.is_available() and distributed.is_initialized():
        return Workers(distributed.get_rank(), distributed.get_world_size())
    return Workers()
