"""Oblique forests: they learn, keep what they are told to, and start where they are told to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitvec
from bitvec.core import reference
from bitvec.errors import InputError, UnsupportedModelError

pytest.importorskip("torch")

from bitvec.learners import ObliqueForestClassifier, ObliqueForestRegressor

TINY = {"n_estimators": 3, "depth": 2, "steps": 30, "teacher": None, "random_state": 0}
QUICK = TINY | {"steps": 120, "batch_size": 64}


def classes(n=300, labels=("no", "yes"), seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    score = X[:, 0] + X[:, 1] - X[:, 2]
    return X, np.array(labels)[np.digitize(score, np.linspace(-1, 1, len(labels) + 1)[1:-1])]


def numbers(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, 1e4 + 100 * np.abs(X[:, 0] - X[:, 1]) + rng.normal(size=n)


@pytest.mark.parametrize("labels", [("no", "yes"), ("a", "b", "c")])
def test_a_classifier_learns_and_answers_by_its_forest(labels):
    X, y = classes(labels=labels)
    A, b = classes(labels=labels, seed=1)
    model = ObliqueForestClassifier(**QUICK).fit(X, y)
    assert model.score(A, b) > 0.8
    forest = bitvec.convert(model)
    assert (forest.n_trees, forest.n_leaves) == (3, 12)
    raw = reference.raw(forest, A)
    assert np.array_equal(model.decision_function(A), raw[:, 0] if len(labels) == 2 else raw)
    assert np.allclose(model.predict_proba(A).sum(axis=1), 1)
    assert model.result_.losses["labels"] < model.result_.losses["start"]
    assert model.result_.chosen == "labels"
    assert model.result_.refitted


def test_a_regressor_learns_in_the_units_of_y():
    X, y = numbers()
    A, b = numbers(seed=1)
    model = ObliqueForestRegressor(**QUICK).fit(X, y)
    assert model.score(A, b) > 0.6
    assert np.allclose(model.predict(A), reference.raw(model.forest_, A)[:, 0])
    assert model.result_.trees.base_score[0] == pytest.approx(y.mean(), rel=1e-6)


def test_several_outputs_are_one_vector_a_leaf():
    X, y = numbers()
    model = ObliqueForestRegressor(**QUICK | {"teacher": "booster"}).fit(X, np.stack([y, -y], 1))
    assert model.predict(X).shape == (300, 2)
    assert "booster" not in model.result_.losses


def test_a_fit_is_the_same_for_a_seed():
    X, y = classes()
    first, second = (ObliqueForestClassifier(**TINY).fit(X, y).forest_ for _ in range(2))
    assert np.array_equal(first.tests.weight, second.tests.weight)
    assert np.array_equal(first.leaves.v, second.leaves.v)


def test_what_answers_has_the_score_that_it_was_chosen_by():
    X, y = classes(labels=("a", "b", "c"))
    A, b = classes(labels=("a", "b", "c"), seed=1)
    model = ObliqueForestClassifier(**QUICK, validation=(A, b)).fit(X, y)
    p = model.predict_proba(A)[np.arange(len(b)), np.searchsorted(model.classes_, b)]
    # Probabilities are rounded in another order than log-probabilities.
    assert -np.log(p).mean() == pytest.approx(model.result_.losses["labels"], rel=1e-9)
    assert not model.result_.refitted


@pytest.mark.parametrize("columns", [1, 2, "fixed"])
def test_nodes_read_few_columns(columns):
    X, y = classes()
    model = ObliqueForestClassifier(**QUICK, columns=columns).fit(X, y)
    most = np.diff(model.forest_.tests.row_ptr).max()
    assert most == (1 if columns == "fixed" else columns)
    assert model.result_.step > 0


@pytest.mark.parametrize("estimator", [ObliqueForestClassifier, ObliqueForestRegressor])
def test_a_teacher_is_tried_where_it_does_better_than_labels(estimator):
    is_classifier = estimator is ObliqueForestClassifier
    X, y = classes() if is_classifier else numbers()
    knows = KNeighborsClassifier(3) if is_classifier else LinearRegression()
    A = np.concatenate([X, X + 1e-9])  # a neighbour tells the label
    model = estimator(**TINY | {"teacher": knows}).fit(A, np.concatenate([y, y]))
    losses = model.result_.losses
    assert ("teacher" in losses) == (losses["booster"] < min(losses["start"], losses["labels"]))
    booster = estimator(**TINY | {"teacher": "booster"}).fit(X, y).result_.losses
    assert {"start", "labels", "booster"} <= set(booster)


@pytest.mark.parametrize("labels", [("no", "yes"), ("a", "b", "c")])
def test_soft_answers_are_those_of_the_module(labels):
    X, y = classes(labels=labels)
    A, b = classes(labels=labels, seed=1)
    model = ObliqueForestClassifier(**QUICK, answers="soft").fit(X, y)
    module = model.soft_forest_
    raw = module(A).detach().numpy()
    assert np.allclose(model.decision_function(A), raw[:, 0] if len(labels) == 2 else raw)
    assert np.array_equal(model.predict(A), model.classes_[model.predict_proba(A).argmax(axis=1)])
    assert model.score(A, b) > 0.8
    # The hard forest is there as well, and is the one of a fit without soft answers.
    hard = ObliqueForestClassifier(**QUICK).fit(X, y)
    assert np.array_equal(hard.forest_.leaves.v, model.forest_.leaves.v)
    assert hard.soft_forest_ is None
    with pytest.raises(UnsupportedModelError, match="answers softly"):
        bitvec.convert(model)


def test_soft_answers_of_a_regressor_are_in_the_units_of_y():
    X, y = numbers()
    A, b = numbers(seed=1)
    model = ObliqueForestRegressor(**QUICK, answers="soft").fit(X, y)
    assert np.allclose(model.predict(A), model.soft_forest_(A).detach().numpy()[:, 0])
    assert model.score(A, b) > 0.6


@pytest.mark.full
def test_the_soft_forest_is_exported(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    X, y = classes()
    model = ObliqueForestClassifier(**TINY, answers="soft").fit(X, y)
    path = tmp_path / "soft.onnx"
    bitvec.export(model.soft_forest_, path)
    session = onnxruntime.InferenceSession(path)
    name = session.get_inputs()[0].name
    kind = np.float32 if "float)" in session.get_inputs()[0].type else np.float64
    found = session.run(None, {name: X.astype(kind)})
    p = model.predict_proba(X)
    # The file may compute in float32.
    assert any(one.shape == p.shape and np.allclose(one, p, atol=1e-5) for one in found)


def test_weights_of_zero_leave_rows_out():
    X, y = classes()
    w = (np.arange(300) < 150).astype(float)
    one = ObliqueForestClassifier(**TINY).fit(X, y, sample_weight=w)
    two = ObliqueForestClassifier(**TINY).fit(X[:150], y[:150])
    assert np.array_equal(one.forest_.leaves.v, two.forest_.leaves.v)


def test_a_booster_is_a_start_whose_answers_are_kept():
    X, y = classes(labels=("a", "b", "c"))
    A, b = classes(labels=("a", "b", "c"), seed=1)
    booster = GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0)
    options = {**TINY, "validation": (A, b), "steps": 1}
    model = ObliqueForestClassifier(**options, start=booster).fit(X, y)
    fitted = booster.fit(X, y)
    assert model.forest_.n_trees == 6
    start = ObliqueForestClassifier(**options, start=FrozenEstimator(fitted)).fit(X, y)
    assert start.result_.losses["start"] == pytest.approx(model.result_.losses["start"])
    p = fitted.predict_proba(A)[np.arange(len(b)), np.searchsorted(fitted.classes_, b)]
    assert start.result_.losses["start"] == pytest.approx(-np.log(p).mean())
    forest = ObliqueForestClassifier(**options, start=bitvec.convert(fitted)).fit(X, y)
    assert np.array_equal(forest.forest_.leaves.v, start.forest_.leaves.v)
    assert clone(start).fit(X, y).forest_.n_trees == 6


def test_a_boosters_values_are_kept_in_the_units_of_y():
    X, y = numbers()
    A, b = numbers(seed=1)
    booster = HistGradientBoostingRegressor(max_iter=4, max_depth=3, random_state=0)
    model = ObliqueForestRegressor(**TINY | {"depth": 4}, validation=(A, b), start=booster)
    losses = model.fit(X, y).result_.losses
    error = ((booster.fit(X, y).predict(A) - b) ** 2).mean() / y.var()
    assert losses["start"] == pytest.approx(error, rel=1e-6)  # the booster adds float32 leaves


@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_a_random_forest_gives_its_tests_and_leaves_are_boosted(kind):
    is_classifier = kind is RandomForestClassifier
    X, y = classes() if is_classifier else numbers()
    estimator = ObliqueForestClassifier if is_classifier else ObliqueForestRegressor
    forest = kind(4, max_depth=3, random_state=0)
    model = estimator(**QUICK | {"depth": None}, start=forest, columns="fixed").fit(X, y)
    assert (model.forest_.n_trees, model.forest_.n_leaves) == (4, 32)
    assert model.score(X, y) > 0.6


def test_a_start_that_does_not_fit_is_refused():
    X, y = classes()
    deep = RandomForestClassifier(2, random_state=0).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"depth 2 must have trees of at most 2"):
        ObliqueForestClassifier(**TINY, start=FrozenEstimator(deep)).fit(X, y)
    narrow = RandomForestClassifier(2, max_depth=2).fit(X[:, :2], y)
    with pytest.raises(InputError, match="4 columns"):
        ObliqueForestClassifier(**TINY, start=bitvec.convert(narrow)).fit(X, y)
    other = RandomForestClassifier(2, max_depth=2).fit(X, np.where(y == "no", "x", "y"))
    with pytest.raises(InputError, match="regressor of 1"):
        ObliqueForestRegressor(**TINY, start=bitvec.convert(other)).fit(X, numbers()[1])
    with pytest.raises(InputError, match="must know the 2 classes"):
        ObliqueForestClassifier(**TINY, start=FrozenEstimator(other)).fit(X, y)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"validation": 2}, "share above 0"),
        ({"validation": ([[1.0]], ["no"])}, r"validation\[0\]"),
        ({"validation": (np.zeros((1, 4)), ["maybe"])}, r"validation\[1\]"),
        ({"columns": 0}, "`columns`"),
        ({"depth": 13}, "at most 12"),
        ({"teacher": "forest"}, "`teacher` must be one of"),
        ({"teacher": LinearRegression()}, "predict_proba"),
        ({"n_estimators": 0}, "`n_estimators`"),
        ({"refit": 1}, "`refit`"),
    ],
)
def test_what_is_out_of_place_is_refused_with_a_sentence(wrong, said):
    X, y = classes()
    with pytest.raises(InputError, match=said):
        ObliqueForestClassifier(**TINY | wrong).fit(X, y)


def test_too_few_rows_keep_the_start_and_say_so():
    X, y = classes(3)
    y[:] = ["no", "yes", "yes"]
    with pytest.warns(UserWarning, match="too little to choose by"):
        model = ObliqueForestClassifier(**TINY).fit(X, y)
    assert model.result_.chosen == "start"


def test_names_of_columns_are_kept():
    import pandas as pd

    X, y = classes()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = ObliqueForestClassifier(**TINY).fit(frame, y)
    assert model.forest_.inputs.feature_names == ("a", "b", "c", "d")
    assert np.array_equal(model.predict(frame), replace_names(model).predict(X))


def replace_names(model):
    """The compiled forest without names, which takes plain arrays."""
    inputs = replace(model.forest_.inputs, feature_names=None)
    return bitvec.compile(replace(model.forest_, inputs=inputs))


def known(estimator):
    return {"check_sample_weight_equivalence_on_dense_data": "rows of a step are drawn"}


SMALL = {"n_estimators": 6, "depth": 2, "steps": 2, "teacher": None, "random_state": 0}


@parametrize_with_checks([ObliqueForestClassifier(**SMALL)], expected_failed_checks=known)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.full
@parametrize_with_checks([ObliqueForestRegressor(**SMALL)], expected_failed_checks=known)
def test_a_regressor_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
