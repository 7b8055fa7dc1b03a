"""The threshold scan: what brute force over all cuts finds, and never between equal margins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitvec.learners.growth.cuts import entropy_cuts, squared_error_cuts
from bitvec.learners.growth.targets import Labels, Values

N_CLASSES = 3


def brute_force(margin: Any, target: Any, weight: Any) -> tuple[float, float, float]:
    """The least impurity of both sides, over all pairs of neighbouring margins, and the pair."""
    best = (np.inf, np.inf, np.inf)
    distinct = np.unique(margin)
    for low, high in pairwise(distinct):
        sides = [np.flatnonzero(margin <= low), np.flatnonzero(margin > low)]
        cost = sum(target.take(side).impurity(weight[side]) for side in sides)
        if cost < best[0] - 1e-12:
            best = (cost, low, high)
    return best


@st.composite
def nodes(draw: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Rows of some nodes, sorted by node, on a coarse grid where margins tie."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = sum(sizes)
    start = np.concatenate([[0], np.cumsum(sizes)])
    margin = rng.integers(-3, 4, n) / 2.0
    weight = rng.choice([1.0, 2.0, 0.5], n)
    return start, margin, weight, rng.integers(0, N_CLASSES, n), rng.integers(-4, 5, (n, 2)) / 4.0


@given(nodes())
def test_the_scan_finds_what_brute_force_finds(drawn: Any) -> None:
    start, margin, weight, code, Y = drawn
    for target in (Labels(code, N_CLASSES), Values(Y)):
        cuts = target.cuts(margin, start, weight)
        for j, (first, last) in enumerate(pairwise(start)):
            own = np.arange(first, last)
            cost, _, _ = brute_force(margin[own], target.take(own), weight[own])
            assert cuts.cost[j] == pytest.approx(cost, abs=1e-9)
            if np.isfinite(cost):
                low, high, threshold = cuts.low[j], cuts.high[j], cuts.threshold[j]
                assert low <= threshold < high
                assert not np.any((margin[own] > low) & (margin[own] < high))
                right = margin[own] > threshold
                both = [own[~right], own[right]]
                told = sum(target.take(side).impurity(weight[side]) for side in both)
                assert told == pytest.approx(cost, abs=1e-9)
            else:
                assert np.unique(margin[own]).size == 1


@given(nodes())
def test_a_weight_of_two_is_the_row_twice_exactly(drawn: Any) -> None:
    start, margin, weight, code, Y = drawn
    weight = np.maximum(np.round(weight), 1.0)
    copies = weight.astype(int)
    first = np.concatenate([[0], np.cumsum(copies)])[start]
    again = np.ones(copies.sum())
    for target in (Labels(code, N_CLASSES), Values(np.round(4 * Y))):
        once = target.cuts(margin, start, weight)
        rows = np.repeat(np.arange(len(margin)), copies)
        twice = target.take(rows).cuts(margin[rows], first, again)
        for name in ("low", "high"):
            assert np.array_equal(getattr(once, name), getattr(twice, name))
        if isinstance(target, Labels):
            assert np.array_equal(once.cost, twice.cost)
        else:  # products 2 · y² and sums y² + y² of deviations from a mean are rounded
            assert once.cost == pytest.approx(twice.cost, abs=1e-9)


def test_the_threshold_stays_below_the_next_float() -> None:
    low = 1.0
    high = np.nextafter(low, 2)
    found = entropy_cuts(np.array([high, low]), np.array([0, 2]), np.array([0, 1]), np.ones(2), 2)
    assert found.threshold.tolist() == [low]
    huge = np.finfo(np.float64).max
    found = squared_error_cuts(
        np.array([-huge, huge / 2]), np.array([0, 2]), np.array([[0.0], [1.0]]), np.ones(2)
    )
    assert -huge <= found.threshold[0] < huge / 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_margins_that_are_not_finite_have_no_cut(bad: float) -> None:
    margin = np.array([0.0, bad, 1.0, 2.0])
    cuts = entropy_cuts(margin, np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.ones(4), 2)
    assert np.isinf(cuts.cost[0])
    assert cuts.cost[1] == 0


def test_the_first_of_several_best_cuts_is_taken() -> None:
    cuts = entropy_cuts(np.arange(4.0), np.array([0, 4]), np.array([0, 1, 1, 0]), np.ones(4), 2)
    assert cuts.threshold.tolist() == [0.5]
