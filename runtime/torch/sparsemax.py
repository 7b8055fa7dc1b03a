"""The Euclidean projection onto the simplex, with its exact gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, score: Tensor) -> Tensor:
        shifted = score - score.amax(dim=1, keepdim=True)
        ordered = shifted.sort(dim=1, descending=True).values
        count = torch.arange(1, score.shape[1] + 1, device=score.device, dtype=score.dtype)
        count = count[None, :, None]
        excess = ordered.cumsum(dim=1) - 1
        support = (count * ordered > excess).sum(dim=1, keepdim=True).clamp_min(1)  # 0 where NaN
        threshold = excess.gather(1, support - 1) / support
        p = (shifted - threshold).clamp_min(0)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        inside = (p > 0).to(p.dtype)
        mean = (grads[0] * inside).sum(dim=1, keepdim=True) / inside.sum(dim=1, keepdim=True)
        result: Tensor = inside * (grads[0] - mean)
        return result


def sparsemax(score: Tensor) -> Tensor:
    """Return argmin over p in the simplex of ||p − score||², along axis 1 of three.

    A score of −inf is outside the support. Every slice must hold one finite score.

    Notes
    -----
    Martins and Astudillo, "From Softmax to Sparsemax" (2016), Algorithm 1 and Eq. (14).
    """
    result: Tensor = _Sparsemax.apply(score)  # type: ignore[no-untyped-call]
    return result
