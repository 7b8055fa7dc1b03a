"""Updates: the trees stay, answers become better, and nothing is lost without being told."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from monotone_laws import rises
from retraining import grown

import bitvec
from bitvec.core.kernels import box
from bitvec.core.node_tests import Kind
from bitvec.core.to_float32 import narrow_scores
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.retrain.leaf_charts import FreeLeaves
from bitvec.runtime.train.retrain.training_data import read
from bitvec.runtime.train.update import anchored_leaves, update_run
from bitvec.runtime.train.update.anchored_training import Anchor

lightgbm = pytest.importorskip("lightgbm")


def stream(seed=0, n=900, drift=1.0):
    """Old rows, and new ones whose boundary has moved."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 4))
    line = X[:, 0] + X[:, 1] - drift * (np.arange(2 * n) >= n) * (1 + X[:, 2])
    y = (line + 0.3 * rng.normal(size=2 * n) > 0).astype(int)
    return (X[:n], y[:n]), (X[n:], y[n:])


def booster(X, y, *, rounds=12, **options):
    given = {"objective": "binary", "num_leaves": 8, "verbose": -1, "num_threads": 1, **options}
    return lightgbm.train(given, lightgbm.Dataset(X, y), rounds)


@pytest.fixture(scope="module")
def drifted():
    old, new = stream()
    return bitvec.convert(booster(*old)), old, new


@pytest.fixture(scope="module")
def updated(drifted):
    forest, _, (X, y) = drifted
    return bitvec.update(forest, X, y)


def same_bits(a, b):
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_directions_and_trees_stay_bit_for_bit(drifted, updated):
    before, after = drifted[0], updated.forest
    assert updated.updated
    assert same_bits(before.tests.weight, after.tests.weight)
    assert same_bits(before.tests.column, after.tests.column)
    assert all(
        same_bits(getattr(before.bitvectors, k), getattr(after.bitvectors, k))
        for k in ("lo", "mid", "hi")
    )
    assert same_bits(before.output.base_score, after.output.base_score)


@pytest.mark.parametrize(("moves", "stays"), [(("v",), "b"), (("b",), "v")])
def test_what_may_not_move_comes_back_bit_for_bit(drifted, moves, stays):
    forest, _, (X, y) = drifted
    found = bitvec.update(forest, X, y, trainable=moves)
    assert found.updated
    parts = {"b": lambda one: one.tests.b, "v": lambda one: one.leaves.v}
    assert same_bits(parts[stays](forest), parts[stays](found.forest))
    counts = {"b": found.moved.thresholds, "v": found.moved.leaves}
    assert counts[stays] == 0
    assert counts[moves[0]] > 0


def test_an_update_is_better_on_rows_that_nobody_saw(drifted, updated):
    X, y = stream(seed=1)[1]
    rate = [np.mean(bitvec.compile(one).predict(X) == y) for one in (drifted[0], updated.forest)]
    assert rate[1] > rate[0] + 0.05
    assert updated.after["log_loss"] < updated.before["log_loss"]
    assert updated.score == max(trial.score for trial in updated.tried)


def test_the_same_call_gives_the_same_bits(drifted, updated):
    forest, _, (X, y) = drifted
    again = bitvec.update(forest, X, y)
    assert same_bits(again.forest.leaves.v, updated.forest.leaves.v)
    assert same_bits(again.forest.tests.b, updated.forest.tests.b)


def test_what_is_judged_is_what_the_newest_rows_say(drifted):
    forest, _, (X, y) = drifted
    found = bitvec.update(forest, X, y, refit=False, validation=0.25)
    n = round(0.25 * len(X))
    p = bitvec.compile(found.forest).predict_proba(X[-n:])
    assert not found.refitted
    loss = -np.log(p[np.arange(n), y[-n:]]).mean()
    assert found.after["log_loss"] == pytest.approx(loss, rel=1e-6)  # one log in float32
    assert found.score == pytest.approx(-loss, rel=1e-6)


