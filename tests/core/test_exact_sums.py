"""Grids: sums on them are exact, rounding to them moves no number far, and once is enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitvec.core import exact_sums
from bitvec.errors import InvalidForestError

DTYPES = [np.float32, np.float64]


@given(st.integers(0, 2**32 - 1), st.sampled_from(DTYPES), st.integers(1, 9), st.integers(-60, 60))
def test_rounding_to_the_grid_is_exact_afterwards_and_moves_no_number_far(seed, dtype, n, scale):
    rng = np.random.default_rng(seed)
    block = np.ldexp(rng.normal(size=(n, n - 1)), scale).astype(dtype)
    c = np.ldexp(rng.normal(size=n), scale).astype(dtype)
    first, second = exact_sums.rounded(block, c)
    assert exact_sums.is_exact(first, second)
    again = exact_sums.rounded(first, second)
    assert again[0] is first
    assert again[1] is second
    largest = (np.abs(block).sum(axis=1, dtype=np.float64) + np.abs(c)).max()
    # Half a step, which is at most 2**-22 or 2**-51 of the largest sum.
    step = largest * 2.0 ** -(np.finfo(dtype).nmant - 1)
    for old, new in ((block, first), (c, second)):
        assert np.all(np.abs(old.astype(np.float64) - new) <= step / 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormal_and_huge_numbers_have_grids_too(dtype):
    info = np.finfo(dtype)
    tiny = np.array([[info.smallest_subnormal, 3 * info.smallest_subnormal]], dtype)
    assert exact_sums.is_exact(tiny, np.zeros(1, dtype))
    huge = np.array([[info.max / 4, -info.max / 4]], dtype)
    block, c = exact_sums.rounded(huge, np.ones(1, dtype))
    assert np.all(np.isfinite(block))
    assert c.tolist() == [0.0]
    assert exact_sums.is_exact(np.zeros((1, 0), dtype), np.array([0.1], dtype))


def test_a_sum_that_would_be_rounded_is_found():
    for dtype, bits in ((np.float32, 24), (np.float64, 53)):
        one = np.ones(1, dtype)
        # 2**bits − 1 of the steps fit, 2**bits + 1 do not.
        assert exact_sums.is_exact(np.array([[2.0**bits - 2]], dtype), one)
        assert not exact_sums.is_exact(np.array([[2.0**bits]], dtype), one)


def test_a_row_whose_sum_overflows_has_no_grid():
    with pytest.raises(InvalidForestError, match="must be finite in float32"):
        exact_sums.rounded(np.full((1, 2), 3e38, np.float32), np.zeros(1, np.float32))
