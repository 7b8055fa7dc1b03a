"""Compiled steps of one tree against the module's own in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from sklearn.datasets import load_diabetes, load_iris

import bitvec
from bitvec.runtime.train.retrain import compiled_tree, soft_training
from bitvec.runtime.train.retrain.optimizers import SameColumns

LEARNERS = {
    "labels": bitvec.learners.E2EDTClassifier,
    "values": bitvec.learners.E2EDTRegressor,
    "labels of polytopes": bitvec.learners.CPTClassifier,
    "values of polytopes": bitvec.learners.CPTRegressor,
}


def a_tree(kind: str) -> tuple[Any, Any, Any]:
    X, y = load_iris(return_X_y=True) if "labels" in kind else load_diabetes(return_X_y=True)
    X = np.round(X, 2)  # values that equal thresholds
    if kind == "values of polytopes":
        y = np.column_stack([y, -y + X[:, 0]])
    model = LEARNERS[kind](max_depth=3, steps=5, restarts=1, refine=0, random_state=0)
    return model.fit(X, y).forest_, X, y


def retrained(forest: Any, X: Any, y: Any, polytopes: bool, **schedule: Any) -> Any:
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    return bitvec.retrain(
        forest,
        X,
        y,
        sample_weight=weight,
        trainable=("S", "b", "v", "r") if polytopes else ("S", "b", "v"),
        budget=None,
        schedule={"steps": 12, "batch_size": 64, "evaluations": 6, "errors": 0.0, **schedule},
        validation=0.5,
    )


@pytest.mark.parametrize("same_columns", [False, True])
@pytest.mark.parametrize("kind", LEARNERS)
def test_losses_and_forests_are_those_of_torch(
    kind: str, same_columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forest, X, y = a_tree(kind)
    own = {"optimizer": SameColumns()} if same_columns else {}
    compiled = []

    def counted(*arguments: Any) -> Any:
        compiled.append(compiled_tree.compiled_tree(*arguments))
        return compiled[-1]

    monkeypatch.setattr(soft_training, "compiled_tree", counted)
    found = retrained(forest, X, y, "polytopes" in kind, **own)
    assert compiled[0] is not None
    monkeypatch.setattr(soft_training, "compiled_tree", lambda *_: None)
    literal = retrained(forest, X, y, "polytopes" in kind, **own)
    losses = [[each.loss for each in result.history[1:]] for result in (found, literal)]
    np.testing.assert_allclose(*losses, rtol=2e-4)
    scores = [[each.score for each in result.history] for result in (found, literal)]
    np.testing.assert_allclose(*scores, rtol=2e-4)
    for name in ("weight", "b", "r", "offset"):
        parts = [getattr(result.forest.tests, name) for result in (found, literal)]
        np.testing.assert_allclose(*parts, rtol=2e-3, atol=2e-3 * np.abs(parts[1]).max())


def test_a_loss_that_is_not_finite_ends_training() -> None:
    forest, X, y = a_tree("values")
    result = retrained(forest, X, y, polytopes=False, learning_rate=1e30)
    assert "where the loss was not finite" in result.note
    assert not result.improved


@pytest.mark.parametrize(
    "schedule", [{"optimizer": "adam"}, {"optimizer": "sgd", "learning_rate": 1e-3}]
)
def test_other_optimisers_are_torchs(
    schedule: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    forest, X, y = a_tree("labels")
    monkeypatch.setattr(compiled_tree, "train_tree", None)
    assert retrained(forest, X, y, polytopes=False, **schedule).history
