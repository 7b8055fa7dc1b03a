"""Recipes of growth: the forest that comes back answers as the blend of its candidates."""

from __future__ import annotations

import numpy as np
import pytest

import bitvec
from bitvec.runtime.train.grow.faded_trees import FADED
from bitvec.runtime.train.update import growth_recipes
from bitvec.runtime.train.update.growth_recipes import RECIPES

lightgbm = pytest.importorskip("lightgbm")
N = 400


def rows(n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3 * N, 3))
    wave = np.sin(2 * X[:, 0]) + X[:, 1] * (np.arange(len(X)) > N)
    cuts = {2: [0.0], 3: [-0.7, 0.7]}
    return X, np.digitize(wave, cuts[n_classes]) if n_classes else wave


def booster(X, y, n_classes=2):
    objective = {0: "regression", 2: "binary"}.get(n_classes, "multiclass")
    options = {"objective": objective, "num_leaves": 8, "verbose": -1, "num_threads": 1}
    options |= {"num_class": n_classes} if n_classes > 2 else {}
    return bitvec.convert(lightgbm.train(options, lightgbm.Dataset(X, y), 10))


@pytest.mark.parametrize("grow", [1, 2, 7, 60])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_the_forest_answers_as_the_blend_of_its_candidates(grow, n_classes, monkeypatch):
    X, y = rows(n_classes)
    forest, calls, told = booster(X[:N], y[:N], n_classes), [], []
    weights = growth_recipes.weights

    def watched(held, choice):
        calls.append((held, weights(held, choice)))
        return calls[-1][1]

    monkeypatch.setattr(growth_recipes, "weights", watched)
    new, old = slice(2 * N, 3 * N), slice(N, 2 * N)
    found = bitvec.update(
        forest, X[new], y[new], replay=(X[old], y[old]), refit=False, grow=grow,
        progress=told.append,
    )  # fmt: skip
    assert found.updated
    [(held, share)] = calls
    blend = np.tensordot(share, np.stack(held), 1)
    raw = bitvec.compile(found.forest).raw(X[new][-N // 5 :]).reshape(blend.shape)
    assert np.std(raw - blend, axis=0).max() <= FADED * np.std(blend, axis=0).max() + 1e-9
    assert np.abs((raw - blend).mean()) < 1e-2
    assert [one.step for one in told] == [*range(1, len(RECIPES) + 1)]
    assert {(one.stage, one.steps) for one in told} == {("trees", len(RECIPES))}
    assert max(trial.step for trial in found.tried[:-1]) <= grow


@pytest.mark.parametrize("most", [1, 2, 3, 10, 60, 1000])
def test_stops_are_within_the_rounds_and_those_of_trees_alone_have_some(most):
    for recipe in RECIPES:
        stops = recipe.stops(most)
        assert stops == sorted(set(stops))
        assert stops[-1] <= most
        assert (stops[0] > 0) == recipe.start.alone


def test_rounds_end_where_the_newest_rows_have_no_use_for_more():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 3)), rng.integers(0, 2, N)
    found = bitvec.update(booster(X, y), X[::-1], rng.integers(0, 2, N), grow=1_000_000)
    assert max(trial.step for trial in found.tried) < 1000


def test_where_time_is_short_some_recipe_is_tried():
    X, y = rows()
    old, new = slice(N, 2 * N), slice(2 * N, 3 * N)
    found = bitvec.update(
        booster(X[:N], y[:N]), X[new], y[new], replay=(X[old], y[old]), grow=12, budget=1e-6
    )
    assert 3 <= len(found.tried) < len(RECIPES)
    assert np.isfinite(found.score)


def test_old_rows_may_be_dropped_by_default_where_the_forest_may_grow():
    X, y = rows()
    old, new = slice(N, 2 * N), slice(2 * N, 3 * N)
    found = bitvec.update(booster(X[:N], y[:N]), X[new], y[new], replay=(X[old], y[old]), grow=6)
    assert {trial.replay for trial in found.tried[1:]} == {0, 1}


def test_a_metric_that_is_no_number_for_a_candidate_counts_as_the_worst():
    X, y = rows()
    new = slice(2 * N, 3 * N)
    forest = booster(X[:N], y[:N])
    start = bitvec.compile(forest).predict(X[new][-N // 5 :])

    def only_of_the_start(y, predicted):
        return 0.5 if np.array_equal(predicted, start) else float("nan")

    found = bitvec.update(forest, X[new], y[new], metric=only_of_the_start, grow=6)
    assert not found.updated
    assert found.score == 0.5
