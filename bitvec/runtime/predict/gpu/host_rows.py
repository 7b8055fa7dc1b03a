"""Rows of the host on a device, block by block: the next is copied while one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array

BLOCK_BYTES = 1 << 26
"""Bytes of a block, of which two are pinned."""


def stream(X: Array, dtype: torch.dtype, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
    """Yield the rows of X as tensors of a device; one is overwritten when the next but one comes.

    Rows are narrowed to `dtype` on the host where it is smaller than theirs, and else left as they
    are. The device's current stream waits for them.

    Parameters
    ----------
    X : float32 or float64, (batch, n_features)
        Of any strides.
    dtype : torch.dtype
        The forest's.
    """
    n_rows, n_columns = X.shape
    given: torch.dtype = getattr(torch, X.dtype.name)
    kind = dtype if dtype.itemsize < given.itemsize else given
    room = max(1, BLOCK_BYTES // max(1, n_columns * kind.itemsize))
    if device.type != "cuda" or n_rows <= room:
        for start in range(0, n_rows, room):
            part = slice(start, min(start + room, n_rows))
            yield part, _tensor(X[part]).to(kind).to(device)
        return
    shape = (room, n_columns)
    pinned = [torch.empty(shape, dtype=kind, pin_memory=True) for _ in range(2)]
    held = [torch.empty(shape, dtype=kind, device=device) for _ in range(2)]
    cuda: Any = torch.cuda  # whose classes are not typed
    copied = [cuda.Event() for _ in range(2)]
    used = [cuda.Event() for _ in range(2)]
    copies = cuda.Stream(device)
    for turn, start in enumerate(range(0, n_rows, room)):
        part, k = slice(start, min(start + room, n_rows)), turn % 2
        size = part.stop - part.start
        copied[k].synchronize()
        pinned[k][:size].copy_(_tensor(X[part]))
        with cuda.stream(copies):
            copies.wait_event(used[k])
            held[k][:size].copy_(pinned[k][:size], non_blocking=True)
            copied[k].record(copies)
        current = cuda.current_stream(device)
        current.wait_event(copied[k])
        yield part, held[k][:size]
        used[k].record(current)


def _tensor(X: Array) -> Tensor:
    """Return the same rows as a tensor, copied only where torch takes no such strides."""
    usable = X.flags.writeable and all(stride > 0 for stride in X.strides)
    return torch.from_numpy(X if usable else np.array(X, order="C"))
