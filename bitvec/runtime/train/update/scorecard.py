"""Scores of a forest on labelled rows, each a number of all rows together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.core import transforms
from bitvec.core.arrays import Array
from bitvec.core.output import Output
from bitvec.errors import InputError
from bitvec.runtime.train.retrain import metrics

Measure = Callable[[Array, Array], float]
"""From y and what `predict` answers to a number of all rows."""


class Rows(NamedTuple):
    """One output's targets and answers: class numbers and probabilities, or values.

    `answer` is (batch, n_classes) of a classifier, whose `label` is (batch,); `weight` is (batch,).
    """

    target: Array
    answer: Array
    label: Array
    weight: Array


def _mean(value: Array, weight: Array) -> float:
    return float((weight * value).sum() / weight.sum())


def _accuracy(rows: Rows) -> float:
    return _mean(rows.label == rows.target, rows.weight)


def _balanced_accuracy(rows: Rows) -> float:
    """Return the mean recall of the classes that the targets hold."""
    total = np.bincount(rows.target, rows.weight)
    right = np.bincount(rows.target, rows.weight * (rows.label == rows.target))
    return float(np.mean(right[total > 0] / total[total > 0]))


def _f1(rows: Rows) -> float:
    """Return F1 of the second of two classes, of more than two the mean over the classes."""
    n = rows.answer.shape[1]
    hit = np.bincount(rows.target, rows.weight * (rows.label == rows.target), n)
    both = np.bincount(rows.target, rows.weight, n) + np.bincount(rows.label, rows.weight, n)
    f1 = np.divide(2 * hit, both, out=np.zeros(n), where=both > 0)
    return float(f1[1] if n == 2 else f1[both > 0].mean())


def _auc(rows: Rows) -> float:
    """Return the area under the ROC curve, of more than two classes the mean of one against all.

    NaN where no class has rows both inside and outside.
    """
    n = rows.answer.shape[1]
    found = [
        area(rows.answer[:, k], rows.target == k, rows.weight)
        for k in ([1] if n == 2 else range(n))
    ]
    known = [one for one in found if not np.isnan(one)]
    return float(np.mean(known)) if known else np.nan


def area(score: Array, positive: Array, weight: Array) -> float:
    """Return the weighted chance that a positive row scores above a negative one, ties as half."""
    place = np.unique(score, return_inverse=True)[1]
    above = np.bincount(place, weight * positive)
    below = np.bincount(place, weight * ~positive)
    pairs = above.sum() * below.sum()
    if not pairs > 0:
        return np.nan
    return float((above * (np.cumsum(below) - below / 2)).sum() / pairs)


def _rmse(rows: Rows) -> float:
    return float(np.sqrt(_mean(np.square(rows.answer - rows.target), rows.weight)))


def _mae(rows: Rows) -> float:
    return _mean(np.abs(rows.answer - rows.target), rows.weight)


class Score(NamedTuple):
    """A score: how it is computed, and 1 if more of it is better, else -1."""

    of: Callable[[Rows], float]
    sign: int


OF_CLASSES: Final = {
    "accuracy": Score(_accuracy, 1),
    "balanced_accuracy": Score(_balanced_accuracy, 1),
    "f1": Score(_f1, 1),
    "auc": Score(_auc, 1),
}
OF_VALUES: Final = {"rmse": Score(_rmse, -1), "mae": Score(_mae, -1)}

SIGNS: Final = {name: score.sign for name, score in {**OF_CLASSES, **OF_VALUES}.items()} | {
    "log_loss": -1
}
"""By name, 1 where more is better, else -1."""


def names(output: Output) -> tuple[str, ...]:
    """Return the names of the scores of an output."""
    return ("log_loss", *OF_CLASSES) if output.is_classifier else tuple(OF_VALUES)


def scorecard(
    output: Output,
    raw: Array,
    target: Array,
    weight: Array,
    own: Mapping[str, Measure] | None = None,
) -> dict[str, float]:
    """Return all scores by name; of several outputs the mean. What is not defined is left out.

    Parameters
    ----------
    raw : (batch, n_outputs)
    target : (batch, width)
        As `training_targets.targets` gives it.
    weight : (batch,)
        Not of the caller's own measures, which see the rows alone.
    own : mapping from names to functions, optional
        Of y and of what `predict` answers.
    """
    found: dict[str, float] = {}
    parts = _parts(output, raw, target, weight)
    known = OF_CLASSES if output.is_classifier else OF_VALUES
    if output.is_classifier:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found["log_loss"] = -_mean(metrics.log_likelihood(output, raw, target), weight)
    found |= {
        name: float(np.mean([score.of(part) for part in parts])) for name, score in known.items()
    }
    for name, measure in (own or {}).items():
        found[name] = own_score(measure, output, raw, target)
    return {name: value for name, value in found.items() if np.isfinite(value)}


def _parts(output: Output, raw: Array, target: Array, weight: Array) -> list[Rows]:
    if output.classes is None:
        value = transforms.transform(output, raw).astype(np.float64)
        return [
            Rows(target[:, k], value[:, k], value[:, k], weight) for k in range(target.shape[1])
        ]
    chosen = transforms.predictions(output, raw).reshape(len(raw), -1)
    by_group = transforms.probabilities(output, raw)
    parts = []
    for group, (labels, answer) in enumerate(zip(output.classes, by_group, strict=True)):
        order = np.argsort(labels, kind="stable")
        label = order[np.searchsorted(labels, chosen[:, group], sorter=order)]
        parts.append(Rows(target[:, group], answer.astype(np.float64), label, weight))
    return parts


def own_score(measure: Measure, output: Output, raw: Array, target: Array) -> float:
    """Return what a caller's function says of y and the forest's answers.

    Raises
    ------
    InputError
        If it is no number.
    """
    truth = target
    if output.classes is not None:
        columns = [labels[target[:, group]] for group, labels in enumerate(output.classes)]
        truth = np.stack(columns, axis=1)
    truth = truth[:, 0] if truth.shape[1] == 1 else truth
    value: Any = measure(truth, transforms.predictions(output, raw))
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(
            f"a metric of your own must return one number for all rows, got {type(value).__name__}:"
            " average what it returns."
        )
    return float(value)
