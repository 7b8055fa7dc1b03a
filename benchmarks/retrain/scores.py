"""Scores of hard forests, and what a row tells of one that was retrained."""

from __future__ import annotations

from typing import Final

import numpy as np

import bitvec
from benchmarks.datasets import Array
from benchmarks.report import Row
from bitvec.core.forest import Forest

SMALLEST: Final = 1e-15
"""Probability that a label has at least in a log loss."""


def score(y: Array, predicted: Array, *, is_classifier: bool) -> float:
    """Return accuracy, or the root of the mean squared error."""
    if is_classifier:
        return float(np.mean(predicted == y))
    return float(np.sqrt(np.mean(np.square(predicted.astype(np.float64) - y))))


def score_of(forest: Forest, rows: tuple[Array, Array]) -> float:
    """Return what a hard forest scores on rows."""
    X, y = rows
    predicted = bitvec.compile(forest, n_jobs=1).predict(X)
    return score(y, predicted, is_classifier=forest.output.is_classifier)


def losses(start: Forest, after: Forest, rows: tuple[Array, Array]) -> Row:
    """Return the mean log losses of classifiers on rows, nothing of regressors."""
    if not start.output.is_classifier:
        return {}
    before, now = (_log_loss(forest, rows) for forest in (start, after))
    return {"start_loss": before, "loss": now, "loss_gain": before - now}


def _log_loss(forest: Forest, rows: tuple[Array, Array]) -> float:
    X, y = rows
    assert forest.output.classes is not None
    label = np.searchsorted(forest.output.classes[0], y)
    p = bitvec.compile(forest, n_jobs=1).predict_proba(X)[np.arange(len(y)), label]
    return float(-np.log(np.clip(p.astype(np.float64), SMALLEST, 1.0)).mean())


def told(moved: str, forest: Forest, start: float, after: float, seconds: float) -> Row:
    """Return the scores before and after, and the size of a forest.

    A gain is accuracy won, or error lost; parameters are weights of S that are not 0, thresholds
    and leaves.
    """
    is_classifier, leaves = forest.output.is_classifier, forest.leaves
    return {
        "moved": moved,
        "measure": "accuracy" if is_classifier else "RMSE",
        "start": start,
        "score": after,
        "gain": after - start if is_classifier else start - after,
        "leaves": forest.n_leaves,
        "parameters": int(np.count_nonzero(forest.tests.weight)) + forest.n_nodes + leaves.v.size,
        "seconds": seconds,
    }
