"""Floating point numbers as signed integers of the same order.

A value's key is its bits, with all but the sign flipped where the sign is set: -inf < ... < -0.0
(-1) < 0.0 (0) < ... < inf, and NaN outside. Comparing keys is exact in every mode of the processor,
also where subnormal numbers count as zero.

A test of one column becomes `key >= threshold`, both relations alike. Since -0.0 and 0.0 are equal
as numbers, no threshold lies between their keys: x >= 0 is `key >= -1` and x > 0 is `key >= 1`.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from bitvec.core.arrays import Array
from bitvec.core.node_tests import Relation


def integer_type(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the keys of a floating point dtype."""
    return np.dtype(f"i{np.dtype(dtype).itemsize}")


def keys(values: Float[Array, "..."]) -> Int[Array, "..."]:
    """Return the keys of values.

    >>> keys(np.array([-np.inf, -0.0, 0.0, 1e-45], np.float32)).tolist()
    [-2139095041, -1, 0, 1]
    """
    bits = np.ascontiguousarray(values).view(integer_type(values.dtype))
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def values(keys: Int[Array, "..."]) -> Float[Array, "..."]:
    """Return the values of keys; a key above that of inf gives NaN."""
    bits = np.where(keys < 0, keys ^ np.iinfo(keys.dtype).max, keys)
    return np.ascontiguousarray(bits).view(f"f{keys.dtype.itemsize}")


def thresholds(
    b: Float[Array, " n"], relation: Int[Array, " n"], dtype: np.dtype
) -> Int[Array, " n"]:
    """Return t with [x > b] or [x >= b], by the relation, as [key(x) >= t] for x in `dtype`.

    `dtype` may be float32 where b is float64: t is exact for every x that is a float32.
    """
    strict = relation == Relation.GREATER
    below, above = _neighbours(b, dtype)
    least, last = keys(above), keys(below)
    least = np.where(_is_zero(least), -1, least)
    beyond = np.where(_is_zero(last), 1, last + 1)
    return np.where(strict, beyond, least).astype(integer_type(dtype))


def equal_range(
    b: Float[Array, " n"], dtype: np.dtype
) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """Return the first and the last key of the values in `dtype` that equal b (first > last: none).

    >>> first, last = equal_range(np.array([0.0, 0.1, 1.5]), np.dtype(np.float32))
    >>> first.tolist(), last.tolist()
    ([-1, 1, 1069547520], [0, 0, 1069547520])
    """
    below, above = _neighbours(b, dtype)
    key = keys(below)
    zero = _is_zero(key)
    first, last = np.where(zero, -1, key), np.where(zero, 0, key)
    nothing = (key != keys(above)) & ~(zero & _is_zero(keys(above)))
    kind = integer_type(dtype)
    return np.where(nothing, 1, first).astype(kind), np.where(nothing, 0, last).astype(kind)


def magnitude_range(bound: float, dtype: np.dtype) -> tuple[int, int]:
    """Return the first and the last key of the values x in `dtype` with |x| <= bound."""
    below, _ = _neighbours(np.array([bound], np.float64), dtype)
    last = int(keys(below)[0])
    return ~last, last


def _neighbours(b: Array, dtype: np.dtype) -> tuple[Array, Array]:
    """Return the greatest value of `dtype` that is at most b, and the least that is at least b."""
    if dtype.itemsize >= b.dtype.itemsize:
        b = b.astype(dtype)
        return b, b
    with np.errstate(over="ignore"):
        near = b.astype(dtype)
        wide, exact = keys(near.astype(b.dtype)), keys(b)
        below = np.where(wide > exact, np.nextafter(near, dtype.type(-np.inf)), near)
        above = np.where(wide < exact, np.nextafter(near, dtype.type(np.inf)), near)
    return below, above


def _is_zero(key: Array) -> Bool[Array, "..."]:
    """Tell the keys of both zeros: a comparison of floats may take subnormal numbers for zero."""
    return (key == 0) | (key == -1)
