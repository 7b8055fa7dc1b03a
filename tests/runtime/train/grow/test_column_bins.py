"""Bins of columns: about as many rows in each, and values that many rows share stand alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import bitvec
from bitvec.runtime.train.grow.column_bins import Bins
from bitvec.runtime.train.grow.histogram_kernels import MOST_BINS

STUMP = bitvec.Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [-1.0, 1.0])


def binned(x):
    X = np.asarray(x, np.float64)[:, None]
    bins = Bins.of(STUMP, X)
    return bins.cuts[0], bins.columns(X, np.zeros(1, np.int8)).code[:, 0]


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60)), min_size=1, max_size=150))
def test_bins_rise_with_values_and_are_of_about_as_many_rows(runs):
    x = np.concatenate([np.full(n, float(value)) for value, n in runs])
    cuts, code = binned(x)
    assert np.all(np.diff(cuts) > 0)
    assert_array_equal(code, np.searchsorted(cuts, x, side="left"))
    value, count = np.unique(x, return_counts=True)
    if len(value) <= MOST_BINS:
        assert len(cuts) == len(value) - 1
    fair = len(x) / MOST_BINS
    heavy = value[count >= fair]
    assert len(cuts) < MOST_BINS + len(heavy)
    for one in heavy:
        assert len(np.unique(x[code == code[x == one][0]])) == 1
    sizes = np.bincount(code)
    shared = [sizes[bin_] for bin_ in range(len(sizes)) if len(np.unique(x[code == bin_])) > 1]
    assert max(shared, default=0) <= 2 * fair + 1


@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.92])
def test_what_is_not_zero_has_nearly_all_bins(zeros):
    rng = np.random.default_rng(0)
    x = np.where(rng.random(20_000) < zeros, 0.0, np.exp(rng.normal(size=20_000)))
    cuts, code = binned(x)
    assert MOST_BINS - 2 <= len(cuts) <= MOST_BINS
    sizes = np.bincount(code[x > 0])[1:]
    assert sizes.max() <= 1.2 * (x > 0).sum() / MOST_BINS + 2


def test_a_column_of_one_value_or_none_has_no_cut():
    for x in ([3.0, 3.0], [np.nan, np.nan], [np.inf, 1.0], [np.nan, 2.0]):
        assert len(binned(x)[0]) == 0
