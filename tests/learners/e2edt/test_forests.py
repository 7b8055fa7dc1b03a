"""End-to-End Decision Forests as estimators: trees that read parts of X, and their mean."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.utils.estimator_checks import parametrize_with_checks

import bitvec
from bitvec.errors import InputError
from bitvec.learners.e2edt.sklearn_forests import E2EDFClassifier, E2EDFRegressor

QUICK: dict[str, Any] = {
    "n_estimators": 3, "max_depth": 3, "steps": 8, "refine": 0, "random_state": 0
}  # fmt: skip
TINY: dict[str, Any] = {**QUICK, "n_estimators": 2, "max_depth": 2}
WINE = load_wine(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
DIGITS = load_digits(return_X_y=True)
NAMES = np.array(["a", "b", "c"])
CHECKS = (
    "check_estimators_dtypes", "check_fit_score_takes_y", "check_estimators_pickle",
    "check_n_features_in", "check_classifiers_train", "check_regressors_train", "check_dict_unch",
    "check_parameters_default_constructible", "check_no_attributes_set_in_init",
)  # fmt: skip


@parametrize_with_checks(
    [E2EDFClassifier(**TINY), E2EDFRegressor(**{**TINY, "steps": 25, "max_features": None})]
)
def test_passes_a_small_set_of_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    if check.func.__name__.startswith(CHECKS):
        check(estimator)


@pytest.mark.full
@parametrize_with_checks(
    [E2EDFClassifier(**{**TINY, "bootstrap": True}), E2EDFRegressor(**{**TINY, "refine": 20})],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "rows are drawn"
        for kind in ("dense", "sparse")
    },
)
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("options", [{}, {"refine": 15}, {"joint": 15}, {"bootstrap": True}])
def test_the_converted_forest_is_certified_and_is_the_mean_of_its_trees(options: Any) -> None:
    X, y = WINE
    for model, target in (
        (E2EDFClassifier(**{**QUICK, **options}), NAMES[y]),
        (E2EDFRegressor(**{**QUICK, **options}), np.stack([X[:, 0], X[:, 5]], axis=1)),
    ):
        model.fit(X, target)
        assert bitvec.certify(model.forest_, model.native_, X).passed
        assert np.array_equal(model.predict(X), model.native_.predict(X))
        mean = sum(tree.values[tree.decide(X)] for tree in model.trees_) / 3
        assert model.native_.raw(X) == pytest.approx(mean)
        assert len(model.trees_) == len(model.growths_) == len(model.refinements_) == 3
        assert (model.refinement_ is None) == ("joint" not in options)


@pytest.mark.parametrize("options", [{}, {"refine": 30}, {"joint": 30}])
def test_a_node_reads_the_columns_that_it_drew_after_refinement_too(options: Any) -> None:
    X, y = WINE
    model = E2EDFClassifier(**{**QUICK, **options}, max_features=4).fit(X, y)
    assert model.forest_.n_nodes > 6
    for tree in model.trees_:
        assert np.all((tree.theta != 0).sum(axis=1) <= 4)
    # Nodes of a tree do not all read the same.
    assert len({tuple(np.flatnonzero(row)) for row in model.trees_[0].theta}) > 1
    if options:
        results = (*model.refinements_, model.refinement_)
        assert any(each is not None and each.improved for each in results)


def test_a_node_reads_a_patch_of_the_image() -> None:
    X, y = DIGITS
    model = E2EDFClassifier(**QUICK, patch_shape=(3, 4), image_shape=(8, 8)).fit(X[:500], y[:500])
    corners = set()
    for tree in model.trees_:
        for theta in tree.theta:
            rows, columns = np.nonzero(theta.reshape(8, 8))
            assert np.ptp(rows) < 3
            assert np.ptp(columns) < 4
            corners.add((rows.min(), columns.min()))
    assert any(row != column for row, column in corners)


def test_trees_differ_and_their_mean_is_better_than_one() -> None:
    X, y = DIGITS
    model = E2EDFClassifier(n_estimators=8, max_depth=6, steps=25, refine=0, random_state=0)
    model.fit(X[:1000], y[:1000])
    alone = [np.mean(tree.predict(X[1000:]) == y[1000:]) for tree in model.trees_]
    assert model.score(X[1000:], y[1000:]) > max(alone) + 0.05


def test_joint_refinement_gains_and_its_leaves_are_counted_on_hard_routes() -> None:
    X, y = DIGITS
    options = {"n_estimators": 3, "max_depth": 3, "steps": 15, "refine": 0, "random_state": 0}
    model = E2EDFClassifier(**options, joint=150).fit(X[:1000], y[:1000])
    greedy = E2EDFClassifier(**options).fit(X[:1000], y[:1000])
    assert model.refinement_ is not None
    assert model.refinement_.improved
    assert model.score(X[1000:], y[1000:]) > greedy.score(X[1000:], y[1000:])
    for tree in model.trees_:
        leaf = tree.decide(X[:1000])
        for number in np.unique(leaf):
            counts = np.bincount(y[:1000][leaf == number], minlength=10)
            assert tree.values[number] == pytest.approx(counts / counts.sum())


def test_a_joint_refinement_that_is_not_kept_leaves_the_steepness_of_trees(monkeypatch) -> None:
    X, y = DIGITS
    options = {"n_estimators": 2, "max_depth": 3, "steps": 15, "refine": 60, "random_state": 0}
    options |= {"validation": (X[1000:], y[1000:])}
    alone = E2EDFClassifier(**options).fit(X[:1000], y[:1000])
    monkeypatch.setattr(
        "bitvec.learners.e2edt.sklearn_forests.refine",
        lambda *parts: SimpleNamespace(improved=False),
    )
    model = E2EDFClassifier(**options, joint=1).fit(X[:1000], y[:1000])
    steepness = [tree.gamma for tree in alone.trees_]
    assert [tree.gamma for tree in model.trees_] == steepness
    assert min(steepness) < 8  # it is not simply where the schedule ends


def test_a_regressor_learns() -> None:
    X, y = DIABETES
    model = E2EDFRegressor(n_estimators=5, max_depth=3, steps=40, refine=0, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.5


def test_bootstrap_draws_rows_and_counts_leaves_by_them() -> None:
    X, y = WINE
    model = E2EDFClassifier(**QUICK, bootstrap=True).fit(X, y)
    plain = E2EDFClassifier(**QUICK).fit(X, y)
    for tree in plain.trees_:
        shares = np.stack([np.mean(tree.values[tree.decide(X)], axis=0)])
        assert shares[0] == pytest.approx(np.bincount(y) / len(y))
    tree = model.trees_[0]
    mean = tree.values[tree.decide(X)].mean(axis=0)
    assert np.abs(mean - np.bincount(y) / len(y)).max() > 1e-3


def digest() -> str:
    model = E2EDFClassifier(**{**QUICK, "refine": 6}).fit(*WINE)
    parts = [part for tree in model.trees_ for part in (tree.theta, tree.bias, tree.values)]
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    ).hexdigest()


@pytest.mark.full
def test_a_seed_is_the_same_forest_in_another_process_and_for_any_number_of_jobs() -> None:
    X, y = WINE
    code = f"import runpy; print(runpy.run_path({__file__!r})['digest']())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == digest()
    one, two, other = (
        E2EDFClassifier(**{**QUICK, "refine": 6, **more}).fit(X, y)
        for more in ({"n_jobs": 1}, {"n_jobs": 2}, {"random_state": 1})
    )
    assert np.array_equal(one.forest_.rows, two.forest_.rows)
    assert not np.array_equal(one.forest_.rows, other.forest_.rows)


def test_a_clone_and_a_pickle_are_the_same_forest() -> None:
    X, y = WINE
    model = E2EDFClassifier(**QUICK).fit(X, y)
    for other in (clone(model).fit(X, y), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))


def test_rows_of_weight_zero_are_not_there() -> None:
    X, y = WINE
    weight = np.ones(len(X))
    weight[::3] = 0
    model = E2EDFClassifier(**QUICK).fit(X, y, weight)
    without = E2EDFClassifier(**QUICK).fit(X[weight > 0], y[weight > 0])
    assert np.array_equal(model.forest_.rows, without.forest_.rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_estimators": 0}, "`n_estimators` must be a whole number"),
        ({"max_features": 14}, "`max_features` must be None"),
        ({"patch_shape": (2, 2)}, "`image_shape` must be given"),
        ({"image_shape": (2, 2)}, "`image_shape` must be"),
        ({"joint": -1}, "`joint` must be a whole number from 0 on"),
        ({"n_jobs": 0}, "`n_jobs` must be"),
    ],
)
def test_options_out_of_place_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        E2EDFClassifier(**{**QUICK, **options}).fit(*WINE)


def test_spatial_weights_of_patches_are_smoother_grown_and_refined_together() -> None:
    X, y = DIGITS[0][:400], DIGITS[1][:400]
    shapes = {"image_shape": (8, 8), "patch_shape": (5, 5)}

    def roughness(**more: Any) -> float:
        model = E2EDFClassifier(**{**QUICK, "steps": 80, **shapes, **more}).fit(X, y)
        assert (model.refinement_ is None) == ("joint" not in more)
        theta = np.concatenate([tree.theta for tree in model.trees_])
        assert np.all(np.count_nonzero(theta, axis=1) <= 25)
        theta = theta.reshape(-1, 8, 8)
        steps = [np.diff(theta, axis=axis, prepend=0, append=0) for axis in (1, 2)]
        return float(np.mean([(step**2).sum((1, 2)) for step in steps] / (theta**2).sum((1, 2))))

    spatial = {"spatial": 0.3, "spatial_shape": (8, 8)}
    assert roughness(**spatial) < 0.8 * roughness()
    assert roughness(**spatial, joint=60) < 0.8 * roughness(joint=60)


def test_an_image_that_does_not_fit_is_refused_in_forests_too() -> None:
    with pytest.raises(InputError, match="`spatial_shape` must be"):
        E2EDFClassifier(**QUICK, spatial=1.0, spatial_shape=(8, 9)).fit(*DIGITS)


def test_a_folder_is_no_checkpoint_of_a_forest(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="`checkpoint_path` must be a file"):
        E2EDFClassifier(**QUICK, checkpoint_path=tmp_path).fit(*WINE)
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}.*"))
    with pytest.raises(InputError, match="`bootstrap` must be True or False"):
        E2EDFClassifier(**QUICK, bootstrap="no").fit(*WINE)
