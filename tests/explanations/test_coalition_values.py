"""Forests of any kind with background rows: sums over all subsets, and samples of them."""

from __future__ import annotations

from dataclasses import replace

import explanation_games
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import KINDS, ONE_HOT, examples, forests, rows

import bitvec
from bitvec.core import reference, transforms
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Output, PostTransform
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.explanations.background_values import BackgroundValues
from bitvec.explanations.coalition_values import CoalitionValues
from bitvec.explanations.contributions import in_float64
from bitvec.explanations.explainer import Explainer, explain
from bitvec.explanations.unsupported import MOST_COLUMNS, Background, background_method
from tests.explanations.test_explainer import FLOAT64, STUMP


@st.composite
def any_forest(draw: st.DrawFn, **options: object) -> tuple[Forest, Array]:
    """A forest of any kind and rows for it, whose linear terms stay small."""
    forest = draw(forests(**{"max_leaves": 12, "soft": draw(st.booleans()), **options}))
    return forest, np.clip(draw(rows(forest, max_rows=4)), -10, 10)


def agree(forest: Forest, explainer: Explainer, X: Array, background: Array, answer) -> None:
    """Hold values, interactions and the base value to the sums over all subsets."""
    assert explainer.is_exact
    values, pairs = (
        found if forest.n_outputs > 1 else found[..., None]
        for found in (explainer.values(X), explainer.interactions(X))
    )
    for x, of_columns, of_pairs in zip(X, values, pairs, strict=True):
        game = explanation_games.mixed_game(answer, x, background)
        base = np.atleast_1d(explainer.base_value)
        wanted = explanation_games.shapley_values(game, forest.n_features)
        atol = FLOAT64 * (1 + 10 * np.abs(base).max() + 10 * np.abs(wanted).sum() + 100)
        np.testing.assert_allclose(of_columns, wanted, rtol=0, atol=atol)
        wanted = explanation_games.shapley_interactions(game, forest.n_features)
        np.testing.assert_allclose(of_pairs, wanted, rtol=0, atol=atol)
        np.testing.assert_allclose(base, game(frozenset()), rtol=0, atol=atol)


@given(any_forest(kinds=KINDS))
@examples(60)
def test_raw_scores_of_any_forest_are_explained_exactly(drawn):
    forest, X = drawn
    wide = in_float64(forest)
    explainer = explain(forest, background=X)
    agree(forest, explainer, X, X, lambda rows: bitvec.compile(wide).raw(rows))


@given(any_forest(kinds=KINDS, classifier=True))
@examples(30)
def test_scores_after_the_link_are_explained_exactly(drawn):
    forest, X = drawn
    explainer = explain(forest, background=X, response="scores")
    agree(forest, explainer, X, X, lambda rows: bitvec.compile(forest).scores(rows))


@given(any_forest(kinds=ONE_HOT, linear=False, soft=False), st.booleans())
@examples(30)
def test_forests_that_are_explained_leaf_by_leaf_have_the_same_values(drawn, at_once):
    forest, X = drawn
    if background_method(forest, "raw") is not Background.BY_LEAF:
        return
    method = CoalitionValues(forest, X, response="raw", at_once=at_once, permutations=None, seed=0)
    by_leaf = BackgroundValues(forest, X)
    size = 1 + np.abs(forest.output.base_score).max() + np.abs(by_leaf.values(X)).max()
    atol = 10 * FLOAT64 * size
    np.testing.assert_allclose(method.values(X), by_leaf.values(X), rtol=0, atol=atol)
    np.testing.assert_allclose(method.interactions(X), by_leaf.interactions(X), rtol=0, atol=atol)
    np.testing.assert_allclose(method.base, by_leaf.base, rtol=0, atol=atol)


def oblique(n_features: int, n_trees: int, depth: int = 4) -> Forest:
    """A forest of complete trees whose nodes weigh all columns."""
    rng = np.random.default_rng(0)
    n_nodes = 2**depth - 1
    left = [2 * i + 1 if 2 * i + 1 < n_nodes else ~(2 * i + 1 - n_nodes) for i in range(n_nodes)]
    right = [2 * i + 2 if 2 * i + 2 < n_nodes else ~(2 * i + 2 - n_nodes) for i in range(n_nodes)]
    from bitvec.core.inputs import Inputs
    from bitvec.core.leaves import Leaves
    from bitvec.core.node_tests import from_rows
    from bitvec.core.structure import from_children

    tests = from_rows(
        np.arange(n_nodes + 1) * n_features,
        np.tile(np.arange(n_features), n_nodes),
        rng.normal(size=n_nodes * n_features),
        rng.normal(size=n_nodes) * 0.3,
    )
    one = Forest(
        tests,
        from_children(left, right, [0]),
        Leaves(rng.normal(size=(n_nodes + 1, 2))),
        Output(
            2,
            np.dtype(np.float64),
            classes=(np.array(["no", "yes"]),),
            post_transform=PostTransform.SOFTMAX,
        ),
        Inputs(n_features),
    )
    return one.take(np.zeros(n_trees, int))


