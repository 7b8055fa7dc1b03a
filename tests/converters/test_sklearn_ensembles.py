"""Laws of converting Bagging, AdaBoost and IsolationForest: the library's scores, bit for bit."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier, ExtraTreeRegressor

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
RELEASE = tuple(int(part) for part in version("scikit-learn").split(".")[:2])


def with_holes(X: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)


def certified(model: Any, X: np.ndarray) -> Forest:
    forest = convert(model)
    certificate = bitvec.certify(forest, model, X)
    assert certificate.passed, certificate.summary()
    assert certificate.coverage == 1
    assert {"leaf ids", "raw scores"} <= set(certificate.parts)
    assert certificate.max_ulp == 0
    return forest


# Bagging.


@pytest.mark.parametrize(
    "options",
    [{}, {"max_features": 0.4}, {"bootstrap_features": True}, {"estimator": ExtraTreeRegressor()}],
    ids=["all", "subsets", "repeated", "extra trees"],
)
def test_bagged_values_are_those_of_the_library(options: dict[str, Any]) -> None:
    X, y = DIABETES
    model = BaggingRegressor(n_estimators=6, random_state=0, **options).fit(X, y)
    forest = certified(model, X)
    np.testing.assert_array_equal(bitvec.compile(forest).predict(X), model.predict(X))


def test_bagged_trees_that_know_some_classes_add_to_those() -> None:
    X, y = DIGITS
    labels = np.array([f"digit {k}" for k in range(10)])[y]
    model = BaggingClassifier(n_estimators=6, max_features=0.5, random_state=0).fit(X, labels)
    # A member fitted on drawn rows, as members without sample weights are, may miss classes.
    for index, known in ((1, y % 3 == 1), (4, y > 7)):
        columns = model.estimators_features_[index]
        model.estimators_[index].fit(X[known][:, columns], y[known])
    forest = certified(model, X)
    predictor = bitvec.compile(forest)
    np.testing.assert_array_equal(predictor.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(predictor.predict(X), model.predict(X))


def test_bagged_trees_route_missing_values_in_their_own_columns() -> None:
    X, y = CANCER
    model = BaggingClassifier(n_estimators=6, max_features=0.3, n_jobs=2, random_state=0)
    certified(model.fit(with_holes(X), y), with_holes(X))
    assert model.n_jobs == 2


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (BaggingRegressor(LinearRegression(), 2), "must be one of"),
        (BaggingClassifier(RandomForestClassifier(2), 2), "must be one of"),
        (AdaBoostRegressor(LinearRegression(), n_estimators=2), "must be one of"),
        (BaggingClassifier(ExtraTreeRegressor(), 2), "must be classifiers"),
    ],
    ids=["linear", "forests", "boosted linear", "regressors"],
)
def test_members_that_are_no_trees_of_the_kind_are_refused(model: Any, words: str) -> None:
    with pytest.raises(UnsupportedModelError, match=words):
        convert(model.fit(*IRIS))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_estimators", 3, "number of fitted trees"),
        ("estimators_features_", [np.array([0, 99])] * 4, "numbers below 4"),
        ("estimators_features_", None, "must hold the columns"),
        ("estimators_features_", [np.arange(3)] * 4, "must read 3 features"),
        ("classes_", None, "class labels"),
    ],
)
def test_bagging_attributes_that_contradict_the_trees_are_refused(
    name: str, value: Any, words: str
) -> None:
    model = BaggingClassifier(n_estimators=4, max_features=0.5, random_state=0).fit(*IRIS)
    setattr(model, name, value)
    with pytest.raises((InvalidForestError, UnsupportedModelError), match=words):
        convert(model)


# AdaBoost.


def voting(tree: Any = None, **options: Any) -> AdaBoostClassifier:
    """Return a classifier by votes, whose algorithm scikit-learn 1.5 must still be told."""
    model = AdaBoostClassifier(tree, random_state=0, **options)
    return model.set_params(algorithm="SAMME") if RELEASE == (1, 5) else model


@pytest.mark.parametrize("depth", [1, 3])
def test_the_votes_of_two_classes_are_those_of_the_library(depth: int) -> None:
    X, y = CANCER
    labels = np.array(["benign", "malign"])[y]
    tree = DecisionTreeClassifier(max_depth=depth)
    model = voting(tree, n_estimators=15).fit(X, labels)
    forest = certified(model, X)
    predictor = bitvec.compile(forest)
    np.testing.assert_array_equal(predictor.predict(X), model.predict(X))
    # The library computes a softmax of the two halves of the score; this is its sigmoid, which
    # differs by few ulps, and 1 - p by as much as p.
    np.testing.assert_allclose(
        predictor.predict_proba(X), model.predict_proba(X), rtol=0, atol=4e-16
    )


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeClassifier])
@pytest.mark.parametrize("depth", [1, 3])
def test_the_votes_of_many_classes_are_those_of_the_library(kind: type, depth: int) -> None:
    for X, labels in ((IRIS[0], np.array(["a", "b", "c"])[IRIS[1]]), DIGITS):
        tree = kind(max_depth=depth, random_state=0)
        model = voting(tree, n_estimators=10).fit(X, labels)
        forest = certified(model, X)
        predictor = bitvec.compile(forest)
        np.testing.assert_array_equal(predictor.raw(X), model.decision_function(X))
        np.testing.assert_array_equal(predictor.predict(X), model.predict(X))
        # The library adds the exponentials of many classes in another order.
        assert ulps(predictor.predict_proba(X), model.predict_proba(X)).max() <= 4


def test_votes_of_weighted_rows_and_stopped_rounds_are_converted() -> None:
    X, y = IRIS
    weight = np.random.default_rng(0).random(len(y)) * (y + 0.1)
    certified(voting(n_estimators=6, learning_rate=0.5).fit(X, y, sample_weight=weight), X)
    # A tree without errors ends the rounds, and is the only one.
    assert certified(voting(DecisionTreeClassifier(), n_estimators=6).fit(X, y), X).n_trees == 1


def test_votes_about_one_class_are_refused() -> None:
    X, y = IRIS
    with pytest.raises(UnsupportedModelError, match="at least 2 classes, got 1"):
        convert(voting(n_estimators=2).fit(X, np.zeros_like(y)))


def test_samme_r_is_refused() -> None:
    model = voting(n_estimators=3).fit(*CANCER)
    model.algorithm = "SAMME.R"
    with pytest.raises(UnsupportedModelError, match=r"got SAMME\.R"):
        convert(model)


@pytest.mark.parametrize("loss", ["linear", "square", "exponential"])
def test_the_weighted_median_is_that_of_the_library(loss: str) -> None:
    X, y = DIABETES
    model = AdaBoostRegressor(n_estimators=25, loss=loss, random_state=0).fit(X, y)
    forest = certified(model, X)
    np.testing.assert_array_equal(bitvec.compile(forest).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("estimator_weights_", np.ones(2)),
        ("estimator_weights_", np.full(9, np.nan)),
        ("estimator_weights_", None),
        ("classes_", np.array(["a", "b"])),
        ("estimators_", []),
    ],
)
def test_adaboost_attributes_that_contradict_the_trees_are_refused(name: str, value: Any) -> None:
    model = voting(n_estimators=9).fit(*CANCER)
    setattr(model, name, value)
    with pytest.raises((InvalidForestError, UnsupportedModelError)):
        convert(model)


# IsolationForest.


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_features": 0.4},
        {"max_samples": 2},
        {"bootstrap": True, "contamination": 0.1},
        {"max_features": 3, "contamination": 0.25, "max_samples": 0.5},
    ],
    ids=["all", "subsets", "two rows", "bootstrap", "three columns"],
)
def test_an_isolation_forest_answers_as_the_library(options: dict[str, Any]) -> None:
    X, _ = DIABETES
    if RELEASE >= (1, 6):  # 1.5 takes no missing values
        X = with_holes(X)
    # With 401 rows a tenth and a quarter fall on a training row, whose score is then the offset.
    model = IsolationForest(n_estimators=12, random_state=0, **options).fit(X[:401])
    forest = certified(model, X)
    predictor = bitvec.compile(forest)
    score = predictor.predict_proba(X)[:, 1]
    # pow and exp2 round in their own ways.
    assert ulps(score, -model.score_samples(X)).max() <= 1
    offset = forest.source.metadata["offset"]
    np.testing.assert_allclose(-score - offset, model.decision_function(X), rtol=0, atol=2.3e-16)
    assert model.predict(X).dtype == predictor.predict(X).dtype
    np.testing.assert_array_equal(predictor.predict(X), model.predict(X))
    np.testing.assert_array_equal(oracle_of(model).predict(X.astype(np.float32)), model.predict(X))


def test_the_label_of_an_isolation_forest_turns_where_that_of_the_library_turns() -> None:
    X, _ = DIABETES
    model = IsolationForest(n_estimators=12, random_state=0).fit(X)
    scores = model.score_samples(X)
    near = np.concatenate([np.nextafter(scores, s) for s in (-np.inf, 0)])
    outside = [-1.5, -1.0, -0.5, -1e-300, 0.0, 2.0]
    for offset in [*np.random.default_rng(0).choice([*scores, *near], 60), *outside]:
        model.offset_ = float(offset)
        predictor = bitvec.compile(convert(model))
        np.testing.assert_array_equal(predictor.predict(X), model.predict(X))


def test_the_depths_of_the_oracle_are_those_behind_the_scores_of_the_library() -> None:
    X, _ = DIABETES
    model = IsolationForest(n_estimators=12, max_features=0.5, random_state=0).fit(X)
    rows = X.astype(np.float32)
    scale = convert(model).output.parameter
    expected = -(2 ** -(oracle_of(model).raw(rows)[:, 0] / scale))
    np.testing.assert_array_equal(model.score_samples(X), expected)


def test_an_isolation_forest_of_one_row_is_refused() -> None:
    model = IsolationForest(n_estimators=2, max_samples=1).fit(IRIS[0])
    with pytest.raises(UnsupportedModelError, match="at least 2 rows"):
        convert(model)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_decision_path_lengths", ()),
        ("_average_path_length_per_tree", (np.zeros(1),) * 3),
        ("offset_", None),
        ("_max_samples", 0),
        ("estimators_features_", []),
    ],
)
def test_isolation_attributes_that_contradict_the_trees_are_refused(name: str, value: Any) -> None:
    model = IsolationForest(n_estimators=3, random_state=0).fit(IRIS[0])
    setattr(model, name, value)
    with pytest.raises((InvalidForestError, UnsupportedModelError)):
        convert(model)
