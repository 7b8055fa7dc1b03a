"""Equality of floats bit for bit, as engines promise it."""

from __future__ import annotations

import numpy as np


def assert_same_bits(got, expected):
    """Compare arrays; a NaN's payload is nobody's promise."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(got), nan)
    assert got[~nan].tobytes() == expected[~nan].tobytes()
