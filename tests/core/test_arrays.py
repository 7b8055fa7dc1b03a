"""Helpers of arrays say what NumPy says, which would import more."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.core.arrays import is_masked, unique_integers


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (300,), (20, 3)])
def test_unique_integers_are_those_of_numpy(dtype, shape):
    bounds = np.iinfo(dtype)
    for high in (3, 50):
        drawn = np.random.default_rng(high).integers(0, high, shape).astype(dtype)
        drawn.ravel()[: drawn.size // 4] = bounds.min
        drawn.ravel()[-(drawn.size // 4) or drawn.size :] = bounds.max
        found, expected = unique_integers(drawn), np.unique(drawn)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
        assert found.flags.c_contiguous


def test_masked_arrays_are_told_apart():
    assert is_masked(np.ma.masked_array([1.0], [True]))
    assert not is_masked(np.ones(1))
    assert not is_masked([1.0])
