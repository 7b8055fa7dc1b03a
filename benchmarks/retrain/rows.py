"""A measured row, and what rows of several seeds amount to."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

import bitvec
from benchmarks.old_report import Row
from benchmarks.retrain.data import Array
from bitvec.core.forest import Forest

AVERAGED: Final = (
    "start",
    "score",
    "gain",
    "theirs_start",
    "theirs",
    "theirs_soft",
    "theirs_transferred",
    "ahead",
    "start_leaves",
    "leaves_unpruned",
    "leaves",
    "parameters",
    "seconds",
    "theirs_seconds",
)


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


def gain(start: float, after: float, *, is_classifier: bool) -> float:
    """Return by how much a score is better: accuracy won, or error lost."""
    return after - start if is_classifier else start - after


def parameters(forest: Forest) -> int:
    """Return how many numbers a forest holds: weights of S that are not 0, thresholds, leaves."""
    leaves = forest.leaves
    return int(np.count_nonzero(forest.tests.weight)) + forest.n_nodes + leaves.v.size


def without(part: str, case: str, reason: str, seed: int | None = None) -> Row:
    """Return the row of what could not be measured."""
    return {"part": part, "case": case, "moved": "", "seed": seed, "reason": reason}


def with_means(rows: Sequence[Row]) -> list[Row]:
    """Add to the rows, for each case and what moved, one of means and deviations over the seeds."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if "reason" not in row:
            groups.setdefault((row["part"], row["case"], row["moved"]), []).append(row)
    return [_mean(group) for group in groups.values()] + list(rows)


def _mean(rows: list[Row]) -> Row:
    told = {key: rows[0][key] for key in ("part", "case", "data", "source", "moved", "measure")}
    told |= {"seed": None, "seeds": len(rows), "published": rows[0].get("published")}
    for key in AVERAGED:
        values = [row[key] for row in rows if row.get(key) is not None]
        if values:
            told[key] = rounded(statistics.fmean(values))
            told[f"{key}_deviation"] = rounded(statistics.stdev(values) if values[1:] else 0.0)
    for key in ("held_out_gain", "gain"):
        values = [row[key] for row in rows if row.get(key) is not None]
        if values:
            told[f"least_{key}"] = min(values)
    for key in ("file_differences", "improved"):
        if any(row.get(key) is not None for row in rows):
            told[key] = sum(row.get(key) or 0 for row in rows)
    return told


def rounded(value: float) -> float:
    """Return a number without the digits that mean nothing."""
    return float(f"{value:.6g}")


def means(rows: Iterable[Row], part: str) -> list[Row]:
    """Return the rows of means of one part."""
    return [row for row in rows if row["part"] == part and row.get("seeds")]


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return the rows without those of single seeds, whose means are among them."""
    return [row for row in rows if row["seed"] is None or "reason" in row]