def test_rows_given_to_choose_by_are_not_trained_on(drifted):
    forest, _, (X, y) = drifted
    by = (X[600:], y[600:])
    found = bitvec.update(forest, X[:600], y[:600], validation=by)
    same = bitvec.update(forest, X, y, validation=300 / len(X), refit=False)
    assert not found.refitted
    assert same_bits(found.forest.leaves.v, same.forest.leaves.v)


def test_a_forest_stays_itself_where_nothing_is_better():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    stump = bitvec.Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    found = bitvec.update(stump, X, y)
    assert found.forest is stump
    assert not found.updated
    assert found.chosen.recipe == "as it was"
    assert found.moved.thresholds == found.moved.leaves == 0
    assert "as it was" in found.note


def test_weights_of_classes_are_weights_of_rows(drifted):
    forest, _, (X, y) = drifted
    weights = {0: 3.0, 1: 0.5}
    by_class = bitvec.update(forest, X, y, class_weight=weights, trainable="v")
    by_row = bitvec.update(forest, X, y, sample_weight=np.where(y == 1, 0.5, 3.0), trainable="v")
    assert same_bits(by_class.forest.leaves.v, by_row.forest.leaves.v)
    assert by_class.before != by_row.before  # scores know the rows' own weights alone


def test_rows_of_weight_0_do_not_count(drifted):
    forest, _, (X, y) = drifted
    weight = np.ones(len(X))
    weight[:200] = 0
    part = bitvec.update(
        forest, X, y, sample_weight=weight, trainable="v", validation=(X[700:], y[700:])
    )
    less = bitvec.update(forest, X[200:], y[200:], trainable="v", validation=(X[700:], y[700:]))
    assert same_bits(part.forest.leaves.v, less.forest.leaves.v)


def test_replayed_rows_keep_what_was_known(drifted):
    forest, old, (X, y) = drifted
    alone = bitvec.update(forest, X, y)
    kept = bitvec.update(forest, X, y, replay=old)
    assert kept.old_before.keys() == kept.old_after.keys() != set()
    assert alone.old_before == {}
    rate = [np.mean(bitvec.compile(one.forest).predict(old[0]) == old[1]) for one in (alone, kept)]
    assert rate[1] > rate[0]


def test_old_rows_that_are_out_of_date_are_dropped(drifted):
    forest, old, (X, y) = drifted
    found = bitvec.update(forest, X, y, replay=old, replay_weight="auto")
    alone = bitvec.update(forest, X, y)
    assert [trial.replay for trial in found.tried[1:]] == [1, 0, 0]
    assert found.chosen.replay == 0
    assert same_bits(found.forest.leaves.v, alone.forest.leaves.v)
    assert same_bits(found.forest.tests.b, alone.forest.tests.b)


def test_old_rows_that_still_hold_are_kept():
    old, new = stream(drift=0.0)
    forest = bitvec.convert(booster(old[0][:100], old[1][:100], min_data_in_leaf=5))
    few = slice(0, 60)
    found = bitvec.update(
        forest, new[0][few], new[1][few], replay=old, replay_weight="auto",
        validation=(new[0][60:], new[1][60:]),
    )  # fmt: skip
    assert found.chosen.replay == 1


def test_a_weight_of_old_rows_multiplies_theirs(drifted):
    forest, (Z, z), (X, y) = drifted
    half = bitvec.update(forest, X, y, replay=(Z, z), replay_weight=0.5, trainable="v")
    same = bitvec.update(forest, X, y, replay=(Z, z, np.full(len(Z), 0.5)), trainable="v")
    assert same_bits(half.forest.leaves.v, same.forest.leaves.v)


def test_a_stronger_pull_holds_leaves_nearer(drifted):
    forest, _, (X, y) = drifted
    data = read(forest, X, y, None)
    objective = update_run.loss_of(forest, data.target, "auto")
    reached = anchored_leaves.table(forest, data)
    path = anchored_leaves.anchored(forest, objective, data, reached)
    distance = [np.linalg.norm(one.leaves.v - forest.leaves.v) for _, one in path]
    assert distance == sorted(distance)
    assert distance[0] > 0


