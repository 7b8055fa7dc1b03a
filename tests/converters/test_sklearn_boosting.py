"""Details of the GradientBoosting conversion, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.datasets as data
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression

import bitvec
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.errors import InvalidForestError, UnsupportedModelError
from tests.models.sklearn import trained

CANCER = data.load_breast_cancer(return_X_y=True)
DIABETES = data.load_diabetes(return_X_y=True)


@pytest.mark.parametrize(("loss", "parameter"), [("log_loss", 1.0), ("exponential", 2.0)])
def test_two_classes_have_one_score(loss: str, parameter: float) -> None:
    forest = convert(trained(f"GradientBoostingClassifier, two, loss={loss}, text labels"))
    assert (forest.n_outputs, forest.output.parameter) == (1, parameter)


def test_each_class_has_a_tree_in_each_round_until_training_stops() -> None:
    assert convert(trained("GradientBoostingClassifier")).n_trees == 7 * 3
    stopped = "n_estimators=80, n_iter_no_change=2, subsample=0.7, weighted"
    model = trained(f"GradientBoostingClassifier, {stopped}")
    assert convert(model).n_trees == 3 * model.n_estimators_ < 3 * 80


def test_what_the_library_refuses_is_known_to_the_oracle() -> None:
    source = oracle_of(trained("GradientBoostingRegressor, init=zero"))
    assert not source.accepts_missing
    assert not source.accepts_infinite


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (GradientBoostingRegressor(init=LinearRegression(), n_estimators=2), "depends on the row"),
        (
            GradientBoostingClassifier(init=DummyClassifier(strategy="stratified"), n_estimators=2),
            "draws at random",
        ),
    ],
    ids=["LinearRegression", "stratified"],
)
def test_an_initial_model_that_is_no_constant_is_refused(model: Any, words: str) -> None:
    X, y = CANCER
    with pytest.raises(UnsupportedModelError, match=words):
        convert(model.fit(X, y))


def test_an_initial_model_of_equal_probabilities_is_a_constant() -> None:
    X, y = CANCER
    init = DummyClassifier(strategy="uniform")
    model = GradientBoostingClassifier(init=init, n_estimators=2, max_depth=2).fit(X, y)
    found = bitvec.compile(convert(model)).predict_proba(X)
    assert np.array_equal(found, model.predict_proba(X))


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
