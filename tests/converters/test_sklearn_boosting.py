"""Laws of the GradientBoosting conversion: the library's own scores, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression

import bitvec
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.core.float_keys import ulps
from bitvec.core.forest import Forest
from bitvec.errors import InvalidForestError, UnsupportedModelError

CANCER = data.load_breast_cancer(return_X_y=True)
DIGITS = data.load_digits(return_X_y=True)
IRIS = data.load_iris(return_X_y=True)
DIABETES = data.load_diabetes(return_X_y=True)


def certified(model: Any, X: np.ndarray) -> Forest:
    forest = convert(model)
    certificate = bitvec.certify(forest, model, X)
    assert certificate.passed, certificate.summary()
    assert certificate.coverage == 1
    assert {"leaf ids", "raw scores"} <= set(certificate.parts)
    assert certificate.max_ulp == 0
    return forest


def assert_same_classes(model: Any, forest: Forest, X: np.ndarray) -> None:
    predictor = bitvec.compile(forest)
    np.testing.assert_array_equal(predictor.predict(X), model.predict(X))
    own, got = model.predict_proba(X), predictor.predict_proba(X)
    # scipy's expit and scikit-learn's softmax divide and sum in an order of their own; near 1 - p
    # the ulps of the complement grow, so that is bounded absolutely.
    assert ulps(own[:, -1:], got[:, -1:]).max() <= 4
    np.testing.assert_allclose(own, got, rtol=0, atol=4e-16)


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_two_classes_have_the_scores_of_the_library(loss: str) -> None:
    X, y = CANCER
    labels = np.array(["benign", "malign"])[y]
    model = GradientBoostingClassifier(loss=loss, n_estimators=8, random_state=0).fit(X, labels)
    forest = certified(model, X)
    assert forest.n_outputs == 1
    assert forest.output.parameter == {"log_loss": 1.0, "exponential": 2.0}[loss]
    assert_same_classes(model, forest, X)


@pytest.mark.parametrize("problem", [IRIS, DIGITS], ids=["iris", "digits"])
def test_many_classes_have_a_tree_each_and_the_scores_of_the_library(problem: Any) -> None:
    X, y = problem
    model = GradientBoostingClassifier(n_estimators=4, subsample=0.5, random_state=0).fit(X, y)
    forest = certified(model, X)
    assert forest.n_trees == 4 * len(np.unique(y))
    assert_same_classes(model, forest, X)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "huber", "quantile"])
def test_every_regression_loss_has_the_values_of_the_library(loss: str) -> None:
    X, y = DIABETES
    model = GradientBoostingRegressor(loss=loss, n_estimators=10, random_state=0).fit(X, y)
    forest = certified(model, X)
    np.testing.assert_array_equal(bitvec.compile(forest).predict(X), model.predict(X))


@pytest.mark.parametrize(
    "init",
    [
        "zero",
        DummyClassifier(strategy="prior"),
        DummyClassifier(strategy="most_frequent"),
        DummyClassifier(strategy="constant", constant=1),
    ],
    ids=str,
)
@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_a_constant_initial_classifier_is_the_base_score(init: Any, loss: str) -> None:
    X, y = CANCER
    model = GradientBoostingClassifier(init=init, loss=loss, n_estimators=2, random_state=0)
    certified(model.fit(X, y), X)
    if loss == "log_loss":
        certified(model.fit(*IRIS), IRIS[0])


@pytest.mark.parametrize(
    "init",
    [
        "zero",
        DummyRegressor(strategy="median"),
        DummyRegressor(strategy="mean"),
        DummyRegressor(strategy="quantile", quantile=0.3),
        DummyRegressor(strategy="constant", constant=7),
    ],
    ids=str,
)
def test_a_constant_initial_regressor_is_the_base_score(init: Any) -> None:
    X, y = DIABETES
    certified(GradientBoostingRegressor(init=init, n_estimators=2).fit(X, y), X)


def test_weights_early_stopping_and_leaf_limits_are_converted() -> None:
    X, y = CANCER
    weight = np.random.default_rng(0).random(len(y))
    model = GradientBoostingClassifier(
        n_estimators=50, n_iter_no_change=2, max_leaf_nodes=5, max_depth=None, random_state=0
    ).fit(X, y, sample_weight=weight)
    forest = certified(model, X)
    assert forest.n_trees == model.n_estimators_ < 50


def test_what_the_library_refuses_is_known_to_the_oracle() -> None:
    source = oracle_of(GradientBoostingRegressor(n_estimators=2).fit(*DIABETES))
    assert not source.accepts_missing
    assert not source.accepts_infinite


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (GradientBoostingRegressor(init=LinearRegression(), n_estimators=2), "depends on the row"),
        (
            GradientBoostingClassifier(init=DummyClassifier(strategy="uniform"), n_estimators=2),
            "draws at random",
        ),
    ],
    ids=["LinearRegression", "uniform"],
)
def test_an_initial_model_that_is_no_constant_is_refused(model: Any, words: str) -> None:
    X, y = CANCER
    with pytest.raises(UnsupportedModelError, match=words):
        convert(model.fit(X, y))


class Twice(GradientBoostingRegressor):
    def _raw_predict(self, X: np.ndarray) -> np.ndarray:
        return 2 * super()._raw_predict(X)


def test_a_subclass_that_answers_in_its_own_way_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="must inherit `_raw_predict`"):
        convert(Twice(n_estimators=2).fit(*DIABETES))


def test_an_unfitted_model_is_refused() -> None:
    for kind in (GradientBoostingClassifier, GradientBoostingRegressor):
        with pytest.raises(UnsupportedModelError, match="call fit first"):
            convert(kind())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", None),
        ("learning_rate", np.nan),
        ("init_", None),
        ("classes_", np.arange(3)),
        ("_loss", None),
        ("estimators_", np.empty((0, 1), dtype=object)),
        ("estimators_", np.array([[None]], dtype=object)),
    ],
)
def test_attributes_that_contradict_the_trees_are_refused(name: str, value: Any) -> None:
    model = GradientBoostingClassifier(n_estimators=2).fit(*CANCER)
    setattr(model, name, value)
    with pytest.raises((InvalidForestError, UnsupportedModelError)):
        convert(model)


@pytest.mark.parametrize("kind", [GradientBoostingRegressor, HistGradientBoostingRegressor])
def test_boosting_that_states_another_number_of_trees_a_stage_is_refused(kind):
    X, y = data.load_diabetes(return_X_y=True)
    model = kind(max_depth=2).fit(X, y)
    model.n_trees_per_iteration_ = 2
    with pytest.raises(InvalidForestError, match="n_trees_per_iteration_"):
        convert(model)
