"""First and second derivatives of a loss by each raw score."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bitvec.core.arrays import Array
from bitvec.core.output import PostTransform
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.train.retrain.objective import Objective

LEAST = 1e-16
"""Least second derivative: a loss need not be convex."""


def derivatives(
    goal: Objective, raw: Float64[Array, "n_rows n_outputs"], target: Array
) -> Float64[Array, "n_rows 2_n_outputs"]:
    """Return the first derivatives of the loss of each row, and behind them the second ones.

    Of sigmoids, softmaxes and squares they are computed as they are known, else by autograd; the
    second ones are those by one score each, at least `LEAST`. Of a loss that is no likelihood of
    classes they are in a unit in which the second ones are 1 on average, since what is added to
    them has none.
    """
    output = goal.output
    kind, n = output.post_transform, raw.shape[1]
    if goal.is_quadratic:
        first, second = raw - target, np.ones_like(raw)
    elif goal.is_likelihood and len(output.groups) == 1 and kind is PostTransform.SOFTMAX:
        out = np.empty((len(raw), 2 * n))
        _softmax(raw, target[:, 0], 1 / output.parameter, LEAST, out)
        return out
    elif goal.is_likelihood and n == 1 and kind is PostTransform.SIGMOID:
        out = np.empty((len(raw), 2))
        _sigmoid(raw, target[:, 0], output.parameter, LEAST, out)
        return out
    else:
        first, second = _by_autograd(goal, raw, target)
        second = np.maximum(second, LEAST)
        if not goal.is_likelihood:
            unit = second.mean()
            first, second = first / unit, second / unit
    return np.concatenate([first, np.maximum(second, LEAST)], axis=1)


@kernel
def _sigmoid(raw: Any, label: Any, factor: float, least: float, out: Any) -> None:
    """Fill the derivatives of the log loss of sigmoid(factor · raw), (n_rows, 2)."""
    for row in range(len(raw)):
        p = 1 / (1 + np.exp(-factor * raw[row, 0]))
        out[row, 0] = factor * (p - label[row])
        out[row, 1] = max(factor * factor * p * (1 - p), least)


@kernel
def _softmax(raw: Any, label: Any, factor: float, least: float, out: Any) -> None:
    """Fill the derivatives of the log loss of softmax(factor · raw), (n_rows, 2 n_classes)."""
    n = raw.shape[1]
    for row in range(len(raw)):
        top, total = raw[row].max(), 0.0
        for k in range(n):
            out[row, k] = np.exp(factor * (raw[row, k] - top))
            total += out[row, k]
        for k in range(n):
            p = out[row, k] / total
            out[row, k] = factor * (p - (k == label[row]))
            out[row, n + k] = max(factor * factor * p * (1 - p), least)


def _by_autograd(goal: Objective, raw: Array, target: Array) -> tuple[Array, Array]:
    scores = torch.tensor(raw, requires_grad=True)
    loss = goal.losses(scores, torch.tensor(target)).sum()
    (first,) = torch.autograd.grad(loss, scores, create_graph=True)
    second = torch.zeros_like(scores)
    if first.requires_grad:
        for k in range(raw.shape[1]):
            part = torch.autograd.grad(first[:, k].sum(), scores, retain_graph=True)[0]
            second[:, k] = part[:, k]
    return first.detach().numpy(), second.numpy()
