"""Loops over float32 against NumPy's own functions."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from bitvec.runtime.predict.cpu import float_kernels
from bitvec.runtime.predict.cpu.float_kernels import dot, total

# Parts of kernels, which only compiled functions can call.
fill_exp = njit(error_model="numpy")(float_kernels.fill_exp.py_func)
fill_log1p = njit(error_model="numpy")(float_kernels.fill_log1p.py_func)

ULP = float(np.finfo(np.float32).eps)


def test_exp_of_what_is_at_most_0_is_good_to_an_ulp_and_never_subnormal() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([-rng.exponential(10, 5000), -rng.exponential(1e-3, 500), [-87, -1e30, 0]])
    x = x.astype(np.float32)
    found = np.empty_like(x)
    fill_exp(x, found, np.empty(x.size, np.int32))
    expected = np.exp(np.maximum(x.astype(np.float64), -87))
    np.testing.assert_allclose(found, expected, rtol=1.5 * ULP)
    assert found[-1] == 1
    assert found.min() >= np.finfo(np.float32).tiny


def test_log1p_of_a_share_is_good_to_two_ulps() -> None:
    t = np.random.default_rng(0).uniform(0, 1, 5000) ** 4
    t = np.concatenate([t, [0, 1, 1e-30]]).astype(np.float32)
    found = np.empty_like(t)
    fill_log1p(t, found)
    np.testing.assert_allclose(found, np.log1p(t.astype(np.float64)), rtol=2 * ULP)


@pytest.mark.parametrize("n", [0, 1, 7, 16, 513])
def test_sums_are_those_of_float64_rounded(n: int) -> None:
    a, b = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    assert dot(a, b) == pytest.approx(float(a.astype(float) @ b.astype(float)), abs=1e-4)
    assert total(a) == pytest.approx(float(a.astype(float).sum()), abs=1e-4)
