"""Growth: the tree is the one that the definition gives, within its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kddt_growth import (
    MARGIN,
    Box,
    Node,
    Sample,
    best_splits,
    everywhere,
    grow_slowly,
    weights,
)
from kddt_samples import kernel, samples, targets
from sklearn.datasets import load_iris

from bitvec.core.kernels import box
from bitvec.learners.kddt.events import events_of
from bitvec.learners.kddt.scan import ROUNDING
from bitvec.learners.kddt.tree import GrownTree, Limits, grow_tree


def grown(sample: Sample, limits: Limits, seed: int = 0) -> GrownTree:
    densities = sample.densities
    return grow_tree(densities, events_of(densities), sample.targets, sample.weight, limits, seed)


def same_arrays(one: GrownTree, other: GrownTree, **close) -> None:
    for name in ("left", "right", "feature"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    inner = ~one.is_leaf
    np.testing.assert_allclose(one.threshold[inner], other.threshold[inner], **close)
    for name in ("weight", "loss", "total"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), **close)


def require_same(node: Node, tree: GrownTree, k: int, scale: float) -> int:
    """Compare node for node and return how many splits were compared.

    Where several splits are equally good, the losses are compared, and what follows is not.
    """
    # Sums of some tens of terms of this size; a row of less than 1e-9 is dropped by either.
    close = 1e-8 * scale
    assert tree.weight[k] == pytest.approx(node.weight, abs=close)
    assert tree.loss[k] == pytest.approx(node.loss, abs=close)
    if node.split is None:
        assert tree.is_leaf[k]
        return 0
    if tree.is_leaf[k]:
        assert node.loss - node.split.loss <= MARGIN * node.weight
        return 0
    left, right = tree.left[k], tree.right[k]
    assert tree.loss[left] + tree.loss[right] == pytest.approx(node.split.loss, abs=close)
    same = (
        tree.feature[k] == node.split.feature
        and abs(tree.threshold[k] - node.split.threshold) <= 1e-9
    )
    if not same:
        assert not node.unique
        return 0
    assert node.left is not None
    assert node.right is not None
    return (
        1
        + require_same(node.left, tree, left, scale)
        + require_same(node.right, tree, right, scale)
    )


def scale_of(sample: Sample) -> float:
    return max(float(sample.weight.sum()), 1.0) * max(float(np.max(sample.Y**2)), 1.0)


@given(
    samples(max_rows=7, max_features=2, densities=("constant", "by location")),
    st.sampled_from([0.3, 0.5, 1.0]),
)
def test_the_grown_tree_is_the_one_of_the_definition(sample, min_weight):
    limits = Limits(max_depth=3, min_weight=min_weight)
    require_same(grow_slowly(sample, limits), grown(sample, limits), 0, scale_of(sample))


DIFFERENT = list(
    product(
        (False, True),
        ("box", "asymmetric", "hollow"),
        ("labels", "shares", "entropy", "squares"),
    )
)


@pytest.mark.parametrize(("crisp", "shape", "criterion"), DIFFERENT)
def test_the_grown_tree_is_the_one_of_the_definition_where_values_differ(crisp, shape, criterion):
    rng = np.random.default_rng(len(criterion) + len(shape))
    n = 12
    width = rng.uniform(0.05, 1.0, (n, 2)) * (rng.random((n, 2)) < 0.5 if crisp else 1)
    sample = Sample(
        rng.normal(size=(n, 2)),
        (kernel(shape, 1.0), kernel("box", 1.0)),
        width,
        rng.uniform(0.5, 1.5, n),
        targets(criterion, n, 2, rng),
        criterion,
    )
    limits = Limits(max_depth=3, min_weight=0.7)
    assert require_same(grow_slowly(sample, limits), grown(sample, limits), 0, scale_of(sample)) > 0


def iris(criterion: str, bandwidth: float, every: int = 5) -> Sample:
    X, y = load_iris(return_X_y=True)
    X, y = X[::every], y[::every]
    Y = X[:, 3:] if criterion == "squares" else np.eye(3)[y]
    X = X[:, :3] if criterion == "squares" else X
    kernels = tuple(box(bandwidth * own) for own in X.std(axis=0))
    return Sample(X, kernels, None, np.ones(len(X)), Y, criterion)


def require_greedy(
    sample: Sample, tree: GrownTree, limits: Limits, k: int, place: Box, depth: int = 0
) -> None:
    """Require of each node of a tree, in its own box, the best split, or a reason for none."""
    close = 1e-8 * scale_of(sample)
    u = weights(sample, place)
    assert tree.weight[k] == pytest.approx(u.sum(), abs=close)
    splits = best_splits(sample, place, limits)
    if tree.is_leaf[k]:
        allowed = depth < limits.max_depth and u.sum() >= 2 * limits.min_weight and splits
        if allowed:
            best = min(c.loss for c in splits)
            assert tree.loss[k] - best <= MARGIN * u.sum()
        return
    left, right = tree.left[k], tree.right[k]
    assert tree.loss[left] + tree.loss[right] <= min(c.loss for c in splits) + close
    at = int(tree.feature[k]), float(tree.threshold[k])
    require_greedy(sample, tree, limits, left, place.left(*at), depth + 1)
    require_greedy(sample, tree, limits, right, place.right(*at), depth + 1)


@pytest.mark.parametrize("criterion", ["labels", "entropy", "squares"])
def test_each_split_on_iris_is_the_best_in_its_box(criterion):
    sample, limits = iris(criterion, 0.3), Limits(max_depth=2, min_weight=2.0)
    tree = grown(sample, limits)
    assert tree.n_leaves > 2
    require_greedy(sample, tree, limits, 0, everywhere(sample))


@pytest.mark.full
@pytest.mark.parametrize("criterion", ["labels", "entropy", "squares"])
@pytest.mark.parametrize("bandwidth", [1e-3, 0.5])
def test_each_split_of_deeper_trees_on_iris_is_the_best_in_its_box(criterion, bandwidth):
    sample, limits = iris(criterion, bandwidth, every=3), Limits(max_depth=4)
    require_greedy(sample, grown(sample, limits), limits, 0, everywhere(sample))


@pytest.mark.parametrize("bandwidth", [0.0, 0.8])
@pytest.mark.parametrize("criterion", ["labels", "entropy", "squares"])
def test_values_on_a_grid_grow_the_tree_of_the_walk_along_events(criterion, bandwidth):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 12, (400, 3)).astype(float)
    weight = rng.uniform(0.5, 1.5, 400)
    sample = Sample(
        X, (box(bandwidth),) * 3, None, weight, targets(criterion, 400, 3, rng), criterion
    )
    limits = Limits(max_depth=5, min_weight=2.0)
    events = events_of(sample.densities)
    assert np.all(events.n_positions == 12 * (1 if bandwidth == 0 else 2))
    walked = events._replace(n_positions=np.zeros(3, np.int64))
    trees = [
        grow_tree(sample.densities, own, sample.targets, weight, limits) for own in (events, walked)
    ]
    assert trees[0].n_leaves > 8
    same_arrays(*trees, rtol=1e-9, atol=1e-9)


@given(samples(max_rows=20), st.sampled_from([0.25, 0.5, 1.0, 2.5]))
def test_no_leaf_is_lighter_than_allowed(sample, min_weight):
    tree = grown(sample, Limits(min_weight=min_weight))
    # A row whose weight in a child is below 1e-9 is left out there.
    dropped = 1e-9 * len(sample.X) * tree.left.size
    if tree.n_leaves > 1:
        assert tree.weight[tree.is_leaf].min() >= min_weight - ROUNDING - dropped


@pytest.mark.parametrize("depth", range(5))
def test_no_leaf_is_deeper_than_allowed(depth):
    tree = grown(iris("labels", 0.3), Limits(max_depth=depth))
    deep = np.zeros(tree.left.size, int)
    for node in np.flatnonzero(~tree.is_leaf):
        deep[[tree.left[node], tree.right[node]]] = deep[node] + 1
    assert deep.max() == depth


def test_growth_goes_on_where_depth_ends_it():
    sample = iris("entropy", 0.3)
    shallow, deep = (grown(sample, Limits(max_depth=depth)) for depth in (3, 6))
    assert shallow.n_leaves < deep.n_leaves
    level = np.zeros(deep.left.size, int)
    for node in np.flatnonzero(~deep.is_leaf):
        level[[deep.left[node], deep.right[node]]] = level[node] + 1
    same_arrays(deep.cut((level == 3) & ~deep.is_leaf), replace(shallow), rtol=0, atol=0)


@pytest.mark.parametrize("min_gain", [0.001, 0.01, 0.05, 0.2])
def test_each_split_gains_what_is_asked(min_gain):
    sample = iris("labels", 0.3)
    tree, free = grown(sample, Limits(min_gain=min_gain)), grown(sample, Limits())
    inner = np.flatnonzero(~tree.is_leaf)
    gain = tree.loss[inner] - tree.loss[tree.left[inner]] - tree.loss[tree.right[inner]]
    assert np.all(gain >= min_gain * sample.weight.sum() - 1e-9)
    poor = np.zeros(free.left.size, bool)
    inner = np.flatnonzero(~free.is_leaf)
    gain = free.loss[inner] - free.loss[free.left[inner]] - free.loss[free.right[inner]]
    poor[inner] = gain < min_gain * sample.weight.sum()
    assert poor.any()
    same_arrays(free.cut(poor), tree, rtol=0, atol=0)


def ranked_features() -> Sample:
    """Return four features, each a better split of the rows than the next."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    columns = [y + 0.0, *(np.where(rng.random(100) < p, 1 - y, y) + 0.0 for p in (0.1, 0.2, 0.3))]
    X = np.column_stack([*columns, np.zeros(100)])  # a constant column counts for none
    return Sample(X, (box(0.0),) * 5, None, np.ones(100), np.eye(2)[y], "labels")