@pytest.mark.parametrize("response", ["raw", "scores"])
def test_sampled_values_are_within_their_standard_errors(response):
    forest, rng = oblique(8, 1), np.random.default_rng(1)
    X = rng.normal(size=(40, 8))
    exact = explain(forest, background=X[:10], response=response).values(X)
    explainer = explain(forest, background=X[:10], response=response, permutations=4)
    assert not explainer.is_exact
    assert "sampled by 4 permutations" in repr(explainer)
    found = explainer.estimates(X)
    np.testing.assert_array_equal(found.values, explainer.values(X))
    assert found.standard_error.shape == (*X.shape, 2)
    assert np.all(found.standard_error > 0)
    many = explain(forest, background=X[:10], response=response, permutations=14).estimates(X)
    off = np.abs(many.values - exact) / many.standard_error
    assert off.max() < 5
    # A standard error is that of a mean: about a third lie beyond one of them.
    assert 0.2 < np.mean(off > 1) < 0.5
    answer = getattr(bitvec.compile(forest), response)(X)
    gap = explainer.base_value + found.values.sum(axis=1) - answer
    assert np.abs(gap).max() < 1e-13


@pytest.mark.parametrize("response", ["raw", "scores"])
def test_sampled_interactions_are_within_their_standard_errors(response):
    forest, rng = oblique(8, 1), np.random.default_rng(1)
    X = rng.normal(size=(6, 8))
    exact = explain(forest, background=X, response=response).interactions(X)
    explainer = explain(forest, background=X, response=response, permutations=12)
    found = explainer.estimates(X, interactions=True)
    np.testing.assert_array_equal(found.values, explainer.interactions(X))
    assert found.standard_error.shape == found.values.shape == (6, 8, 8, 2)
    np.testing.assert_allclose(found.values.sum(axis=2), explainer.values(X), rtol=0, atol=1e-13)
    off = np.abs(found.values - exact) / found.standard_error
    assert off.max() < 8  # of 12 pairs of orders the errors themselves are rough
    assert 0.2 < np.mean(off > 1) < 0.5


def test_rows_of_many_columns_need_permutations():
    forest = oblique(MOST_COLUMNS + 1, 1)
    X = np.random.default_rng(0).normal(size=(9, MOST_COLUMNS + 1))
    with pytest.raises(InputError, match=r"at most 12 columns, got 13 .* pass `permutations`"):
        explain(forest, background=X)
    explainer = explain(forest, background=X, permutations=2, n_jobs=2)
    done: list[float] = []
    found = explainer.values(X, progress=done.append)
    assert done == sorted(done)
    assert done[-1] == 1
    one_by_one = np.concatenate([explainer.values(x[None]) for x in X])
    np.testing.assert_array_equal(found, one_by_one)
    np.testing.assert_array_equal(explainer.values(iter([X[:2], X[2:]])), found)
    other = explain(forest, background=X, permutations=2, seed=1).values(X)
    assert np.abs(other - found).max() > 0
    pairs = explainer.interactions(X, progress=None)
    np.testing.assert_array_equal(pairs, np.swapaxes(pairs, 1, 2))
    np.testing.assert_allclose(pairs.sum(axis=2), found, rtol=0, atol=1e-13)


def test_values_are_exact_where_that_takes_no_more_predictions():
    forest = oblique(4, 1)
    X = np.random.default_rng(0).normal(size=(9, 4))
    explainer = explain(forest, background=X, permutations=20)
    assert explainer.is_exact
    np.testing.assert_array_equal(explainer.values(X), explain(forest, background=X).values(X))
    np.testing.assert_array_equal(explainer.estimates(X).standard_error, 0)
    pairs = explainer.estimates(X, interactions=True)
    np.testing.assert_array_equal(pairs.values, explainer.interactions(X))
    np.testing.assert_array_equal(pairs.standard_error, 0)


def test_maps_and_medians_are_explained_as_a_whole():
    from sklearn.ensemble import AdaBoostRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    model = AdaBoostRegressor(n_estimators=5, random_state=0).fit(X, X[:, 0] * X[:, 1])
    forest = bitvec.convert(model)
    agree(forest, explain(forest, background=X[:8]), X[8:12], X[:8],
          lambda rows: reference.raw(forest, rows))  # fmt: skip


def test_options_are_checked():
    X = np.zeros((1, 2))
    for permutations in (1, 2.0, True):
        with pytest.raises(InputError, match="`permutations` must be a whole number, 2 at least"):
            explain(STUMP, background=X, permutations=permutations)
    with pytest.raises(InputError, match="`seed` must be a whole number"):
        explain(STUMP, background=X, seed=-1)
    with pytest.raises(InputError, match="`response` must be one of raw, scores"):
        explain(STUMP, background=X, response="proba")
    with pytest.raises(InputError, match="`permutations` must come with `background`"):
        explain(STUMP, permutations=10)
    output = Output(1, np.dtype(np.float64), post_transform=PostTransform.SIGMOID)
    with pytest.raises(UnsupportedModelError, match="before the link"):
        explain(replace(STUMP, output=output), response="scores")
    identity = explain(STUMP, background=X, response="scores")
    np.testing.assert_array_equal(identity.values(X), explain(STUMP, background=X).values(X))
    assert transforms.transform(STUMP.output, np.ones((1, 1))) == 1


def test_forests_without_trees_and_nodes_have_values_of_zero():
    for forest in (STUMP[:0], Forest.from_matrices(np.zeros((0, 2)), [], np.zeros((1, 0)), [7.0])):
        for permutations in (None, 2):
            method = CoalitionValues(
                forest, np.zeros((3, 2)), response="raw", at_once=permutations is None,
                permutations=permutations, seed=0,
            )  # fmt: skip
            np.testing.assert_array_equal(method.values(np.ones((2, 2))), np.zeros((2, 2, 1)))
