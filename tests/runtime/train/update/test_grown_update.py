"""Updates that grow: new trees in the forest's own tests, old ones dropped, nothing lost unseen."""

from __future__ import annotations

import numpy as np
import pytest
from drifting_rows import booster, stream
from monotone_laws import rises
from retraining import grown

import bitvec
from bitvec.errors import InputError, UnsupportedModelError

lightgbm = pytest.importorskip("lightgbm")


@pytest.fixture(scope="module")
def drifted():
    old, new = stream()
    return bitvec.convert(booster(*old)), old, new


@pytest.fixture(scope="module")
def updated(drifted):
    forest, _, (X, y) = drifted
    return bitvec.update(forest, X, y, grow=20)


def same_bits(a, b):
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def same_forest(a, b):
    return same_bits(a.tests.b, b.tests.b) and same_bits(a.leaves.v, b.leaves.v)


def test_new_trees_learn_what_old_ones_cannot_say(drifted, updated):
    forest = drifted[0]
    X, y = stream(seed=1)[1]
    only = bitvec.update(forest, *drifted[2], trainable="v")
    rate = [
        np.mean(bitvec.compile(one).predict(X) == y)
        for one in (forest, only.forest, updated.forest)
    ]
    assert rate[2] > rate[1] + 0.02 > rate[0] + 0.02
    assert updated.after["log_loss"] < updated.before["log_loss"]


def test_what_was_added_and_dropped_is_told(drifted, updated):
    forest, told = drifted[0], updated.growth
    assert told.trees_added > 0
    assert updated.forest.n_trees == forest.n_trees + told.trees_added - told.trees_dropped
    assert updated.forest.n_leaves == forest.n_leaves + told.leaves_added - told.leaves_dropped
    assert updated.chosen.recipe == "a blend"
    assert updated.chosen is updated.tried[-1]
    assert updated.score >= max(trial.score for trial in updated.tried[:1])
    assert max(trial.step for trial in updated.tried[:-1]) <= 20
    assert "trees of" in str(told)


def test_a_forest_that_may_not_grow_is_updated_as_before(drifted):
    forest, _, (X, y) = drifted
    plain = bitvec.update(forest, X, y, steps=16)
    told = bitvec.update(forest, X, y, steps=16, grow=False)
    assert same_forest(plain.forest, told.forest)
    assert told.growth.trees_added == told.growth.trees_dropped == 0
    assert told.forest.n_trees == forest.n_trees


def test_the_same_call_gives_the_same_bits(drifted, updated):
    forest, _, (X, y) = drifted
    again = bitvec.update(forest, X, y, grow=20)
    assert same_forest(again.forest, updated.forest)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_numbers_and_several_classes_grow_too(n_classes):
    old, (X, y) = stream(n_classes=n_classes)
    forest = bitvec.convert(booster(*old, n_classes))
    found = bitvec.update(forest, X, y, grow=20)
    assert found.growth.trees_added % max(n_classes, 1) == 0
    assert found.growth.trees_dropped % max(n_classes, 1) == 0
    name = "accuracy" if n_classes else "rmse"
    gain = found.after[name] - found.before[name]
    assert gain > 0.05 if n_classes else gain < -0.2


def test_a_forest_stays_itself_where_nothing_is_better():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    stump = bitvec.Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    found = bitvec.update(stump, X, np.where(X[:, 0] > 0, 1.0, -1.0), grow=True)
    assert found.forest is stump
    assert found.growth.trees_added == 0


def test_rows_of_weight_0_do_not_count_and_weights_have_no_unit(drifted):
    forest, _, (X, y) = drifted
    weight = np.ones(len(X))
    weight[:100] = 0
    by = (X[500:], y[500:])
    part = bitvec.update(forest, X, y, sample_weight=weight, validation=by, grow=10)
    less = bitvec.update(forest, X[100:], y[100:], validation=by, grow=10)
    wide = bitvec.update(
        forest, X[100:], y[100:], sample_weight=np.full(600, 8.0), validation=by, grow=10
    )
    assert same_forest(part.forest, less.forest)
    assert same_forest(wide.forest, less.forest)


