"""Numbers of any size: units do not matter, and what is degenerate is a leaf or a clean split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kddt_growth import (
    Sample,
    best_splits,
    children,
    everywhere,
    loss,
    truncated,
    weights,
)
from kddt_samples import kernel, samples, targets

from bitvec.core.kernels import FeatureKernel, box
from bitvec.learners.kddt.events import densities_of, events_of
from bitvec.learners.kddt.tree import (
    GrownTree,
    Limits,
    class_targets,
    grow_tree,
    mean_targets,
    native,
)


def grown(sample: Sample, limits: Limits) -> GrownTree:
    densities = sample.densities
    return grow_tree(densities, events_of(densities), sample.targets, sample.weight, limits)


def in_units(sample: Sample, unit: float, offset: float = 0.0) -> Sample:
    """Return the sample with its values, and the densities around them, in another unit."""
    kernels = tuple(
        FeatureKernel(k.edges, k.mass, k.bandwidth * unit, k.location * unit + offset)
        for k in sample.kernels
    )
    own = None if sample.uncertainty is None else sample.uncertainty * unit
    return replace(sample, X=sample.X * unit + offset, kernels=kernels, uncertainty=own)


def require_same_shape(one: GrownTree, other: GrownTree) -> None:
    for name in ("left", "right", "feature", "weight", "loss", "total"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@given(samples(max_rows=12, max_features=2), st.sampled_from([-300, -40, 30, 500]))
def test_the_unit_of_a_feature_does_not_matter(sample, power):
    """By a power of two, nothing is rounded otherwise; jumps' limits are an ulp of either."""
    limits = Limits(min_weight=0.5, max_depth=5)
    one, other = grown(sample, limits), grown(in_units(sample, 2.0**power), limits)
    require_same_shape(one, other)
    np.testing.assert_allclose(other.threshold, one.threshold * 2.0**power, rtol=1e-15)


@given(samples(max_rows=12, max_features=1), st.sampled_from([1e3, 1e8, -1e8]))
def test_the_origin_of_a_feature_does_not_matter(sample, offset):
    """Values far from 0 lose digits: at 1e8 a unit has 2^26 steps, and a weight 1e-6 or less."""
    sample = replace(sample, X=np.round(sample.X * 8) / 8)
    limits = Limits(min_weight=0.5, max_depth=1)
    one, other = grown(sample, limits), grown(in_units(sample, 1.0, offset), limits)
    if one.n_leaves == other.n_leaves == 2:
        size = float(sample.weight.sum()) * max(float(np.max(sample.Y**2)), 1.0)
        assert other.loss[1:].sum() == pytest.approx(one.loss[1:].sum(), abs=1e-5 * size)


@pytest.mark.parametrize("power", [-10, 10, 40])
@pytest.mark.parametrize("criterion", ["labels", "shares", "entropy"])
def test_the_unit_of_weights_does_not_matter(criterion, power):
    rng = np.random.default_rng(power + 100)
    sample = fuzzy_rows(criterion, rng)
    unit = 2.0**power
    one = grown(sample, Limits(min_weight=1.0))
    other = grown(replace(sample, weight=sample.weight * unit), Limits(min_weight=unit))
    np.testing.assert_array_equal(one.left, other.left)
    np.testing.assert_allclose(other.weight, one.weight * unit, rtol=1e-7)


def fuzzy_rows(criterion: str, rng: np.random.Generator, n: int = 40) -> Sample:
    return Sample(
        rng.normal(size=(n, 2)),
        (kernel("box", 0.3), kernel("asymmetric", 0.2)),
        None,
        np.ones(n),
        targets(criterion, n, 2, rng),
        criterion,
    )


@pytest.mark.parametrize("power", [-12, -4, 10, 40])
def test_the_unit_of_a_regression_does_not_matter(power):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.round(np.sin(2 * X[:, :1]) * 64) / 64
    densities = densities_of(X, [box(0.1)] * 2)
    one, other = (
        grow_tree(
            densities,
            events_of(densities),
            mean_targets(y * unit),
            np.ones(60),
            Limits(min_weight=3.0),
        )
        for unit in (1.0, 2.0**power)
    )
    np.testing.assert_array_equal(one.left, other.left)
    np.testing.assert_allclose(other.value, one.value * 2.0**power, rtol=1e-9)


