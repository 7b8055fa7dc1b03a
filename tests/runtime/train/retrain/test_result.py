"""Results of retraining say one thing: that the forest is better, or that it is unchanged."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from bitvec.core.forest import Forest
from bitvec.runtime.train.retrain.history import History
from bitvec.runtime.train.retrain.result import RetrainResult


@pytest.mark.parametrize(
    ("improved", "score", "said"),
    [
        (True, 0.75, "accuracy 0.5 -> 0.75 by S, v in 0 evaluations"),
        (False, 0.5, "forest unchanged: accuracy 0.5 not raised by S, v in 0 evaluations"),
    ],
)
def test_a_result_does_not_contradict_itself(improved, score, said):
    forest = Forest.from_matrices([[1.0]], [0.5], [[0], [1]], [10.0, 20.0])
    history = History([], "accuracy")
    result = RetrainResult(forest, improved, "accuracy", 0.5, score, ("S", "v"), history)
    assert repr(result) == f"RetrainResult({said})"
