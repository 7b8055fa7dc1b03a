"""Gates: what share s(m) of a row a test of margin m lets go right.

m is gamma times the margin in units of its node. Each gate tends to σ, which is 1 for m > 0 and
else 0. Those of `SHARES` are shares, in [0, 1], and symmetric: the left share is s(−m), so that
neither side is the difference of 1 and the other. Those of `ACTIVATIONS` are positivity-augmented
activations (Zhang 2021, Definition 1): positive for m > 0 and 0 otherwise, without bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bitvec.errors import InputError
from bitvec.runtime.train.relax.tracing import is_traced, once_differentiable

BAND = 6.0
"""Width of smooth-step's support: its slope at 0, 1.5 / 6, is then the sigmoid's 1/4."""


def sigmoid(m: Tensor) -> Tensor:
    """Return 1 / (1 + exp(−m)): the gate of soft trees (Irsoy, Yildiz and Alpaydin 2012).

    Notes
    -----
    s(m) maximises m · s + H(s) over s in [0, 1], with H the entropy of (s, 1 − s).
    """
    return torch.sigmoid(m)


def noisy_or(m: Tensor) -> Tensor:
    """Return the annealed noisy-or gate 1 / (1 + ((1 − f) / (1 − p0))^λ), stably.

    With f = 1 − exp(−g), g = sum over facets of r · softplus(β x) and τ = −ln(1 − p0), it is
    sigmoid(λ (g − τ)), which is how it is computed: f itself is 1 in floating point from g = 37 on.
    The margin of a polytope node is g − τ, and λ is gamma over the node's margin scale.

    Notes
    -----
    The gate of Convex Polytope Trees (Armandpour, Sadeghian and Zhou 2021).
    """
    return torch.sigmoid(m)


def smooth_step(m: Tensor) -> Tensor:
    """Return 3 p² − 2 p³ with p = m / 6 + 1/2 held in [0, 1]: exactly 0 and 1 outside the band.

    Equal to −2 t³ + 3/2 t + 1/2 with t = m / w inside the band |m| <= w / 2 = 3, where that form
    may round below 0.

    Notes
    -----
    The gate of the Tree Ensemble Layer (Hazimeh et al. 2020), whose gamma is w here.
    """
    p = (m / BAND + 0.5).clamp(0, 1)
    return p * p * (3 - 2 * p)


class _SmoothTurns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Tensor) -> Tensor:
        p = torch.stack((-m, m), dim=1).mul_(1 / BAND).add_(0.5).clamp_(0, 1)
        ctx.save_for_backward(p)
        return (p * -2).add_(3).mul_(p).mul_(p)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (p,) = ctx.saved_tensors
        slope = (p[:, 0] * p[:, 1]).mul_(6 / BAND)
        return slope.mul_(grads[0][:, 1] - grads[0][:, 0])


def smooth_turns(m: Tensor) -> Tensor:
    """Return smooth_step(−m) and smooth_step(m) side by side, (n_nodes, 2, batch)."""
    if is_traced():
        return smooth_step(torch.stack((-m, m), dim=1))
    result: Tensor = _SmoothTurns.apply(m)  # type: ignore[no-untyped-call]
    return result


class _LogSigmoidTurns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Tensor) -> Tensor:
        ctx.save_for_backward(m)
        right = F.logsigmoid(m)
        left = (right - m).masked_fill_(m == -torch.inf, 0)
        return torch.stack((left, right), dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (m,) = ctx.saved_tensors
        left = torch.sigmoid(-m)
        return left.mul_(grads[0][:, 1]).addcmul_(grads[0][:, 0], torch.sigmoid(m), value=-1)


def log_sigmoid_turns(m: Tensor) -> Tensor:
    """Return log sigmoid(−m) and log sigmoid(m) side by side, (n_nodes, 2, batch)."""
    if is_traced():
        return F.logsigmoid(torch.stack((-m, m), dim=1))
    result: Tensor = _LogSigmoidTurns.apply(m)  # type: ignore[no-untyped-call]
    return result


def relu(m: Tensor) -> Tensor:
    """Return max(m, 0)."""
    return F.relu(m)


def relu_squared(m: Tensor) -> Tensor:
    """Return max(m, 0)²."""
    return F.relu(m).square()


def straight_through(soft: Tensor, hard: Tensor) -> Tensor:
    """Return `hard`, with the gradient of `soft`.

    Notes
    -----
    The straight-through estimator (Bengio, Léonard and Courville 2013), of a whole path product.
    """
    return hard + (soft - soft.detach())


SHARES: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": sigmoid,
    "noisy_or": noisy_or,
    "smooth_step": smooth_step,
}
"""Gates that are functions of the margin alone, with values in [0, 1]."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "relu_squared": relu_squared}

_PROBES = (-1e3, -2.0, -1.0, -1e-3, -0.0, 0.0, 1e-3, 1.0, 2.0, 1e3)


def require_activation(gate: Callable[[Tensor], Tensor]) -> None:
    """Raise InputError unless a callable is positive for m > 0 and else 0, on a few margins."""
    m = torch.tensor(_PROBES, dtype=torch.float64)
    try:
        a = gate(m)
        fits = a.shape == m.shape and bool(((a > 0) == (m > 0)).all() and (a[m <= 0] == 0).all())
    except (RuntimeError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            "a gate that is a function must take a tensor of margins and return one of the same "
            f"shape, got {type(error).__name__}: {error}"
        ) from None
    if not fits:
        raise InputError(
            "a gate that is a function must be positive for m > 0 and 0 otherwise (Definition 1 of "
            f"Zhang 2021), got {a.tolist()} at {m.tolist()}."
        )
