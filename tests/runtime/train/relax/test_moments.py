"""Means and deviations of columns at any size."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from bitvec.runtime.train.relax.moments import LARGEST, column_units, deviation, power_of_two


@pytest.mark.parametrize("power", [-1000, -160, 0, 80])
def test_the_unit_changes_no_digit(power):
    X = np.random.default_rng(0).normal(size=(50, 3)) + 5
    center, spread = deviation(X)
    np.testing.assert_allclose(center, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(spread, X.std(axis=0), rtol=1e-13)
    unit = 2.0**power
    assert [part.tolist() for part in deviation(X * unit)] == [
        (unit * center).tolist(),
        (unit * spread).tolist(),
    ]


def test_dates_in_nanoseconds_vary():
    dates = 1.7e18 + 3e8 * np.random.default_rng(0).normal(size=(1000, 1))
    _, spread = deviation(dates)
    assert spread[0] == pytest.approx(3e8, rel=0.1)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-300, 1e20, 1e24])
def test_one_value_does_not_vary_however_often_it_stands_there(value):
    for n_rows in (289, 391, 100_001):  # sums of these are rounded
        center, spread = deviation(np.full((n_rows, 1), value))
        assert (center.tolist(), spread.tolist()) == ([value], [1.0])


@pytest.mark.parametrize("value", [1e26, -1e90, 1.7e308])
def test_one_value_beyond_float32_is_measured_in_a_unit_that_fits(value):
    X = np.column_stack([np.full(391, value), np.arange(391.0)])
    center, spread = column_units(X)
    assert (center[0], spread[0]) == (value, abs(value) / LARGEST)
    assert [center[1], spread[1]] == [each[0] for each in deviation(X[:, 1:])]
    assert deviation(X)[1][0] == 1


def test_what_is_not_finite_is_left_out():
    X = np.array([[1.0, np.nan], [3.0, np.inf], [np.nan, -np.inf]])
    center, spread = deviation(X)
    assert center.tolist() == [2.0, 0.0]
    assert spread.tolist() == [1.0, 1.0]
    assert [part.tolist() for part in deviation(X.T, axis=1)] == [
        center.tolist(),
        spread.tolist(),
    ]


def test_powers_of_two_lie_at_or_below():
    size = np.array([0.0, 1.0, 3.0, 1e-320, 1.7e308, np.inf])
    assert power_of_two(size).tolist() == [1.0, 1.0, 2.0, 2.0**-1022, 2.0**1023, 1.0]
