"""Monotone constraints: kept by every update, and read from the source."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retraining import grown

import bitvec
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.update.monotone_leaves import constrained, directions


def random_forest(seed, *, n_trees=3, depth=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    forest = grown(X, rng.normal(size=200), n_trees=n_trees, depth=depth, seed=seed)
    v = rng.normal(size=forest.leaves.v.shape)
    return replace(forest, leaves=replace(forest.leaves, v=v)), X


def rises(forest, X, column):
    """Return the answers for rows of which one column takes many values, in order."""
    grid = np.linspace(-4, 4, 41)
    rows = np.repeat(X[:40], len(grid), axis=0)
    rows[:, column] = np.tile(grid, 40)
    return np.diff(bitvec.compile(forest).raw(rows)[:, 0].reshape(40, -1), axis=1)


@given(
    seed=st.integers(0, 2**32 - 1),
    first=st.sampled_from([-1, 1]),
    second=st.sampled_from([-1, 0, 1]),
)
@settings(max_examples=15, deadline=None)
def test_answers_keep_their_directions(seed, first, second):
    forest, X = random_forest(seed)
    node_directions = directions(forest, [first, 0, second])
    if node_directions is None:
        return
    found = constrained(forest, node_directions)
    for column, sign in ((0, first), (2, second)):
        # Sums of leaves that are in order round to sums that are within rounding of it.
        assert sign == 0 or np.all(sign * rises(found, X, column) >= -1e-12)
    again = constrained(found, node_directions)
    assert np.array_equal(again.leaves.v, found.leaves.v)


def test_nothing_moves_without_an_overlap():
    stump = bitvec.Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0.0, 1.0])
    up, down = (constrained(stump, directions(stump, {0: sign})) for sign in (1, -1))
    assert up.leaves.v.tolist() == [[0.0], [1.0]]
    assert down.leaves.v.tolist() == [[0.5], [0.5]]


def test_a_model_that_records_constraints_keeps_them():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 3))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * rng.normal(size=1600)
    options = {
        "objective": "l2",
        "monotone_constraints": [1, 0, 0],
        "verbose": -1,
        "num_threads": 1,
    }
    model = lightgbm.train(options, lightgbm.Dataset(X[:800], y[:800]), 20)
    forest = bitvec.convert(model)
    # New rows fall where the old ones rise.
    turned = -X[800:, 0] + np.sin(3 * X[800:, 1]) - 1
    held = bitvec.update(forest, X[800:], turned)
    free = bitvec.update(forest, X[800:], turned, monotone={0: 0})
    assert held.updated
    assert np.all(rises(held.forest, X, 0) >= -1e-12)
    assert np.any(rises(free.forest, X, 0) < -1e-3)
    assert free.score > held.score > held.start_score


def test_columns_are_found_by_name():
    forest, _ = random_forest(0)
    named = replace(forest, inputs=replace(forest.inputs, feature_names=("a", "b", "c")))
    assert np.array_equal(directions(named, {"b": -1}), directions(forest, {1: -1}))


@pytest.mark.parametrize(
    ("monotone", "message"),
    [
        ({"z": 1}, "must name a column"),
        ({5: 1}, "must name a column"),
        ({0: 2}, "must hold 1 .rising., -1 .falling. or 0"),
        ([1, 0], "a number for each of the 3 columns"),
        ("up", "must map columns"),
    ],
)
def test_what_is_no_constraint_is_refused(monotone, message):
    forest, _ = random_forest(0)
    with pytest.raises(InputError, match=message):
        directions(forest, monotone)


def test_a_test_of_several_columns_is_refused():
    oblique = bitvec.Forest.from_matrices([[1.0, 2.0]], [0.0], [[0], [1]], [0.0, 1.0])
    with pytest.raises(UnsupportedModelError, match="that column alone"):
        directions(oblique, {1: 1})


def test_the_first_of_two_classes_falls_where_the_second_rises():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = RandomForestClassifier(5, max_depth=4, monotonic_cst=[1, 0, 0], random_state=0)
    forest = bitvec.convert(model.fit(X[:600], y[:600]))
    found = bitvec.update(forest, X[600:], (X[600:, 1] - X[600:, 0] > 0).astype(int))
    assert found.updated
    grid = np.linspace(-4, 4, 41)
    rows = np.repeat(X[:40], len(grid), axis=0)
    rows[:, 0] = np.tile(grid, 40)
    p = bitvec.compile(found.forest).predict_proba(rows).reshape(40, -1, 2)
    assert np.all(np.diff(p[:, :, 1], axis=1) >= -1e-9)
    assert np.all(np.diff(p[:, :, 0], axis=1) <= 1e-9)
