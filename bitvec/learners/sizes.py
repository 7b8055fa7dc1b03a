"""The size of the numbers that learners are handed: their squares must be numbers too."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.errors import InputError

LARGEST = 1e100
"""Rows and values beyond this are refused: sums of their squares would soon overflow."""
LEAST_SPREAD = 1e-130
"""Values that differ by less than this are refused: their squares would vanish."""


def require_moderate(name: str, numbers: Array) -> None:
    """Refuse numbers whose squares may overflow.

    Raises
    ------
    InputError
    """
    largest = float(np.abs(numbers).max(initial=0))
    if largest > LARGEST:
        raise InputError(
            f"`{name}` must not hold numbers beyond {LARGEST:g}, got {largest:g}: rescale it."
        )


def require_moderate_columns(name: str, rows: Array) -> None:
    """Refuse rows, (n_rows, n_features), with a column whose squares overflow or vanish.

    Raises
    ------
    InputError
    """
    require_moderate(name, rows)
    spread = np.ptp(rows, axis=0) if len(rows) else np.zeros(rows.shape[1])
    small = np.flatnonzero((spread > 0) & (spread < LEAST_SPREAD))
    if small.size:
        raise InputError(
            f"`{name}` must hold columns that are constant or differ by at least "
            f"{LEAST_SPREAD:g}, got column {small[0]}, which differs by {spread[small[0]]:g}: "
            "rescale it."
        )


def require_moderate_values(name: str, values: Array) -> None:
    """Refuse values, (n_rows, n_outputs), whose squares about their mean overflow or vanish.

    Raises
    ------
    InputError
    """
    require_moderate(name, values)
    spread = float(np.ptp(values, axis=0).max(initial=0))
    if 0 < spread < LEAST_SPREAD:
        raise InputError(
            f"`{name}` must be constant or differ by at least {LEAST_SPREAD:g}, got values that "
            f"differ by {spread:g}: rescale it."
        )


def require_finite_sum(weight: Array) -> None:
    """Refuse weights whose sum is no finite number."""
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(weight.sum()))
    if not finite:
        raise InputError(
            f"`sample_weight` must have a finite sum, got values up to {weight.max():.3g}: divide "
            "them by their largest."
        )