def test_the_anchor_is_the_distance_that_leaves_alone_are_solved_with(drifted):
    forest = drifted[0]
    module = SoftForest.from_forest(forest, dtype=torch.float64)
    away = torch.tensor(np.random.default_rng(0).normal(size=forest.leaves.v.shape))
    with torch.no_grad():
        module.v += away
    old = forest.leaves.v.astype(np.float64)
    place = FreeLeaves(old).at(module.v.detach().numpy())
    assert Anchor(3.0).penalty(module).item() == pytest.approx(3 * place.distance, rel=1e-12)


def test_the_anchor_of_probabilities_is_their_divergence():
    (X, y), _ = stream()
    forest = grown(X, y, n_trees=3, classes=np.array([0, 1]))
    module = SoftForest.from_forest(forest, leaves="logits", dtype=torch.float64)
    with torch.no_grad():
        module.v += torch.tensor(np.random.default_rng(0).normal(size=forest.leaves.v.shape))
    p, q = forest.leaves.v, module.leaf_vectors().detach().numpy()
    log_ratio = np.log(np.where(p > 0, p, 1)) - np.log(q)
    divergence = np.where(p > 0, p * log_ratio, 0).sum()
    # Logits of probabilities of 0 stand for 1e-6.
    assert Anchor(1.0).penalty(module).item() == pytest.approx(divergence, rel=1e-3)


def test_a_forest_of_probabilities_stays_one():
    old, (X, y) = stream()
    forest = grown(*old, n_trees=5, depth=4, classes=np.array([0, 1]))
    found = bitvec.update(forest, X, y)
    assert found.updated
    v = found.forest.leaves.v
    assert v.min() >= 0
    assert v.sum(axis=1) == pytest.approx(1, abs=1e-6)


def test_numbers_are_updated_too():
    (X, _), (Z, _) = stream()
    forest = grown(X, X[:, 0] + X[:, 1], n_trees=8, depth=4)
    found = bitvec.update(forest, Z, Z[:, 0] - Z[:, 1] + 2)
    assert found.metric == "negative mean squared error"
    assert found.after["rmse"] < 0.7 * found.before["rmse"]


def test_a_single_tree_is_anchored_too():
    old, (X, y) = stream()
    tree = grown(*old, depth=4, classes=np.array([0, 1]))
    few = bitvec.update(tree, X[:60], y[:60], trainable="v", validation=(X[60:], y[60:]))
    # Counted from so few rows, leaves would be 0 or 1.
    assert few.forest.leaves.v.min() > 0


@pytest.mark.parametrize("metric", ["auc", "f1", "balanced_accuracy", "accuracy", "log_loss"])
def test_a_score_by_name_chooses(drifted, metric):
    forest, _, (X, y) = drifted
    found = bitvec.update(forest, X, y, metric=metric, refit=False, steps=16)
    sign = -1 if metric == "log_loss" else 1
    assert found.score == sign * found.after[metric] >= found.start_score


def test_functions_choose_and_are_told(drifted):
    forest, _, (X, y) = drifted

    def hits(truth, answer):
        assert truth.shape == answer.shape == (180,)
        return float(np.sum((truth == answer) & (truth == 1)))

    found = bitvec.update(
        forest, X, y, metric=hits, metrics={"hits": hits}, trainable="v", refit=False
    )
    assert found.metric == "hits"
    assert found.before["hits"] == found.start_score <= found.score == found.after["hits"]


def test_a_budget_ends_the_trials(drifted):
    forest, _, (X, y) = drifted
    start = time.monotonic()
    found = bitvec.update(forest, X, y, steps=100_000, budget=1.5)
    assert time.monotonic() - start < 15  # of 100,000 steps, which take minutes
    assert found.chosen.recipe in ("leaves", "leaves and thresholds", "as it was")


def test_progress_sees_every_candidate(drifted):
    forest, _, (X, y) = drifted
    seen = []
    found = bitvec.update(forest, X, y, steps=16, progress=seen.append)
    assert [one.score for one in seen] == [one.score for one in found.history[1:]]
    assert {one.stage for one in seen} == {"leaves", "soft"}


