"""Weights: what reaches a leaf in training is what prediction under the same kernel sends there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kddt_growth import Sample
from kddt_samples import SHAPES, kernel, samples
from sklearn.datasets import load_wine

from bitvec.converters.native import KDDT
from bitvec.core.kernels import FeatureKernel
from bitvec.learners.kddt.events import events_of
from bitvec.learners.kddt.growth import SMALLEST
from bitvec.learners.kddt.tree import GrownTree, Limits, grow_tree, native


def with_own_classes(sample: Sample) -> Sample:
    """Return the sample in which each row is a class: totals then hold each row's weight."""
    return replace(sample, Y=np.eye(len(sample.X)), criterion="labels")


def grow_native(sample: Sample, limits: Limits) -> tuple[GrownTree, KDDT]:
    densities = sample.densities
    tree = grow_tree(densities, events_of(densities), sample.targets, sample.weight, limits)
    return tree, native(tree, sample.X.shape[1], kernel=sample.kernels)


def tolerance(tree: GrownTree, sample: Sample) -> float:
    """Return how much weight the cut of small weights can lose: one for each node of a path."""
    return SMALLEST * tree.left.size + 1e-12 * float(sample.weight.sum())


@given(
    samples(max_rows=20, densities=("constant", "by location")), st.sampled_from([0.1, 0.5, 1.0])
)
def test_weights_of_rows_are_memberships(sample, min_weight):
    sample = with_own_classes(sample)
    tree, model = grow_native(sample, Limits(min_weight=min_weight, max_depth=8))
    leaf = np.flatnonzero(tree.is_leaf)
    expected = sample.weight[:, None] * model.memberships(sample.X)
    np.testing.assert_allclose(tree.total[leaf].T, expected, rtol=0, atol=tolerance(tree, sample))


@given(samples(max_rows=20), st.sampled_from([0.1, 1.0]))
def test_weights_of_leaves_sum_to_the_total(sample, min_weight):
    tree, _ = grow_native(sample, Limits(min_weight=min_weight, max_depth=8))
    lost = tolerance(tree, sample) * len(sample.X)
    assert tree.weight[0] == pytest.approx(sample.weight.sum(), rel=1e-15)
    assert tree.weight[tree.is_leaf].sum() == pytest.approx(tree.weight[0], abs=lost)
    inner = np.flatnonzero(~tree.is_leaf)
    sides = tree.weight[tree.left[inner]] + tree.weight[tree.right[inner]]
    np.testing.assert_allclose(sides, tree.weight[inner], rtol=0, atol=lost)


def wine(shape: str) -> Sample:
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return Sample(
        X, (kernel(shape, 0.4),) * X.shape[1], None, np.ones(len(X)), np.eye(3)[y], "labels"
    )


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_weights_on_wine_are_memberships(shape):
    sample = wine(shape)
    tree, model = grow_native(with_own_classes(sample), Limits(min_weight=5.0))
    leaf = np.flatnonzero(tree.is_leaf)
    assert leaf.size > 5
    np.testing.assert_allclose(
        tree.total[leaf].T, model.memberships(sample.X), rtol=0, atol=tolerance(tree, sample)
    )


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_values_are_weighted_means_under_memberships(shape):
    sample = wine(shape)
    sample = replace(sample, weight=np.random.default_rng(0).uniform(0.2, 2, len(sample.X)))
    tree, model = grow_native(sample, Limits())
    u = sample.weight[:, None] * model.memberships(sample.X)
    expected = (u.T @ sample.Y) / u.sum(axis=0)[:, None]
    np.testing.assert_allclose(tree.value[tree.is_leaf], expected, rtol=0, atol=1e-6)


def drawn_values(
    densities: tuple[FeatureKernel, ...], x: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Return rows drawn from the kernels around x."""
    columns = []
    for density, value in zip(densities, x, strict=True):
        piece = rng.choice(density.mass.size, n, p=density.mass)
        u = density.edges[piece] + rng.random(n) * np.diff(density.edges)[piece]
        width = density.bandwidth[np.searchsorted(density.location, value, side="right")]
        columns.append(value + width * u)
    return np.column_stack(columns)


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_crisp_routes_of_drawn_rows_have_the_frequencies_of_memberships(shape):
    sample, n = wine(shape), 20_000
    tree, model = grow_native(sample, Limits(max_depth=5, min_weight=2.0))
    rng = np.random.default_rng(1)
    for row in (0, 70, 150):
        u = model.memberships(sample.X[row : row + 1])[0]
        leaf = model.decide(drawn_values(sample.kernels, sample.X[row], n, rng))
        frequency = np.bincount(leaf, minlength=tree.n_leaves) / n
        sigma = np.sqrt(u * (1 - u) / n)
        assert np.all(np.abs(frequency - u) <= 5 * sigma + 1e-12)


@given(samples(max_rows=12, densities=("constant", "by location")), st.integers(0, 99))
def test_native_predicts_what_a_walk_does(sample, seed):
    tree, _ = grow_native(sample, Limits(min_weight=0.5))
    model = native(tree, sample.X.shape[1])
    rng = np.random.default_rng(seed)
    X = np.vstack([sample.X, rng.normal(size=(10, sample.X.shape[1]))])
    used = np.flatnonzero(~tree.is_leaf)
    for node in used[:5]:  # rows that sit on thresholds go left
        X[rng.integers(len(X)), tree.feature[node]] = tree.threshold[node]
    for row, given_value in zip(X, model.raw(X), strict=True):
        node = 0
        while not tree.is_leaf[node]:
            right = row[tree.feature[node]] > tree.threshold[node]
            node = tree.right[node] if right else tree.left[node]
        np.testing.assert_array_equal(given_value, tree.value[node])