def test_classes_of_weight_0_do_not_choose(drifted):
    forest, _, (X, y) = drifted
    order = np.argsort(y, kind="stable")
    by = (X[order], y[order])
    found = bitvec.update(forest, X, y, validation=by, class_weight={0: 0.0, 1: 1.0}, grow=5)
    assert found.updated


def test_rows_given_to_choose_by_are_not_trained_on(drifted):
    forest, _, (X, y) = drifted
    by = (X[500:], y[500:])
    found = bitvec.update(forest, X[:500], y[:500], validation=by, grow=10)
    other = bitvec.update(forest, X, y, validation=200 / len(X), refit=False, grow=10)
    assert not found.refitted
    assert same_forest(found.forest, other.forest)


def test_old_rows_are_learned_where_they_still_hold():
    old, _ = stream(n=2000)
    forest = bitvec.convert(booster(old[0][:60], old[1][:60], min_data_in_leaf=5))
    few, more, last = slice(360, 400), slice(400, 1500), slice(1500, 2000)
    found = bitvec.update(
        forest, old[0][few], old[1][few], replay=(old[0][more], old[1][more]),
        replay_weight="auto", validation=(old[0][last], old[1][last]), grow=20,
    )  # fmt: skip
    assert found.chosen.replay == 1
    assert {trial.replay for trial in found.tried[1:]} == {0, 1}


def test_old_rows_that_hold_no_more_have_no_part(drifted):
    forest, _, (X, y) = drifted
    found = bitvec.update(forest, X, y, replay=(X[:, ::-1], 1 - y), replay_weight="auto", grow=40)
    old = [trial for trial in found.tried if trial.replay == 1]
    assert len(old) == 1
    assert old[0].score < found.score
    assert found.chosen.replay == 0


def test_trees_are_of_several_sizes(drifted):
    _, (Z, z), (X, y) = drifted
    forest = bitvec.convert(booster(Z, z, num_leaves=32, min_data_in_leaf=2))
    recipes = {trial.recipe for trial in bitvec.update(forest, X, y, grow=10).tried}
    sizes = {16: " behind the old ones", 32: " behind the old ones"}
    recipes_alone = {"trees of 32 leaves alone", "leaves, tree by tree"}
    assert {f"trees of {n} leaves{where}" for n, where in sizes.items()} <= recipes
    assert recipes_alone <= recipes


def test_replayed_rows_of_one_weight_are_learned_beside_the_new_ones(drifted):
    forest, (Z, z), (X, y) = drifted
    half = bitvec.update(forest, X, y, replay=(Z, z), replay_weight=0.5, grow=10)
    same = bitvec.update(
        forest, X, y, replay=(Z, z, np.full(len(Z), 0.5)), replay_weight=1, grow=10
    )
    assert same_forest(half.forest, same.forest)
    assert half.old_after


def test_constraints_are_kept_by_new_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * rng.normal(size=1200)
    forest = bitvec.convert(booster(X[:400], y[:400], 0, monotone_constraints=[1, 0, 0]))
    found = bitvec.update(forest, X[400:], 2 * y[400:] - 1, grow=20)
    assert found.growth.trees_added
    assert found.monotone == {0: 1}
    assert np.all(rises(found.forest, X[:40], 0) >= 0)


def test_columns_of_categories_are_split_by_sets(tmp_path):
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 12, 1600), rng.normal(size=1600)], axis=1)
    y = (np.isin(X[:, 0], [1, 4, 7]) ^ (X[:, 1] > 1)).astype(int)
    old = lightgbm.Dataset(X[:600], y[:600], categorical_feature=[0])
    options = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_per_group": 5}
    forest = bitvec.convert(lightgbm.train(options, old, 5))
    new = (np.isin(X[:, 0], [2, 3, 7, 11]) ^ (X[:, 1] > 1)).astype(int)
    found = bitvec.update(forest, X[600:], new[600:], grow=30)
    assert found.after["accuracy"] > 0.95
    assert found.forest.tests.set_words.size > 0
    unseen = np.array([[99.0, 0.0], [np.nan, 0.0], [-1.0, 0.0]])
    assert np.isfinite(bitvec.compile(found.forest).raw(unseen)).all()
    # Sets are as LightGBM has them: its file holds the same trees, leaf for leaf.
    path = bitvec.export(found.forest, tmp_path / "grown.txt")
    again = bitvec.convert(path)
    assert np.array_equal(again.bitvectors.lo, found.forest.bitvectors.lo)
    assert np.array_equal(again.bitvectors.mid, found.forest.bitvectors.mid)
    certificate = bitvec.certify(found.forest, path, exported=True, progress=False)
    assert certificate.passed
    assert "leaf ids" in certificate.summary()


