"""Retraining with monotone constraints: kept by what comes back, whatever was tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from monotone_laws import rises
from retraining import grown, retrain
from strategies import examples

import bitvec
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.monotone import Monotone

SHORT = {"steps": 40, "batch_size": 64, "evaluations": 2}


def numbers(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return X, X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * rng.normal(size=n)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_trees=st.sampled_from([1, 3]),
    sign=st.sampled_from([-1, 1]),
    is_class=st.booleans(),
)
@examples(8)
def test_what_comes_back_keeps_its_directions(seed, n_trees, sign, is_class):
    X, y = numbers(300, seed)
    classes = np.array([0, 1]) if is_class else None
    y = (y > 0).astype(int) if is_class else y
    start = grown(X, y, n_trees=n_trees, depth=3, classes=classes, seed=seed)
    found = retrain(
        start, X, y, budget="quick", monotone={0: sign}, trainable=("b", "v"), seed=seed % 100,
        **SHORT,
    )  # fmt: skip
    moves = sign * rises(found.forest, X[:20], 0)
    assert np.all(moves[..., -1] >= 0)
    assert not is_class or np.all(moves[..., 0] <= 0)
    assert found.monotone == {0: sign}
    assert ("leaves were cut" in found.note) == (not Monotone.of(start, {0: sign}).holds(start))


@pytest.mark.parametrize("budget", ["normal", None])
def test_a_tree_gains_within_its_constraints(budget):
    X, y = numbers()
    tree = grown(X[:300], y[:300], depth=4, seed=1)
    held = (X[600:], y[600:])
    found = retrain(
        tree, X[:600], y[:600], validation=held, monotone=[1, 0, 0], budget=budget, **SHORT
    )
    assert found.improved
    assert np.all(rises(found.forest, X[:40], 0) >= 0)
    assert np.array_equal(found.forest.tests.feature, tree.tests.feature) or budget == "normal"
    assert set(found.trainable) <= {"b", "v"}
    if budget == "normal":
        assert "S was not moved" in found.note
        assert "tree refined" not in {trial.recipe for trial in found.tried}
        assert "tree pruned" in {trial.recipe for trial in found.tried}


def test_a_refit_to_all_rows_keeps_them_too():
    X, y = numbers()
    forest = grown(X[:300], y[:300], n_trees=5, depth=4, seed=1)
    found = retrain(
        forest, X[:600], y[:600], validation=(X[600:], y[600:]), monotone={0: 1}, refit=True,
        budget="quick", **SHORT,
    )  # fmt: skip
    assert found.refitted
    assert np.all(rises(found.forest, X[:40], 0) >= 0)


def test_a_record_needs_no_argument_and_an_argument_stands_in_its_place(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    X, y = numbers()
    options = {"n_estimators": 10, "max_depth": 3, "n_jobs": 1, "monotone_constraints": (1, 0, 0)}
    model = xgboost.XGBRegressor(**options).fit(X[:300], y[:300])
    forest = bitvec.convert(model)
    turned = np.sin(3 * X[:, 1]) - X[:, 0]
    rows = {"X": X[300:600], "y": turned[300:600], "validation": (X[600:], turned[600:])}

    def run(**more):
        return retrain(forest, **rows, budget="quick", **SHORT, **more)

    held, free, other = run(), run(monotone={}), run(monotone={1: -1})
    assert held.monotone == {0: 1}
    assert free.monotone is None
    assert other.monotone == {1: -1}
    assert held.improved
    assert np.all(rises(held.forest, X[:40], 0) >= 0)
    assert np.any(rises(free.forest, X[:40], 0) < 0)
    assert free.score > held.score
    path = bitvec.export(held.forest, tmp_path / "held.ubj")
    again = xgboost.XGBRegressor()
    again.load_model(path)
    assert np.array_equal(again.predict(X), bitvec.compile(held.forest).predict(X))
    assert np.array_equal(
        again.predict(X, output_margin=True), bitvec.compile(held.forest).predict(X)
    )


def test_a_checkpoint_of_other_constraints_is_refused(tmp_path):
    X, y = numbers(300)
    tree = grown(X, y, depth=3)
    options = {"checkpoint_path": tmp_path / "run.safetensors", "trainable": ("b", "v"), **SHORT}
    kept = retrain(tree, X, y, monotone={0: 1}, **options)
    again = retrain(tree, X, y, monotone={0: 1}, **options)
    assert np.array_equal(kept.forest.leaves.v, again.forest.leaves.v)
    with pytest.raises(bitvec.BitvecError, match="checkpoint"):
        retrain(tree, X, y, monotone={0: -1}, **options)


def test_a_start_that_keeps_them_by_its_boxes_alone_is_not_cut():
    S = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    tree = bitvec.Forest.from_matrices(S, [0.0, 0.0, 0.0], B, [0.0, 5.0, 1.0, 6.0])
    X, y = numbers(100)
    found = retrain(tree, X[:, :2], y, monotone={0: 1}, trainable=("v",), **SHORT)
    assert found.improved or found.forest is tree


def test_tests_of_several_columns_are_refused():
    X, y = numbers(100)
    tree = grown(X, y, depth=2)
    with pytest.raises(InputError, match="must name some of b, v, base_score where columns"):
        retrain(tree, X, y, monotone={0: 1}, trainable=("S", "v"))
    oblique = bitvec.Forest.from_matrices([[1.0, 2.0, 0.0]], [0.0], [[0], [1]], [0.0, 1.0])
    with pytest.raises(UnsupportedModelError, match="that column alone"):
        retrain(oblique, X, y, monotone={0: 1})
    free = retrain(oblique, X, y, monotone={2: 1}, trainable=("v",), **SHORT)
    assert free.monotone == {2: 1}
    infinite = replace(tree, leaves=replace(tree.leaves, v=tree.leaves.v * np.inf))
    with pytest.raises(UnsupportedModelError, match="finite leaves"):
        retrain(infinite, X, y, monotone={0: 1})
