"""Thresholds as the keys of `bitvec.core.float_keys`, and keys of values in compiled code.

A test of one column becomes `key >= threshold`, both relations alike.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import neighbours
from bitvec.core.node_tests import Relation
from bitvec.core.shape_annotations import Float, Int, Int64
from bitvec.runtime.predict.cpu.compiling import inner


def thresholds(
    b: Float[Array, " n"], relation: Int[Array, " n"], dtype: np.dtype
) -> Int64[Array, " n"]:
    """Return t with [x > b] or [x >= b], by the relation, as [key(x) >= t] for x in `dtype`.

    `dtype` may be float32 where b is float64: t is exact for every x that is a float32.
    """
    last, first = neighbours(b, dtype)
    return np.where(relation == Relation.GREATER, last + 1, first)


def equal_range(b: Float[Array, " n"], dtype: np.dtype) -> tuple[Int64[Array, " n"], ...]:
    """Return the first and the last key of values that equal b: first > last if there are none."""
    return neighbours(b, dtype)[::-1]


def magnitude_range(bound: float, dtype: np.dtype) -> tuple[int, int]:
    """Return the first and the last key of the values x in `dtype` with |x| <= bound."""
    last = int(neighbours(np.array([bound]), dtype)[0][0])
    return -last, last


@inner
def rank_of_bits(bits, shift, magnitude):
    """Return the key of a float's bits, less 1 where their sign is set; all of one integer type.

    It takes one operation less than the key: `key >= t` is `rank >= rank_of_threshold(t)`. A shift
    by `shift` leaves the sign alone, the mask `magnitude` all else.
    """
    return bits ^ ((bits >> shift) & magnitude)


def rank_of_threshold(key: Int64[Array, " n"]) -> Int64[Array, " n"]:
    """Return the least rank of values whose keys are at least `key`: that of -0.0 for 0."""
    return key - (key <= 0)


@inner
def key_of_bits(bits, shift, magnitude):
    """Return the key of a float's bits."""
    return rank_of_bits(bits, shift, magnitude) - (bits >> shift)


@inner
def bits_of_key(key, shift, magnitude):
    """Return the bits of a key's float, +0.0 of key 0."""
    sign = key >> shift
    return (key + sign) ^ (sign & magnitude)
