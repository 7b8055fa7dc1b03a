"""Floats as integers in the same order, so that one ulp is 1 and intervals of floats are exact.

The key of a float is its bit pattern read as sign and magnitude: it rises with the value, both
zeros have key 0, neighbours differ by 1, and the infinities are the two ends, beyond which NaN
lies. Comparing keys is exact in every mode of the processor, also where subnormal numbers count as
zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Int, Int64, UInt64

FLOAT64 = np.dtype(np.float64)
_INTEGER: dict[np.dtype, type[np.signedinteger]] = {
    np.dtype(np.float32): np.int32,
    np.dtype(np.float64): np.int64,
}


def keys(x: Float[Array, "..."]) -> Int64[Array, "..."]:
    """Return the keys of floats that are not NaN (of NaN: a value beyond the key of infinity).

    >>> keys(np.array([-0.0, 0.0, 1e-45, -1e-45], np.float32)).tolist()
    [0, 0, 1, -1]
    """
    integer = _INTEGER[x.dtype]
    bits = np.ascontiguousarray(x).view(integer).reshape(x.shape).astype(np.int64)
    magnitude = bits & np.int64(np.iinfo(integer).max)
    return np.where(bits < 0, -magnitude, magnitude)


def floats(key: Int[Array, "..."], dtype: np.dtype) -> Float[Array, "..."]:
    """Return the floats of keys; key 0 becomes +0.0.

    >>> floats(np.array([0, 1]), np.dtype(np.float32)).tolist()
    [0.0, 1.401298464324817e-45]
    """
    key = np.asarray(key, np.int64)
    magnitude = np.abs(key).astype(_INTEGER[dtype]).view(dtype)
    value: Array = np.where(key < 0, -magnitude, magnitude)
    return value


def neighbours(
    b: Float[Array, "..."], dtype: np.dtype
) -> tuple[Int64[Array, "..."], Int64[Array, "..."]]:
    """Return the keys of the greatest float of `dtype` that is at most b, and the least at least b.

    They differ if b is none of these floats.

    >>> below, above = neighbours(np.array([0.0, 0.1, 1.5]), np.dtype(np.float32))
    >>> (above - below).tolist()
    [0, 1, 0]
    """
    with np.errstate(over="ignore"):
        near = b.astype(dtype)
    key = keys(near)
    if dtype.itemsize >= b.dtype.itemsize:
        return key, key
    wide, exact = keys(near.astype(b.dtype)), keys(b)
    return key - (wide > exact), key + (wide < exact)


def key_of(value: float, dtype: np.dtype) -> int:
    """Return the key of one number, rounded to `dtype`."""
    with np.errstate(over="ignore"):
        return int(keys(np.array([value]).astype(dtype))[0])


def first_at_least(value: Float[Array, " n"], dtype: np.dtype) -> Int64[Array, " n"]:
    """Return the key of the smallest float of `dtype` that is not below `value` (float64)."""
    return neighbours(np.asarray(value, np.float64), dtype)[1]


def ulps(a: Float[Array, "..."], b: Float[Array, "..."]) -> UInt64[Array, "..."]:
    """Return how many floats lie between a and b, 0 where they are equal.

    NaN equals NaN and the zeros equal each other; NaN against a number is 2**64 - 1.

    >>> ulps(np.array([1.0, np.nan, 0.0]), np.array([1.0 + 2**-52, np.nan, -0.0])).tolist()
    [1, 0, 0]
    """
    if a.dtype != b.dtype:
        raise TypeError(f"ulps need one dtype, got {a.dtype} and {b.dtype}.")
    ka, kb = keys(a), keys(b)
    # The distance of two int64 may need 64 bits: unsigned wrap-around gives it exactly.
    apart = np.maximum(ka, kb).astype(np.uint64) - np.minimum(ka, kb).astype(np.uint64)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    apart = np.where(nan_a & nan_b, np.uint64(0), apart)
    return np.where(nan_a != nan_b, np.iinfo(np.uint64).max, apart)


def first_cast_to(key: Int64[Array, " n"], dtype: np.dtype) -> Int64[Array, " n"]:
    """Return the key of the smallest float64 that a cast to `dtype` gives this key or a greater.

    As `first_taken_to`, so that the rounding of ties and the overflow are those of NumPy.

    >>> one = keys(np.array([1], np.float32))
    >>> (1 - floats(first_cast_to(one, np.dtype(np.float32)), FLOAT64)).tolist() == [2.0**-25]
    True
    """
    with np.errstate(over="ignore"):
        return first_taken_to(key, lambda x: x.astype(dtype), FLOAT64)


def first_taken_to(
    key: Int64[Array, " n"], function: Callable[[Array], Array], dtype: np.dtype
) -> Int64[Array, " n"]:
    """Return the key of the smallest float of `dtype` that a function takes to this key or beyond.

    The function must not fall. Found by bisection with the function itself; one beyond the key of
    infinity where nothing is taken there.
    """
    top = key_of(np.inf, dtype)
    low, high = np.full(key.shape, -top), np.full(key.shape, top + 1)
    while np.any(low < high):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # a sum of keys may overflow
        found = keys(function(floats(np.minimum(middle, top), dtype)))
        is_there = (found >= key) & (middle <= top) | (low == high)
        low, high = np.where(is_there, low, middle + 1), np.where(is_there, middle, high)
    return low