def test_a_budget_ends_the_growth(drifted):
    forest, _, (X, y) = drifted
    found = bitvec.update(forest, X, y, grow=100_000, budget=0.3)
    assert found.seconds < 15


def test_any_loss_that_is_differentiable_grows(drifted):
    forest, _, (X, y) = drifted

    def brier(raw, target):
        return (raw[:, 0].sigmoid() - target) ** 2

    found = bitvec.update(forest, X, y, loss=brier, grow=10)
    assert found.growth.trees_added
    assert found.after["accuracy"] > found.before["accuracy"]


def test_one_class_alone_is_learned(drifted):
    forest, _, (X, y) = drifted
    found = bitvec.update(forest, X, np.ones_like(y), grow=10)
    assert found.after["accuracy"] == 1


BAD = {
    "no rounds": ({"grow": 0}, "`grow` must be"),
    "a share of rounds": ({"grow": 0.5}, "`grow` must be"),
    "thresholds alone": ({"trainable": "b"}, "`trainable` must name v"),
    "one row": ({"X": np.zeros((1, 4)), "y": np.zeros(1, int)}, "rows of positive weight"),
    "no rows": ({"X": np.zeros((0, 4)), "y": np.zeros(0, int)}, "rows of positive weight"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_a_sentence(drifted, case):
    forest, _, (X, y) = drifted
    given, message = BAD[case]
    rest = {"grow": True} | {k: value for k, value in given.items() if k not in ("X", "y")}
    with pytest.raises(InputError, match=message):
        bitvec.update(forest, given.get("X", X), given.get("y", y), **rest)


def test_a_mean_of_trees_is_refused(drifted):
    _, old, (X, y) = drifted
    forest = grown(np.nan_to_num(old[0]), old[1], n_trees=3, classes=np.array([0, 1]))
    with pytest.raises(UnsupportedModelError, match="must be a sum of trees"):
        bitvec.update(forest, np.nan_to_num(X), y, grow=True)


def test_a_grown_booster_does_not_stop_where_its_training_was_best(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    (X, y), (Z, t) = stream(n_classes=0)
    old = xgboost.train({"max_depth": 3, "nthread": 1}, xgboost.DMatrix(X, y), 4)
    old.set_attr(best_iteration="2", best_score="0.5", kept="yes")
    forest = bitvec.convert(old)
    grown_forest = bitvec.update(forest, Z, t, grow=12).forest
    assert grown_forest.n_trees > forest.n_trees
    wrapper = xgboost.XGBRegressor()
    wrapper.load_model(bitvec.export(grown_forest, tmp_path / "grown.ubj"))
    assert wrapper.get_booster().attributes() == {"kept": "yes"}
    assert same_bits(wrapper.predict(Z), bitvec.compile(grown_forest).predict(Z).astype(np.float32))
    wrapper.load_model(bitvec.export(forest, tmp_path / "same.ubj"))
    assert wrapper.get_booster().attributes()["best_iteration"] == "2"


def test_a_handful_of_rows_changes_nothing(drifted):
    forest, _, (X, y) = drifted
    result = bitvec.update(forest, X[:20], y[:20], grow=True)
    assert not result.updated
    assert "Fewer than 10 rows" in result.note
    with pytest.raises(InputError, match="`metric` must return a number"):
        bitvec.update(forest, X, y, metric=lambda y, p: float("nan"))
