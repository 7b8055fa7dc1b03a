"""The estimators are scikit-learn's own kind, and what they predict by is what `retrain` made."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bitvec

pytest.importorskip("sklearn")
pytest.importorskip("torch")

from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_regression
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from bitvec.learners import RetrainedClassifier, RetrainedRegressor
from bitvec.learners.held_out import held_out

FEW = {"budget": None, "schedule": {"steps": 5, "evaluations": 1}}
LONGER = {"budget": None, "schedule": {"steps": 200}}

NOT_EQUIVALENT = (
    "rows are held out at random, so a row of weight 2 lies on one side, and two rows may lie on "
    "both; that rows of weight 0 count as not there is tested below"
)


def expected_failed_checks(estimator) -> dict[str, str]:
    """The checks of scikit-learn that an estimator that holds rows out cannot pass, and why."""
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": NOT_EQUIVALENT
        for kind in ("dense", "sparse")
    }


@pytest.mark.filterwarnings("ignore:a share of")
@parametrize_with_checks(
    [RetrainedClassifier(retrain_options=FEW)],
    expected_failed_checks=expected_failed_checks,
)
def test_what_scikit_learn_asks_of_an_estimator(estimator, check):
    check(estimator)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:a share of")
@parametrize_with_checks(
    [
        RetrainedRegressor(retrain_options=FEW),
        RetrainedClassifier(RandomForestClassifier(3), retrain_options=FEW),
        RetrainedRegressor(HistGradientBoostingRegressor(max_iter=3), retrain_options=FEW),
    ],
    expected_failed_checks=expected_failed_checks,
)
def test_what_it_asks_of_one_with_a_model_of_several_trees(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    """Rows to fit on, and others."""
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)


@pytest.fixture
def calls(monkeypatch):
    """What `retrain` is called with."""
    from bitvec.learners.retrained import retrain as room

    seen = []
    original = room.retrain

    def spy(forest, X, y, **options):
        seen.append({"forest": forest, "X": X, "y": y, **options})
        return original(forest, X, y, **options)

    monkeypatch.setattr(room, "retrain", spy)
    return seen


def test_a_tree_is_better_after_retraining(digits):
    X, X_test, y, y_test = digits
    estimator = RetrainedClassifier(retrain_options=LONGER, random_state=0).fit(X, y)
    assert estimator.retrain_result_.improved
    assert estimator.score(X_test, y_test) > estimator.model_.score(X_test, y_test) + 0.05
    assert estimator.forest_ is estimator.retrain_result_.forest


@pytest.mark.full
def test_the_depth_of_the_model_is_found_by_grid_search_in_a_pipeline(digits):
    X, X_test, y, y_test = digits
    pipeline = make_pipeline(
        StandardScaler(),
        RetrainedClassifier(DecisionTreeClassifier(), retrain_options=FEW, random_state=0),
    )
    name = "retrainedclassifier__model__max_depth"
    search = GridSearchCV(pipeline, {name: [1, 6]}, cv=2).fit(X, y)
    assert search.best_params_ == {name: 6}
    best = search.best_estimator_[-1]
    assert best.model_.get_depth() <= 6
    assert search.score(X_test, y_test) > 0.6


def test_rows_are_held_out_class_by_class_and_never_fitted_on(calls):
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, np.arange(len(X))])  # a number for each row
    model = DecisionTreeClassifier(min_samples_leaf=1)
    estimator = RetrainedClassifier(model, validation=0.2, retrain_options=FEW, random_state=0)
    estimator.fit(X, y)
    (call,) = calls
    held_X, held_y = call["validation"]
    assert np.bincount(held_y).tolist() == [10, 10, 10]
    both = np.concatenate([call["X"][:, -1], held_X[:, -1]])
    assert np.array_equal(np.sort(both), np.arange(len(X)))
    assert estimator.model_.tree_.n_node_samples[0] == len(call["X"]) == 120
    assert np.array_equal(call["y"], y[call["X"][:, -1].astype(int)])


def test_arguments_of_retraining_are_passed_on(calls):
    X, y = load_iris(return_X_y=True)
    options = {"budget": None, "schedule": {"steps": 3, "learning_rate": 0.01}}
    RetrainedClassifier(retrain_options=options, random_state=3).fit(X, y)
    RetrainedClassifier(retrain_options=options, random_state=3).fit(X, y)
    assert options.items() <= calls[0].items()
    assert "trainable" not in calls[0]
    assert calls[0]["seed"] == calls[1]["seed"]


def test_what_may_move_is_passed_on(monkeypatch):
    from bitvec.learners.retrained import retrain as room

    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr(room, "retrain", _raise_with_trainable)
    with pytest.raises(RuntimeError, match="seen"):
        RetrainedClassifier(trainable=("v",), random_state=3).fit(X, y)


def _raise_with_trainable(forest, X, y, *, trainable, **options):
    assert trainable == ("v",)
    raise RuntimeError("seen")


def test_the_same_random_state_gives_the_same_forest():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < 0.2, rng.integers(0, 3, len(y)), y)

    def fit(seed):
        model = RandomForestClassifier(5, max_depth=3)
        return RetrainedClassifier(model, retrain_options=FEW, random_state=seed).fit(X, y).forest_

    first = fit(0)
    assert bitvec.files.identical(first, fit(0))
    assert bitvec.files.identical(first, fit(np.random.RandomState(0)))
    assert not bitvec.files.identical(first, fit(1))


def test_seeds_that_the_model_sets_are_left_to_it():
    X, y = load_iris(return_X_y=True)
    models = DecisionTreeClassifier(random_state=7), BaggingClassifier(DecisionTreeClassifier())
    fitted = [
        RetrainedClassifier(model, retrain_options=FEW, random_state=0).fit(X, y).model_
        for model in models
    ]
    assert fitted[0].random_state == 7
    assert None not in (fitted[1].random_state, fitted[1].estimator.random_state)
    assert models[1].random_state is None


@pytest.mark.parametrize(
    "model",
    [HistGradientBoostingClassifier(max_iter=5), "xgboost", DecisionTreeClassifier()],
    ids=["hist", "xgboost", "tree"],
)
def test_missing_values_are_what_they_are_to_the_model(model):
    if model == "xgboost":
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, n_jobs=1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    y = np.isnan(X[:, 0]) ^ (np.nan_to_num(X[:, 1]) > 0)
    estimator = RetrainedClassifier(model, retrain_options=FEW, random_state=0).fit(X, y)
    assert estimator.retrain_result_.score >= estimator.retrain_result_.start_score
    assert estimator.score(X, y) > 0.9


def test_missing_values_that_the_model_refuses_are_refused():
    X, y = load_iris(return_X_y=True)
    estimator = RetrainedClassifier(GradientBoostingClassifier(n_estimators=2), retrain_options=FEW)
    hole = np.where(np.arange(4) == 2, np.nan, X)
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(hole, y)
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(X, y).predict(hole)


@pytest.mark.parametrize("kind", ["text", "object", "number"])
@pytest.mark.parametrize("package", ["sklearn", "xgboost", "lightgbm"])
def test_labels_are_of_any_kind(package, kind):
    models = {
        "sklearn": lambda module: DecisionTreeClassifier(max_depth=3),
        "xgboost": lambda module: module.XGBClassifier(n_estimators=3, n_jobs=1),
        "lightgbm": lambda module: module.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1),
    }
    model = models[package](pytest.importorskip(package))
    X, y = load_iris(return_X_y=True)
    names = np.array(["one", "two", "three"])
    labels = {"text": names, "object": names.astype(object), "number": np.array([7, -1, 3])}
    y = labels[kind][y]
    estimator = RetrainedClassifier(model, retrain_options=FEW, random_state=0).fit(X, y)
    assert np.array_equal(estimator.classes_, np.unique(y))
    assert estimator.predict(X).dtype == y.dtype
    assert estimator.score(X, y) > 0.9
    most_likely = estimator.classes_[estimator.predict_proba(X).argmax(axis=1)]
    assert np.array_equal(most_likely, estimator.predict(X))
    # The forest itself knows the labels: saved or exported, it predicts them.
    assert np.array_equal(bitvec.compile(estimator.forest_).predict(X), estimator.predict(X))


def test_rows_of_weight_0_count_as_not_there():
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    there = weight > 0
    with_weights = RetrainedClassifier(retrain_options=FEW, random_state=0)
    without = clone(with_weights).fit(X[there], y[there], sample_weight=weight[there])
    with_weights.fit(X, y, sample_weight=weight)
    assert bitvec.files.identical(with_weights.forest_, without.forest_)


def test_weights_reach_the_model_the_training_and_the_choice(calls):
    X, y = load_iris(return_X_y=True)
    weight = np.arange(1.0, 151.0)
    estimator = RetrainedClassifier(retrain_options=FEW, random_state=0)
    estimator.fit(np.column_stack([X, weight]), y, sample_weight=weight)
    (call,) = calls
    assert np.array_equal(call["sample_weight"], call["X"][:, -1])
    assert np.array_equal(call["validation"][2], call["validation"][0][:, -1])
    total = estimator.model_.tree_.weighted_n_node_samples[0]
    assert total == call["sample_weight"].sum()


def test_too_few_rows_are_fitted_on_without_retraining_and_with_a_warning():
    X, y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1])
    with pytest.warns(UserWarning, match="of 6 rows is too little to choose by.*not retrained"):
        estimator = RetrainedClassifier(random_state=0).fit(X, y)
    assert estimator.retrain_result_ is None
    assert estimator.predict(X).tolist() == y.tolist()
    with pytest.warns(UserWarning, match="not retrained"):
        RetrainedRegressor().fit(X, y)


def test_one_class_is_refused():
    with pytest.raises(bitvec.errors.InputError, match="at least 2 classes, got 1 class"):
        RetrainedClassifier().fit(np.zeros((50, 1)), np.zeros(50, int))


def test_a_fitted_model_is_retrained_as_it_is(digits, tmp_path, calls):
    X, X_new, y, y_new = digits
    model = DecisionTreeClassifier(max_depth=6, random_state=0).fit(X, y)
    estimator = RetrainedClassifier(model, prefit=True, retrain_options=FEW, random_state=0)
    estimator.fit(X_new, y_new)
    assert estimator.model_ is model
    assert bitvec.files.identical(calls[0]["forest"], bitvec.convert(model))
    path = tmp_path / "tree.safetensors"
    bitvec.save(bitvec.convert(model), path)
    of_file = RetrainedClassifier(str(path), prefit=True, retrain_options=FEW, random_state=0)
    assert bitvec.files.identical(of_file.fit(X_new, y_new).forest_, estimator.forest_)
    with pytest.raises(bitvec.errors.InputError, match="a fitted model where `prefit` is true"):
        RetrainedClassifier(prefit=True).fit(X, y)


def test_a_frozen_model_survives_a_search(digits):
    frozen = pytest.importorskip("sklearn.frozen")
    X, X_new, y, y_new = digits
    model = DecisionTreeClassifier(max_depth=6, random_state=0).fit(X, y)
    estimator = RetrainedClassifier(
        frozen.FrozenEstimator(model), retrain_options=FEW, random_state=0
    )
    assert cross_val_score(estimator, X_new, y_new, cv=2).min() > 0.6


def test_rows_to_choose_by_may_be_given(digits, calls):
    X, X_new, y, y_new = digits
    RetrainedClassifier(validation=(X_new, y_new), retrain_options=FEW).fit(X, y)
    assert len(calls[0]["X"]) == len(X)
    assert calls[0]["validation"] == (X_new, y_new)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_is_read_by_its_names(library):
    frames = pytest.importorskip(library)
    X, y = load_iris(return_X_y=True)
    names = ["a", "b", "c", "d"]
    frame = frames.DataFrame(dict(zip(names, X.T, strict=True)))
    estimator = RetrainedClassifier(retrain_options=FEW, random_state=0).fit(frame, y)
    assert estimator.feature_names_in_.tolist() == names
    assert estimator.forest_.inputs.feature_names == tuple(names)
    of_array = RetrainedClassifier(retrain_options=FEW, random_state=0).fit(X, y)
    assert np.array_equal(estimator.predict_proba(frame), of_array.predict_proba(X))
    with pytest.raises(ValueError, match="order"):
        estimator.predict(frame[names[::-1]])


def test_categories_of_a_frame_are_those_of_the_model():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], 400)
    frame = pandas.DataFrame({"colour": pandas.Categorical(colour), "x": rng.normal(size=400)})
    y = (colour == "red") ^ (frame["x"] > 0)
    model = HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype")
    estimator = RetrainedClassifier(model, retrain_options=FEW, random_state=0).fit(frame, y)
    assert estimator.score(frame, y) > 0.95


def test_sparse_rows_are_those_rows():
    sparse = pytest.importorskip("scipy.sparse")
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    dense, thin = (
        RetrainedClassifier(retrain_options=FEW, random_state=0).fit(each, y)
        for each in (X, sparse.csr_matrix(X))
    )
    assert np.array_equal(thin.predict(sparse.csr_matrix(X)), dense.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        AdaBoostClassifier(n_estimators=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_decision_function_is_the_models_own_kind(model):
    X, y = load_iris(return_X_y=True)
    for labels in (y, y > 0):
        options = {**FEW, "metric": "accuracy"}
        estimator = RetrainedClassifier(model, validation=0.02, retrain_options=options)
        estimator.fit(X, labels)  # on three rows nothing is ever clearly better
        assert not estimator.retrain_result_.improved
        expected = estimator.model_.decision_function(X)
        assert np.array_equal(estimator.decision_function(X), expected)
    assert not hasattr(RetrainedClassifier(), "decision_function")


def test_leaves_are_named_as_the_model_names_them():
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(3, max_depth=3)
    estimator = RetrainedClassifier(model, retrain_options=FEW, random_state=0).fit(X, y)
    assert np.array_equal(estimator.apply(X), estimator.model_.apply(X))


def test_a_regressor_is_never_worse_on_the_rows_held_out():
    X, y = make_regression(300, 5, noise=5.0, random_state=0)
    for model in (None, RandomForestRegressor(5, max_depth=4)):
        estimator = RetrainedRegressor(model, retrain_options=FEW, random_state=0).fit(X, y)
        assert estimator.retrain_result_.score >= estimator.retrain_result_.start_score
        assert estimator.predict(X).shape == (300,)
        assert estimator.score(X, y) > 0.5


def test_an_estimator_is_pickled_and_copied_whole():
    X, y = load_iris(return_X_y=True)
    estimator = RetrainedClassifier(retrain_options=FEW, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    assert bitvec.files.identical(again.forest_, estimator.forest_)
    assert np.array_equal(again.predict_proba(X), estimator.predict_proba(X))
    assert not hasattr(clone(estimator), "forest_")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (RetrainedClassifier(DecisionTreeRegressor()), "must be a classifier of one target"),
        (RetrainedClassifier(retrain_options={"seed": 1}), "must not name seed"),
        (RetrainedClassifier(validation=0), "share between 0 and 1.*got 0"),
        (RetrainedClassifier(validation="a fifth"), "got 'a fifth'"),
        (RetrainedClassifier(KNeighborsClassifier()), "must be one of .*, got KNeighbors"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused(estimator, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


def test_weights_are_refused_where_the_model_takes_none():
    class Weightless(DecisionTreeClassifier):
        """A tree whose fit takes no weights."""

        def fit(self, X, y):
            return super().fit(X, y)

    X, y = load_iris(return_X_y=True)
    with pytest.raises(bitvec.errors.InputError, match="must be left out with a Weightless"):
        RetrainedClassifier(Weightless()).fit(X, y, sample_weight=np.ones(150))


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=200),
    st.floats(0.01, 0.99),
    st.integers(0, 2**31),
)
def test_each_class_gives_its_share_and_keeps_a_row(classes, share, seed):
    codes = np.unique(classes, return_inverse=True)[1]
    drawn = held_out(len(codes), share, np.random.RandomState(seed), codes, least=0)
    count, taken = np.bincount(codes), np.bincount(codes[drawn], minlength=codes.max() + 1)
    assert np.all(taken < count)
    assert np.all((np.abs(taken - share * count) < 1) | (taken == count - 1))
    kept = np.minimum(np.ceil(share * count), count - 1).sum()
    assert drawn.sum() <= min(round(share * len(codes)), kept)
    parts = held_out(len(codes), share, np.random.RandomState(seed), codes)
    enough = 2 <= drawn.sum() <= len(codes) - 2
    assert np.array_equal(parts, drawn if enough else np.zeros(len(codes), bool))
    everything = held_out(len(codes), share, np.random.RandomState(seed), least=0)
    assert everything.sum() == min(round(share * len(codes)), len(codes) - 1)
