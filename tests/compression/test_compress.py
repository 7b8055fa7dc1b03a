"""Compression: within the budget, exact in C, never worse than a booster on rows held out."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from importlib import import_module

from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import bitvec
from bitvec.compression import booster_family, boosters, families, joint_trees, problem
from bitvec.compression.booster_family import BoosterRecipe
from bitvec.compression.boosters import LIBRARIES, RANDOM, Setting
from bitvec.compression.budget import Budget
from bitvec.compression.candidate_recipes import Candidate
from bitvec.compression.families import ForestRecipe, TreeRecipe
from bitvec.compression.front import Front, Point
from bitvec.compression.joint_trees import TrainedRecipe
from bitvec.compression.kept_points import kept_in, recipe_of, record_of
from bitvec.compression.lessons import Lessons, lowered
from bitvec.compression.model_costs import table_bytes
from bitvec.compression.storage import STORAGES, Storage
from bitvec.core.source import Source
from bitvec.errors import FileFormatError, InputError, UnsupportedModelError
from bitvec.runtime.train.monotone import Monotone

compress_module = import_module("bitvec.compression.compress")
HAS_COMPILER = any(map(shutil.which, ("cc", "gcc", "clang")))


@pytest.fixture(autouse=True)
def _scikit_learn_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave other boosters out: the laws are the same, and each costs seconds."""
    small(monkeypatch)


def small(patch: pytest.MonkeyPatch) -> None:
    for name in [name for name in LIBRARIES if name != "sklearn"]:
        patch.delitem(LIBRARIES, name)
    patch.setitem(LIBRARIES, "sklearn", replace(LIBRARIES["sklearn"], leaves=(4,)))
    patch.setattr(boosters, "ALONE", (4,))
    patch.setattr(booster_family, "STORAGES", (STORAGES[0], STORAGES[2], STORAGES[4]))
    patch.setattr(families, "FOREST_LEAVES", (16,))
    patch.setattr(families, "TREE_SHARES", (0.25,))
    patch.setattr(joint_trees, "STEPS", 12)
    patch.setattr(joint_trees, "LOOKS", 2)
    patch.setattr(joint_trees, "MOST_TREES", 6)
    # Boosters of five folds take seconds.
    patch.setattr(Lessons, "teacher", property(lambda lessons: lessons.rows))
    patch.setattr(compress_module, "SHARES", (1.0,))


def numbers(n: int = 240) -> tuple[Any, Any]:
    X = np.random.default_rng(0).uniform(-1, 1, (n, 3)).astype(np.float32)
    return X, np.sign(X[:, 0]) + X[:, 1]


def classes(n: int = 240) -> tuple[Any, Any]:
    X, y = numbers(n)
    return X, np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]


@pytest.fixture(scope="module")
def regressor() -> Any:
    return bitvec.convert(RandomForestRegressor(8, random_state=0).fit(*numbers()))


@pytest.fixture(scope="module")
def classifier() -> Any:
    return bitvec.convert(RandomForestClassifier(8, random_state=0).fit(*classes()))