@pytest.mark.parametrize("size", [1.0, 1e2, 1e6])
def test_equal_targets_make_pure_leaves(size):
    """A node of equal targets is a leaf, however large they are."""
    x = np.random.default_rng(0).normal(size=(60, 1))
    densities = densities_of(x, [box(0.0)])
    y = np.where(x > 0, size, 0.1)
    tree = grow_tree(densities, events_of(densities), mean_targets(y), np.ones(60), Limits())
    assert tree.n_leaves == 2


@pytest.mark.parametrize("criterion", ["labels", "shares", "entropy", "squares"])
@pytest.mark.parametrize("bandwidth", [0.0, 0.5])
def test_degenerate_rows_make_one_leaf(criterion, bandwidth):
    rng = np.random.default_rng(0)
    Y = targets(criterion, 6, 2, rng)
    cases = {
        "one row": (np.ones((1, 2)), Y[:1]),
        "equal rows": (np.ones((6, 2)), Y),
        "one class": (rng.normal(size=(6, 2)), np.repeat(Y[:1], 6, axis=0)),
        "too light": (rng.normal(size=(3, 2)), Y[:3]),
    }
    for name, (X, own) in cases.items():
        sample = Sample(X, (box(bandwidth),) * 2, None, np.ones(len(X)), own, criterion)
        least = 2.0 if name == "too light" else 1.0
        tree = grown(sample, Limits(min_weight=least))
        assert tree.n_leaves == 1, name
        np.testing.assert_allclose(tree.value[0], own.mean(axis=0), rtol=0, atol=1e-12)
        assert native(tree, 2).raw(X) == pytest.approx(np.tile(own.mean(axis=0), (len(X), 1)))


@pytest.mark.parametrize("drawn", [False, True])
def test_constant_columns_are_never_read(drawn):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(50), rng.normal(size=50), np.full(50, -1e8)])
    densities = densities_of(X, [box(0.3)] * 3)
    y = (X[:, 1] > 0).astype(np.int64)
    limits = Limits(max_features=1, random_thresholds=drawn)
    own, n_leaves = class_targets(y, 2, "gini"), []
    for seed in range(10):
        tree = grow_tree(densities, events_of(densities), own, np.ones(50), limits, seed)
        assert set(tree.feature[~tree.is_leaf].tolist()) <= {1}
        n_leaves.append(tree.n_leaves)
    # A drawn threshold may leave too little on one side.
    assert max(n_leaves) > 1
    assert drawn or min(n_leaves) > 1


def test_a_class_that_no_row_has_changes_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    densities = densities_of(X, [box(0.3)] * 2)
    for criterion in ("gini", "entropy"):
        one, other = (
            grow_tree(
                densities,
                events_of(densities),
                class_targets(y, n, criterion),
                np.ones(50),
                Limits(),
            )
            for n in (2, 5)
        )
        np.testing.assert_array_equal(one.threshold, other.threshold)
        np.testing.assert_array_equal(one.total, other.total[:, :2])


