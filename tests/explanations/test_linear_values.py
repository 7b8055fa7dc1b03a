"""Forests with linear leaves: values and interactions equal to sums over all subsets."""

from __future__ import annotations

import explanation_games
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, SET, examples, forests, rows

import bitvec
from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import UnsupportedModelError
from bitvec.explanations.contributions import in_float64
from bitvec.explanations.explainer import explain
from bitvec.explanations.linear_values import MOST_READ
from tests.explanations.test_explainer import FLOAT64, LINEAR, STUMP


@st.composite
def linear(draw: st.DrawFn) -> tuple[Forest, Array]:
    """A forest with linear leaves and rows, with missing values and no number beyond 10."""
    aggregates = (Aggregate.SUM, Aggregate.MEAN)
    given = {"kinds": (AXIS, SET, EQUAL), "max_leaves": 12, "aggregates": aggregates}
    forest = draw(forests(**given).filter(lambda forest: forest.leaves.linear is not None))
    return forest, np.clip(draw(rows(forest, max_rows=5)), -10, 10)


@given(linear())
@examples(60)
def test_values_and_interactions_are_the_sums_over_all_subsets(drawn):
    forest, X = drawn
    background = X[1:] if len(X) > 1 else X
    explainer = explain(forest, background=background)
    values, pairs = (
        found if forest.n_outputs > 1 else found[..., None]
        for found in (explainer.values(X), explainer.interactions(X))
    )
    size = 1 + 100 * np.abs(in_float64(forest).output.base_score).max() + 1e3 * forest.n_trees
    wide = in_float64(forest)
    for x, of_columns, of_pairs in zip(X, values, pairs, strict=True):
        game = explanation_games.mixed_game(lambda r: reference.raw(wide, r), x, background)
        wanted = explanation_games.shapley_values(game, forest.n_features)
        np.testing.assert_allclose(of_columns, wanted, rtol=0, atol=FLOAT64 * size)
        wanted = explanation_games.shapley_interactions(game, forest.n_features)
        np.testing.assert_allclose(of_pairs, wanted, rtol=0, atol=FLOAT64 * size)
        base = np.atleast_1d(explainer.base_value)
        np.testing.assert_allclose(base, game(frozenset()), rtol=0, atol=FLOAT64 * size)


def test_linear_trees_of_lightgbm_sum_to_their_raw_scores():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30))
    X[rng.random(X.shape) < 0.02] = np.nan
    y = np.nansum(X[:, :5], axis=1) * (X[:, 5] > 0)
    options = {"n_estimators": 10, "linear_tree": True, "n_jobs": 1, "verbose": -1}
    forest = bitvec.convert(lightgbm.LGBMRegressor(**options).fit(X, y))
    assert forest.leaves.linear is not None
    explainer = explain(forest, background=X[:50], n_jobs=2)
    assert explainer.is_exact
    total = explainer.base_value + explainer.values(X[50:]).sum(axis=1)
    raw = bitvec.compile(forest).raw(X[50:])[:, 0]
    np.testing.assert_allclose(total, raw, rtol=0, atol=1e-12 * np.abs(raw).max())


def test_leaves_of_too_many_columns_are_refused():
    from dataclasses import replace

    n = MOST_READ
    wide = Forest.from_matrices(np.eye(1, n), [0.5], [[0], [1]], [1, 2])
    terms = replace(
        LINEAR,
        leaf_ptr=np.array([0, n, n]),
        column=np.arange(n, dtype=np.int32),
        weight=np.ones((n, 1)),
    )
    forest = replace(wide, leaves=replace(wide.leaves, linear=terms))
    values = explain(forest, background=np.zeros((1, n))).values(np.full((1, n), 0.25))
    np.testing.assert_allclose(values, np.full((1, n), 0.25), rtol=1e-12)
    more = Forest.from_matrices(np.eye(1, n + 1), [0.5], [[0], [1]], [1, 2])
    terms = replace(
        terms,
        leaf_ptr=np.array([0, n + 1, n + 1]),
        column=np.arange(n + 1, dtype=np.int32),
        weight=np.ones((n + 1, 1)),
    )
    with pytest.raises(UnsupportedModelError, match=f"at most {n} columns .* got {n + 1}"):
        explain(
            replace(more, leaves=replace(more.leaves, linear=terms)),
            background=np.zeros((1, n + 1)),
        )
    assert STUMP.leaves.linear is None
