"""The post-transforms of a forest in torch: from raw scores to what it answers, differentiable."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from bitvec.core.output import Output, PostTransform


def _softmax(output: Output, raw: Tensor) -> Tensor:
    groups = torch.split(raw / output.parameter, list(output.groups), 1)
    return torch.cat([group.softmax(dim=1) for group in groups], dim=1)


def _ratio(output: Output, raw: Tensor) -> Tensor:
    return torch.exp2(-raw / output.parameter)


LINKS: dict[PostTransform, Callable[[Output, Tensor], Tensor]] = {
    PostTransform.IDENTITY: lambda output, raw: raw,
    PostTransform.SIGMOID: lambda output, raw: torch.sigmoid(output.parameter * raw),
    PostTransform.LOGISTIC: lambda output, raw: torch.sigmoid(raw),
    PostTransform.SOFTMAX_OF_HALVES: lambda output, raw: torch.sigmoid(raw),
    PostTransform.SOFTMAX: _softmax,
    PostTransform.SOFTMAX_UNSHIFTED: _softmax,
    PostTransform.EXPONENTIAL: lambda output, raw: raw.exp(),
    PostTransform.EXPONENTIAL_STANDARD_RATIO: _ratio,
    PostTransform.LOGARITHM_ONE_PLUS_EXP: lambda output, raw: F.softplus(raw),
    PostTransform.AT_MOST_ONE: lambda output, raw: raw,  # what exceeds 1 does so by rounding
    PostTransform.SIGNED_SQUARE: lambda output, raw: raw * raw.abs(),
}
"""The post-transforms that have a gradient."""


def value(output: Output, raw: Tensor) -> Tensor:
    """Return what raw scores become, (batch, n_outputs), in their dtype."""
    return LINKS[output.post_transform](output, raw)
