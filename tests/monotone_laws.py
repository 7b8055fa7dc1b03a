"""Laws of forests that are monotone along a column."""

from __future__ import annotations

import numpy as np

import bitvec


def rises(forest, X, column):
    """Return the differences of raw scores along a column, (n_rows, n_values - 1, n_outputs).

    Its values are all thresholds, their neighbours, and numbers beyond them.
    """
    tests = forest.tests
    b = np.unique(tests.b[tests.feature == column])
    ends = np.array([-1e30, 0.0, 1e30], b.dtype)
    values = np.unique(np.concatenate([b, np.nextafter(b, -np.inf), np.nextafter(b, np.inf), ends]))
    rows = np.repeat(np.asarray(X, b.dtype), len(values), axis=0)
    rows[:, column] = np.tile(values, len(X))
    raw = bitvec.compile(forest).raw(rows)
    return np.diff(raw.reshape(len(X), len(values), -1), axis=1)
