"""Recipes of growth: the forest that comes back answers as the blend of its candidates."""

from __future__ import annotations

import numpy as np
import pytest
from drifting_rows import booster, stream

import bitvec
from bitvec.runtime.train.grow.faded_trees import FADED
from bitvec.runtime.train.update import growth_recipes
from bitvec.runtime.train.update.growth_recipes import RECIPES

pytest.importorskip("lightgbm")
N = 400


def drifted(n_classes=2):
    """Return a forest that was fitted to the first of the old rows, the others, and new ones."""
    (Z, z), new = stream(n=N, n_classes=n_classes)
    forest = bitvec.convert(booster(Z[: N // 2], z[: N // 2], n_classes))
    return forest, (Z[N // 2 :], z[N // 2 :]), new


@pytest.mark.parametrize("grow", [1, 2, 7, 60])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_the_forest_answers_as_the_blend_of_its_candidates(grow, n_classes, monkeypatch):
    forest, old, (X, y) = drifted(n_classes)
    calls, told = [], []
    weights = growth_recipes.weights

    def watched(held, choice):
        calls.append((held, weights(held, choice)))
        return calls[-1][1]

    monkeypatch.setattr(growth_recipes, "weights", watched)
    found = bitvec.update(forest, X, y, replay=old, refit=False, grow=grow, progress=told.append)
    assert found.updated
    [(held, share)] = calls
    blend = np.tensordot(share, np.stack(held), 1)
    raw = bitvec.compile(found.forest).raw(X[-N // 5 :]).reshape(blend.shape)
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
    forest = bitvec.convert(booster(X, y))
    found = bitvec.update(forest, X[::-1], rng.integers(0, 2, N), grow=1_000_000)
    assert max(trial.step for trial in found.tried) < 1000


def test_where_time_is_short_some_recipe_is_tried():
    forest, old, (X, y) = drifted()
    found = bitvec.update(forest, X, y, replay=old, grow=12, budget=1e-6)
    assert 3 <= len(found.tried) < len(RECIPES)
    assert np.isfinite(found.score)


def test_old_rows_may_be_dropped_by_default_where_the_forest_may_grow():
    forest, old, (X, y) = drifted()
    found = bitvec.update(forest, X, y, replay=old, grow=6)
    assert {trial.replay for trial in found.tried[1:]} == {0, 1}


def test_a_metric_that_is_no_number_for_a_candidate_counts_as_the_worst():
    forest, _, (X, y) = drifted()
    start = bitvec.compile(forest).predict(X[-N // 5 :])

    def only_of_the_start(y, predicted):
        return 0.5 if np.array_equal(predicted, start) else float("nan")

    found = bitvec.update(forest, X, y, metric=only_of_the_start, grow=6)
    assert not found.updated
    assert found.score == 0.5