@pytest.mark.parametrize("max_features", [1, 2, 3, 4])
def test_features_are_drawn_without_replacement(max_features):
    """Of four ranked features, the first of those drawn is chosen."""
    sample = ranked_features()
    densities = sample.densities
    events, n_draws = events_of(densities), 4000
    limits = Limits(max_depth=1, max_features=max_features)
    chosen = np.zeros(5)
    for seed in range(n_draws):
        tree = grow_tree(densities, events, sample.targets, sample.weight, limits, seed)
        chosen[tree.feature[0]] += 1
    share = {1: [1 / 4] * 4, 2: [1 / 2, 1 / 3, 1 / 6, 0], 3: [3 / 4, 1 / 4, 0, 0], 4: [1, 0, 0, 0]}
    expected = np.array([*share[max_features], 0])
    sigma = np.sqrt(expected * (1 - expected) / n_draws)
    assert np.all(np.abs(chosen / n_draws - expected) <= 5 * sigma)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_seed_gives_the_same_tree_again(drawn):
    sample = iris("labels", 0.3)
    limits = Limits(max_features=2, random_thresholds=drawn)
    trees = [grown(sample, limits, seed) for seed in (1, 1, 2)]
    same_arrays(trees[0], trees[1], rtol=0, atol=0)
    assert not np.array_equal(trees[0].threshold, trees[2].threshold)