def bandwidths_apart(ratio: float, criterion: str, seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    n = 14
    width = np.where(rng.random((n, 1)) < 0.5, ratio, 1.0)
    X = rng.integers(-16, 17, (n, 1)) / 8
    return Sample(X, (box(1.0),), width, np.ones(n), targets(criterion, n, 2, rng), criterion)


def require_best_root(sample: Sample, tolerance: float, limits: Limits) -> None:
    tree, place = grown(sample, limits), everywhere(sample)
    u = weights(sample, place)
    best = min((c.loss for c in best_splits(sample, place, limits)), default=np.inf)
    if tree.is_leaf[0]:
        assert loss(sample, u) - best <= tolerance
        return
    at = np.array([tree.threshold[0]])
    feature = int(tree.feature[0])
    share = truncated(sample, place, feature, at)[:, 0]
    own = children(sample, u, feature, float(at[0]), share)
    assert own.loss <= best + tolerance


FAR_APART = [
    (criterion, power)
    for criterion in ("labels", "shares", "entropy", "squares")
    for power in (10, 20)
]
FAR_APART += [("entropy", 40)]
FAR_APART += [(name, 40) for name in ("labels", "shares", "squares")]


@pytest.mark.parametrize(("criterion", "power"), FAR_APART)
def test_bandwidths_of_one_feature_may_be_far_apart(criterion, power):
    """Some values of bandwidth 1, some of 2^-power; all events are exact."""
    for seed in range(6):
        sample = bandwidths_apart(2.0**-power, criterion, seed)
        require_best_root(sample, 1e-6, Limits(max_depth=1))


@pytest.mark.parametrize("ulps", [1e9, 1e4, 10.0, 1.3, 0.6])
def test_a_bandwidth_of_few_ulps_loses_no_weight(ulps):
    """Rows lie far apart: the best threshold between two of them can be had at any bandwidth."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = 1 + rng.permutation(40)[:, None] / 41
        y = (X[:, 0] + 0.4 * rng.random(40) > 1.7).astype(np.int64)
        crisp, fuzzy = (
            Sample(X, (box(h),), None, np.ones(40), np.eye(2)[y], "labels")
            for h in (0.0, ulps * 2.0**-53)
        )
        limits = Limits(max_depth=1, min_weight=4.0)
        one, other = grown(crisp, limits), grown(fuzzy, limits)
        assert other.loss[1:].sum() <= one.loss[1:].sum() + 1e-9
        assert other.weight[1:].min() >= 4 - 1e-9


def test_a_jump_at_the_upper_bound_of_a_box_can_be_cut_off():
    """In the box x' <= 0, the crisp row at 0 is of one class, and all else of the other."""
    sample = Sample(
        np.array([[0.0], [1.0], [1.0]]),
        (box(1.0),),
        np.array([[0.0], [2.0], [0.0]]),
        np.array([4.0, 4.0, 3.0]),
        np.eye(2)[[0, 1, 1]],
        "labels",
    )
    tree = grown(sample, Limits(max_depth=2, min_weight=0.5))
    assert tree.threshold[0] == 0
    assert tree.loss[tree.is_leaf].sum() == pytest.approx(0, abs=1e-12)


def test_equal_values_of_unequal_uncertainty_can_be_split():
    """Sure and unsure values of one size: what lies far out is of the unsure class."""
    unsure = np.arange(40) % 2
    width = np.where(unsure, 10.0, 0.1)[:, None]
    sample = Sample(np.zeros((40, 1)), (box(1.0),), width, np.ones(40), np.eye(2)[unsure], "labels")
    tree = grown(sample, Limits())
    assert tree.n_leaves == 3  # below, within and above the sure ones
    assert tree.loss[tree.is_leaf].sum() < 0.3 * tree.loss[0]


@pytest.mark.parametrize("least", [0.0, 1e-12, 1e-6])
def test_no_leaf_is_empty_however_little_is_allowed(least):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sample = fuzzy_rows("labels", rng)
        tree = grown(sample, Limits(min_weight=least, max_depth=4))
        assert tree.weight.min() > 0
        assert np.all(np.isfinite(tree.value))


@pytest.mark.parametrize(
    "bandwidth",
    [1e-310, 1e-300, 1e-100, 1e100, 1e300],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_bandwidths_at_the_ends_of_the_range(bandwidth):
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    sample = Sample(X, (box(bandwidth),), None, np.ones(4), np.eye(2)[[0, 0, 1, 1]], "labels")
    tree = grown(sample, Limits())
    assert np.all(np.isfinite(tree.value))
    if bandwidth < 1:
        assert tree.weight.tolist() == [4, 2, 2]


@pytest.mark.full
@pytest.mark.parametrize("criterion", ["labels", "squares"])
def test_many_rows(criterion):
    rng = np.random.default_rng(0)
    n = 100_000
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
    densities = densities_of(X, [box(0.1)] * 5)
    own = class_targets(y, 2, "gini") if criterion == "labels" else mean_targets(y[:, None] + 0.0)
    tree = grow_tree(
        densities, events_of(densities), own, np.ones(n), Limits(max_depth=8, min_weight=20.0)
    )
    assert tree.weight[tree.is_leaf].sum() == pytest.approx(n, abs=1e-9 * n * tree.left.size)
    assert tree.weight[tree.is_leaf].min() >= 20 - 1e-4
    share = tree.loss[tree.is_leaf].sum() / tree.loss[0]
    assert share < 0.5


@pytest.mark.parametrize("power", [-54, -53, -52, -51, -50, -48])
def test_a_bandwidth_below_the_last_place_of_values_ends_in_a_tree(power):
    """A cut within so narrow a density rounds to one of its ends: such values count as crisp."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = 1 + rng.integers(0, 9, (12, 1)) * 2.0**-52
        y = rng.integers(0, 3, (12, 1)).astype(float)
        densities = densities_of(x, [box(2.0**power)])
        tree = grow_tree(
            densities, events_of(densities), mean_targets(y), np.ones(12), Limits(min_weight=1.0)
        )
        assert np.all(np.isfinite(tree.value))
        assert tree.weight[tree.is_leaf].min() > 0.5  # cuts are rounded, and so are weights
