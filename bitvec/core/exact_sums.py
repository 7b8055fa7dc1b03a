"""Grids of a power of two on which sums are exact, and so the same in any order and any library."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array, require
from bitvec.core.shape_annotations import Float


def is_exact(block: Float[Array, "n_rows n_columns"], c: Float[Array, " n_rows"]) -> bool:
    """Return whether no sum of numbers of a row of `block` and of its `c` is ever rounded.

    It holds if all numbers are multiples of a power of two by which the sum of |block| and |c| over
    each row fits the dtype's mantissa. Numbers must be finite.

    >>> is_exact(np.array([[0.5, 3.0]]), np.zeros(1)), is_exact(np.array([[0.1, 3.0]]), np.zeros(1))
    (True, False)
    """
    # If one of the sums had been rounded, it would have come out at 2**exponent or above: all
    # numbers are multiples of the step, and rounding never passes a power of two.
    step = _step(_exponent(block, c), block.dtype)
    for part in (block, c):
        scaled = np.ldexp(part, -step)
        if not np.array_equal(scaled, np.rint(scaled)):
            return False
    return True


def rounded(
    block: Float[Array, "n_rows n_columns"], c: Float[Array, " n_rows"]
) -> tuple[Float[Array, "n_rows n_columns"], Float[Array, " n_rows"]]:
    """Return both rounded to a grid on which their sums are exact, unchanged if they are already.

    The step is at most 2**-22 (float32) or 2**-51 (float64) times the largest sum over a row.

    Raises
    ------
    InvalidForestError
        If a sum of absolute values over a row is not finite.
    """
    if is_exact(block, c):
        return block, c
    # One more than it must be, since rounding may raise a sum.
    step = _step(_exponent(block, c) + 1, block.dtype)
    first, second = (np.ldexp(np.rint(np.ldexp(part, -step)), step) for part in (block, c))
    return first, second


def _exponent(block: Array, c: Array) -> int:
    """Return e such that the sum of |block| and |c| over each row is below 2**e."""
    with np.errstate(over="ignore"):
        total = np.abs(block).sum(axis=1, dtype=np.float64) + np.abs(c)
    largest = float(total.max())
    require(
        largest <= float(np.finfo(block.dtype).max),
        f"the sum of |B| and |c| over a row must be finite in {block.dtype}, got {largest}.",
    )
    return int(np.frexp(largest)[1])


def _step(exponent: int, dtype: np.dtype) -> int:
    """Return the exponent of the finest grid on which sums below 2**exponent are exact."""
    info = np.finfo(dtype)
    return max(exponent - info.nmant - 1, int(info.minexp) - info.nmant)
