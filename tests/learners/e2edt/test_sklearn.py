"""End-to-End Decision Trees as estimators: what they promise beyond scikit-learn's own checks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine, make_friedman1

import bitvec
from bitvec.converters.native import from_e2edt
from bitvec.errors import InputError
from bitvec.learners.e2edt.sklearn import E2EDTClassifier, E2EDTRegressor
from bitvec.learners.e2edt.tree import of_forest, with_unit_margins

QUICK: dict[str, Any] = {
    "max_depth": 2, "steps": 12, "restarts": 1, "refine": 12, "random_state": 0
}  # fmt: skip
WINE = load_wine(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)
NAMES = np.array(["a", "b", "c"])


@pytest.mark.parametrize("refine", [0, 40])
def test_the_converted_forest_is_certified_and_predicts_what_the_tree_predicts(refine: int) -> None:
    X, y = WINE
    for model, target in (
        (E2EDTClassifier(**{**QUICK, "refine": refine}), NAMES[y]),
        (E2EDTRegressor(**{**QUICK, "refine": refine}), np.stack([X[:, 0], X[:, 5]], axis=1)),
    ):
        model.fit(X, target)
        assert bitvec.certify(model.forest_, model.tree_, X).passed
        assert np.array_equal(model.predict(X), model.tree_.predict(X))
        assert (model.refinement_ is None) == (refine == 0)


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_leaves_are_weighted_counts_of_hard_routes_over_all_rows(smoothing: float) -> None:
    X, y = WINE
    weight = np.random.default_rng(0).integers(1, 4, len(X)) * 1.0
    model = E2EDTClassifier(**QUICK, smoothing=smoothing).fit(X, NAMES[y], weight)
    leaf = model.tree_.decide(X)
    for number in np.unique(leaf):
        counts = np.bincount(y[leaf == number], weight[leaf == number], 3) + smoothing
        assert model.tree_.pi is not None
        assert np.array_equal(model.tree_.pi[number], counts / counts.sum())


def test_means_are_those_of_the_rows_at_each_leaf() -> None:
    X, y = DIABETES
    model = E2EDTRegressor(**QUICK).fit(X, y)
    leaf = model.tree_.decide(X)
    for number in np.unique(leaf):
        assert model.tree_.values[number, 0] == pytest.approx(y[leaf == number].mean())


@pytest.mark.parametrize(
    ("make", "loss"),
    [(E2EDTClassifier, loss) for loss in E2EDTClassifier.losses]
    + [(E2EDTRegressor, loss) for loss in E2EDTRegressor.losses],
)
def test_every_loss_learns(make: Any, loss: str) -> None:
    X, y = WINE if make is E2EDTClassifier else DIABETES
    model = make(max_depth=2, steps=80, restarts=2, refine=0, stump_loss=loss, random_state=0)
    floor = 0.95 if make is E2EDTClassifier else 0.45
    assert model.fit(X, y).score(X, y) > floor


def test_refinement_gains_where_greedy_growth_falls_short() -> None:
    X, y = load_digits(return_X_y=True)
    options = {"max_depth": 4, "steps": 40, "restarts": 1, "random_state": 0}
    model = E2EDTClassifier(**options, refine=200).fit(X[:1200], y[:1200])
    greedy = E2EDTClassifier(**options, refine=0).fit(X[:1200], y[:1200])
    assert model.refinement_ is not None
    assert model.refinement_.improved
    assert model.score(X[1200:], y[1200:]) > greedy.score(X[1200:], y[1200:])
    assert model.tree_.gamma > 1


@pytest.mark.parametrize("make", [E2EDTClassifier, E2EDTRegressor])
def test_a_tree_that_refinement_does_not_better_is_that_of_all_rows(make: Any) -> None:
    X, y = WINE
    options = {**QUICK, "refine": 1, "refine_learning_rate": 1e-9}
    model = make(**options).fit(X, y)
    assert model.refinement_ is not None
    assert not model.refinement_.improved
    plain = make(**{**options, "refine": 0}).fit(X, y)
    assert np.array_equal(model.tree_.raw(X), plain.tree_.raw(X))
    assert model.growth_ == plain.growth_


@pytest.mark.parametrize("seed", [8, 11, 14, 21])
def test_values_are_refined_where_the_gain_is_a_standard_error(seed: int) -> None:
    X, y = make_friedman1(300, noise=2.0, random_state=seed)
    V, v = X[200:], y[200:]
    options = {"max_depth": 3, "steps": 30, "restarts": 1, "random_state": 0}
    plain = E2EDTRegressor(**options, refine=0).fit(X[:200], y[:200])
    model = E2EDTRegressor(**options, refine=60, validation=(V, v)).fit(X[:200], y[:200])
    assert model.refinement_ is not None
    refined = bitvec.compile(model.refinement_.forest).predict(V)
    gain = (plain.predict(V) - v) ** 2 - (refined - v) ** 2
    assert model.refinement_.improved == (gain.mean() > 0)
    assert gain.mean() >= (gain.std() / np.sqrt(len(v)) if gain.any() else 0.0)


def test_the_tree_of_a_converted_forest_is_the_tree() -> None:
    X, y = WINE
    tree = E2EDTClassifier(**QUICK).fit(X, y).tree_
    again = of_forest(bitvec.convert(tree), tree)
    assert np.array_equal(again.raw(X), tree.raw(X))
    assert np.array_equal(np.sort(again.bias), np.sort(tree.bias))


def test_margins_deviate_by_about_one_and_no_decision_changes() -> None:
    X, y = WINE
    model = E2EDTClassifier(**{**QUICK, "refine": 0}).fit(X, y)
    tree = model.tree_
    spread = np.std(tree.margin(0, X))
    assert 0.7 < spread < 1.42
    moved = from_e2edt(
        tree.theta * 1024, tree.bias * 1024, left=tree.left, right=tree.right, pi=tree.pi
    )
    back = with_unit_margins(moved, X, np.ones(len(X)))
    assert np.array_equal(back.theta, tree.theta)
    assert np.array_equal(back.decide(X), tree.decide(X))


def test_a_seed_gives_the_same_model_and_a_clone_and_a_pickle_too() -> None:
    X, y = WINE
    model = E2EDTClassifier(**QUICK).fit(X, y)
    for other in (clone(model).fit(X, y), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
        assert np.array_equal(other.tree_.theta, model.tree_.theta)


def test_rows_of_weight_zero_are_not_there() -> None:
    X, y = WINE
    weight = np.ones(len(X))
    weight[::3] = 0
    model = E2EDTClassifier(**QUICK).fit(X, y, weight)
    without = E2EDTClassifier(**QUICK).fit(X[weight > 0], y[weight > 0])
    assert np.array_equal(model.tree_.theta, without.tree_.theta)


def test_validation_rows_may_be_given_and_are_not_counted_at_leaves() -> None:
    X, y = WINE
    train, held = np.arange(0, 178, 2), np.arange(1, 178, 2)
    model = E2EDTClassifier(**QUICK, validation=(X[held], NAMES[y[held]]))
    model.fit(X[train], NAMES[y[train]])
    leaf = model.tree_.decide(X[train])
    counts = np.bincount(y[train][leaf == leaf[0]], minlength=3)
    assert model.tree_.values[leaf[0]] == pytest.approx(counts / counts.sum())
    assert model.refinement_ is not None


def test_best_first_growth_ends_at_its_leaves() -> None:
    X, y = load_iris(return_X_y=True)
    model = E2EDTClassifier(
        growth="best", max_depth=None, max_leaves=3, refine=0, steps=60, random_state=0
    )
    assert model.fit(X, y).tree_.n_leaves == 3
    assert model.score(X, y) > 0.95


def test_spatial_weights_are_smoother() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    options = {"max_depth": 1, "steps": 150, "restarts": 1, "refine": 0, "random_state": 0}

    def roughness(**more: Any) -> float:
        theta = E2EDTClassifier(**options, **more).fit(X, y).tree_.theta[0].reshape(8, 8)
        across, down = np.diff(theta, axis=1), np.diff(theta, axis=0)
        return float((across**2).sum() + (down**2).sum()) / float((theta**2).sum())

    assert roughness(spatial=1.0, spatial_shape=(8, 8)) < 0.5 * roughness()


def test_a_checkpoint_is_written_and_taken_up(tmp_path: Any) -> None:
    X, y = WINE
    path = tmp_path / "state.safetensors"
    model = E2EDTClassifier(**QUICK, checkpoint_path=path).fit(X, y)
    assert path.exists()
    again = E2EDTClassifier(**QUICK, checkpoint_path=path).fit(X, y)
    assert np.array_equal(again.tree_.theta, model.tree_.theta)


def test_names_of_columns_reach_the_forest() -> None:
    frame = load_iris(as_frame=True).data
    model = E2EDTClassifier(**QUICK).fit(frame, NAMES[load_iris().target])
    assert model.forest_.inputs.feature_names == tuple(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={frame.columns[0]: "other"}))
    other = pd.DataFrame(frame.to_numpy(), columns=list("abcd"))
    model.set_params(validation=(other, NAMES[load_iris().target]))
    with pytest.raises(InputError, match=r"`validation\[0\]` must have the 4 columns"):
        model.fit(frame, NAMES[load_iris().target])


def test_verbose_prints_growth_and_refinement(capsys: pytest.CaptureFixture[str]) -> None:
    E2EDTClassifier(**QUICK, verbose=True).fit(*WINE)
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("depth 0: 1 nodes, 2 leaves, objective 0.") for line in lines)
    assert any(line.startswith("soft 12/12: validation ") for line in lines)


def test_few_rows_are_not_divided() -> None:
    model = E2EDTClassifier(**QUICK).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    assert model.refinement_ is None
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"growth": "depth"}, "`growth` must be one of 'level', 'best'"),
        ({"stump_loss": "variance"}, "`stump_loss` must be one of"),
        ({"steps": 0}, "`steps` must be a whole number from 1 on"),
        ({"restarts": 1.5}, "`restarts` must be a whole number"),
        ({"gamma": 3}, "`gamma` must be two numbers"),
        ({"gamma_schedule": "steps"}, "`gamma_schedule` must be one of"),
        ({"max_depth": 0}, "`max_depth` must be a whole number"),
        ({"growth": "best", "max_depth": None}, "`max_leaves` or `max_depth` must be given"),
        ({"min_gain": -1}, "`min_gain` must not be negative"),
        ({"smoothing": -1}, "`smoothing` must not be negative"),
        ({"validation": 1.0}, "`validation` must be a share above 0 and below 1"),
        ({"validation": 0.0}, "`validation` must be a share above 0 and below 1"),
        ({"validation": "x"}, "`validation` must be a share above 0 and below 1"),
        ({"image_shape": (7, 7)}, "`image_shape` must be"),
        ({"validation": (1, 2, 3, 4)}, "got 4 parts"),
        ({"validation": (WINE[0][:, :5], WINE[1])}, "must have the 13 columns"),
        ({"validation": (WINE[0], WINE[1] + 1)}, r"`validation\[1\]` must hold labels"),
        ({"spatial": 1.0}, "`spatial_shape` must be"),
        ({"spatial": 1.0, "spatial_shape": (5, 5)}, "of the 13 columns"),
        ({"refine": -1}, "`refine` must be a whole number from 0 on"),
        ({"gamma": lambda: 1}, "`gamma` must be a function of the part done"),
        ({"refine_gamma": 3}, "`refine_gamma` must be two numbers"),
        ({"refine_gamma": lambda part: -1}, r"`refine_gamma\(part\)` must be above 0"),
        ({"refine_learning_rate": 0}, "`refine_learning_rate` must be above 0"),
        ({"split": lambda x: x}, "`split` must be a function without arguments"),
        ({"split": lambda: 1}, "`split` must make a torch module, got int"),
        ({"n_jobs": 0}, "`n_jobs` must be None or an integer other than 0"),
    ],
)
def test_options_out_of_place_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        E2EDTClassifier(**{**QUICK, **options}).fit(*WINE)


def test_refinement_out_of_place_is_refused_before_the_tree_grows(monkeypatch) -> None:
    def grow(*_: Any, **__: Any) -> None:
        raise AssertionError("a tree was grown")

    monkeypatch.setattr("bitvec.learners.growth.sklearn_base.grow", grow)
    for options in ({"refine_gamma": (1, 2, 3)}, {"refine_learning_rate": "fast"}):
        with pytest.raises(InputError, match="`refine_"):
            E2EDTClassifier(**{**QUICK, **options}).fit(*WINE)


def test_rows_out_of_place_are_refused() -> None:
    X, y = WINE
    with pytest.raises(ValueError, match="NaN"):
        E2EDTClassifier(**QUICK).fit(np.where(X > 1000, np.nan, X), y)
    with pytest.raises(InputError, match="`X` must not hold numbers beyond"):
        E2EDTClassifier(**QUICK).fit(X * 1e200, y)
    with pytest.raises(InputError, match="`y` must not hold numbers beyond"):
        E2EDTRegressor(**QUICK).fit(X, X[:, 0] * 1e200)
    chosen_by = {"validation": (X, X[:, 0] * 1e200), "refine": 5}
    with pytest.raises(InputError, match=r"`validation\[1\]` must not hold numbers beyond"):
        E2EDTRegressor(**{**QUICK, **chosen_by}).fit(X, X[:, 0])
    with pytest.raises(InputError, match="got column 2, which differs by"):
        E2EDTClassifier(**QUICK).fit(np.where(np.arange(13) == 2, X * 1e-165, X), y)
    with pytest.raises(InputError, match="class labels must be numbers or text, got datetime64"):
        E2EDTClassifier(**QUICK).fit(X, y.astype("datetime64[D]"))


@pytest.mark.parametrize("weight", [5e-324, 1e-310, 1e-30, 1e300])
def test_the_unit_of_weights_does_not_matter(weight: float) -> None:
    X, y = WINE
    options = {**QUICK, "smoothing": 0.0}
    alone = E2EDTClassifier(**options).fit(X, y)
    weighted = E2EDTClassifier(**options).fit(X, y, np.full(len(X), weight))
    np.testing.assert_allclose(weighted.predict_proba(X), alone.predict_proba(X), atol=1e-12)
    # One row's weight in this unit is far more than all of them.
    smooth = E2EDTClassifier(**{**QUICK, "smoothing": 1e10 if weight > 1 else 1.0})
    shares = smooth.fit(X, y, np.full(len(X), min(weight, 1e-30))).predict_proba(X)
    np.testing.assert_allclose(shares, 1 / 3, atol=1e-12)


@pytest.mark.parametrize("value", [1e20, 1e90])
def test_a_huge_column_that_never_varies_changes_nothing(value: float) -> None:
    X, y = WINE
    wide = np.column_stack([X, np.full(len(X), value)])
    options = {**QUICK, "refine": 60}
    alone, beside = (E2EDTClassifier(**options).fit(each, y) for each in (X, wide))
    assert alone.refinement_ is not None
    assert beside.refinement_ is not None
    assert beside.refinement_.score == alone.refinement_.score
    np.testing.assert_array_equal(beside.predict(wide), alone.predict(X))
    with pytest.raises(InputError, match="at least 2 classes"):
        E2EDTClassifier(**QUICK).fit(X, np.zeros(len(X)))
    with pytest.raises(InputError, match="`sample_weight` must hold 178"):
        E2EDTClassifier(**QUICK).fit(X, y, [1.0])
