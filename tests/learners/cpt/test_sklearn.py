"""Convex Polytope Trees as estimators: what they promise beyond scikit-learn's own checks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine, make_moons
from sklearn.metrics import roc_auc_score

import bitvec
from bitvec.converters.native import from_cpt
from bitvec.errors import InputError
from bitvec.learners.cpt.sklearn import CPTClassifier, CPTRegressor
from bitvec.learners.cpt.tree import facets_of, of_forest

QUICK: dict[str, Any] = {
    "max_depth": 2, "n_facets": 3, "steps": 12, "restarts": 2, "refine": 12, "random_state": 0
}  # fmt: skip
WINE = load_wine(return_X_y=True)
NAMES = np.array(["a", "b", "c"])


def annulus(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    distance = np.hypot(*X.T)
    return X, ((distance > 0.4) & (distance < 0.8)).astype(int)


@pytest.mark.parametrize("refine", [0, 40])
def test_the_converted_forest_is_certified_and_predicts_what_the_tree_predicts(refine: int) -> None:
    X, y = WINE
    for model, target in (
        (CPTClassifier(**{**QUICK, "refine": refine}), NAMES[y]),
        (CPTRegressor(**{**QUICK, "refine": refine}), np.stack([X[:, 0], X[:, 5]], axis=1)),
    ):
        model.fit(X, target)
        assert bitvec.certify(model.forest_, model.tree_, X).passed
        assert np.array_equal(model.predict(X), model.tree_.predict(X))
        assert (model.refinement_ is None) == (refine == 0)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 8))]
)
@pytest.mark.parametrize("form", ["tensor", "traversal"])
def test_exported_trees_are_certified_whatever_rows_are_given(
    seed: int, form: str, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    X, y = make_moons(300, noise=0.25, random_state=seed)
    options = {**QUICK, "max_depth": 3, "n_facets": 4, "steps": 30, "random_state": seed}
    for model, target in ((CPTClassifier(**options), y), (CPTRegressor(**options), X @ [1, -2])):
        forest = model.fit(X, target).forest_
        path = bitvec.export(forest, tmp_path / "tree.onnx", form=form)
        for rows in (None, X[:1], X):
            assert bitvec.certify(forest, path, rows, allow_values_only=True).passed


def test_facets_tell_the_weight_of_rows_in_the_unit_that_it_was_given_in() -> None:
    X, y = annulus(200, 0)
    for weight in (1.0, 2.0, 1e-310, 1e300):
        model = CPTClassifier(**QUICK).fit(X, y, np.full(200, weight))
        assert model.facets_[0].weight == pytest.approx(200 * weight, rel=1e-9)


def test_three_leaves_tell_a_ring_by_few_facets() -> None:
    X, y = annulus(800, 0)
    held, z = annulus(2000, 1)
    model = CPTClassifier(
        growth="best", max_depth=None, max_leaves=3, steps=200, restarts=3, refine=0,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    assert model.tree_.n_leaves == 3
    assert roc_auc_score(z, model.predict_proba(held)[:, 1]) > 0.96
    assert max(each.n_facets for each in model.facets_) <= 12
    whole = clone(model).set_params(prune_tol=None, n_facets=5, steps=20).fit(X, y)
    assert [each.n_facets for each in whole.facets_] == [5, 5]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_the_ring_of_the_paper_is_told_on_every_seed(seed: int) -> None:
    X, y = annulus(2000, seed)
    held, z = annulus(4000, 100 + seed)
    model = CPTClassifier(
        growth="best", max_depth=None, max_leaves=3, refine=0, random_state=seed
    ).fit(X, y)
    assert model.tree_.n_leaves == 3
    assert roc_auc_score(z, model.predict_proba(held)[:, 1]) >= 0.98
    assert max(each.n_facets for each in model.facets_) <= 12


def test_the_facets_told_are_those_of_the_tree() -> None:
    X, y = WINE
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    model = CPTClassifier(**QUICK).fit(X, y, weight)
    tree = model.tree_
    assert [each.node for each in model.facets_] == list(range(tree.n_nodes))
    root = model.facets_[0]
    assert root.weight == pytest.approx(weight.sum())
    g = tree.g(0, X)
    assert root.inside == pytest.approx(weight[g <= tree.tau[0]].sum() / weight.sum())
    assert root.n_facets == np.count_nonzero(tree.r[tree.facet_ptr[0] : tree.facet_ptr[1]])
    assert np.all(np.diff(root.r) <= 0)
    assert sum(each.n_facets for each in model.facets_) == np.count_nonzero(tree.r)


def test_a_convex_set_on_the_right_is_told_as_inside_all_the_same() -> None:
    X = np.array([[-1.0], [1.0], [2.0], [3.0]])
    given: dict[str, Any] = {"left": [~0], "right": [~1], "pi": [0.0, 1.0], "tau": [1.0]}
    beta, r = np.array([[[1.0, 0.0]]]), np.ones((1, 1))
    plain = from_cpt(beta, r, **given)
    mirrored = from_cpt(beta, r, inside_right=[True], **given)
    for tree in (plain, mirrored):
        (found,) = facets_of(tree, X, np.ones(4))
        assert found.inside == 0.25


@pytest.mark.parametrize("prior", ["none", "gamma_process"])
def test_a_ring_is_learned_with_and_without_the_prior(prior: str) -> None:
    X, y = annulus(500, 2)
    model = CPTClassifier(
        growth="best", max_depth=None, max_leaves=3, n_facets=8, steps=150, restarts=3, refine=0,
        prior=prior, random_state=0,
    ).fit(X, y)  # fmt: skip
    assert model.score(X, y) > 0.9


def test_the_tree_of_a_converted_forest_is_the_tree() -> None:
    X, y = WINE
    tree = CPTClassifier(**QUICK).fit(X, y).tree_
    again = of_forest(bitvec.convert(tree), tree)
    assert np.array_equal(again.raw(X), tree.raw(X))
    assert np.array_equal(np.sort(again.tau), np.sort(tree.tau))
    assert np.array_equal(np.sort(again.r), np.sort(tree.r))


def test_refinement_moves_facets_and_stays_a_polytope_tree() -> None:
    X, y = annulus(600, 3)
    options: dict[str, Any] = {"max_depth": 2, "n_facets": 5, "steps": 15, "restarts": 1}
    greedy = CPTClassifier(**options, refine=0, random_state=1).fit(X, y)
    model = CPTClassifier(**options, refine=400, random_state=1).fit(X, y)
    assert model.refinement_ is not None
    assert model.refinement_.improved
    assert np.all(model.tree_.r >= 0)
    assert np.all(model.tree_.tau >= 0)
    held, z = annulus(2000, 4)
    assert model.score(held, z) > greedy.score(held, z)


def test_values_inside_and_outside_are_means() -> None:
    X, y = annulus(500, 5)
    values = np.stack([3.0 * y, 1.0 - y], axis=1)
    model = CPTRegressor(
        growth="best", max_depth=None, max_leaves=3, n_facets=8, steps=150, restarts=3, refine=0,
        random_state=0,
    ).fit(X, values)  # fmt: skip
    assert model.score(X, values) > 0.7
    leaf = model.tree_.decide(X)
    for number in np.unique(leaf):
        assert model.tree_.values[number] == pytest.approx(values[leaf == number].mean(axis=0))


def test_a_seed_gives_the_same_model_and_a_clone_and_a_pickle_too() -> None:
    X, y = WINE
    model = CPTClassifier(**QUICK).fit(X, y)
    for other in (clone(model).fit(X, y), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
        assert np.array_equal(other.tree_.beta, model.tree_.beta)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_facets": 0}, "`n_facets` must be a whole number from 1 on"),
        ({"prune_tol": -0.1}, "`prune_tol` must not be negative"),
        ({"prior": "gamma"}, "`prior` must be one of 'none', 'gamma_process'"),
        ({"learning_rate": 0}, "`learning_rate` must be above 0"),
    ],
)
def test_options_out_of_place_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CPTClassifier(**{**QUICK, **options}).fit(*WINE)
