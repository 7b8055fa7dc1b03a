"""Search of a recipe: budgets, what a choice narrows, interruptions, pruned starts and refits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bitvec
from bitvec import files
from bitvec.errors import InputError

pytest.importorskip("torch")

from retraining import oblique_classes

from bitvec.learners.retrained import refit_on_all_rows
from bitvec.learners.retrained.other_starts import pruning_path
from bitvec.runtime.train.retrain import Penalties, Schedule
from bitvec.runtime.train.retrain.objective import of_forest, targets
from bitvec.runtime.train.retrain.training_data import Data

SHORT = {"steps": 60, "batch_size": 64, "evaluations": 3}


@pytest.fixture(scope="module")
def problem():
    """A tree, rows to train on and rows to choose by."""
    X, y = oblique_classes(700)
    tree = bitvec.convert(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[:300], y[:300]))
    return tree, X[:300], y[:300], (X[300:], y[300:])


def run(problem, **options):
    tree, X, y, held_out = problem
    return bitvec.retrain(tree, X, y, validation=held_out, **{"schedule": SHORT, **options})


def test_budgets_try_more_and_longer_and_tell_what_they_tried(problem):
    quick, normal = (run(problem, budget=budget) for budget in ("quick", "normal"))
    steps = [sum(trial.steps for trial in each.tried) for each in (quick, normal)]
    assert steps[0] <= SHORT["steps"] < steps[1] <= 3 * SHORT["steps"]
    assert normal.improved
    assert normal.chosen in normal.tried
    assert normal.chosen.score == normal.score == max(trial.score for trial in normal.tried)
    assert {trial.recipe for trial in normal.tried} >= {"tree pruned", "tree refined"}
    assert "Chosen of" in normal.note
    assert len(run(problem, budget=None).tried) == 1
    again = run(problem, budget="normal")
    assert files.identical(again.forest, normal.forest)
    assert [one.score for one in again.history] == [one.score for one in normal.history]


def test_sparse_trees_are_tried_unless_a_penalty_or_a_constraint_says_otherwise(problem):
    def sparse(**options):
        return [one.recipe for one in run(problem, **options).tried if "l1" in one.recipe]

    starts = ("as it is, steepness 1 to 4", "pruned, steepness 4 to 30")
    assert set(sparse()) == {f"S, b, v, {start}, l1 0.03" for start in starts}
    given = {**SHORT, "gamma": (2.0, 9.0)}
    assert all("steepness 2 to 9, l1 0.03" in recipe for recipe in sparse(schedule=given))
    for narrower in (
        {"penalties": {"l1": 0.01}}, {"trainable": ("b", "v")}, {"monotone": {0: 1}},
        {"budget": "quick"}, {"budget": None},
    ):  # fmt: skip
        assert sparse(**narrower) == []


def test_a_tree_that_is_pruned_to_a_leaf_has_no_tests_to_be_sparse():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(500, 3)), (rng.random(500) < 0.3).astype(int)  # nothing to learn
    tree = bitvec.convert(DecisionTreeClassifier(max_depth=5, random_state=0).fit(X[:250], y[:250]))
    result = run((tree, X[:250], y[:250], (X[250:], y[250:])))
    recipes = [one.recipe for one in result.tried]
    assert "S, b, v, pruned, steepness 4 to 30" in recipes
    assert "S, b, v, pruned, steepness 4 to 30, l1 0.03" not in recipes


def test_a_recipe_of_sparse_trees_zeroes_weights(problem):
    _, X, y, held_out = problem
    noise = np.random.default_rng(0).normal(size=(len(X) + len(held_out[0]), 20))
    wide, judged = (
        np.column_stack([rows, part])
        for rows, part in ((X, noise[: len(X)]), (held_out[0], noise[len(X) :]))
    )
    grown = bitvec.convert(DecisionTreeClassifier(max_depth=3, random_state=0).fit(wide, y))
    result = bitvec.retrain(
        grown, wide, y, validation=(judged, held_out[1]), schedule={"batch_size": 64, "steps": 600}
    )
    assert "l1" in result.chosen.recipe
    assert (result.forest.tests.weight == 0).any() or result.forest.tests.column.size < 7 * 22


def test_a_choice_narrows_the_recipes_to_it(problem):
    one = run(problem, schedule={**SHORT, "gamma": (2.0, 9.0)}, trainable=("b", "v"))
    assert {trial.recipe for trial in one.tried} == {
        "leaves, as it is", "b, v, as it is, steepness 2 to 9"
    }  # fmt: skip
    assert np.array_equal(one.forest.tests.column, problem[0].tests.column)
    leaves = run(problem, trainable="v", budget="thorough")
    assert [trial.recipe for trial in leaves.tried] == ["leaves, as it is"]


def test_a_budget_in_seconds_ends_what_it_began(problem):
    result = run(problem, budget=1e-6)
    assert all(trial.steps == 0 for trial in result.tried)  # other starts are there by then


def test_several_trees_are_chosen_by_log_loss_and_move_thresholds(problem):
    _, X, y, held_out = problem
    model = RandomForestClassifier(8, max_depth=2, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    result = bitvec.retrain(forest, X, y, validation=held_out, schedule=SHORT)
    assert result.metric == "negative log loss"
    assert [trial.recipe for trial in result.tried][:2] == [
        "leaves, as it is", "b, v, refitted, steepness 8 to 60"
    ]  # fmt: skip
    assert np.array_equal(result.forest.tests.column, forest.tests.column)
    by_label = bitvec.retrain(
        forest, X, y, validation=held_out, schedule=SHORT, metric="accuracy", budget="quick"
    )
    assert by_label.metric == "accuracy"

    def log_loss(one):
        p = bitvec.compile(one).predict_proba(held_out[0])
        return -np.log(p[np.arange(len(p)), (held_out[1] == "yes").astype(int)]).mean()

    assert log_loss(by_label.forest) <= log_loss(forest)


def test_a_search_that_was_interrupted_ends_as_if_it_had_not_been(problem, tmp_path):
    class Stop(Exception):
        pass

    def stop_after(count):
        seen = []

        def told(evaluation):
            seen.append(evaluation)
            if len(seen) == count:
                raise Stop

        return told

    whole = run(problem)
    path = tmp_path / "search.safetensors"
    for count in (16, 3, 5):
        with pytest.raises(Stop):
            run(problem, checkpoint_path=path, progress=stop_after(count))
    again = run(problem, checkpoint_path=path)
    assert files.identical(again.forest, whole.forest)
    assert [one.score for one in again.history] == [one.score for one in whole.history]
    assert [(one.recipe, one.step, one.score) for one in again.tried] == [
        (one.recipe, one.step, one.score) for one in whole.tried
    ]
    with pytest.raises(InputError, match="checkpoint of this very training"):
        run(problem, checkpoint_path=path, budget="quick")


@pytest.mark.parametrize("options", [{"budget": "thorough"}, {"budget": "normal", "refit": True}])
def test_a_search_for_several_trees_goes_on_from_the_leaves_that_it_began_with(
    problem, tmp_path, options
):
    _, X, y, held_out = problem
    forest = bitvec.convert(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y))
    several = (forest, X, y, held_out)
    options = {**options, "schedule": {**SHORT, "steps": 300}}
    whole = run(several, **options)
    soft = [n for n, one in enumerate(whole.history) if one.stage == "soft"]
    for count in (soft[len(soft) // 2], soft[-1]):
        seen = []

        def stop(evaluation, seen=seen, count=count):
            seen.append(evaluation)
            if len(seen) > count:
                raise KeyboardInterrupt

        path = tmp_path / f"{count}.safetensors"
        with pytest.raises(KeyboardInterrupt):
            run(several, checkpoint_path=path, progress=stop, **options)
        again = run(several, checkpoint_path=path, **options)
        assert files.identical(again.forest, whole.forest)
        assert [one.recipe for one in again.tried] == [one.recipe for one in whole.tried]
        assert again.refitted == whole.refitted


def test_pruned_trees_are_those_of_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    model = DecisionTreeRegressor(max_depth=5, random_state=0).fit(X, y)
    forest = bitvec.convert(model)
    data = Data(X.astype(forest.dtype), targets(forest.output, y, len(X), "y"), np.ones(len(X)))
    found = pruning_path(forest, of_forest(forest, data.target), data)
    theirs = model.cost_complexity_pruning_path(X, y)
    for level in theirs.ccp_alphas[1::4]:
        own = DecisionTreeRegressor(max_depth=5, random_state=0, ccp_alpha=level * 1.000001)
        own.fit(X, y)
        mine = found.pruned(level * 1.000001)
        assert mine.n_leaves == own.get_n_leaves()
        assert np.allclose(bitvec.compile(mine).predict(X), own.predict(X))


def test_a_refit_learns_all_rows_or_says_why_not(problem, monkeypatch):
    result = run(problem, refit=True, budget="quick")
    assert result.refitted
    assert "Refitted to all rows" in result.note
    kept = run(problem, budget="quick")
    assert result.score == kept.score
    assert not files.identical(result.forest, kept.forest)
    monkeypatch.setattr(refit_on_all_rows, "made", lambda task, path, data: task.forest)
    refused = run(problem, refit=True, budget="quick")
    assert not refused.refitted
    assert "Not refitted" in refused.note
    assert files.identical(refused.forest, kept.forest)


def test_a_better_use_of_the_time_is_told():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    X = np.concatenate([X] * 4) + 0.05 * rng.normal(size=(600, 4))
    y = np.concatenate([y] * 4)
    stump = bitvec.convert(DecisionTreeClassifier(max_depth=1).fit(X[:300], y[:300]))
    result = bitvec.retrain(stump, X[:300], y[:300], validation=(X[300:], y[300:]), trainable="v")
    assert "A fresh fit uses the time better" in result.note


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "much"}, "`budget` must be one of quick, normal, thorough"),
        ({"budget": -1}, "budget"),
        ({"refit": 1}, "`refit` must be True or False"),
        ({"schedule": {"step": 3}}, "`schedule` must be a Schedule or a mapping of steps"),
        ({"schedule": 3}, "`schedule` must be a Schedule"),
        ({"penalties": {"steps": 3}}, "`penalties` must be a Penalties or a mapping of weight"),
        ({"teacher": {"weight": 0.5}}, "`teacher` must name its answers"),
        ({"teacher": np.ones((300, 2)) / 2, "refit": True}, "`refit` must be False with"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(problem, options, message):
    with pytest.raises(InputError, match=message) as caught:
        run(problem, **options)
    assert "\n" not in str(caught.value)


def test_groups_are_mappings_or_objects(problem):
    by_name = run(problem, budget=None, penalties={"weight_decay": 0.2})
    by_group = run(
        problem, budget=None, schedule=Schedule(**SHORT), penalties=Penalties(weight_decay=0.2)
    )
    assert files.identical(by_name.forest, by_group.forest)
