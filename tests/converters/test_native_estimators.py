"""Estimators of this package: converting returns their forest, certifying calls their predict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import bitvec
from bitvec.errors import UnsupportedModelError
from bitvec.learners.kddt.sklearn import KDDTClassifier, KDDTRegressor
from bitvec.learners.kddt.sklearn_forests import KDDTExtraTreesRegressor, KDDTRandomForestClassifier
from bitvec.learners.tao.sklearn import TAOClassifier, TAORegressor
from bitvec.learners.tao.sklearn_boosting import TAOBoostingClassifier, TAOBoostingRegressor
from bitvec.learners.tao.sklearn_forests import TAOForestClassifier, TAOForestRegressor

IRIS = load_iris(return_X_y=True, as_frame=True)
DIABETES = load_diabetes(return_X_y=True)
GROWN: dict[str, Any] = {"max_depth": 2, "steps": 20, "refine": 0, "random_state": 0}


def grown(name: str, **options: Any) -> Any:
    pytest.importorskip("torch")
    return getattr(bitvec.learners, name)(**GROWN, **options)


CLASSIFIERS = {
    "KDDT": lambda: KDDTClassifier(bandwidth=0.2, max_depth=3),
    "KDDT, crisp": lambda: KDDTClassifier(bandwidth=0.2, max_depth=3, predict_kernel=None),
    "KDDT forest": lambda: KDDTRandomForestClassifier(
        n_estimators=3, bandwidth=0.2, max_depth=3, random_state=0
    ),
    "TAO": lambda: TAOClassifier(max_depth=2, random_state=0),
    "TAO, oblique": lambda: TAOClassifier(max_depth=2, oblique=True, random_state=0),
    "TAO forest": lambda: TAOForestClassifier(n_estimators=3, max_depth=2, random_state=0),
    "TAO boosting": lambda: TAOBoostingClassifier(n_estimators=3, max_depth=2, random_state=0),
    "CPT": lambda: grown("CPTClassifier"),
    "E2EDT": lambda: grown("E2EDTClassifier"),
    "E2EDF": lambda: grown("E2EDFClassifier", n_estimators=2),
}
REGRESSORS = {
    "KDDT": lambda: KDDTRegressor(bandwidth="silverman", max_depth=3),
    "KDDT extra trees": lambda: KDDTExtraTreesRegressor(
        n_estimators=3, bandwidth=0.01, max_depth=3, random_state=0
    ),
    "TAO, linear": lambda: TAORegressor(max_depth=2, leaves="linear", random_state=0),
    "TAO forest, linear": lambda: TAOForestRegressor(
        n_estimators=3, max_depth=2, leaves="linear", random_state=0
    ),
    "TAO boosting": lambda: TAOBoostingRegressor(n_estimators=3, max_depth=2, random_state=0),
    "CPT": lambda: grown("CPTRegressor"),
    "E2EDT": lambda: grown("E2EDTRegressor"),
    "E2EDF": lambda: grown("E2EDFRegressor", n_estimators=2),
}


@pytest.mark.parametrize("make", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_classifier_is_converted_to_its_forest_and_certified(make: Any) -> None:
    X, y = IRIS
    words = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    model = make().fit(X, words)
    forest = bitvec.convert(model)
    assert forest is model.forest_
    assert np.array_equal(bitvec.compile(forest).predict(X), model.predict(X))
    assert np.array_equal(bitvec.compile(forest).predict_proba(X), model.predict_proba(X))
    certificate = bitvec.certify(forest, model, X)
    assert certificate.passed
    assert {"leaf ids", "raw scores", "transformed scores", "labels"} <= set(certificate.parts)


@pytest.mark.parametrize("make", REGRESSORS.values(), ids=REGRESSORS)
def test_a_regressor_is_converted_to_its_forest_and_certified(make: Any) -> None:
    X, y = DIABETES
    model = make().fit(X, y)
    forest = bitvec.convert(model)
    assert forest is model.forest_
    assert np.array_equal(bitvec.compile(forest).predict(X), model.predict(X))
    assert bitvec.certify(forest, model, X).passed


def test_another_forest_fails_and_so_does_an_estimator_that_predicts_otherwise() -> None:
    X, y = IRIS
    model = TAOClassifier(max_depth=2, random_state=0).fit(X, y)
    mirrored = TAOClassifier(max_depth=2, random_state=0).fit(X, 2 - y)
    assert not bitvec.certify(mirrored.forest_, model, X.to_numpy()).passed
    model._predictor = mirrored._predictor
    certificate = bitvec.certify(model.forest_, model, X.to_numpy())
    assert certificate.n_label_mismatches > 0
    assert not certificate.passed


@pytest.mark.parametrize("make", [KDDTClassifier, TAORegressor, KDDTRandomForestClassifier])
def test_what_is_not_fitted_is_said_to_be_so(make: Any) -> None:
    says = f"the {make.__name__} must be fitted, got one without `forest_`: call fit first"
    with pytest.raises(UnsupportedModelError, match=says):
        bitvec.convert(make())
    forest = bitvec.Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(UnsupportedModelError, match=says):
        bitvec.certify(forest, make())


def test_probabilities_that_the_forest_does_not_hold_are_no_part_of_it() -> None:
    X, y = IRIS
    cost = 1 - np.eye(3)
    cost[0] *= 5
    model = TAOClassifier(max_depth=1, cost=cost, random_state=0).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"with `cost`.*take `model\.forest_`"):
        bitvec.convert(model)
    certificate = bitvec.certify(model.forest_, model, X.to_numpy())
    assert certificate.passed
    assert "transformed scores" not in certificate.parts


def test_a_subclass_that_answers_in_its_own_way_is_refused() -> None:
    class Plain(TAOClassifier):
        pass

    class Shifted(TAORegressor):
        def predict(self, X: Any) -> Any:
            return super().predict(X) + 1

    X, y = DIABETES
    plain = Plain(max_depth=1, random_state=0).fit(*IRIS)
    assert bitvec.convert(plain) is plain.forest_
    with pytest.raises(UnsupportedModelError, match=r"must inherit `predict`, got Shifted"):
        bitvec.convert(Shifted(max_depth=1, random_state=0).fit(X, y))


def test_a_retrained_estimator_is_converted_to_its_forest() -> None:
    pytest.importorskip("torch")
    X, y = IRIS
    model = bitvec.learners.RetrainedClassifier(
        retrain_options={"budget": None, "schedule": {"steps": 5}}, random_state=0
    ).fit(X, y)
    assert bitvec.convert(model) is model.forest_
    with pytest.raises(UnsupportedModelError, match=r"no trees beside `model\.forest_`"):
        bitvec.certify(model.forest_, model)
