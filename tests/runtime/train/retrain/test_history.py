"""The history of a retraining: a tuple that plots."""

from __future__ import annotations

import pickle

import pytest

pytest.importorskip("torch")

from bitvec.runtime.train.retrain.history import History
from bitvec.runtime.train.retrain.selection import Evaluation

NAN = float("nan")
EVALUATIONS = (
    Evaluation("start", 0, 0, 0.8, NAN, NAN, False),
    Evaluation("soft", 10, 20, 0.9, 0.5, 2.0, True),
    Evaluation("soft", 20, 20, 0.85, 0.4, 4.0, False),
)


def test_a_history_is_the_tuple_of_its_looks():
    history = History(EVALUATIONS, "accuracy")
    assert tuple(history) == EVALUATIONS
    assert history[1].accepted
    assert [each["step"] for each in history.records("soft")] == [10, 20]
    assert len(history.records()) == 3


def test_a_history_survives_a_copy():
    again = pickle.loads(pickle.dumps(History(EVALUATIONS, "accuracy")))
    assert again.metric == "accuracy"
    assert len(again) == 3


def test_the_picture_shows_scores_losses_and_steepness(tmp_path):
    pytest.importorskip("matplotlib")
    figure = History(EVALUATIONS, "accuracy").plot()
    score, loss, steepness = figure.axes
    assert list(score.lines[0].get_ydata()) == [0.8, 0.9, 0.85]
    assert list(score.lines[1].get_xdata()) == [1]  # the one that was kept
    assert list(loss.lines[0].get_ydata())[1:] == [0.5, 0.4]
    assert list(steepness.lines[0].get_ydata())[1:] == [2.0, 4.0]
    figure.savefig(tmp_path / "history.png")
    assert (tmp_path / "history.png").stat().st_size > 5_000


def test_an_empty_history_plots_too(tmp_path):
    pytest.importorskip("matplotlib")
    History((), "accuracy").plot().savefig(tmp_path / "empty.png")
