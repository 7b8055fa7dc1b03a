"""Scores of hard forests on validation rows; more is better."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitvec.core import transforms
from bitvec.core.arrays import Array
from bitvec.core.links import SIGMOIDS, SOFTMAXES
from bitvec.core.output import Output
from bitvec.errors import InputError
from bitvec.runtime.train.retrain.value_losses import Shape

SMALLEST = 1e-15
"""Probability that smaller ones are raised to in a log-loss."""


def accuracy(output: Output, raw: Array, target: Array) -> Array:
    """Return 1 for a right label and 0 for a wrong one, averaged over groups, (batch,) float64.

    With class probabilities as the target, the probability of the predicted label.
    """
    assert output.classes is not None
    predicted = transforms.predictions(output, raw).reshape(len(raw), -1)
    right, start = [], 0
    for group, labels in enumerate(output.classes):
        if target.dtype.kind == "f":
            part = target[:, start : start + len(labels)]
            is_label = predicted[:, group][:, None] == labels
            right.append((part * is_label).sum(axis=1))
            start += len(labels)
        else:
            right.append(predicted[:, group] == labels[target[:, group]])
    result: Array = np.stack(right, axis=1).mean(axis=1, dtype=np.float64)
    return result


ROUNDING = 1e-5
"""By how much the logarithm of a probability may exceed 0."""


def log_likelihood(output: Output, raw: Array, target: Array) -> Array:
    """Return the log-probability of the label, averaged over groups, (batch,) float64.

    Of `predict_proba`, in float64 from the raw scores on; probabilities that come without a link
    are taken as they are. Of one sigmoid for each of several classes it is the log-probability of
    all their answers, yes for the label and no for the others: they need not sum to 1, and the
    label's alone would be best where every class is certain.
    """
    assert output.classes is not None
    wide = raw.astype(np.float64)
    scores, start, column = [], 0, 0
    for group, (labels, size) in enumerate(zip(output.classes, output.groups, strict=True)):
        own = wide[:, start : start + size]
        wanted = target[:, group]
        if target.dtype.kind == "f":
            wanted = target[:, column : column + len(labels)]
        if are_independent(output, size):
            logit = own * output.parameter
            scores.append(of_each_class(_log_sigmoid(logit), _log_sigmoid(-logit), wanted))
        else:
            scores.append(_of_wanted(_log_probabilities(output, own, len(labels)), wanted))
        start, column = start + size, column + len(labels)
    result: Array = np.stack(scores, axis=1).mean(axis=1)
    # A sum of leaves without a link may exceed 1 by more than rounding: then it is no probability.
    return np.where(result > ROUNDING, -np.inf, result)


def are_independent(output: Output, size: int) -> bool:
    """Return whether a group of so many outputs holds one sigmoid for each of several classes."""
    return output.post_transform in SIGMOIDS and size > 1


def of_each_class(yes: Array, no: Array, wanted: Array) -> Array:
    """Return the log-probability of all classes' answers, (batch,), from those of yes and of no.

    Parameters
    ----------
    yes, no : float64, (batch, n_classes)
    wanted : int64, (batch,), or float, (batch, n_classes)
        Class numbers, or the probabilities of the classes.
    """
    if wanted.ndim == 2:
        return (wanted * yes + (1 - wanted) * no).sum(axis=1)
    is_wanted = wanted[:, None] == np.arange(yes.shape[1])
    result: Array = np.where(is_wanted, yes, no).sum(axis=1)
    return result


def _of_wanted(log_p: Array, wanted: Array) -> Array:
    if wanted.ndim == 2:
        return (wanted * log_p).sum(axis=1)
    return np.take_along_axis(log_p, wanted[:, None], axis=1)[:, 0]


def _log_sigmoid(logit: Array) -> Array:
    return -np.logaddexp(0.0, -logit)


def _log_probabilities(output: Output, raw: Array, n_classes: int) -> Array:
    kind = output.post_transform
    if kind in SOFTMAXES and raw.shape[1] > 1:
        below = raw / output.parameter
        below = below - below.max(axis=1, keepdims=True)
        return below - np.log(np.exp(below).sum(axis=1, keepdims=True))
    if kind in SIGMOIDS:
        logit = raw * output.parameter
        log_p = _log_sigmoid(logit)
        return np.concatenate([log_p - logit, log_p], axis=1)
    one = _one_group(output, raw.shape[1])
    p = transforms.transform(one, raw)
    if raw.shape[1] == 1 and n_classes == 2:
        p = np.concatenate([1 - p, p], axis=1)
    return np.log(np.clip(p, SMALLEST, None))


def _one_group(output: Output, size: int) -> Output:
    return Output(
        size,
        np.dtype(np.float64),
        post_transform=output.post_transform,
        parameter=output.parameter,
    )


def _squared(value: Array, target: Array, shape: Shape) -> Array:
    return np.square(value - target)


def _absolute(value: Array, target: Array, shape: Shape) -> Array:
    return np.abs(value - target)


def _huber(value: Array, target: Array, shape: Shape) -> Array:
    size = np.abs(value - target)
    return np.where(size <= shape.delta, size**2 / 2, shape.delta * (size - shape.delta / 2))


def _quantile(value: Array, target: Array, shape: Shape) -> Array:
    error = target - value
    level = np.array(shape.quantile)
    return np.maximum(level * error, (level - 1) * error)


def _poisson(mean: Array, target: Array, shape: Shape) -> Array:
    part = np.where(target > 0, target * np.log(np.where(target > 0, target, 1) / mean), 0.0)
    return np.where(mean < 0, np.inf, 2 * (part - target + mean))


def _gamma(mean: Array, target: Array, shape: Shape) -> Array:
    return np.where(mean <= 0, np.inf, 2 * (np.log(mean / target) + target / mean - 1))


def _tweedie(mean: Array, target: Array, shape: Shape) -> Array:
    one, two = 1 - shape.power, 2 - shape.power
    deviance = 2 * (target**two / (one * two) - target * mean**one / one + mean**two / two)
    return np.where(mean <= 0, np.inf, deviance)


LOSSES: dict[str, Callable[[Array, Array, Shape], Array]] = {
    "squared": _squared,
    "absolute": _absolute,
    "huber": _huber,
    "quantile": _quantile,
    "poisson": _poisson,
    "gamma": _gamma,
    "tweedie": _tweedie,
}
"""Loss of each row and output, from predictions and targets, in the targets' own units."""