@pytest.fixture(scope="module")
def results(regressor: Any, classifier: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        return {
            "numbers": bitvec.compress(regressor, *numbers(), budget=512),
            "classes": bitvec.compress(classifier, *classes(), budget="0.75 KB"),
        }


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_points_stay_within_the_budget_and_the_front_is_one(results: Any, kind: str) -> None:
    result = results[kind]
    assert result.chosen.bytes <= result.budget.limit
    assert all(point.bytes <= result.budget.limit for point in result.tried)
    assert all(point.bytes == table_bytes(point.forest) for point in result.tried)
    sizes = [point.bytes for point in result.front]
    losses = [point.loss for point in result.front]
    assert sizes == sorted(sizes)
    assert losses == sorted(losses, reverse=True)
    assert result.chosen.loss == min(point.loss for point in result.tried)
    assert result.chosen.refitted
    assert not any(point.refitted for point in result.tried)
    assert result.forest.output.classes is result.chosen.forest.output.classes


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_booster_as_users_take_it_is_a_candidate(results: Any, kind: str) -> None:
    plain = [p for p in results[kind].tried if p.recipe.endswith("rounds")]
    assert plain
    assert results[kind].chosen.loss <= min(point.loss for point in plain)


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler is installed")
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_the_chosen_forest_is_exact_in_c(results: Any, kind: str) -> None:
    certificate = results[kind].chosen.certificate(numbers()[0])
    assert certificate.passed


def test_answers_are_those_of_the_model_in_kind(results: Any, classifier: Any) -> None:
    X, y = classes(600)
    found = bitvec.as_estimator(results["classes"].forest)
    assert list(found.classes_) == list(bitvec.as_estimator(classifier).classes_)
    assert found.score(X[240:], y[240:]) > 0.85
    assert results["numbers"].forest.output.classes is None


@pytest.mark.full
def test_the_same_seed_gives_the_same_forest(regressor: Any, results: Any) -> None:
    again = bitvec.compress(regressor, *numbers(), budget=512)
    assert np.array_equal(again.forest.leaves.v, results["numbers"].forest.leaves.v)
    assert [p.recipe for p in again.tried] == [p.recipe for p in results["numbers"].tried]


def test_the_given_model_is_tried_by_rows_of_ones_own_alone(regressor: Any, results: Any) -> None:
    assert not any(point.recipe.startswith("given model") for point in results["numbers"].tried)
    X, y = numbers(400)
    result = bitvec.compress(
        regressor, X[:240], y[:240], budget="64 KB", validation=(X[240:], y[240:])
    )
    assert any(point.recipe.startswith("given model") for point in result.tried)
    for each in (result, results["numbers"]):
        fits = each.given.bytes <= each.budget.limit
        assert fits == any("the budget has room" in note for note in each.notes)


def test_what_is_left_out_is_said(regressor: Any) -> None:
    X, y = numbers()
    result = bitvec.compress(regressor, X, y, budget=256, monotone={0: 1})
    assert "monotone" in " ".join(result.notes)
    grid = np.zeros((50, 3), np.float32)
    grid[:, 0] = np.linspace(-1, 1, 50)
    assert np.all(np.diff(bitvec.compile(result.forest).predict(grid)) >= -1e-6)


def test_recorded_constraints_are_kept_by_every_candidate(regressor: Any) -> None:
    X, y = numbers(400)
    record = Source("sklearn", "1.0", metadata={"monotonic_cst": [-1, 0, 0]})
    forest = replace(regressor, source=record)
    result = bitvec.compress(
        forest, X[:240], y[:240], budget="64 KB", validation=(X[240:], y[240:])
    )
    keeps = Monotone.of(forest)
    assert keeps is not None
    assert not keeps.holds(forest)
    assert all(keeps.holds(point.forest) for point in result.tried)
    assert any(point.recipe.startswith("given model") for point in result.tried)


@pytest.mark.full
def test_weights_count_as_rows_do(regressor: Any) -> None:
    X, y = numbers()
    weight = np.where(np.arange(240) < 120, 1.0, 0.0)
    held = (X[:40], y[:40])
    a = bitvec.compress(regressor, X, y, budget=256, sample_weight=weight, validation=held)
    b = bitvec.compress(regressor, X[:120], y[:120], budget=256, validation=held)
    assert np.array_equal(a.forest.leaves.v, b.forest.leaves.v)


def test_a_killed_run_goes_on(regressor: Any, tmp_path: Any, monkeypatch: Any) -> None:
    folder = tmp_path / "kept"
    told: list[str] = []

    def killed(fraction: float, text: str) -> None:
        told.append(text)
        if len(told) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bitvec.compress(regressor, *numbers(), budget=256, checkpoint=folder, progress=killed)
    assert len(list(folder.glob("*-1.json"))) == 4
    finished = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = bitvec.compress(regressor, *numbers(), budget=256, checkpoint=folder)
    assert again.chosen.bytes <= 256
    after = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert finished.items() < after.items()
    for other in ({"budget": 257}, {"budget": 256, "monotone": {0: 1}}):
        with pytest.raises(InputError, match="this very compression"):
            bitvec.compress(regressor, *numbers(), checkpoint=folder, **other)


def damage_cases() -> dict[str, tuple[str, bytes]]:
    listed = {"recipe": "r", "file": "a-0.safetensors", "loss": "1", "again": None}
    return {
        "half a file of the run": ("run.json", b'{"dig'),
        "a list for the run": ("run.json", b"[]"),
        "no digest": ("run.json", b"{}"),
        "half a list": ("a.json", b'[{"recipe": "r"'),
        "bytes for a list": ("a.json", b"\xff\xfe"),
        "a number for a list": ("a.json", b"3"),
        "words for records": ("a.json", b'["a"]'),
        "no recipe": ("a.json", json.dumps([listed | {"again": "r"}]).encode()),
        "an unknown recipe": ("a.json", json.dumps([listed | {"again": {"kind": 3}}]).encode()),
        "no loss": ("a.json", json.dumps([listed | {"loss": None}]).encode()),
        "half a forest": ("a-0.safetensors", b"\x10\x00"),
        "no forest": ("a-0.safetensors", b""),
    }


@pytest.mark.parametrize("case", damage_cases())
def test_a_damaged_checkpoint_is_told_in_a_sentence(
    regressor: Any, tmp_path: Any, case: str
) -> None:
    given = task_of(regressor, *numbers())
    kept = kept_in(tmp_path / "kept", given, "options")
    kept.save("a", [Candidate("r", regressor, 1.0, None)])
    assert kept_in(tmp_path / "kept", given, "options").load("a")
    name, content = damage_cases()[case]
    (kept.folder / name).write_bytes(content)
    said = "must be a whole file of a checkpoint, got a damaged one .*: delete .* or pass another"
    with pytest.raises(FileFormatError, match=said) as told:
        kept_in(tmp_path / "kept", given, "options").load("a")
    assert "\n" not in str(told.value)
    assert str(tmp_path / "kept") in str(told.value)


@pytest.mark.full
def test_leaves_and_microseconds_are_budgets_too(regressor: Any) -> None:
    few = bitvec.compress(regressor, *numbers(), budget=Budget(leaves=20))
    assert few.forest.n_leaves <= 20
    quick = bitvec.compress(regressor, *numbers(), budget="0.2 us", time=1.0)
    assert quick.budget == Budget(microseconds=0.2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"budget": 3}, "room for one tree"),
        ({"budget": "much"}, "`budget` must be a number of bytes"),
        ({"budget": 0}, "`budget` must"),
        ({"y": None}, "`y` must hold a label"),
        ({"y": np.full(240, np.nan)}, "finite"),
        ({"X": np.zeros((240, 2))}, "3"),
        ({"progress": 3}, "`progress` must"),
        ({"time": -1}, "`time` must"),
        ({"validation": 2}, "`validation` must"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(regressor: Any, change: Any, said: str) -> None:
    X, y = numbers()
    given = {"X": X, "y": y, "budget": 512} | change
    with pytest.raises(InputError, match=said):
        bitvec.compress(regressor, **given)


def test_what_cannot_be_compressed_is_refused(classifier: Any) -> None:
    X, y = classes()
    with pytest.raises(InputError, match="at least 2 rows of each class"):
        bitvec.compress(classifier, X[y != "low"], y[y != "low"], budget=512)
    with pytest.raises((TypeError, UnsupportedModelError)):
        bitvec.compress(object(), X, y, budget=512)


def test_a_front_keeps_what_is_neither_larger_nor_worse(regressor: Any) -> None:
    def point(size: int, loss: float) -> Point:
        return Point(f"{size} {loss}", regressor, size, loss, loss)

    front = Front([point(3, 1.0), point(1, 3.0), point(2, 3.0), point(2, 2.0), point(4, 1.5)], "x")
    assert [(p.bytes, p.loss) for p in front] == [(1, 3.0), (2, 2.0), (3, 1.0)]
    assert " ".join(repr(front).splitlines()[0].split()) == "bytes leaves us a row loss x recipe"
    pytest.importorskip("matplotlib")
    assert len(front.plot().axes) == 2


@pytest.mark.full
def test_a_teacher_has_not_seen_the_rows_that_it_answers(classifier: Any, monkeypatch: Any) -> None:
    monkeypatch.undo()
    X, y = classes()
    task = problem.read(classifier, X, y, sample_weight=None, validation=0.2, monotone=None, seed=0)
    lessons = Lessons(task)
    n = len(task.fit)
    assert np.array_equal(lessons.rows.target.argmax(axis=1), task.y)
    taught = lessons.teacher
    assert len(taught) > n
    assert np.allclose(taught.target.sum(axis=1), 1)
    assert np.array_equal(taught.X[:n], lessons.rows.X)
    assert not np.allclose(taught.target[:n], lessons.rows.target, atol=1e-3)


def test_missing_values_lie_below_all_others() -> None:
    X = np.array([[1.0, np.nan], [np.nan, 5.0], [3.0, 7.0]])
    low = lowered(X, X)
    assert np.array_equal(np.isnan(X), low < np.nanmin(X, axis=0))
    assert np.array_equal(low[~np.isnan(X)], X[~np.isnan(X)])
    assert lowered(low, X) is low


def task_of(forest: Any, X: Any, y: Any, **given: Any) -> Any:
    options = {"sample_weight": None, "validation": 0.25, "monotone": None, "seed": 0} | given
    return problem.read(forest, X, y, **options)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_recipe_made_again_of_the_same_rows_is_the_same_forest(
    regressor: Any, classifier: Any, kind: str
) -> None:
    X, y = numbers() if kind == "numbers" else classes()
    task = task_of(regressor if kind == "numbers" else classifier, X, y)
    lessons = Lessons(task)
    room = families.Room(table_bytes, 2048, "bytes", lambda: False)
    found = [
        *booster_family.boosted("sklearn")(task, room),
        *families.small_forests(task, room),
        *families.single_trees(task, room),
        *joint_trees.axis_trees(lessons, "labels")(task, room),
        *joint_trees.dense_trees(lessons, "labels")(task, room),
    ]
    assert {type(one.again) for one in found} == {
        BoosterRecipe, ForestRecipe, TreeRecipe, TrainedRecipe
    }  # fmt: skip
    for one in found:
        again = one.again.again(lessons, room)
        assert np.array_equal(again.leaves.v, one.forest.leaves.v), one.recipe
        assert np.array_equal(again.tests.b, one.forest.tests.b), one.recipe


def test_a_refit_has_all_rows_and_stays_within_its_budget(results: Any) -> None:
    result = results["numbers"]
    lessons = result.refits._all_rows
    assert len(lessons.problem.fit) == 240
    for point in result.front:
        new = result.refitted(point, 400)
        if new.refitted:
            assert new.bytes == table_bytes(new.forest) <= 400
        else:
            assert new is point
        assert (new.loss, new.score, new.recipe) == (point.loss, point.score, point.recipe)
    with pytest.raises(InputError, match="must be of bytes"):
        result.refitted(result.front[0], "3 leaves")
    assert any("all rows" in note for note in result.notes)


@pytest.mark.parametrize("why", ["worse", "too large"])
def test_a_refit_that_went_wrong_is_not_taken(
    regressor: Any, results: Any, why: str, monkeypatch: Any
) -> None:
    wrong = regressor.take([0])
    if why == "worse":
        wrong = replace(wrong, leaves=replace(wrong.leaves, v=-wrong.leaves.v))
    for made in (BoosterRecipe, ForestRecipe, TreeRecipe, TrainedRecipe):
        monkeypatch.setattr(made, "again", lambda *_: wrong)
    result = results["numbers"]
    limit = table_bytes(wrong) + (0 if why == "worse" else -1)
    assert all(result.refitted(point, limit) is point for point in result.tried)


def test_nothing_is_refitted_unless_it_may_be(regressor: Any) -> None:
    result = bitvec.compress(regressor, *numbers(), budget=256, refit=False)
    assert not result.chosen.refitted
    assert any(result.chosen.forest is point.forest for point in result.tried)


def test_recipes_are_kept_as_plain_values() -> None:
    setting = Setting("lightgbm", 8, 0.05, 100, RANDOM, 3)
    for recipe in (
        BoosterRecipe(setting, 20, Storage(8, 64), 30.0),
        ForestRecipe(16, 5, Storage()),
        TreeRecipe(8, Storage(16)),
        TrainedRecipe("teacher", 4, 20, 64),
    ):
        assert recipe_of(json.loads(json.dumps(record_of(recipe)))) == recipe
    assert recipe_of(record_of(None)) is None


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_a_mean_of_boosters_answers_the_mean(
    regressor: Any, library: str, monkeypatch: Any
) -> None:
    pytest.importorskip(library)
    monkeypatch.undo()
    task = task_of(regressor, *numbers())
    setting = Setting(library, 4, 0.3, 5, boosters.LIBRARIES[library].ways[-1])
    assert boosters.draws(setting)
    bag = boosters.grown(task, replace(setting, bags=3))
    alone = [
        boosters.grown(replace(task, seed=boosters.SEED * number), setting) for number in range(3)
    ]
    answers = [bitvec.compile(forest).raw(task.fit.X) for forest in alone]
    assert np.ptp(answers, axis=0).max() > 1e-3
    assert np.allclose(bitvec.compile(bag).raw(task.fit.X), np.mean(answers, axis=0), atol=1e-5)
    one = bitvec.compile(bag.take(np.arange(3))).raw(task.fit.X)
    first = [bitvec.compile(forest.take([0])).raw(task.fit.X) for forest in alone]
    assert np.allclose(one, np.mean(first, axis=0), atol=1e-5)


def test_leaves_solved_for_together_fit_the_rows_better(regressor: Any) -> None:
    task = task_of(regressor, *numbers())
    forest = boosters.grown(task, Setting("sklearn", 4, 0.1, 10))
    losses = [
        task.judged(found, task.fit)[0] for _, found in booster_family.solved(task, forest, 30.0)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] < task.judged(forest, task.fit)[0]


def test_the_unit_of_weights_does_not_matter_and_a_column_without_values_ends_nothing() -> None:
    X, y = numbers()
    forest = bitvec.convert(RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, y))
    plain, light = (
        bitvec.compress(forest, X, y, budget=500, sample_weight=weight)
        for weight in (None, np.full(len(X), 1e-30))
    )
    assert [point.loss for point in plain.tried] == [point.loss for point in light.tried]
    X[:, 2] = np.nan
    result = bitvec.compress(forest, X, y, budget=500)
    assert any("was left out" in note for note in result.notes)
    assert result.chosen.bytes <= 500
