"""The split scan: no threshold is better than the one that it finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kddt_growth import (
    Box,
    Sample,
    candidates,
    children,
    everywhere,
    truncated,
    weights,
)
from kddt_samples import CRITERIA, SHAPES, boxes, kernel, samples, targets

from bitvec.learners.kddt import bins as bin_parts
from bitvec.learners.kddt import scan as scan_parts
from bitvec.learners.kddt.bins import Bins, best_of_bins, fill
from bitvec.learners.kddt.events import FLAT, events_of
from bitvec.learners.kddt.scan import ENTROPY, LABELS, Totals, best_threshold
from bitvec.learners.kddt.weights import Column

LEAST = [0.25, 0.5, 1.0, 2.0]


@pytest.fixture(scope="module", autouse=True)
def _interpreted():
    """Have parts of kernels interpreted: only compiled functions can call compiled parts."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (bin_parts, scan_parts):
            for name, part in list(vars(module).items()):
                if hasattr(part, "py_func"):
                    patch.setattr(module, name, part.py_func)
        yield


def scan(
    sample: Sample, box: Box, feature: int, least: float, *, by_position: bool = False
) -> tuple[float, float]:
    """Return the loss of the children that the scan finds, and the threshold.

    Along the events, or along positions, by which changes are summed before.
    """
    densities, targets = sample.densities, sample.targets
    events = events_of(densities)
    n_edges, n_outputs = densities.at.shape[2], targets.n_outputs
    u = weights(sample, box)
    Y = sample.Y - targets.centre
    s, w = u @ Y, float(u.sum())
    bounds = sample.below(feature, np.array([box.low[feature], box.high[feature]]))
    share = bounds[:, 1] - bounds[:, 0]
    at, rate = densities.flat.at[feature], u / np.where(u > 0, share, 1)
    column = Column(at, densities.share[feature], box.low[feature], box.high[feature])
    totals = Totals(s, np.zeros(n_outputs), w, float(s @ s), least, 0.0)
    sums = np.zeros((4, n_outputs))
    changes = events.change[feature], events.turn[feature]
    if by_position:
        position, place = np.unique(at, return_inverse=True)
        slope, jump = np.zeros((2, position.size, n_outputs + 1))
        bins = Bins(slope, jump, np.zeros((position.size, 4), np.int64))
        rows = np.flatnonzero(u)
        fill.py_func(bins, rows, *changes, place, rate, targets, totals.centre)
        gain, threshold = best_of_bins.py_func(
            bins, position, column, targets.criterion, totals, sums
        )
    else:
        own = events.order[feature, : events.n_events[feature]]
        own, open_rows = own[u[own // n_edges] > 0], np.zeros(n_outputs, np.int64)
        gain, threshold = best_threshold.py_func(
            own, *changes, column, rate, targets, totals, sums, open_rows
        )
    if targets.criterion == ENTROPY:
        return -gain, threshold
    second = w if targets.criterion == LABELS else float(u @ np.sum(Y * Y, axis=1))
    return second - gain, threshold


def scale(sample: Sample, u: np.ndarray) -> float:
    """Return the size of the losses' terms."""
    return max(float(u.sum()), 1.0) * max(float(np.max(sample.Y**2)), 1.0)


def box_of(sample: Sample, feature: int, low: float, high: float) -> Box:
    return everywhere(sample).right(feature, low).left(feature, high)


def require_best(
    sample: Sample, box: Box, feature: int, least: float, tolerance: float, **how: bool
) -> None:
    """Compare the scan with every event, and with 4,001 thresholds between the outer ones."""
    u = weights(sample, box)
    found, threshold = scan(sample, box, feature, least, **how)
    tried = candidates(sample, box, feature, least)
    tolerance *= scale(sample, u)
    if not tried:
        assert found == np.inf
        return
    assert abs(found - min(c.loss for c in tried)) <= tolerance
    share = truncated(sample, box, feature, np.array([threshold]))[:, 0]
    own = children(sample, u, feature, threshold, share)
    assert abs(own.loss - found) <= tolerance, "the threshold does not gain what is said"
    assert box.low[feature] < threshold < box.high[feature]
    assert min(own.left, u.sum() - own.left) >= least - 1e-9 - tolerance
    inside = [c.threshold for c in tried]
    reach = max(sample.density(row, feature).bandwidth[0] for row in range(len(u)))
    low = max(min(inside) - reach, box.low[feature])
    high = min(max(inside) + reach, box.high[feature])
    grid = np.linspace(low, high, 4001)
    left = u[:, None] * truncated(sample, box, feature, grid)
    assert np.min(grid_losses(sample, u, left, least)) >= found - tolerance


def grid_losses(sample: Sample, u: np.ndarray, left: np.ndarray, least: float) -> np.ndarray:
    """Return the loss of many splits at once, infinite where a child is too light."""
    total = np.zeros(left.shape[1])
    for side in (left, u[:, None] - left):
        w = side.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = sample.Y.T @ side / w
            if sample.criterion == "labels":
                own = 1 - np.sum(mean**2, axis=0)
            elif sample.criterion == "entropy":
                own = -np.sum(np.where(mean > 0, mean * np.log(mean), 0), axis=0)
            else:
                own = np.sum(sample.Y**2, axis=1) @ side / w - np.sum(mean**2, axis=0)
        total += np.where(w >= least, w * own, np.inf)
    return total


# Sums of some tens of terms, each rounded to 2^-53, and slopes whose squares differ by up to 2^14.
ROUNDED = 1e-10


@given(st.data())
def test_the_scan_finds_the_least_loss_of_all_thresholds(data):
    sample = data.draw(samples(max_features=1))
    require_best(sample, everywhere(sample), 0, data.draw(st.sampled_from(LEAST)), ROUNDED)


@given(st.data())
def test_the_scan_finds_the_least_loss_within_a_box(data):
    sample = data.draw(samples(max_features=1))
    low, high = data.draw(boxes(sample, 0))
    assume(low < high)
    box = box_of(sample, 0, low, high)
    w = weights(sample, box).sum()
    assume(w > 1e-3)
    least = w * data.draw(st.sampled_from([1e-3, 0.05, 0.25, 0.5]))
    require_best(sample, box, 0, least, ROUNDED)


def is_flat(sample: Sample) -> bool:
    """Return whether no density is large for the range of positions, as bins ask for."""
    densities = sample.densities
    change = events_of(densities).change[0]
    steep = np.abs(change[np.isfinite(change)]).max(initial=0)
    return steep * np.ptp(densities.at[0]) <= FLAT


@given(st.data())
def test_the_walk_along_positions_finds_the_least_loss_of_all_thresholds(data):
    sample = data.draw(samples(max_features=1))
    assume(is_flat(sample))
    box, least = everywhere(sample), data.draw(st.sampled_from(LEAST))
    if data.draw(st.booleans()):
        low, high = data.draw(boxes(sample, 0))
        assume(low < high)
        box = box_of(sample, 0, low, high)
        w = weights(sample, box).sum()
        assume(w > 1e-3)
        least = w * data.draw(st.sampled_from([1e-3, 0.05, 0.25, 0.5]))
    require_best(sample, box, 0, least, ROUNDED, by_position=True)


@given(st.data())
def test_both_walks_find_the_same_threshold(data):
    sample = data.draw(samples(max_features=1))
    assume(is_flat(sample))
    box, least = everywhere(sample), data.draw(st.sampled_from(LEAST))
    one = scan(sample, box, 0, least)
    other = scan(sample, box, 0, least, by_position=True)
    tolerance = ROUNDED * scale(sample, weights(sample, box))
    assert one[0] == pytest.approx(other[0], abs=tolerance)
    near = [c for c in candidates(sample, box, 0, least) if abs(c.loss - one[0]) <= 1e-6]
    if len(near) == 1:
        assert one[1] == pytest.approx(other[1], rel=1e-9, abs=1e-9)


@given(st.data())
def test_one_hot_vectors_are_labels(data):
    sample = data.draw(samples(max_features=1, criteria=["labels"]))
    vectors = Sample(
        sample.X, sample.kernels, sample.uncertainty, sample.weight, sample.Y, "shares"
    )
    box = everywhere(sample)
    ours, theirs = scan(sample, box, 0, 1.0), scan(vectors, box, 0, 1.0)
    assert ours[0] == pytest.approx(theirs[0], abs=1e-10) or ours[0] == theirs[0]


POWERS = [
    pytest.param(power, marks=[] if power in (-40, -30, -10, 10) else pytest.mark.full)
    for power in range(-40, 11, 5)
]


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("power", POWERS)
def test_the_scan_is_exact_at_every_bandwidth(shape, power, rng):
    """Of one feature, from 2^-40 (1e-12) to 2^10 (1e3); values and events are exact."""
    criterion = CRITERIA[int(rng.integers(4))]
    sample = Sample(
        rng.integers(-16, 17, (10, 1)) / 8,
        (kernel(shape, 2.0**power),),
        None,
        np.ones(10),
        targets(criterion, 10, 2, rng),
        criterion,
    )
    require_best(sample, everywhere(sample), 0, 1.0, ROUNDED)


@pytest.fixture
def rng(request):
    return np.random.default_rng(sum(map(ord, request.node.name)))