NAMES = {
    "accuracy": "accuracy",
    "log_loss": "negative log loss",
    "squared": "negative mean squared error",
    "absolute": "negative mean absolute error",
    "huber": "negative mean Huber loss",
    "quantile": "negative mean quantile loss",
    "poisson": "negative mean Poisson deviance",
    "gamma": "negative mean gamma deviance",
    "tweedie": "negative mean Tweedie deviance",
}
"""Names of the scores, by measure."""


def of_values(name: str, output: Output, raw: Array, target: Array, shape: Shape) -> Array:
    """Return minus a regressor's mean loss over outputs, (batch,) float64; NaN is -infinity."""
    value = transforms.transform(output, raw).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        score = -LOSSES[name](value, target, shape).mean(axis=1)
    return np.where(np.isnan(score), -np.inf, score)


def of_function(
    function: Callable[[Array, Array], Array], output: Output, raw: Array, target: Array
) -> Array:
    """Return what a caller's metric says of y and of what the forest predicts, (batch,) float64.

    Raises
    ------
    InputError
        If it does not return one number for each row.
    """
    truth = target
    if output.classes is not None and target.dtype.kind != "f":
        columns = [labels[target[:, group]] for group, labels in enumerate(output.classes)]
        truth = np.stack(columns, axis=1)
    if truth.shape[1] == 1:
        truth = truth[:, 0]
    scores = np.asarray(function(truth, transforms.predictions(output, raw)))
    if scores.shape != (len(raw),) or scores.dtype.kind not in "biuf":
        raise InputError(
            f"`metric` must return one number for each of the {len(raw)} rows, got dtype "
            f"{scores.dtype} and shape {scores.shape}: do not average."
        )
    wide = scores.astype(np.float64)
    return np.where(np.isnan(wide), -np.inf, wide)
