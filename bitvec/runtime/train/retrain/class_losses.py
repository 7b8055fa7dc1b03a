"""Losses of classifiers: minus the log-probability of a label, or of a mixture of labels."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from bitvec.core.links import SIGMOIDS, SOFTMAXES
from bitvec.core.output import Output, PostTransform
from bitvec.runtime.train.retrain import smooth_links
from bitvec.runtime.train.retrain.metrics import are_independent

SMALLEST = 1e-6
"""Below it the logarithm of a probability goes on as its tangent, so that a row still has a
gradient there."""

_BINARY = (*SIGMOIDS, PostTransform.HINGE)
_PLAIN = (PostTransform.IDENTITY, PostTransform.AT_MOST_ONE)


def log(p: Tensor) -> Tensor:
    """Return log p, and below `SMALLEST` its tangent there."""
    low = p / SMALLEST - 1 + math.log(SMALLEST)
    return torch.where(p > SMALLEST, p.clamp_min(SMALLEST).log(), low)


def log_probabilities(
    output: Output,
    raw: Tensor,
    n_classes: int,
    *,
    sharpness: float | None = None,
    are_scores: bool = False,
) -> Tensor:
    """Return the log-probabilities of one output group, (batch, n_classes).

    Parameters
    ----------
    raw : (batch, size)
        The group's raw scores.
    sharpness : float, optional
        Of probabilities that come without a link: softmax(sharpness · p) stands in for p.
    are_scores : bool
        Whether such outputs are scores, of which the largest names the label; softmax stands for
        their link.
    """
    kind = output.post_transform
    if raw.shape[1] == 1 and n_classes == 2:
        if kind in _BINARY:
            logit = raw * output.parameter
        elif kind in _PLAIN and are_scores:
            logit = raw - output.second_above
        elif kind in _PLAIN and sharpness is not None:
            # The two probabilities are p and 1 - p, whose difference is twice that to one half.
            logit = 2 * sharpness * (raw - output.second_above)
        else:
            p = smooth_links.value(output, raw)
            return log(torch.cat([1 - p, p], dim=1))
        return torch.cat([F.logsigmoid(-logit), F.logsigmoid(logit)], dim=1)
    if kind in SOFTMAXES:
        return torch.log_softmax(raw / output.parameter, dim=1)
    if kind in _PLAIN and (are_scores or sharpness is not None):
        factor = 1.0 if are_scores or sharpness is None else sharpness
        return torch.log_softmax(raw * factor, dim=1)
    return log(smooth_links.value(output, raw))


def of_each_class(output: Output, raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return log(1 − p) and log p of independent classes, each (batch, n_classes)."""
    logit = raw * output.parameter
    return F.logsigmoid(-logit), F.logsigmoid(logit)


def cross_entropy(
    output: Output,
    raw: Tensor,
    wanted: Tensor,
    n_classes: int,
    *,
    sharpness: float | None = None,
    are_scores: bool = False,
) -> Tensor:
    """Return the cross-entropy of each row of one group, (batch,).

    Parameters
    ----------
    wanted : int64, (batch,), or float, (batch, n_classes)
        Class numbers, or the probabilities of the classes.
    """
    by_number = wanted.ndim == 1
    if are_independent(output, raw.shape[1]):
        no, yes = of_each_class(output, raw)
        if by_number:
            wanted = F.one_hot(wanted, n_classes)
        wanted = wanted.to(raw.dtype)
        return -(wanted * yes + (1 - wanted) * no).sum(dim=1)
    if by_number and raw.shape[1] == 1 and n_classes == 2 and output.post_transform in _BINARY:
        return -F.logsigmoid((2 * wanted - 1) * raw[:, 0] * output.parameter)
    log_p = log_probabilities(output, raw, n_classes, sharpness=sharpness, are_scores=are_scores)
    if by_number:
        return -log_p.gather(1, wanted[:, None])[:, 0]
    return -(wanted.to(raw.dtype) * log_p).sum(dim=1)
