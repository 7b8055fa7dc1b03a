"""Losses of regressors, on what the forest answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bitvec.core.output import Output, PostTransform
from bitvec.runtime.train.retrain import smooth_links

SMALLEST_MEAN = 1e-6
"""In units of the mean target: below it a predicted mean goes on as an exponential, which is
positive and has a gradient."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of the losses of a regressor.

    Parameters
    ----------
    quantile : tuple of float
        The level of each output.
    delta : float
        From where on Huber's loss is linear, in units of the target.
    power : float
        Of Tweedie's variance, between 1 and 2.
    deviation : float
        The unit of errors.
    mean : float
        The unit of means.
    smoothing : float
        Within it, in units of the target, a kink is a parabola.
    """

    quantile: tuple[float, ...] = (0.5,)
    delta: float = 1.0
    power: float = 1.5
    deviation: float = 1.0
    mean: float = 1.0
    smoothing: float = 0.0


def _squared(output: Output, raw: Tensor, target: Tensor, shape: Shape) -> Tensor:
    return ((smooth_links.value(output, raw) - target) / shape.deviation).square()


def _length(error: Tensor, smoothing: float) -> Tensor:
    size = error.abs()
    if smoothing == 0:
        return size
    return torch.where(size < smoothing, (size * size / smoothing + smoothing) / 2, size)


def _absolute(output: Output, raw: Tensor, target: Tensor, shape: Shape) -> Tensor:
    return _length(smooth_links.value(output, raw) - target, shape.smoothing) / shape.deviation


def _huber(output: Output, raw: Tensor, target: Tensor, shape: Shape) -> Tensor:
    size = (smooth_links.value(output, raw) - target).abs() / shape.deviation
    delta = shape.delta / shape.deviation
    return torch.where(size <= delta, size.square() / 2, delta * (size - delta / 2))


def _quantile(output: Output, raw: Tensor, target: Tensor, shape: Shape) -> Tensor:
    error = target - smooth_links.value(output, raw)
    tilt = torch.tensor(shape.quantile, dtype=raw.dtype, device=raw.device) - 0.5
    return (_length(error, shape.smoothing) / 2 + tilt * error) / shape.deviation


def _mean(output: Output, raw: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """Return the predicted mean and its logarithm."""
    if output.post_transform is PostTransform.EXPONENTIAL:
        return raw.exp(), raw
    mean = smooth_links.value(output, raw)
    least = SMALLEST_MEAN * shape.mean
    low = math.log(least) + mean.clamp_max(least) / least - 1
    is_low = mean < least
    return (
        torch.where(is_low, low.exp(), mean),
        torch.where(is_low, low, mean.clamp_min(least).log()),
    )


def _poisson(output: Output, raw: Tensor, target: Tensor, shape: Shape) -> Tensor:
    mean, log_mean = _mean(output, raw, shape)
    return 2 * (torch.xlogy(target, target) - target * log_mean - target + mean)


def _gamma(output: Output, raw: Tensor, target: Tensor, shape: Shape) -> Tensor:
    _, log_mean = _mean(output, raw, shape)
    return 2 * (log_mean - target.log() + target * (-log_mean).exp() - 1)


def _tweedie(output: Output, raw: Tensor, target: Tensor, shape: Shape) -> Tensor:
    _, log_mean = _mean(output, raw, shape)
    one, two = 1 - shape.power, 2 - shape.power
    constant = target**two / (one * two)
    return 2 * (constant - target * (one * log_mean).exp() / one + (two * log_mean).exp() / two)


LOSSES: dict[str, Callable[[Output, Tensor, Tensor, Shape], Tensor]] = {
    "squared": _squared,
    "absolute": _absolute,
    "huber": _huber,
    "quantile": _quantile,
    "poisson": _poisson,
    "gamma": _gamma,
    "tweedie": _tweedie,
}
"""Loss of each row and output, (batch, n_outputs), from raw scores and targets.

Errors are in units of the targets' deviation (squared for "squared" and "huber"); "poisson",
"gamma" and "tweedie" are unit deviances.
"""
DEVIANCES = ("poisson", "gamma", "tweedie")