@given(samples(max_rows=12), st.integers(0, 2**32 - 1))
def test_counts_are_repeated_rows(sample, seed):
    count = np.random.default_rng(seed).integers(0, 4, len(sample.X))
    count[0] = max(count[0], 1)
    counted = replace(sample, weight=count.astype(float))
    again = np.repeat(np.arange(len(sample.X)), count)
    own = None if sample.uncertainty is None else sample.uncertainty[again]
    repeated = Sample(
        sample.X[again], sample.kernels, own, np.ones(again.size), sample.Y[again], sample.criterion
    )
    limits = Limits(max_depth=1)
    one, other = grown(counted, limits), grown(repeated, limits)
    assert one.left.size == other.left.size
    np.testing.assert_allclose(
        one.loss[one.is_leaf].sum(), other.loss[other.is_leaf].sum(), rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(one.weight[0], other.weight[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(one.value[0], other.value[0], rtol=0, atol=1e-9)


@given(samples(max_rows=12))
def test_a_row_of_no_weight_is_not_there(sample):
    there = np.flatnonzero(sample.weight)
    own = None if sample.uncertainty is None else sample.uncertainty[there]
    less = Sample(
        sample.X[there],
        sample.kernels,
        own,
        sample.weight[there],
        sample.Y[there],
        sample.criterion,
    )
    targets, limits = sample.targets, Limits(min_weight=0.5, max_depth=6)
    one = grown(sample, limits)
    densities = less.densities
    other = grow_tree(densities, events_of(densities), targets.take(there), less.weight, limits)
    same_arrays(one, other, rtol=0, atol=0)


@given(samples(max_rows=12), st.integers(0, 3))
def test_drawn_thresholds_lie_where_the_density_is(sample, seed):
    tree = grown(sample, Limits(random_thresholds=True, max_features=1, min_weight=0.5), seed)
    inner = np.flatnonzero(~tree.is_leaf)
    assert np.all(np.isfinite(tree.threshold[inner]))
    sides = tree.weight[tree.left[inner]] + tree.weight[tree.right[inner]]
    np.testing.assert_allclose(sides, tree.weight[inner], rtol=0, atol=1e-9 * (len(sample.X) + 1))
    if inner.size:
        assert tree.weight[tree.is_leaf].min() >= 0.5 - 1e-9 * (len(sample.X) + 1)
