"""Calls of an engine: what it is given, and what it gives back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Job:
    """One workload, as an engine's process sees it.

    Parameters
    ----------
    folder : Path
        Holds the model and `X.npy`; engines keep what they compile for later runs in it too.
    """

    folder: Path
    library: str
    model: Path
    asks: str
    n_features: int

    @property
    def regression(self) -> bool:
        """Tell whether the model answers with numbers."""
        return self.asks == "values"

    def rows(self) -> np.ndarray:
        """Return the rows that are predicted."""
        return np.load(self.folder / "X.npy")


def read_job(folder: Path, asks: str) -> Job:
    """Return the job that `benchmarks.engine.workloads` wrote."""
    kept = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    return Job(folder, kept["library"], folder / kept["model"], asks, kept["n_features"])


@dataclass(frozen=True, slots=True)
class Calls:
    """Functions to call with rows.

    Parameters
    ----------
    predict : callable
        What is timed: values, labels or probabilities, as the job asks.
    scores : callable
        Values, or for classifiers probabilities, to compare with other engines; not timed.
    raw : callable, optional
        Raw scores, whose bits are compared; timed too where they are not the probabilities.
    rows : callable
        Makes rows into the type that the engine reads best; not timed.
    counts : callable, optional
        Returns what a row takes of the model: see `benchmarks.engine.floors.counts`.
    info : dict
        What the engine says of itself.
    most_rows : int, optional
        Beyond which it needs more memory than is reasonable.
    """

    predict: Callable[[Any], Any]
    scores: Callable[[Any], Any]
    raw: Callable[[Any], Any] | None = None
    rows: Callable[[np.ndarray], Any] = np.ascontiguousarray
    counts: Callable[[np.ndarray], dict[str, Any]] | None = None
    info: dict[str, Any] | None = None
    most_rows: int | None = None


def chosen(asks: str, **callables: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the callable named by what is asked."""
    return callables[asks]


def single_precision(X: np.ndarray) -> np.ndarray:
    """Return rows as engines that know only float32 take them."""
    return np.ascontiguousarray(X, np.float32)
