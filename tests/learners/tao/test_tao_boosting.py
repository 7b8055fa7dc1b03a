"""Boosted TAO trees: the loss falls round by round, and the sum is the reference's bit for bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitvec
from bitvec.converters.native import from_tao
from bitvec.core import reference, transforms
from bitvec.errors import InputError
from bitvec.learners.tao import fit_tao
from bitvec.learners.tao.boosting_rounds import Boosting, Sample, boost, loss_of
from bitvec.learners.tao.sklearn_boosting import TAOBoostingClassifier, TAOBoostingRegressor

WINE = load_wine(return_X_y=True)
CANCER = load_breast_cancer(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
SMALL = {"n_estimators": 4, "max_depth": 2, "random_state": 0}
AXIS = {**SMALL, "oblique": False, "validation": None}
FAST = {**SMALL, "learning_rate": 0.5}
CHECKED = [
    TAOBoostingClassifier(**FAST),
    TAOBoostingClassifier(**AXIS),
    TAOBoostingRegressor(**FAST),
    TAOBoostingRegressor(**FAST | AXIS),
    TAOBoostingRegressor(**FAST, oblique=False, leaves="linear"),
]
PROBLEMS = {
    "two classes": (TAOBoostingClassifier, CANCER),
    "three classes": (TAOBoostingClassifier, WINE),
    "values": (TAOBoostingRegressor, DIABETES),
    "two outputs": (TAOBoostingRegressor, (DIABETES[0], np.outer(DIABETES[1], [1.0, -2.0]))),
}


@pytest.mark.full
@parametrize_with_checks(CHECKED)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    if "sample_weight_equivalence" in check.func.__name__:
        if estimator.validation is not None:
            pytest.skip("rows are held out by their places, hyperplanes go through the rows given")
        if isinstance(estimator, TAOBoostingClassifier):
            pytest.skip("tests that part the training rows alike tie but for rounding: see below")
    check(estimator)


@pytest.mark.parametrize("oblique", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_training_loss_falls_with_each_tree_to_that_of_the_answers(name, oblique):
    make, (X, y) = PROBLEMS[name]
    model = make(**SMALL, oblique=oblique, validation=None, learning_rate=0.5).fit(X, y)
    assert np.all(np.diff(model.losses_) < 0)
    assert model.n_iter_ == len(model.trees_) == len(model.losses_) - 1 == 4
    assert model.validation_losses_ == model.losses_
    if name.endswith("classes"):
        chosen = model.predict_proba(X)[np.arange(len(y)), y]
        loss = -np.log(chosen).mean()
    else:
        gap = y.reshape(len(y), -1) - model.predict(X).reshape(len(y), -1)
        loss = np.square(gap).sum(axis=1).mean()
    assert loss == pytest.approx(model.losses_[-1], rel=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_raw_scores_are_the_base_score_and_the_sum_of_the_trees_bit_for_bit(name):
    make, (X, y) = PROBLEMS[name]
    model = make(**SMALL).fit(X, y)
    total = np.zeros((len(X), model.native_.base_score.size))
    for tree in model.trees_:
        total += tree.V[tree.decide(X)]
    total += model.native_.base_score
    forest = model.forest_
    for raw in (reference.raw(forest, X), bitvec.compile(forest).raw(X), model.native_.raw(X)):
        assert np.array_equal(raw, total)
    assert bitvec.certify(forest, model, X[:50]).passed
    if forest.output.is_classifier:
        p = transforms.probabilities(forest.output, total)[0]
        assert np.array_equal(model.predict_proba(X), p)
        raw = model.decision_function(X)
        assert np.array_equal(raw, total[:, 0] if total.shape[1] == 1 else total)
        assert np.array_equal(model.predict(X), (raw > 0) if raw.ndim == 1 else raw.argmax(1))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_leaf_is_the_newton_step_of_its_rows(name):
    make, (X, y) = PROBLEMS[name]
    model = make(**SMALL | {"n_estimators": 1}, validation=None, l2_regularization=0.7).fit(X, y)
    (tree,) = model.trees_
    leaf, base = tree.decide(X), model.native_.base_score
    Y = y.reshape(len(y), -1).astype(float)
    if name == "three classes":
        Y = np.eye(3)[y]
    p = transforms.transform(model.forest_.output, np.tile(base, (len(X), 1)))
    for number in np.unique(leaf):
        at = leaf == number
        h = np.ones((at.sum(), base.size))
        if name.endswith("classes"):
            h = p[at] * (1 - p[at]) * (1.5 if name == "three classes" else 1.0)
        step = (Y - p)[at].sum(axis=0) / (h.sum(axis=0) + 0.7)
        assert tree.V[number] == pytest.approx(0.1 * step)


@pytest.mark.parametrize("name", PROBLEMS)
def test_weights_are_as_good_as_rows_given_so_often(name):
    make, (X, y) = PROBLEMS[name]
    X, y = X[::3], y[::3]
    times = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = make(**AXIS).fit(X, y, times)
    repeated = make(**AXIS).fit(np.repeat(X, times, axis=0), np.repeat(y, times, axis=0))
    seen = X[times > 0]  # tests that part these alike may part others otherwise
    raw = [reference.raw(model.forest_, seen) for model in (weighted, repeated)]
    assert raw[0] == pytest.approx(raw[1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["two classes", "values"])
def test_the_round_of_least_loss_on_the_rows_held_out_is_kept(name):
    make, (X, y) = PROBLEMS[name]
    fit, held = slice(0, None, 2), slice(1, 60, 2)
    options = {**SMALL, "n_estimators": 60, "learning_rate": 1.0, "patience": 3}
    model = make(**options, validation=(X[held], y[held])).fit(X[fit], y[fit])
    judged = model.validation_losses_
    assert model.n_iter_ == int(np.argmin(judged)) < len(judged) - 1
    assert len(model.trees_) == max(model.n_iter_, 1)
    assert len(judged) - 1 - model.n_iter_ <= 3
    shorter = clone(model).set_params(n_estimators=max(model.n_iter_, 1), validation=None)
    alone = shorter.fit(X[fit], y[fit])
    for mine, other in zip(model.trees_, alone.trees_, strict=True):
        assert np.array_equal(mine.V, other.V)
    target = y.reshape(len(y), -1).astype(float)
    rows = Sample(X[held], target[held], np.ones(30))
    told = loss_of(rows, model.native_.raw(X[held]), name == "two classes")
    assert told == pytest.approx(min(judged))


def test_a_share_is_held_out_of_each_class_and_never_a_row_of_no_weight():
    X, y = WINE
    weight = np.where(np.arange(len(X)) % 4 == 0, 0.0, 1.0)
    model = TAOBoostingClassifier(**SMALL).fit(X, y, weight)
    kept = weight > 0
    alone = TAOBoostingClassifier(**SMALL).fit(X[kept], y[kept])
    assert model.validation_losses_ == alone.validation_losses_ != model.losses_
    few = TAOBoostingClassifier(**SMALL).fit(X[::40], y[::40])
    assert few.validation_losses_ == few.losses_


def test_a_tree_that_does_not_lower_the_loss_is_left_out_and_too_long_a_step_halved():
    X, y = np.arange(8.0)[:, None], np.repeat([0.0, 1.0], 4)[:, None]
    rows = Sample(X, y, np.ones(8))
    tree = fit_tao(X, y, depth=1).tree
    idle = from_tao(W=np.zeros((0, 1)), bias=[], left=[], right=[], V=[[0.0]])
    grown = iter([idle, tree, idle, idle])
    how = Boosting(classes=False, n_trees=9, rate=3.0, l2=0.0, patience=2)
    found = boost(rows, None, how, lambda *_: next(grown), lambda *_: None)
    assert found.kept == 1
    assert found.trees[0].V.ravel().tolist() == [-0.75, 0.75]  # 3 times a half, halved once
    assert found.losses == (0.25, 0.0625)


def test_probabilities_that_are_1_by_rounding_end_the_rounds():
    X, y = WINE
    options = {**SMALL, "n_estimators": 80, "learning_rate": 1.0, "l2_regularization": 0.0}
    model = TAOBoostingClassifier(**options, validation=None).fit(X, y == 1, np.full(len(y), 1e-9))
    assert model.losses_[-1] < 1e-9
    assert np.all(np.diff(model.losses_) < 0)
    assert np.array_equal(model.predict(X), y == 1)


def test_values_that_are_all_alike_are_the_base_score():
    X, _ = DIABETES
    model = TAOBoostingRegressor(**SMALL).fit(X, np.full(len(X), 7.5))
    assert model.n_iter_ == 0
    assert set(model.predict(X)) == {7.5}
    assert bitvec.certify(model.forest_, model, X[:20]).passed


def test_a_seed_is_the_same_forest_for_any_number_of_threads_and_in_a_pickle():
    X, y = WINE
    words = np.array(["red", "rose", "white"], object)[y]
    model = TAOBoostingClassifier(**SMALL).fit(X, words)
    two = clone(model).set_params(n_jobs=2).fit(X, words)
    again = pickle.loads(pickle.dumps(model))
    for other in (two, again):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
    assert set(model.predict(X)) == set(words)
    another = clone(model).set_params(random_state=1).fit(X, words)
    assert not np.array_equal(another.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_estimators": 0}, "`n_estimators`"),
        ({"learning_rate": 0.0}, "`learning_rate`"),
        ({"l2_regularization": -1.0}, "`l2_regularization`"),
        ({"patience": 0}, "`patience`"),
        ({"validation": 2}, "`validation` must be a share"),
        ({"validation": (WINE[0][:, :3], WINE[1])}, r"`validation\[0\]` must be rows like X"),
        ({"validation": (WINE[0], WINE[1] + 1)}, r"`validation\[1\]` must hold labels"),
        ({"max_depth": 40}, "`max_depth` must be at most"),
    ],
)
def test_bad_options_are_one_sentence(options, words):
    with pytest.raises(InputError, match=words) as caught:
        TAOBoostingClassifier(**options).fit(*WINE)
    assert "\n" not in str(caught.value).split("rows like X")[0]


def test_values_to_judge_by_have_the_columns_of_y():
    model = TAOBoostingRegressor(validation=(DIABETES[0], np.outer(DIABETES[1], [1, 2])))
    with pytest.raises(InputError, match=r"`validation\[1\]` must have 1 columns, got 2"):
        model.fit(*DIABETES)


def test_boosting_beats_its_tree_on_rows_that_it_has_not_seen():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=900)
    many = TAOBoostingRegressor(n_estimators=30, random_state=0).fit(X[:600], y[:600])
    one = bitvec.learners.TAORegressor(max_depth=4, oblique=True, random_state=0)
    assert many.score(X[600:], y[600:]) > one.fit(X[:600], y[:600]).score(X[600:], y[600:]) + 0.1
