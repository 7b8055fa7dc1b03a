"""Small samples of codes and numbers, and the labels that objectives ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

GROUP = 20
"""Rows of a query."""
MOST_CLASSES = 26


class Sample(NamedTuple):
    """Training rows.

    Parameters
    ----------
    X : float64 array (n_rows, n_features)
        Numbers and codes of categories; NaN is missing.
    y : array (n_rows,)
        Numbers from 0 on, or names of classes.
    categorical : tuple of int
        The columns of codes.
    """

    X: np.ndarray
    y: np.ndarray
    categorical: tuple[int, ...] = ()


@cache
def small(n_rows: int = 300) -> Sample:
    """Forty codes, five codes, a grid that thresholds fall on, and numbers; a tenth is missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)).astype(np.float32).astype(np.float64)
    X[:, 0] = rng.integers(0, 40, n_rows)
    X[:, 1] = rng.integers(0, 5, n_rows)
    X[:, 2] = rng.integers(-6, 7, n_rows) / 2
    y = np.isin(X[:, 0] % 7, (1, 3)) * 2.0 + np.abs(X[:, 1] * X[:, 3]) + (X[:, 2] > 0.5)
    X[::7, 3] = np.resize([0.0, 1e-36, 1e-34, -1e-36], len(X[::7]))
    X[rng.random(X.shape) < 0.1] = np.nan
    return Sample(X, y + rng.random(n_rows), (0, 1))


def around(X: np.ndarray) -> np.ndarray:
    """Rows, the same one ulp to each side, signed zeros, huge and tiny values, all missing."""
    special = np.array([0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, np.nan], X.dtype)
    sides = [np.nextafter(X, X.dtype.type(side)) for side in (np.inf, -np.inf)]
    resized = np.resize(special, (special.size * 5, X.shape[1]))
    return np.concatenate([X, *sides, resized, np.full_like(X[:1], np.nan)])


CODES = (
    *(0, 0.5, -0.0, -1e-40, -0.5, -1, -1.5, 1, 2.7, 4, 5, 31, 32, 38, 39, 39.9, 40, 41, 63.9, 64),
    *(96, 128, 1e6, 2**24 - 1, 2**24, 2**24 + 2, 2.0**31, 2.0**32, 3e38, np.nan),
)
"""Whole, fractional, negative, unseen and huge ones; -0.5 is no code, 0.5 may be code 0."""


def of_codes(data: Sample, n_rows: int = 10) -> np.ndarray:
    """Rows with every one of `CODES` in the columns of categories."""
    X = np.repeat(data.X[:n_rows], 2 * len(CODES), axis=0)
    first, *others = data.categorical
    X[:, first] = np.resize(CODES, len(X))
    for column in others:
        X[::2, column] = np.random.default_rng(1).choice(CODES, len(X[::2]))
    return X


def _classes(y: np.ndarray) -> np.ndarray:
    """Return classes as 0, 1, 2, ...; of numbers three, of as many rows each."""
    names, numbers = np.unique(y, return_inverse=True)
    if len(names) > MOST_CLASSES:
        return np.digitize(y, np.quantile(y, (1 / 3, 2 / 3)))
    return numbers


def _two(y: np.ndarray) -> np.ndarray:
    numbers = _classes(y)
    return (numbers > numbers.max() / 2).astype(int)


LABELS: dict[str, Callable[[Any], np.ndarray]] = {
    "number": lambda y: y,
    "positive": lambda y: y + 0.5,
    "count": np.round,
    "share": lambda y: y / y.max(),
    "two": _two,
    "class": _classes,
    "classes": lambda y: np.stack([_classes(y), _two(y)[::-1]], axis=1),
    "one class": lambda y: np.zeros(len(y), int),
    "grade": lambda y: np.minimum(_classes(y), 4),
    "censored": lambda y: np.where(y > np.median(y), -1 - y, 1 + y),
    "targets": lambda y: np.stack([y, y[::-1], -y], axis=1),
    "interval": lambda y: np.stack([y + 0.5, y + 0.6], axis=1),
    "shares": lambda y: np.stack([y, y[::-1]], axis=1) / y.max(),
    "two labels": lambda y: np.stack([_two(y), 1 - _two(y)[::-1]], axis=1),
}
"""From the target of any sample."""


def groups(y: np.ndarray) -> np.ndarray:
    """Return the query of each row."""
    return np.arange(len(y)) // GROUP
