"""Details of converting Bagging, AdaBoost and IsolationForest, and what is refused."""

from __future__ import annotations

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
from sklearn.tree import ExtraTreeRegressor
from sklearn_laws import certified

import bitvec
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.core.float_keys import ulps
from bitvec.errors import InvalidForestError, UnsupportedModelError
from tests.models.sklearn import MODELS, RELEASE, sample, trained

CANCER = data.load_breast_cancer(return_X_y=True)
DIGITS = data.load_digits(return_X_y=True)
IRIS = data.load_iris(return_X_y=True)
DIABETES = data.load_diabetes(return_X_y=True)


# Bagging.


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


def test_a_tree_without_errors_ends_the_rounds_and_is_the_only_one() -> None:
    name = "AdaBoostClassifier, estimator=DecisionTreeClassifier()"
    assert convert(trained(name)).n_trees == 1


def test_votes_about_one_class_are_refused() -> None:
    X, y = IRIS
    with pytest.raises(UnsupportedModelError, match="at least 2 classes, got 1"):
        convert(voting(n_estimators=2).fit(X, np.zeros_like(y)))


def test_samme_r_is_refused() -> None:
    model = voting(n_estimators=3).fit(*CANCER)
    model.algorithm = "SAMME.R"
    with pytest.raises(UnsupportedModelError, match=r"got SAMME\.R"):
        convert(model)


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


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("Isolation")])
def test_an_isolation_forest_answers_as_the_library(name: str) -> None:
    model, X = trained(name), sample(MODELS[name]).X
    forest = convert(model)
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
