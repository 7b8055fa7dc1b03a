"""Modules whose dtype may change after they are made, by `.double()`, `.float()` or `.to(...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bitvec.errors import InputError


class OfDtype(nn.Module):
    """A module that computes in float32 or float64.

    Parameters
    ----------
    dtype : torch.dtype
        At first; the property `dtype` tells it later.
    """

    like: Tensor

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("like", torch.empty(0, dtype=dtype), persistent=False)

    @property
    def dtype(self) -> torch.dtype:
        """In which the module computes."""
        return self.like.dtype

    def starts(self) -> dict[str, Tensor]:
        """Return the exact numbers that parameters and buffers started from, float64 by name."""
        return {}

    @torch.no_grad()
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        before, after = self.dtype, fn(self.like).dtype
        if after not in (torch.float32, torch.float64):
            raise InputError(
                f"a soft forest must hold its numbers in float32 or float64, got {after}: relax "
                "the forest with dtype=torch.bfloat16, which rounds gates and products only."
            )
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if after != before:
            # A number that has not moved is rounded once, from where it started.
            held = dict(self.named_parameters()) | dict(self.named_buffers())
            for name, exact in self.starts().items():
                now, exact = held[name], exact.to(self.like.device)
                unmoved = now == exact.to(before).to(after)
                now.copy_(torch.where(unmoved, exact.to(after), now))
        return self
