"""Converted models as estimators: they answer as their sources do, and nothing refits them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import bitvec
from bitvec.errors import FileFormatError, UnsupportedModelError
from bitvec.files import dumps, loads

CANCER = load_breast_cancer(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def _xgboost(classify):
    xgboost = pytest.importorskip("xgboost")
    kind = xgboost.XGBClassifier if classify else xgboost.XGBRegressor
    return kind(n_estimators=5, max_depth=3, n_jobs=1)


def _lightgbm(classify):
    lightgbm = pytest.importorskip("lightgbm")
    kind = lightgbm.LGBMClassifier if classify else lightgbm.LGBMRegressor
    return kind(n_estimators=5, num_leaves=7, n_jobs=1, verbose=-1)


def _catboost(classify):
    catboost = pytest.importorskip("catboost")
    kind = catboost.CatBoostClassifier if classify else catboost.CatBoostRegressor
    return kind(iterations=5, depth=3, verbose=False, allow_writing_files=False, thread_count=1)


def _forest(classify):
    kind = RandomForestClassifier if classify else RandomForestRegressor
    return kind(5, max_depth=4, random_state=0)


MODELS = [_xgboost, _lightgbm, _catboost, _forest]


@pytest.mark.parametrize("make", MODELS)
def test_a_classifier_answers_and_scores_as_its_source_does(make):
    X, y = CANCER
    model = make(True).fit(X, y)
    estimator = bitvec.as_estimator(model)
    assert is_classifier(estimator)
    assert not is_regressor(estimator)
    check_is_fitted(estimator)
    assert np.array_equal(estimator.classes_, model.classes_)
    assert estimator.n_features_in_ == X.shape[1]
    assert np.array_equal(estimator.predict(X), model.predict(X))
    np.testing.assert_array_max_ulp(
        estimator.predict_proba(X).astype(np.float32),
        model.predict_proba(X).astype(np.float32),
        maxulp=4,  # the exponentials of two C libraries
    )
    assert estimator.score(X, y) == model.score(X, y)


@pytest.mark.parametrize("make", MODELS)
def test_a_regressor_answers_and_scores_as_its_source_does(make):
    X, y = DIABETES
    model = make(False).fit(X, y)
    estimator = bitvec.as_estimator(bitvec.convert(model))
    assert is_regressor(estimator)
    assert np.array_equal(estimator.predict(X), model.predict(X))
    assert not hasattr(estimator, "predict_proba")
    assert not hasattr(estimator, "classes_")


def test_raw_scores_are_a_decision_function_where_they_are_no_probabilities():
    X, y = CANCER
    boosted = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, y)
    estimator = bitvec.as_estimator(boosted)
    assert np.array_equal(estimator.decision_function(X), boosted.decision_function(X))
    assert not hasattr(bitvec.as_estimator(_forest(True).fit(X, y)), "decision_function")


def test_text_labels_and_frames_keep_their_names(tmp_path):
    pytest.importorskip("pandas")
    iris = load_iris(as_frame=True)
    labels = iris.target_names[iris.target]
    model = _forest(True).fit(iris.data, labels)
    path = tmp_path / "iris.safetensors"
    bitvec.save(bitvec.convert(model), path)
    for estimator in (bitvec.as_estimator(model), bitvec.as_estimator(path)):
        assert estimator.classes_.tolist() == model.classes_.tolist()
        assert estimator.feature_names_in_.tolist() == list(iris.data)
        assert np.array_equal(
            estimator.predict(iris.data[list(iris.data)[::-1]]), model.predict(iris.data)
        )
        assert estimator.score(iris.data, labels) == model.score(iris.data, labels)


def test_fit_changes_nothing_and_a_clone_is_the_estimator_itself():
    X, y = CANCER
    estimator = bitvec.as_estimator(_forest(True).fit(X, y))
    before = estimator.predict(X)
    assert estimator.fit(X[:9], 1 - y[:9]) is estimator
    assert clone(estimator) is estimator
    assert np.array_equal(estimator.predict(X), before)
    assert not hasattr(estimator, "feature_names_in_")
    # Every fold scores the same model.
    folds = cross_val_score(estimator, X, 1 - y, cv=3)
    assert folds.max() < 0.1


def test_it_works_in_pipelines_calibration_and_inspection():
    X, y = CANCER
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X[:300], y[:300])
    estimator = bitvec.as_estimator(model)
    pipeline = make_pipeline(FunctionTransformer(), estimator).fit(X, y)
    assert pipeline.score(X, y) == model.score(X, y)
    frozen = pytest.importorskip("sklearn.frozen").FrozenEstimator
    pair = [
        CalibratedClassifierCV(frozen(each)).fit(X[300:], y[300:]).predict_proba(X)
        for each in (estimator, model)
    ]
    assert np.array_equal(*pair)
    pair = [
        permutation_importance(each, X[:50], y[:50], n_repeats=2, random_state=0).importances
        for each in (estimator, model)
    ]
    assert np.array_equal(*pair)
    pair = [
        partial_dependence(each, X[:50], [0], kind="average", method="brute")["average"]
        for each in (estimator, model)
    ]
    assert np.array_equal(*pair)


def test_partial_dependence_is_drawn():
    pytest.importorskip("matplotlib").use("agg")
    from sklearn.inspection import PartialDependenceDisplay

    X, y = DIABETES
    estimator = bitvec.as_estimator(_forest(False).fit(X, y))
    display = PartialDependenceDisplay.from_estimator(estimator, X[:50], [0, 2])
    assert display.axes_.size == 2


def test_a_pickle_holds_the_bytes_of_the_forests_file():
    X, y = CANCER
    estimator = bitvec.as_estimator(_forest(True).fit(X, y), n_jobs=2)
    estimator.predict(X)
    assert estimator.__getstate__() == {"forest": dumps(estimator.forest), "n_jobs": 2}
    again = pickle.loads(pickle.dumps(estimator))
    assert bitvec.files.identical(again.forest, estimator.forest)
    assert np.array_equal(again.predict_proba(X), estimator.predict_proba(X))
    assert again.n_jobs == 2


def test_damaged_bytes_are_refused():
    data = dumps(bitvec.Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [10.0, 20.0]))
    assert loads(data).n_leaves == 2
    for damaged in (b"", data[:7], data[:-1], data[:40], b"\xff" * 20):
        with pytest.raises(FileFormatError, match="the bytes must hold a whole forest"):
            loads(damaged)


def test_an_isolation_forest_is_refused_in_one_sentence():
    model = IsolationForest(n_estimators=3, random_state=0).fit(DIABETES[0])
    with pytest.raises(UnsupportedModelError, match="got an isolation forest: use bitvec"):
        bitvec.as_estimator(model)


def test_tags_say_what_the_forest_accepts():
    X, y = CANCER
    tags = pytest.importorskip("sklearn.utils").get_tags(
        bitvec.as_estimator(_forest(True).fit(X, y))
    )
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.sparse
    assert tags.input_tags.allow_nan
    strict = bitvec.as_estimator(GradientBoostingClassifier(n_estimators=2).fit(X, y))
    assert not strict.__sklearn_tags__().input_tags.allow_nan


UNEXPECTED = {
    "it hands in rows of its own, of other columns than the model's": (
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_classifiers_one_label",
        "check_classifiers_one_label_sample_weights",
        "check_dict_unchanged",
        "check_dtype_object",
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
        "check_estimators_dtypes",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_pipeline_consistency",
        "check_regressor_data_not_an_array",
        "check_regressors_int",
        "check_supervised_y_2d",
    ),
    "it expects `fit` to refuse what it cannot learn from, and `fit` learns nothing": (
        "check_classifiers_regression_target",
        "check_classifiers_train",
        "check_complex_data",
        "check_estimators_empty_data_messages",
        "check_estimators_nan_inf",
        "check_fit1d",
        "check_regressors_train",
        "check_supervised_y_no_nan",
    ),
    "it expects an estimator that is not fitted before `fit`": (
        "check_estimators_unfitted",
        "check_fit_check_is_fitted",
        "check_n_features_in",
    ),
    "it expects scikit-learn's own words for rows of another shape": (
        "check_fit2d_predict1d",
        "check_n_features_in_after_fitting",
    ),
}
"""The checks of scikit-learn that a fitted estimator cannot pass, by the reason."""


def _expected(estimator) -> dict[str, str]:
    own = ("classifier", "regressor")[is_classifier(estimator)]  # checks of the other task
    return {name: why for why, names in UNEXPECTED.items() for name in names if own not in name}


@parametrize_with_checks(
    [
        bitvec.as_estimator(kind(2, max_depth=2, random_state=0).fit(*data))
        for kind, data in (
            (RandomForestClassifier, (CANCER[0][:, :4], CANCER[1])),
            (RandomForestRegressor, (DIABETES[0][:, :4], DIABETES[1])),
        )
    ],
    expected_failed_checks=_expected,
)
def test_what_scikit_learn_asks_of_an_estimator(estimator, check):
    check(estimator)


def test_what_is_composed_of_several_forests_is_refused_in_one_sentence():
    forests = (RandomForestClassifier(3, random_state=0), RandomForestClassifier(2))
    voting = VotingClassifier([("a", forests[0]), ("b", forests[1])], voting="soft").fit(*CANCER)
    with pytest.raises(UnsupportedModelError, match=r"bitvec\.compile"):
        bitvec.as_estimator(bitvec.convert(voting))
