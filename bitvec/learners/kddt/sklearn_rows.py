"""Rows of a fit: their weights, probabilities of classes, and bandwidths of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float
from bitvec.errors import InputError, needs
from bitvec.learners.kddt.scan import LABELS
from bitvec.learners.kddt.tree import Targets

with needs("scikit-learn", "sklearn", "KDDTClassifier"):
    from sklearn.utils import check_array

SHARES = 1e-6
"""Tolerance of the sum of a row's class probabilities, which must be 1."""


def weighing(
    X: Array, targets: Targets, weight: Array, widths: Array | None
) -> tuple[Array, Targets, Array, Array | None]:
    """Return the rows that have a weight: the others are as if they were not there."""
    if np.all(weight > 0):
        return X, targets, weight, widths
    kept = np.flatnonzero(weight)
    rows = np.ascontiguousarray(X[kept])
    return rows, targets.take(kept), weight[kept], None if widths is None else widths[kept]


def rows_of(targets: Targets) -> Float[Array, "n_rows n_outputs"]:
    """Return shares of classes, or values."""
    if targets.criterion == LABELS:
        return np.eye(targets.n_outputs)[targets.codes]
    return targets.Y + targets.centre


def probabilities(y: Any) -> Float[Array, "n_rows n_classes"]:
    """Return probabilities of classes, checked; each row sums to 1 within `SHARES`."""
    share = check_array(y, dtype=np.float64, input_name="y")
    if np.any(share < 0) or np.any(np.abs(share.sum(axis=1) - 1) > SHARES):
        row = int(np.argmax(np.any(share < 0, axis=1) | (np.abs(share.sum(axis=1) - 1) > SHARES)))
        raise InputError(
            "each row of `y` must hold the probabilities of the classes, which sum to 1, got "
            f"{share[row].tolist()} in row {row}: pass labels in one column, or divide by the sum."
        )
    return share


def uncertainties(uncertainty: Any, X: Array) -> Float[Array, "n_rows n_features"] | None:
    """Return the bandwidth of each training value, checked."""
    if uncertainty is None:
        return None
    found = options.numbers(uncertainty)
    fits = found is not None and found.shape == X.shape
    if found is None or not fits or not np.all(np.isfinite(found)) or np.any(found < 0):
        got = "text or other objects" if found is None else f"shape {found.shape}"
        raise InputError(
            f"`uncertainty` must hold one finite number that is not negative for each of {X.shape} "
            f"values, got {got}: pass the bandwidth of each training value."
        )
    return found
