"""From the scores of a tree's leaves to memberships: softmax, sparsemax and 1.5-entmax.

Each maps axis 1 of three to the simplex. A score of −inf is outside of it; every slice must hold
one finite score.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bitvec.errors import InputError
from bitvec.runtime.relax.sparsemax import sparsemax


class _Entmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, score: Tensor) -> Tensor:
        half = (score - score.amax(dim=1, keepdim=True)) / 2
        # The threshold is at least −1, so that what lies below it may lie anywhere below it.
        half = half.clamp_min(-2)
        ordered = half.sort(dim=1, descending=True).values
        count = torch.arange(1, score.shape[1] + 1, device=score.device, dtype=score.dtype)
        count = count[None, :, None]
        mean = ordered.cumsum(dim=1) / count
        spread = ordered.square().cumsum(dim=1) - count * mean.square()
        threshold = mean - ((1 - spread) / count).clamp_min(0).sqrt()
        support = (threshold <= ordered).sum(dim=1, keepdim=True).clamp_min(1)  # 0 where NaN
        root = (half - threshold.gather(1, support - 1)).clamp_min(0)
        ctx.save_for_backward(root)
        return root.square()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        mean = (grads[0] * root).sum(dim=1, keepdim=True) / root.sum(dim=1, keepdim=True)
        result: Tensor = root * (grads[0] - mean)
        return result


def entmax(score: Tensor) -> Tensor:
    """Return 1.5-entmax: argmax over p of p · score + (4/3) · sum of (p − p^1.5), along axis 1.

    Notes
    -----
    Peters, Niculae and Martins, "Sparse Sequence-to-Sequence Models" (2019), Algorithm 2 and
    Proposition 2.
    """
    result: Tensor = _Entmax.apply(score)  # type: ignore[no-untyped-call]
    return result


def softmax(score: Tensor) -> Tensor:
    """Return exp(score) over its sum, along axis 1."""
    return torch.softmax(score, dim=1)


SCORE_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": softmax,
    "entmax": entmax,
    "sparsemax": sparsemax,
}


def find(name: object) -> Callable[[Tensor], Tensor]:
    """Return a map by its name.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    if not isinstance(name, str) or name not in SCORE_MAPS:
        raise InputError(
            f"`score_map` must be one of {', '.join(SCORE_MAPS)}, got {name!r}: choose one."
        )
    return SCORE_MAPS[name]
