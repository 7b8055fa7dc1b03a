"""The data sets, each split into rows to train on, rows to choose by, and rows to test on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.datasets import Array, read

HELD_OUT: Final = 0.15
"""Share of the training rows held out: what is chosen, is chosen by these."""
TESTED: Final = 0.2
"""Share of test rows in a set that comes without a test set of its own."""


@dataclass(frozen=True, slots=True)
class Split:
    """One data set for one seed.

    Parameters
    ----------
    fit, held_out, test : (X, y)
        X is float64 and may hold NaN; y holds class numbers, or a regressor's numbers.
    categorical : tuple of int
        Columns that hold category codes, NaN where missing.
    """

    name: str
    fit: tuple[Array, Array]
    held_out: tuple[Array, Array]
    test: tuple[Array, Array]
    categorical: tuple[int, ...] = ()

    @property
    def is_classifier(self) -> bool:
        """Tell whether y holds class numbers."""
        return self.fit[1].dtype.kind == "i"

    def ordinal(self) -> Split:
        """Return the rows with -1 for what is missing, for models that read neither."""
        parts = (self.fit, self.held_out, self.test)
        fit, held_out, test = ((np.where(np.isnan(X), -1.0, X), y) for X, y in parts)
        return Split(self.name, fit, held_out, test)

    def head(self, **n_rows: int) -> Split:
        """Return the first rows of each part, by its name.

        Rows of labels that `fit` then lacks are left out, and the others numbered anew.
        """
        parts = [
            tuple(array[: n_rows[part]] for array in getattr(self, part))
            for part in ("fit", "held_out", "test")
        ]
        if self.is_classifier:
            known = np.unique(parts[0][1])
            seen = ((X[np.isin(y, known)], y[np.isin(y, known)]) for X, y in parts)
            parts = [(X, np.searchsorted(known, y).astype(np.int64)) for X, y in seen]
        fit, held_out, test = parts
        return Split(self.name, fit, held_out, test, self.categorical)

    def named(self) -> Split:
        """Return the rows with class numbers as words, as some libraries keep them."""
        parts = (self.fit, self.held_out, self.test)
        fit, held_out, test = ((X, y.astype(str)) for X, y in parts)
        return Split(self.name, fit, held_out, test, self.categorical)


def split(data: Path, name: str, seed: int) -> Split:
    """Read a data set and split it: its own test set, or a fifth of the rows, drawn by seed.

    Raises
    ------
    FileNotFoundError
        If the folder does not hold it.
    """
    table = read(data, name)
    drawn = np.random.default_rng(seed)
    order = np.arange(len(table.y))
    n_train = table.n_train
    if n_train is None:
        order = drawn.permutation(order)
        n_train = len(order) - round(TESTED * len(order))
    train, test = drawn.permutation(order[:n_train]), order[n_train:]
    n_held_out = round(HELD_OUT * n_train)
    places = (train[n_held_out:], train[:n_held_out], test)
    fit, held_out, tested = ((table.X[rows], table.y[rows]) for rows in places)
    return Split(name, fit, held_out, tested, table.categorical)