BAD = {
    "no labels": ({"y": None}, "got None: pass the labels"),
    "a class never seen": ({"y": np.full(900, 7)}, "must hold the forest's classes, 0, 1, got 7"),
    "another schema": ({"X": np.zeros((900, 3))}, "must have 4 features"),
    "fewer labels": ({"y": np.zeros(3, int)}, "one entry for each of the 900 rows"),
    "a share of 1": ({"validation": 1.0}, "share between 0 and 1"),
    "S": ({"trainable": ("S",)}, "an update keeps S"),
    "nothing": ({"trainable": ()}, "must name some of b"),
    "a replay without labels": ({"replay": np.zeros((3, 4))}, "`replay` must be"),
    "a replay of another schema": (
        {"replay": (np.zeros((3, 2)), np.zeros(3, int))},
        r"`replay\[0\]` must have 4",
    ),
    "a weight of old rows": (
        {"replay": (np.zeros((9, 4)), np.zeros(9, int)), "replay_weight": "some"},
        "`replay_weight` must be above 0",
    ),
    "weights of an unknown class": ({"class_weight": {9: 1.0}}, "`class_weight` must map"),
    "a word for weights": ({"class_weight": "even"}, "`class_weight` must be"),
    "an unknown score": ({"metric": "kappa"}, "`metric` must be one of"),
    "a score of numbers": ({"metric": "rmse"}, "`metric` must be one of"),
    "rows by a metric": ({"metric": lambda y, p: y == p}, "one number for all rows"),
    "no budget": ({"budget": 0}, "`budget` must be above 0"),
    "no steps": ({"steps": 0}, "`steps` must be"),
    "metrics by name": ({"metrics": ["auc"]}, "`metrics` must map"),
    "no progress": ({"progress": 3}, "`progress` must be"),
    "a weight below 0": (
        {"sample_weight": np.where(np.arange(900) == 7, -1.0, 1.0)},
        "`sample_weight` must .* not negative .* got -1.0 at row 7: give it 0",
    ),
    "a weight that is no number": (
        {"sample_weight": np.where(np.arange(900) == 3, np.nan, 1.0)},
        "got nan at row 3",
    ),
    "weights of an infinite sum": ({"sample_weight": np.full(900, 1e308)}, "divide all weights"),
    "a weight for no row": ({"sample_weight": np.ones(3)}, r"dtype float64 and shape \(3,\)"),
    "a weight below 0 of an old row": (
        {"replay": (np.zeros((2, 4)), np.zeros(2, int), [1.0, -2.0])},
        r"`replay\[2\]` must .* got -2.0 at row 1",
    ),
    "too few rows": ({"X": np.zeros((2, 4)), "y": np.zeros(2, int)}, "rows of positive weight"),
}


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 1e38), (np.float64, 1e76)])
@pytest.mark.parametrize("grow", [False, 5])
def test_numbers_whose_leaves_or_squares_may_overflow_are_refused(dtype, size, grow):
    X = np.random.default_rng(0).normal(size=(200, 1)).astype(dtype)
    y = X[:, 0].astype(np.float64)
    stump = bitvec.Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [-1.0, 1.0])
    stump = narrow_scores(stump) if dtype is np.float32 else stump
    given = {"grow": grow, "steps": 2}
    with pytest.raises(InputError, match=r"`y` must be at most .*: divide all of y by a number"):
        bitvec.update(stump, X, np.clip(y, -1, 1) * size, **given)
    with pytest.raises(InputError, match=r"`replay\[1\]` must be at most"):
        bitvec.update(stump, X, y, replay=(X, np.clip(y, -1, 1) * size), **given)
    with np.errstate(over="raise", invalid="raise"):
        found = bitvec.update(stump, X, np.clip(y, -1, 1) * size / 100, **given)
    assert found.updated
    assert np.isfinite(found.after["rmse"])


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_a_sentence(drifted, case):
    forest, _, (X, y) = drifted
    given, message = BAD[case]
    rest = {name: value for name, value in given.items() if name not in ("X", "y")}
    with pytest.raises(InputError, match=message):
        bitvec.update(forest, given.get("X", X), given.get("y", y), **rest)


