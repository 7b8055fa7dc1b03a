"""Starts of growth: constants that are reached from far, refreshed leaves, and faded trees."""

from __future__ import annotations

import numpy as np
import pytest

import bitvec
from bitvec.runtime.train.grow.faded_trees import FADED, faded
from bitvec.runtime.train.grow.newton_rounds import Rows, constant
from bitvec.runtime.train.grow.refreshed_leaves import refreshed
from bitvec.runtime.train.retrain import objective
from bitvec.runtime.train.retrain.training_data import read
from bitvec.runtime.train.update import anchored_leaves

lightgbm = pytest.importorskip("lightgbm")


def booster(X, y, *, rounds=5, **options):
    given = {"verbose": -1, "num_threads": 1, "num_leaves": 4, **options}
    return bitvec.convert(lightgbm.train(given, lightgbm.Dataset(X, y), rounds))


@pytest.mark.parametrize("base", [[0.0, 0.0, 0.0], [-9.0, 0.0, 9.0], [30.0, -30.0, 0.0]])
def test_a_constant_is_found_from_any_start_and_for_rare_classes(base):
    X = np.random.default_rng(0).normal(size=(500, 2))
    y = np.repeat([0, 1, 2], [470, 20, 10])
    forest = booster(X, y, objective="multiclass", num_class=3)
    goal = objective.of_forest(forest, y[:, None], loss="auto")
    raw = np.tile(base, (500, 1))
    p = np.exp(raw[0] + constant(goal, raw, Rows(None, y[:, None], np.ones(500))))
    np.testing.assert_allclose(p / p.sum(), [0.94, 0.04, 0.02], rtol=0.01)


def reached_by(forest, X, y):
    data = read(forest, X, y, None)
    goal = objective.of_forest(forest, data.target, loss="auto")
    return data, goal, anchored_leaves.table(forest, data)


def test_refreshed_leaves_go_from_the_old_ones_to_those_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    forest = booster(X, y, rounds=1, learning_rate=1.0)
    data, goal, table = reached_by(forest, X, 3 * y)
    old = forest.leaves.v[:, 0]
    found = {
        pull: refreshed(forest, table, goal, data.target, data.weight, pull)
        for pull in (1e12, 100.0, 0.0)
    }
    np.testing.assert_allclose(found[1e12][0][:, 0], old, rtol=1e-6)
    n, total = np.bincount(table.leaf[0]), np.bincount(table.leaf[0], 3 * y)
    own = total / (n + 1)
    np.testing.assert_allclose(found[0.0][0][:, 0], own, rtol=1e-9)
    half = old + n / (n + 100) * (own - old)
    np.testing.assert_allclose(found[100.0][0][:, 0], half, rtol=1e-9)
    for v, raw in found.values():
        np.testing.assert_allclose(raw[:, 0], v[table.leaf[0], 0])


def test_dropped_trees_answer_together_with_little():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 1))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    forest = booster(X, y, rounds=200, num_leaves=2, learning_rate=0.1)
    _, _, table = reached_by(forest, X, y)
    v = forest.leaves.v.astype(np.float64)
    drop, lacks = faded(forest, table, v)
    assert 0 < drop.sum() < forest.n_trees
    parts = v[table.leaf, 0]
    assert parts[drop].sum(axis=0).std() <= FADED * parts.sum(axis=0).std()
    smallest = np.argsort(parts.var(axis=1), kind="stable")[: drop.sum() + 1]
    assert parts[smallest].sum(axis=0).std() > FADED * parts.sum(axis=0).std()
    np.testing.assert_allclose(lacks, parts[drop].sum(axis=0).mean(), atol=1e-12)
