"""Scores of all rows: those of scikit-learn, with weights, ties and several outputs."""

from __future__ import annotations

import numpy as np
import pytest

from bitvec.core.output import Output, PostTransform
from bitvec.core.transforms import transform
from bitvec.runtime.train.update.scorecard import area, scorecard

metrics = pytest.importorskip("sklearn.metrics")

N = 300


def rows(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    target = rng.integers(0, n_classes, (N, 1))
    raw = np.round(rng.normal(size=(N, n_classes)), 1)  # with ties
    raw[np.arange(N), target[:, 0]] += 1
    return raw, target, rng.uniform(0.5, 2, N)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_scores_of_classes_are_those_of_scikit_learn(n_classes):
    raw, target, weight = rows(n_classes)
    labels = np.array(["d", "a", "c", "b"][:n_classes])
    output = Output(
        n_classes, np.dtype(np.float64), post_transform=PostTransform.SOFTMAX, classes=(labels,)
    )
    p = transform(output, raw)  # of which rounding makes no other ties
    y, answer = target[:, 0], raw.argmax(axis=1)
    multi = {"multi_class": "ovr"} if n_classes > 2 else {}
    wanted = {
        "log_loss": metrics.log_loss(y, p, sample_weight=weight),
        "accuracy": metrics.accuracy_score(y, answer, sample_weight=weight),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, answer, sample_weight=weight),
        "f1": metrics.f1_score(
            y, answer, average="binary" if n_classes == 2 else "macro", sample_weight=weight
        ),
        "auc": metrics.roc_auc_score(
            y, p[:, 1] if n_classes == 2 else p, sample_weight=weight, **multi
        ),
    }
    assert scorecard(output, raw, target, weight) == pytest.approx(wanted, rel=1e-12)


def test_of_one_class_all_is_right_and_nothing_ranked():
    output = Output(1, np.dtype(np.float64), classes=(np.array([7]),))
    found = scorecard(output, np.ones((5, 1)), np.zeros((5, 1), int), np.ones(5))
    assert (found["accuracy"], found["log_loss"]) == (1, 0)
    assert "auc" not in found


def test_one_output_for_two_classes_scores_the_second():
    raw, target, weight = rows(2)
    margin = raw[:, 1:] - raw[:, :1]
    output = Output(
        1, np.dtype(np.float64), post_transform=PostTransform.SIGMOID, classes=(np.array([0, 1]),)
    )
    p = 1 / (1 + np.exp(-margin[:, 0]))
    found = scorecard(output, margin, target, weight)
    assert found["auc"] == pytest.approx(
        metrics.roc_auc_score(target[:, 0], p, sample_weight=weight)
    )
    assert found["log_loss"] == pytest.approx(
        metrics.log_loss(target[:, 0], p, sample_weight=weight)
    )


def test_scores_of_numbers_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    raw, target, weight = rng.normal(size=(N, 1)), rng.normal(size=(N, 1)), rng.uniform(size=N)
    found = scorecard(Output(1, np.dtype(np.float64)), raw, target, weight)
    wanted = {
        "rmse": metrics.root_mean_squared_error(target, raw, sample_weight=weight),
        "mae": metrics.mean_absolute_error(target, raw, sample_weight=weight),
    }
    assert found == pytest.approx(wanted, rel=1e-12)


def test_several_outputs_are_averaged():
    rng = np.random.default_rng(0)
    raw, target, weight = rng.normal(size=(N, 2)), rng.normal(size=(N, 2)), np.ones(N)
    both = scorecard(Output(2, np.dtype(np.float64)), raw, target, weight)
    each = [
        scorecard(Output(1, np.dtype(np.float64)), raw[:, [k]], target[:, [k]], weight)
        for k in range(2)
    ]
    assert both["rmse"] == pytest.approx(np.mean([one["rmse"] for one in each]))


def test_a_score_that_is_not_defined_is_left_out():
    raw, target, weight = rows(2)
    output = Output(
        2, np.dtype(np.float64), post_transform=PostTransform.SOFTMAX, classes=(np.array([0, 1]),)
    )
    found = scorecard(output, raw, np.zeros_like(target), weight)
    assert "auc" not in found
    assert found["accuracy"] == pytest.approx(np.sum(weight * (raw.argmax(1) == 0)) / weight.sum())


def test_the_area_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    score, positive, weight = rng.integers(0, 5, 40), rng.random(40) < 0.4, rng.uniform(size=40)
    won = total = 0.0
    for i in np.flatnonzero(positive):
        for j in np.flatnonzero(~positive):
            pair = weight[i] * weight[j]
            won += pair * ((score[i] > score[j]) + (score[i] == score[j]) / 2)
            total += pair
    assert area(score, positive, weight) == pytest.approx(won / total, rel=1e-12)
