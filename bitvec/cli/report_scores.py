"""Scores of a report: accuracy, calibration and slices of labelled rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.plain_text import number, plain
from bitvec.core.tree_text import column_name
from bitvec.runtime.predict.predictor import Predictor

Rows = list[tuple[str, ...]]
Table = tuple[tuple[str, ...], Rows]
"""The heads of columns, and rows of texts."""
BINS, MOST_SLICES, MOST_SLICED = 10, 12, 8


class Scores(NamedTuple):
    """Scores of all rows, by name; calibration of probabilities; the slices of lowest score."""

    overall: list[tuple[str, str]]
    calibration: Table | None
    slices: Table | None


def score(predictor: Predictor, X: Array, y: Array) -> Scores | None:
    """Score labelled rows; None for a forest of several targets or of plain scores."""
    forest = predictor.forest
    classes = forest.output.classes
    if (classes is not None and len(classes) != 1) or (classes is None and forest.n_outputs != 1):
        return None
    if classes is None:
        error = np.asarray(predictor.predict(X), np.float64) - y
        spread = float(np.mean((y - y.mean()) ** 2))
        overall = [
            ("root mean squared error", number(np.sqrt(np.mean(error**2)))),
            ("mean absolute error", number(np.abs(error).mean())),
            ("R²", number(1 - np.mean(error**2) / spread) if spread else "no spread in the target"),
        ]
        slices = _slices(forest, X, -(error**2), lambda part: number(np.sqrt(-part.mean())))
        return Scores(overall, None, _sliced(slices, "root mean squared error"))
    right = np.asarray(predictor.predict(X)) == y
    overall = [("accuracy", _percent(right.mean()))]
    calibration = None
    probabilities = np.asarray(predictor.predict_proba(X), np.float64)
    place = np.searchsorted(classes[0], y)
    known = classes[0][np.minimum(place, classes[0].size - 1)] == y
    sums_to_one = bool(np.allclose(probabilities.sum(axis=1), 1, atol=1e-3))
    if sums_to_one and known.all():
        given = probabilities[np.arange(len(y)), place]
        overall.append(("log loss", number(-np.log(np.clip(given, 1e-15, None)).mean())))
        top = probabilities.max(axis=1)
        calibration = (("predicted", "rows", "mean predicted", "right"), _calibration(top, right))
    if not known.all():
        overall.append(("labels that the forest does not know", f"{np.sum(~known):,} rows"))
    slices = _slices(forest, X, right.astype(np.float64), lambda part: _percent(part.mean()))
    return Scores(overall, calibration, _sliced(slices, "accuracy"))


def _sliced(slices: Rows, name: str) -> Table | None:
    return (("rows", "share", name), slices) if slices else None


def _percent(share: Any) -> str:
    return f"{100 * float(share):.1f} %"


def _calibration(top: Array, right: Array) -> Rows:
    """Bin rows by the probability of the predicted class."""
    cell = np.minimum((top * BINS).astype(int), BINS - 1)
    return [
        (
            f"{at / BINS:.1f} to {(at + 1) / BINS:.1f}",
            f"{here.sum():,}",
            f"{top[here].mean():.3f}",
            f"{right[here].mean():.3f}",
        )
        for at in range(BINS)
        if (here := cell == at).any()
    ]


def _slices(forest: Forest, X: Array, value: Array, shown: Any) -> Rows:
    """Return the slices of the most used columns whose mean value is lowest."""
    uses = np.bincount(forest.tests.column, minlength=forest.n_columns)
    if forest.feature_map is not None:
        return []
    columns = np.argsort(-uses, kind="stable")[:MOST_SLICED]
    least = max(20, len(X) // 100)
    found = [
        (value[here].mean(), name, here)
        for column in columns[uses[columns] > 0].tolist()
        for name, here in _parts(forest, X[:, column], column)
        if here.sum() >= least
    ]
    found.sort(key=lambda part: part[0])
    return [
        (name, _percent(here.mean()), shown(value[here])) for _, name, here in found[:MOST_SLICES]
    ]


def _parts(forest: Forest, x: Array, column: int) -> Iterator[tuple[str, Array]]:
    """Yield quarters of a column of numbers, the categories of another, and missing values."""
    name, book = column_name(forest, column), forest.inputs.book(column)
    if np.isnan(x).any():
        yield f"{name} is missing", np.isnan(x)
    if book is not None:
        for code, label in enumerate(book):
            yield f"{name} = {plain(str(label))[:40]}", x == code
        return
    finite = x[np.isfinite(x)]
    if not finite.size:
        return
    edges = np.unique(np.percentile(finite, [0, 25, 50, 75, 100]))
    for low, high in pairwise(edges):
        last = high == edges[-1]
        end = "≤" if last else "<"
        here = (x >= low) & ((x <= high) if last else (x < high))
        yield f"{number(low)} ≤ {name} {end} {number(high)}", here
