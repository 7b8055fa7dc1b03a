"""Sparse projections of scores onto the simplex, with their exact gradients.

Both are p = max(x − τ, 0)^k with x the scores, of which a slice's largest is taken off first, and τ
such that p sums to 1: k = 1 is sparsemax, k = 2 entmax-1.5 of x = score / 2. τ is found by Newton's
method from the left: the sum is convex and falls in τ, so the steps rise toward τ and never beyond,
and for k = 1, where the sum is linear between scores, they end at τ exactly (Michelot 1986). The
start is the τ of a subset of the scores, of which no τ is larger. So nothing is sorted.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bitvec.runtime.train.relax.tracing import is_traced, once_differentiable

MOST_STEPS = 100
"""Steps of Newton's method at most; about six are taken."""
CACHED = 1 << 20
"""Scores that stay in a cache between two steps."""
GROUP = 16
"""Scores of which the largest stands in the subset that gives the start."""


def threshold(x: Tensor, power: int) -> Tensor:
    """Return τ with sum of max(x − τ, 0)^power = 1 along axis 1 of three, as (n, 1, batch).

    Parameters
    ----------
    x : float, (n, size, batch)
        Each slice's largest is 0; −inf is allowed elsewhere.
    power : 1 or 2
    """
    n, size, batch = x.shape
    # On a CPU parts that stay in its cache are done sooner.
    most = max(1, CACHED // max(size * batch, 1)) if x.device.type == "cpu" else max(n, 1)
    if n <= most:
        return _start_and_newton(x, power)
    parts = (x[start : start + most] for start in range(0, n, most))
    return torch.cat([_start_and_newton(part, power) for part in parts])


def _start_and_newton(x: Tensor, power: int) -> Tensor:
    n, size, batch = x.shape
    start = x.new_full((n, 1, batch), -1.0)
    if size >= 4 * GROUP:
        cut = size // GROUP * GROUP
        largest = x[:, :cut].reshape(n, GROUP, cut // GROUP, batch).amax(dim=1)
        start = _newton(torch.cat((largest, x[:, cut:]), dim=1), start, power)
    return _newton(x, start, power)


def _newton(x: Tensor, tau: Tensor, power: int) -> Tensor:
    support = torch.full_like(tau, torch.inf)
    for _ in range(MOST_STEPS):
        rest = (x - tau).clamp_min_(0)
        total = rest.sum(dim=1, keepdim=True)
        if power == 1:
            before, support = support, rest.sign_().sum(dim=1, keepdim=True)
            tau = tau + (total - 1) / support
            if not bool((support < before).any()):
                break
        else:
            step = (rest.square_().sum(dim=1, keepdim=True) - 1) / (2 * total)
            tau = tau + step
            # Newton squares what is left, times at most half the number of scores.
            if not bool((step * step * x.shape[1] > torch.finfo(x.dtype).eps).any()):
                break
    return tau


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, score: Tensor, power: int) -> Tensor:
        x = score - score.amax(dim=1, keepdim=True)
        if power == 2:
            x.mul_(0.5)
        rest = x.sub_(threshold(x, power)).clamp_min_(0)
        ctx.save_for_backward(rest)
        ctx.power = power
        return rest.square() if power == 2 else rest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (rest,) = ctx.saved_tensors
        return _derivative(rest, ctx.power, grads[0]), None


def sorted_threshold(x: Tensor, power: int) -> Tensor:
    """Return `threshold` but for rounding, by sorting: how many steps are taken is known ahead.

    Newton's last steps bring back digits, of which the difference of two squares loses half.
    """
    ranked = x.sort(dim=1, descending=True).values
    number = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)[:, None]
    total = ranked.cumsum(dim=1)
    if power == 1:
        tau, inside = (total - 1) / number, number * ranked > total - 1
    else:
        mean = total / number
        spread = (ranked.square().cumsum(dim=1) / number - mean.square()).clamp_min(0)
        tau = mean - (1 / number - spread).clamp_min(0).sqrt()
        inside = tau <= ranked
    tau = tau.gather(1, inside.to(torch.int64).sum(dim=1, keepdim=True) - 1)
    for _ in range(2 * power - 1):
        rest = (x - tau).clamp_min(0)
        slope = (rest.sign() if power == 1 else 2 * rest).sum(dim=1, keepdim=True)
        tau = tau + (rest.pow(power).sum(dim=1, keepdim=True) - 1) / slope
    return tau


def _projection(score: Tensor, power: int) -> Tensor:
    if not is_traced():
        result: Tensor = _Projection.apply(score, power)  # type: ignore[no-untyped-call]
        return result
    held = score.detach()
    # Scores that are 1 below the largest are outside of every support; 2 is far from its edge.
    x = ((held - held.amax(dim=1, keepdim=True)) / power).clamp_min(-2)
    rest = (x - sorted_threshold(x, power)).clamp_min(0)
    p = rest.pow(power)
    if not torch.is_grad_enabled():
        return p
    step = torch.where(rest > 0, score - held, 0.0)  # of value 0, for its gradient
    return p + _derivative(rest, power, step)


def _derivative(rest: Tensor, power: int, step: Tensor) -> Tensor:
    """Return dp/dscore · step, diag(w) − w wᵀ / sum w with w = 1 on the support (k = 1) or √p."""
    w = rest.sign() if power == 1 else rest
    weighted = w * step
    mean = weighted.sum(dim=1, keepdim=True) / w.sum(dim=1, keepdim=True)
    return weighted.addcmul(w, mean, value=-1)


def sparsemax(score: Tensor) -> Tensor:
    """Return argmin over p in the simplex of ||p − score||², along axis 1 of three.

    A score of −inf is outside the support. Every slice must hold one finite score.

    Notes
    -----
    Martins and Astudillo, "From Softmax to Sparsemax" (2016), Eq. (2) and (14).
    """
    return _projection(score, 1)


def entmax15(score: Tensor) -> Tensor:
    """Return argmax over p in the simplex of p · score + H(p), along axis 1 of three.

    H is Tsallis' entropy of order 1.5, H(p) = 4/3 · sum(p − p^1.5): between softmax (order 1) and
    sparsemax (order 2). A score of −inf is outside the support.

    Notes
    -----
    Peters, Niculae and Martins, "Sparse Sequence-to-Sequence Models" (2019), Eq. (7) to (9).
    """
    return _projection(score, 2)
