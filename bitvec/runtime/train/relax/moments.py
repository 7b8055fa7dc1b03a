"""Means and standard deviations of columns, however small."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Float64

LARGEST = 1e25
"""Magnitude that larger values are clipped to, so that products with them fit float32."""
CONSTANT = 1e-13
"""A column whose deviation is no more than this part of its mean holds one value, rounded."""


def deviation(values: Array, axis: int = 0) -> tuple[Float64[Array, " n"], Float64[Array, " n"]]:
    """Return mean and standard deviation of what is finite; 1 where there is no deviation.

    Where all values are equal the mean is that value, not rounded.

    Parameters
    ----------
    values : float32 or float64, two axes
    axis : int
        That of the rows.

    Examples
    --------
    >>> center, spread = deviation(np.array([[1e-200, 5.0], [3e-200, 5.0], [np.inf, np.nan]]))
    >>> center.tolist(), spread.tolist()
    ([2e-200, 5.0], [1e-200, 1.0])
    """
    finite = np.isfinite(values)
    values = np.clip(np.where(finite, values, np.nan).astype(np.float64), -LARGEST, LARGEST)
    lowest, highest = _ends(values, finite, axis)
    size = power_of_two(np.max(np.abs(values), axis=axis, initial=0.0, where=finite))
    scaled = values / np.expand_dims(size, axis)
    count = np.maximum(finite.sum(axis=axis), 1)
    center = np.nansum(scaled, axis=axis) / count
    spread = np.sqrt(np.nansum((scaled - np.expand_dims(center, axis)) ** 2, axis=axis) / count)
    varies = (highest > lowest) & (spread > CONSTANT * np.abs(center))
    center = np.where(highest == lowest, highest, center * size)
    return center, np.where(varies, spread * size, 1.0)


def column_units(
    X: Float[Array, "batch n_columns"],
) -> tuple[Float64[Array, " n_columns"], Float64[Array, " n_columns"]]:
    """Return by what columns are standardised: as `deviation`, and 0 is what never varies.

    A column of one value beyond `LARGEST` is measured in a unit in which its value is `LARGEST`.
    """
    center, spread = deviation(X)
    lowest, highest = _ends(X, np.isfinite(X), 0)
    huge = (lowest == highest) & (np.abs(lowest) > LARGEST)
    center = np.where(huge, lowest, center).astype(np.float64)
    return center, np.where(huge, np.abs(center) / LARGEST, spread)


def _ends(values: Array, finite: Array, axis: int) -> tuple[Array, Array]:
    """Return the least and the greatest of the finite values."""
    lowest = np.min(values, axis=axis, initial=np.inf, where=finite)
    return lowest, np.max(values, axis=axis, initial=-np.inf, where=finite)


def power_of_two(size: Float64[Array, " n"]) -> Float64[Array, " n"]:
    """Return the power of two at or below each size, to divide by without rounding; 1 for 0.

    It is no less than the smallest normal number.
    """
    _, exponent = np.frexp(np.where((size > 0) & np.isfinite(size), size, 1.0))
    return np.ldexp(1.0, np.maximum(exponent - 1, np.finfo(np.float64).minexp))
