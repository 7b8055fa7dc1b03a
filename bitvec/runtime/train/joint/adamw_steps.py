"""AdamW for a handful of tensors: torch's own costs more around its kernel than in it here.

Its first use also imports torch's compiler, which takes seconds that a small fit does not have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

EPSILON = 1e-8


class AdamW:
    """Steps of AdamW with a weight decay and a factor of the learning rate for each tensor.

    Parameters
    ----------
    tensors : iterable of (Tensor, float, float)
        Each with its weight decay and the factor of its learning rate.
    betas : (float, float)

    Notes
    -----
    Algorithm 2 of Loshchilov and Hutter, 2019, the decay times the learning rate, as torch has it.
    """

    def __init__(
        self,
        tensors: Iterable[tuple[Tensor, float, float]],
        *,
        betas: tuple[float, float] = (0.9, 0.99),
    ) -> None:
        self._parts = [(t, d, f, torch.zeros_like(t), torch.zeros_like(t)) for t, d, f in tensors]
        self._betas, self._step = betas, 0

    @torch.no_grad()
    def step(self, gradients: Iterable[Tensor], rate: float) -> None:
        """Move the tensors by their gradients, in the order that they were given in."""
        self._step += 1
        first, second = self._betas
        scale = 1 - first**self._step
        root = math.sqrt(1 - second**self._step)
        for (tensor, decay, factor, mean, square), gradient in zip(
            self._parts, gradients, strict=True
        ):
            own = rate * factor
            mean.lerp_(gradient, 1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            away = square.sqrt().mul_(1 / root).add_(EPSILON)
            if decay:
                tensor.mul_(1 - own * decay)
            tensor.addcdiv_(mean, away, value=-own / scale)
