"""Forests of TAO trees: means of trees of drawn rows, the same for any number of threads."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitvec
from bitvec.errors import InputError
from bitvec.learners.tao import fit_tao
from bitvec.learners.tao.sklearn import class_shares
from bitvec.learners.tao.sklearn_forests import TAOForestClassifier, TAOForestRegressor

WINE = load_wine(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
SMALL = {"n_estimators": 3, "max_depth": 2, "random_state": 0}
CHECKED = [
    TAOForestClassifier(**SMALL),
    TAOForestRegressor(**SMALL),
    TAOForestRegressor(**SMALL, oblique=False, leaves="linear"),
]


@pytest.mark.full
@parametrize_with_checks(CHECKED)
def test_passes_the_checks_of_scikit_learn(estimator, check):
    if "sample_weight_equivalence" in check.func.__name__:
        pytest.skip("rows are drawn by their places, and hyperplanes through the rows given")
    check(estimator)


@pytest.mark.parametrize("oblique", [False, True])
def test_a_classifier_is_the_mean_of_the_shares_of_its_trees(oblique):
    X, y = WINE
    words = np.array(["red", "rose", "white"])[y]
    model = TAOForestClassifier(**SMALL, oblique=oblique, smoothing=0.5).fit(X, words)
    shares = []
    for tree, result in zip(model.trees_, model.results_, strict=True):
        own = class_shares(result.leaf_weight, result.tree.V.argmax(axis=1), 0.5)
        assert np.array_equal(tree.V, own)
        shares.append(own[tree.decide(X)])
    np.testing.assert_allclose(model.predict_proba(X), np.mean(shares, axis=0), rtol=1e-15)
    assert np.array_equal(model.native_.predict(X), model.predict(X))
    assert model.predict(X).tolist() == model.classes_[model.predict_proba(X).argmax(1)].tolist()
    assert bitvec.certify(model.forest_, model.native_, X).passed


def test_a_tree_is_fitted_to_its_drawn_rows_alone():
    X, y = DIABETES
    model = TAOForestRegressor(n_estimators=2, max_depth=3, random_state=5).fit(X, y)
    seeds = np.random.default_rng(model._seed()).integers(np.iinfo(np.int32).max, size=2)
    for seed, tree in zip(seeds.tolist(), model.trees_, strict=True):
        times = np.bincount(np.random.default_rng([seed, 1]).integers(0, len(X), len(X)))
        weight = np.pad(times, (0, len(X) - times.size)).astype(float)
        alone = fit_tao(
            X, y, depth=3, oblique=True, start="random", restarts=1, seed=seed, sample_weight=weight
        )
        assert np.array_equal(alone.tree.predict(X), tree.predict(X))
    every = TAOForestRegressor(n_estimators=2, max_depth=3, bootstrap=False, random_state=5)
    whole = every.fit(X, y).results_[0]
    assert whole.leaf_weight.sum() == len(X)
    assert model.results_[0].leaf_weight.sum() == len(X)  # drawn as often


def test_a_seed_is_the_same_forest_for_any_number_of_threads_and_in_a_pickle():
    X, y = WINE
    model = TAOForestClassifier(**SMALL).fit(X, y)
    two = clone(model).set_params(n_jobs=2).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    for other in (two, again):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
    another = clone(model).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(another.predict_proba(X), model.predict_proba(X))


def test_rows_of_no_weight_are_never_drawn_and_a_class_may_be_missing_in_a_tree():
    X, y = WINE
    weight = np.where(y == 2, 0.0, 1.0)
    weight[np.flatnonzero(y == 2)[0]] = 1.0  # one row of this class, which many draws miss
    model = TAOForestClassifier(**SMALL).fit(X, y, weight)
    drawn = [result.leaf_weight.sum(axis=0) for result in model.results_]
    assert all(each.sum() == weight.sum() for each in drawn)
    assert model.predict_proba(X).shape == (len(X), 3)
    kept = np.flatnonzero(weight)
    alone = TAOForestClassifier(**SMALL).fit(X[kept], y[kept])
    assert np.array_equal(alone.predict_proba(X), model.predict_proba(X))


def test_several_outputs_and_linear_leaves_are_certified():
    X, y = DIABETES
    both = np.stack([y, -2 * y + X[:, 0]], axis=1)
    for options in ({"leaves": "linear", "ridge": 1.0}, {"penalty": "l1", "lambda_": 1e3}):
        model = TAOForestRegressor(**SMALL, **options).fit(X, both)
        assert model.predict(X).shape == both.shape
        assert np.array_equal(model.native_.predict(X), model.predict(X))
        assert bitvec.certify(model.forest_, model.native_, X).passed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_estimators": 0}, "`n_estimators`"),
        ({"bootstrap": "yes"}, "`bootstrap`"),
        ({"smoothing": -1.0}, "`smoothing`"),
        ({"max_depth": 40}, "`max_depth` must be at most"),
    ],
)
def test_bad_options_are_one_sentence(options, words):
    with pytest.raises(InputError, match=words):
        TAOForestClassifier(**options).fit(*WINE)


def test_bagging_beats_its_tree_on_rows_that_it_has_not_seen():
    gains = []
    for seed in range(3):  # gains of 10 seeds: 0.05 on average, with a deviation of 0.02
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(6600, 6))
        noise = 0.5 * rng.normal(size=6600)
        y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + noise > 0).astype(int)
        kinds = {"n_estimators": 15}, {"n_estimators": 1, "bootstrap": False}
        many, one = (
            TAOForestClassifier(max_depth=7, random_state=0, **kind)
            .fit(X[:600], y[:600])
            .score(X[600:], y[600:])
            for kind in kinds
        )
        gains.append(many - one)
    assert np.mean(gains) > 0.01


def test_an_interrupted_fit_leaves_no_old_trees_behind_new_labels(monkeypatch):
    X, y = WINE
    model = TAOForestClassifier(**SMALL).fit(X, y)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bitvec.learners.tao.sklearn_forests.fit_tao", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :5], np.array(["a", "b", "c"])[y])
    with pytest.raises(NotFittedError):
        model.predict(X)