@pytest.mark.parametrize("moves", ["v", ("b", "v")])
def test_a_forest_that_predicts_softly_is_refused(moves):
    stump = bitvec.Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0.0, 1.0])
    kind = np.array([Kind.KERNEL], np.uint8)
    soft = replace(stump, tests=replace(stump.tests, kind=kind), kernel=(box(1.0),))
    with pytest.raises(UnsupportedModelError, match="kernel"):
        bitvec.update(soft, np.zeros((9, 1)), np.zeros(9), trainable=moves)


def test_trees_of_one_leaf_are_updated():
    constant = bitvec.Forest.from_matrices(np.zeros((0, 1)), [], np.zeros((1, 0)), [0.0])
    found = bitvec.update(constant, np.zeros((50, 1)), np.full(50, 2.0))
    assert found.updated
    assert 0 < found.forest.leaves.v[0, 0] <= 2
    assert [trial.recipe for trial in found.tried] == ["as it was", "leaves"]


def test_categories_and_missing_values_take_part():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 1200
    table = pandas.DataFrame(
        {
            "colour": pandas.Categorical(rng.choice(["red", "green", "blue"], n)),
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        }
    )
    y = ((table["colour"] == "red") ^ (table["size"].fillna(1) > 0)).to_numpy().astype(int)
    y[n // 2 :] = (table["size"].fillna(-1) > 0.5)[n // 2 :]
    old, new = slice(0, n // 2), slice(n // 2, n)
    forest = bitvec.convert(booster(table[old], y[old], min_data_per_group=5, cat_smooth=0))
    assert forest.tests.set_words.size
    found = bitvec.update(forest, table[new], y[new])
    assert found.updated
    assert found.after["accuracy"] > found.before["accuracy"]
    assert same_bits(found.forest.tests.set_words, forest.tests.set_words)


def test_linear_leaves_are_refused():
    old, (X, y) = stream()
    forest = bitvec.convert(booster(*old, rounds=2, linear_tree=True))
    with pytest.raises(UnsupportedModelError, match="constant leaves"):
        bitvec.update(forest, X, y)


def test_a_model_that_records_constraints_keeps_them():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 3))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * rng.normal(size=1600)
    options = {
        "objective": "l2",
        "monotone_constraints": [1, 0, 0],
        "verbose": -1,
        "num_threads": 1,
    }
    model = lightgbm.train(options, lightgbm.Dataset(X[:800], y[:800]), 20)
    forest = bitvec.convert(model)
    # New rows fall where the old ones rise.
    turned = -X[800:, 0] + np.sin(3 * X[800:, 1]) - 1
    held = bitvec.update(forest, X[800:], turned)
    free = bitvec.update(forest, X[800:], turned, monotone={0: 0})
    assert held.updated
    assert held.monotone == {0: 1}
    assert free.monotone is None
    assert np.all(rises(held.forest, X[:40], 0) >= 0)
    assert np.any(rises(free.forest, X[:40], 0) < -1e-3)
    assert free.score > held.score > held.start_score


def test_the_first_of_two_classes_falls_where_the_second_rises():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = RandomForestClassifier(5, max_depth=4, monotonic_cst=[1, 0, 0], random_state=0)
    forest = bitvec.convert(model.fit(X[:600], y[:600]))
    found = bitvec.update(forest, X[600:], (X[600:, 1] - X[600:, 0] > 0).astype(int))
    assert found.updated
    moves = rises(found.forest, X[:40], 0)
    assert np.all(moves[..., 1] >= 0)
    assert np.all(moves[..., 0] <= 0)


def test_a_forest_that_does_not_keep_the_constraints_is_cut_before_it_is_the_start():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    stump = bitvec.Forest.from_matrices([[1.0, 0.0]], [0.0], [[0], [1]], [1.0, 0.0])
    y = 1.0 - (X[:, 0] > 0)
    found = bitvec.update(stump, X, y, monotone={0: 1})
    assert found.monotone == {0: 1}
    assert "leaves were cut" in found.note
    assert np.all(rises(found.forest, X[:5], 0) >= 0)
