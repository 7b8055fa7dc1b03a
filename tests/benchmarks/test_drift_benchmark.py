"""The benchmark of drift: streams are fixed, answers come before labels, figures fit their rows."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")

from benchmarks import drift
from benchmarks.drift import methods, streams

MADE = [name for name in streams.STREAMS if "made" in name]


@pytest.mark.parametrize("name", MADE)
def test_a_made_stream_is_the_same_each_time_and_another_for_each_seed(name):
    first, again, other = (streams.STREAMS[name](Path(), seed) for seed in (0, 0, 1))
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)
    assert len(first.blocks()) == (len(first.X) - first.start) // first.block >= 8
    assert all(len(X) == len(y) == first.block for X, y in first.blocks())
    assert first.n_classes == 0 or set(first.y) == set(range(first.n_classes))


class Told:
    """A way that writes down in which order it is asked and taught."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []
        self.leaves = 1

    def learn(self, X, y):
        self.calls.append(("learn", float(X[0, 0])))

    def answer(self, X):
        self.calls.append(("answer", float(X[0, 0])))
        return np.full(len(X), 3.0)


def test_a_block_is_answered_before_it_is_learned_and_the_last_is_only_answered():
    X, y = np.repeat(np.arange(4.0), 2)[:, None], np.full(8, 1.0)
    told = Told()
    row = drift._prequential(told, streams.Stream(X, y, 0, 2, 2, ""))
    assert told.calls == [
        ("answer", 1), ("learn", 1), ("answer", 2), ("learn", 2), ("answer", 3)
    ]  # fmt: skip
    assert row["scores"] == [4.0, 4.0, 4.0]
    assert row["log_loss"] is None


def test_classes_are_scored_by_accuracy_and_log_loss():
    p = np.array([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5]])
    score, loss = drift.scored(p, np.array([0, 0, 1]))
    assert score == pytest.approx(1 / 3)
    assert loss == pytest.approx(-np.log([0.8, 0.4, 0.5]).mean())


@pytest.mark.parametrize("way", methods.METHODS)
@pytest.mark.parametrize("n_classes", [0, pytest.param(2, marks=pytest.mark.full), 3])
def test_every_way_answers_with_what_is_scored(way, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = X[:, 0] if n_classes == 0 else np.digitize(X[:, 0], [0.0, 0.7][: n_classes - 1])
    stream = streams.Stream(X, y, n_classes, 300, 300, "")
    if way == "river ARF":
        pytest.importorskip("river")
    made = methods.METHODS[way](stream, 0)
    (first, labels), (second, _) = stream.blocks()
    before = made.answer(second)
    made.learn(first, labels)
    after = made.answer(second)
    assert before.shape == after.shape == ((300, n_classes) if n_classes else (300,))
    assert made.leaves > 1
    if n_classes:
        assert after.sum(axis=1) == pytest.approx(1, abs=1e-5)


def row(stream, seed, measure="accuracy", *, ours):
    """A run in which every other way scores .8 in five blocks, or an error of .25."""
    others = [0.8, 0.81, 0.79] if measure == "accuracy" else [0.25, 0.26, 0.24]
    others, ours = ([*scores, scores[0], scores[0]] for scores in (others, ours))
    ways = {
        way: {"scores": others, "log_loss": 0.5, "cpu_s": 1.0, "leaves": [5, 6]}
        for way in methods.METHODS
    }
    ways["river ARF"] = {"reason": "river is not installed"}
    ways[drift.UPDATE] = {"scores": ours, "log_loss": 0.4, "cpu_s": 30.0, "leaves": [5, 5]}
    facts = {"stream": stream, "seed": seed, "drift": "some", "measure": measure}
    return facts | {"deviation": 2.0, "ways": ways}


RUNS = [
    row("better", 0, ours=[0.9, 0.92, 0.88]),
    row("better", 1, ours=[0.9, 0.90, 0.90]),
    row("behind", 0, ours=[0.75, 0.82, 0.8]),
    row("errors", 0, "RMSE", ours=[0.16, 0.165, 0.155]),
]


def test_figures_are_means_and_better_means_better_than_every_other():
    found = {r["stream"]: r for r in drift.figures(RUNS) if r["way"] == drift.UPDATE}
    assert found["better"]["score"] == pytest.approx(0.9)
    assert found["better"]["seeds"] == 2
    assert found["better"]["points"] == pytest.approx(10)
    assert found["behind"]["points"] == pytest.approx(100 * (3.87 - 4.0) / 5, abs=1e-3)
    assert found["errors"]["score"] == pytest.approx(0.4)
    assert found["errors"]["points"] == pytest.approx(100 * (0.5 - 0.4) / 2)
    assert [found[name]["beats_all"] for name in ("better", "behind", "errors")] == [
        True, False, True
    ]  # fmt: skip


def test_figures_of_figures_are_themselves():
    figures = drift.figures(RUNS)
    assert drift.figures(figures) == figures


def test_goals_are_judged_by_each_way_of_this_package():
    goals = {goal.name: goal.value for goal in drift.goals(drift.figures(RUNS))}
    mine = {
        name.removeprefix(f"{drift.UPDATE}: "): v
        for name, v in goals.items()
        if name.startswith(f"{drift.UPDATE}: ")
    }
    assert list(mine.values()) == ["2 of 3", 1, 30.0]
    assert len(goals) == 3 * len(drift.OURS)


def test_tables_are_made_of_any_figures():
    machine = {"processor": "some", "cores": 2}
    report = {"rows": drift.figures(RUNS), "machine": machine, "command": "x", "versions": {}}
    for table in drift.BENCHMARK.tables.values():
        text = table(report)
        assert all(name in text for name in ("better", "behind", "errors"))
    assert "river is not installed" in drift.BENCHMARK.tables["table"](report)


def test_a_quick_run_takes_two_streams():
    assert drift.cases(Namespace(quick=True)) == [("bike_sharing", 0), ("SEA (made)", 0)]
    assert len(drift.cases(Namespace(quick=False))) == 24
