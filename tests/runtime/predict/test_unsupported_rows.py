"""Input that scikit-learn refuses: a forest converted from it refuses the same, and no more."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn import ensemble, tree
from sklearn.datasets import load_iris

from bitvec import files
from bitvec.converters.sklearn.oracle import oracle_of
from bitvec.converters.sklearn.read import convert
from bitvec.errors import InputError
from bitvec.runtime.predict.predictor import VERBS, compile

SOME = {"n_estimators": 3, "random_state": 0}
MODELS = [
    tree.DecisionTreeClassifier(max_depth=3),
    tree.DecisionTreeRegressor(max_depth=3, criterion="absolute_error"),
    tree.ExtraTreeClassifier(max_depth=3),
    tree.ExtraTreeRegressor(max_depth=3, splitter="best"),
    ensemble.RandomForestClassifier(**SOME),
    ensemble.ExtraTreesRegressor(**SOME),
    ensemble.BaggingClassifier(**SOME),
    ensemble.BaggingRegressor(max_features=2, **SOME),
    ensemble.GradientBoostingClassifier(**SOME),
    ensemble.AdaBoostClassifier(**SOME),
    ensemble.AdaBoostRegressor(**SOME),
    ensemble.HistGradientBoostingClassifier(max_iter=2),
    ensemble.IsolationForest(**SOME),
]
VALUES = {"missing": np.nan, "infinite": np.inf, "too large": 1e300}


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: type(model).__name__)
def fitted(request):
    X, y = load_iris(return_X_y=True)
    model = request.param.fit(X, y)
    return model, convert(model), X[:20]


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("column", [0, 3])
def test_a_forest_refuses_a_row_if_and_only_if_its_model_does(fitted, name, column):
    model, forest, X = fitted
    X = X.copy()
    X[7, column] = VALUES[name]
    predictor = compile(forest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = model.predict(X)
        except ValueError as error:
            words = str(error).splitlines()[0].split(" or ")[0].rstrip(".")
            assert words in ("Input X contains NaN", "Input X contains infinity")
            for batch in (X, X[7:8], np.asfortranarray(X)):
                with pytest.raises(InputError, match=words) as caught:
                    predictor.predict(batch)
                assert "\n" not in str(caught.value)
            return
    assert np.array_equal(predictor.predict(X), expected)


def test_marks_are_those_that_the_oracle_finds_by_asking(fitted):
    model, forest, _ = fitted
    answers = oracle_of(model)
    metadata = forest.source.metadata
    if type(model).__name__ == "BaggingRegressor":
        return  # asked with columns that no tree reads
    assert metadata.get("refuses_missing", False) is not answers.accepts_missing
    assert metadata.get("refuses_infinite", False) is not answers.accepts_infinite


def test_columns_that_no_tree_of_a_bag_reads_may_hold_anything():
    X, y = load_iris(return_X_y=True)
    model = ensemble.BaggingRegressor(n_estimators=1, max_features=2, random_state=0).fit(X, y)
    unread = np.setdiff1d(range(4), model.estimators_features_[0])
    X[:, unread] = np.inf
    assert np.array_equal(compile(convert(model)).predict(X), model.predict(X))


def boosted():
    X, y = load_iris(return_X_y=True)
    return convert(ensemble.GradientBoostingClassifier(n_estimators=2).fit(X, y)), X


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"score_samples"}))
@pytest.mark.parametrize("engine", ["numba", "reference"])
def test_every_method_and_engine_refuses(verb, engine):
    forest, X = boosted()
    X[99, 2] = np.nan
    answer = getattr(compile(forest, engine=engine), verb)
    with pytest.raises(InputError, match="Input X contains NaN: sklearn's GradientBoosting"):
        answer(X)
    with pytest.raises(InputError, match="Input X contains NaN"):
        answer(iter([X[:50], X[50:]]))


def test_a_saved_forest_refuses_the_same(tmp_path):
    forest, X = boosted()
    path = tmp_path / "forest.safetensors"
    files.save(forest, path)
    X[0, 0] = -np.inf
    predictor = compile(files.load(path))
    assert predictor.info()["refuses"] == ["missing", "infinite"]
    with pytest.raises(InputError, match="infinity or a value too large for float32"):
        predictor.predict(X)


def test_the_largest_finite_values_are_taken():
    forest, X = boosted()
    largest = float(np.finfo(np.float32).max)
    X[:2, 0] = largest, -largest
    above = np.nextafter(largest + 2.0**102, 0)  # rounds to the largest float32
    X[2, 0] = above
    predictor = compile(forest)
    assert np.array_equal(predictor.raw(X), predictor.raw(X.astype(np.float32)))
    X[2, 0] = largest + 2.0**103  # a tie, that rounds to infinity
    with pytest.raises(InputError, match="infinity"):
        predictor.raw(X)


def test_nothing_is_refused_without_a_mark():
    forest, X = boosted()
    X[0] = np.nan, np.inf, -np.inf, 1e300
    assert compile(replace(forest, source=None)).raw(X).shape == (150, 3)
