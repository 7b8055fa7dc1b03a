"""Selection: the start stays unless another hard forest is clearly better on validation."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retraining import grown, oblique_classes
from strategies import forests, rows

from bitvec.core import reference, transforms
from bitvec.core.leaves import Leaves
from bitvec.errors import FileFormatError
from bitvec.runtime.predict import engine

torch = pytest.importorskip("torch")

from bitvec.runtime.train.retrain import objective, selection  # noqa: E402
from bitvec.runtime.train.retrain.selection import Evaluation, Selection  # noqa: E402

CLASSES = np.array(["no", "yes"])


def stump_of_classes(n=400, right=300):
    """A forest that answers "yes" always, and targets of which `right` are so."""
    X, y = oblique_classes(n)
    forest = grown(X, y, classes=CLASSES, depth=1)
    always = np.tile([0.0, 1.0], (forest.n_leaves, 1))
    target = (np.arange(n) < right).astype(np.int64)[:, None]
    return replace(forest, leaves=Leaves(always)), X, target


def scores(right, n=400):
    """Raw scores with so many right labels for the targets of `stump_of_classes`."""
    raw = np.tile([0.0, 1.0], (n, 1))
    raw[: max(0, 300 - right)] = [1.0, 0.0]
    raw[n - max(0, right - 300) :] = [1.0, 0.0]
    return raw


@pytest.mark.parametrize("weighted", [False, True])
def test_accuracy_must_gain_a_paired_standard_error_and_a_row(weighted):
    forest, X, target = stump_of_classes()
    weight = np.full(400, 7.0) if weighted else np.ones(400)
    goal = replace(objective.of_forest(forest, target), measure="accuracy")
    chosen = Selection(forest, goal, X, target, weight)
    assert chosen.start_score == 0.75
    for gained in (-1, 0, 1, 2):  # of k rows gained and none lost the error is sqrt(k)
        assert gained <= np.sqrt(max(gained, 0)) + 1
        raw = scores(300 + gained)
        assert not chosen.consider(forest, "soft", 1, 9, raw=raw).accepted
    assert chosen.best is forest
    other = replace(forest)
    raw = scores(304)
    raw[:2] = [1.0, 0.0]  # 4 gained, 2 lost: 2 < sqrt(6) + 1
    assert not chosen.consider(other, "soft", 2, 9, raw=raw).accepted
    assert chosen.consider(other, "soft", 2, 9, raw=scores(303)).accepted
    assert chosen.best is other
    # From then on the best must be beaten, the start by its margin.
    assert not chosen.consider(forest, "soft", 3, 9, raw=scores(303)).accepted
    assert chosen.consider(forest, "soft", 4, 9, raw=scores(304)).accepted
    assert [e.accepted for e in chosen.history] == [False] * 6 + [True, False, True]
    assert chosen.history[chosen.best_at].accepted
    assert chosen.errors == pytest.approx(2.0, rel=0.01)  # 4 rows of an error of nearly 2


def test_rows_that_weigh_little_do_not_narrow_the_error():
    forest, X, target = stump_of_classes()
    weight = np.where(np.arange(400) % 2 == 0, 1.0, 1e-9)  # 200 rows count
    goal = replace(objective.of_forest(forest, target), measure="accuracy")
    chosen = Selection(forest, goal, X, target, weight)
    assert not chosen.consider(forest, "soft", 1, 9, raw=scores(304)).accepted  # 2 that count
    assert chosen.consider(forest, "soft", 1, 9, raw=scores(306)).accepted


def test_other_scores_must_gain_a_paired_standard_error():
    X, _ = oblique_classes(100)
    forest = grown(X, X[:, 0].astype(np.float64), depth=1)
    start = reference.raw(forest, X)
    target = start + 1.0  # an error of 1 in every row
    weight = np.where(np.arange(100) < 50, 1.0, 3.0)
    goal = objective.build(forest.output, target, loss="absolute")
    share = weight / weight.sum()
    n_effective = 1 / (share**2).sum()
    rng = np.random.default_rng(0)
    for gain in (0.001, 0.01, 0.04, 0.05, 0.06, 0.07, 0.2):
        chosen = Selection(forest, goal, X, target, weight)
        change = gain + 0.9 * rng.uniform(-1, 1, (100, 1))
        mean = share @ change
        error = np.sqrt(share @ (change - mean) ** 2 / n_effective)
        taken = chosen.consider(forest, "soft", 1, 9, raw=start + change).accepted
        assert taken == bool(mean[0] > error[0])


def test_what_is_chosen_by_accuracy_has_no_worse_log_loss():
    X, y = oblique_classes(400)
    forest = grown(X, y, classes=CLASSES, depth=1)
    target = (y == "yes").astype(np.int64)[:, None]
    goal = objective.of_forest(forest, target)
    chosen = Selection(forest, goal, X, target, np.ones(400))
    label = np.eye(2)[target[:, 0]]
    right = np.where(np.arange(400)[:, None] < 380, 0.9 * label + 0.05, 0.6 - 0.2 * label)
    bold = np.where(np.arange(400)[:, None] < 380, right, 1 - label)  # sure where it is wrong
    assert not chosen.consider(replace(forest), "soft", 1, 9, raw=bold).accepted
    assert chosen.consider(replace(forest), "soft", 1, 9, raw=right).accepted


@given(st.data())
def test_hard_scores_have_the_bits_of_the_reference(data):
    forest = data.draw(forests(max_leaves=8))
    X = data.draw(rows(forest))
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        for packed in (-1, 1 << 20):  # either engine
            patched.setattr(engine, "PACKED", packed)
            patched.setattr(engine, "PACKING", 0)
            got = selection.hard_scores(forest, X.astype(forest.dtype))
            assert np.array_equal(got, reference.raw(forest, X), equal_nan=True)


def test_a_start_that_scores_nothing_is_left_for_any_finite_score():
    X, _ = oblique_classes(20)
    forest = grown(X, X[:, 0].astype(np.float64), depth=1)
    nothing = replace(forest, leaves=Leaves(np.full_like(forest.leaves.v, np.nan)))
    target = np.ones((20, 1))
    chosen = Selection(nothing, objective.build(forest.output, target), X, target, np.ones(20))
    assert chosen.start_score == -np.inf
    assert chosen.consider(forest, "leaves", 1, 1).accepted


def test_leaves_that_become_NaN_are_never_taken():
    X, y = oblique_classes(50)
    forest = grown(X, y, classes=CLASSES)
    raw = reference.raw(replace(forest, leaves=Leaves(forest.leaves.v * np.nan)), X)
    labels = transforms.predictions(forest.output, raw)
    target = (labels == "yes").astype(np.int64)[:, None]  # what the argmax of NaN happens to say
    chosen = Selection(forest, objective.build(forest.output, target), X, target, np.ones(50))
    v = forest.leaves.v.copy()
    v[0] = np.nan
    for leaves in (v, np.full_like(v, np.nan)):
        assert not chosen.consider(replace(forest, leaves=Leaves(leaves)), "v", 1, 1).accepted
    assert chosen.best is forest


def seen():
    forest, X, target = stump_of_classes()
    goal = objective.of_forest(forest, target)
    chosen = Selection(forest, goal, X, target, np.ones(400))
    chosen.consider(forest, "leaves", 1, 1, raw=scores(280))
    chosen.consider(replace(forest), "soft", 10, 20, loss=0.5, gamma=2.0, raw=scores(310))
    return chosen, (forest, goal, X, target, np.ones(400))


@pytest.mark.parametrize("improved", [False, True])
def test_a_selection_goes_on_from_its_state(improved):
    chosen, arguments = seen()
    if not improved:
        chosen = Selection(*arguments)
    arrays, record = chosen.state()
    record = json.loads(json.dumps(record, allow_nan=False))
    again = Selection(*arguments)
    again.restore(chosen.best, arrays, record)
    assert again.best is chosen.best
    assert (again.best is again.start) == (not improved)
    assert again.score == chosen.score
    assert repr(again.history) == repr(chosen.history)  # NaN does not equal itself
    for right in (305, 312):
        both = [one.consider(replace(chosen.best), "soft", 20, 20, raw=scores(right))
                for one in (chosen, again)]  # fmt: skip
        assert both[0].accepted == both[1].accepted
    assert again.score == chosen.score


@pytest.mark.parametrize("score", [0.5, -np.inf, np.nan])
def test_an_evaluation_is_its_record(score):
    one = Evaluation("soft", 3, 9, score, np.nan, 2.0, True)
    record = json.loads(json.dumps(one.record(), allow_nan=False))
    assert repr(Evaluation.of_record(record)) == repr(one)


@pytest.mark.parametrize(
    "change",
    [
        {"start_score": 0.1},
        {"history": [{"stage": "soft"}]},
        {"history": 3},
        {"score": "much"},
        {"errors": None},
        {"best_at": "last"},
        {"score": None},
    ],
)
def test_a_state_of_another_selection_is_refused(change):
    chosen, arguments = seen()
    arrays, record = chosen.state()
    with pytest.raises(FileFormatError, match="state of a selection"):
        Selection(*arguments).restore(chosen.best, arrays, {**record, **change})
    del record["is_start"]
    with pytest.raises(FileFormatError, match="is_start"):
        Selection(*arguments).restore(chosen.best, arrays, record)
