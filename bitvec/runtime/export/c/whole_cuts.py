"""Comparisons of floats as whole numbers, for rows without NaN.

The bits of a float32, all inverted below 0 and the sign alone from 0 on, are its key: keys are in
the order of numbers. A threshold is what carries when it is added to the key of a number on its
right, so that a step down a tree is one sum of 64 bits: node p above the key, and p above the
threshold.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float
from bitvec.runtime.export.c.header import Header

_OF_KEY = {True: 1, False: 3}
_OF_ROW = 7
"""Instructions for the key of a number, by whether all thresholds are above 0, and for a column."""


def whole_cuts(threshold: Float[Array, " n"], *, or_equal: bool) -> tuple[Array, bool]:
    """Return what is added to the keys of numbers, and whether all thresholds are above 0.

    Parameters
    ----------
    threshold : float32, (n,)
        A number is on its right that is greater, or equal if `or_equal`; no number is if it is NaN.

    Notes
    -----
    Where all are above 0, numbers below it need no order, and the key may keep their bits.
    """
    threshold = threshold + np.float32(0)
    with np.errstate(over="ignore"):
        least = threshold if or_equal else np.nextafter(threshold, np.float32(np.inf))
    never = np.isnan(least) if or_equal else np.isnan(least) | np.isposinf(threshold)
    bits = np.where(least == 0, np.float32(-0.0), least).view(np.uint32)
    key = bits ^ np.where(np.signbit(bits.view(np.float32)), np.uint32(2**32 - 1), np.uint32(2**31))
    cut = np.where(never, np.uint32(0), np.uint32(0) - key)
    return cut, bool((never | (least > 0)).all())


def add_keys(header: Header, *, positive: bool, n_steps: int, n_features: int) -> bool:
    """Append the function of a number's key, and return whether a row gets its keys beforehand."""
    header.code(_KEY, key=_POSITIVE if positive else _ANY)
    of_row = _OF_ROW * n_features < _OF_KEY[positive] * n_steps
    if of_row:
        header.code(_KEYS)
    return of_row


STEP = """        {
            const uint64_t above = (uint64_t)p << 32;
            p = (uint32_t)(((above | $key) + (above | @cut[p])) >> 32);
        }
"""
_POSITIVE = "number.bits ^ 0x80000000U"
_ANY = "number.bits ^ ((0U - (number.bits >> 31)) | 0x80000000U)"
_KEY = """
/* The bits of a number, in the order of numbers. */
static inline uint32_t @key(const @input v)
{
    union {
        @input value;
        uint32_t bits;
    } number;
    number.value = v;
    return $key;
}
"""
_KEYS = """
static inline void @keys(const @input *x, uint32_t *key)
{
    uint32_t k;
    for (k = 0; k < @@N_FEATURES; k++) {
        key[k] = @key(x[k]);
    }
}
"""
