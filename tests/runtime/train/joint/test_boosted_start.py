"""The boosted start: Newton steps as the formula has them, and trees that learn."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from bitvec.core import reference
from bitvec.core.inputs import Inputs
from bitvec.core.output import Output, PostTransform
from bitvec.runtime.train.joint import CompleteTrees, boosted, with_boosted_leaves
from bitvec.runtime.train.joint.boosted_start import RATE_OF_FEW

F64 = np.dtype(np.float64)
OUTPUTS = {
    "values": Output(2, F64),
    "two classes": Output(1, F64, post_transform=PostTransform.SIGMOID, classes=(np.arange(2),)),
    "three classes": Output(3, F64, post_transform=PostTransform.SOFTMAX, classes=(np.arange(3),)),
}


def problem(kind, n=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    label = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5) * (kind == "three classes")
    if kind == "values":
        return X, np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1), rng.uniform(0.5, 2, n)
    return X, np.eye(2 + (kind == "three classes"))[label], rng.uniform(0.5, 2, n)


def loss(kind, raw, target, weight):
    if kind == "values":
        each = ((raw - target) ** 2).sum(axis=1)
    elif kind == "two classes":
        each = np.logaddexp(0, raw[:, 0]) - target[:, 1] * raw[:, 0]
    else:
        each = np.log(np.exp(raw).sum(axis=1)) - (target * raw).sum(axis=1)
    return np.average(each, weights=weight)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_every_tree_lowers_the_loss(kind):
    X, target, weight = problem(kind)
    trees = boosted(X, target, weight, OUTPUTS[kind], n_trees=4, depth=3, seed=0)
    forest = trees.to_forest(OUTPUTS[kind], Inputs(3))
    assert (trees.n_trees, trees.depth) == (4, 3)
    losses = [loss(kind, reference.raw(forest[:k], X), target, weight) for k in range(1, 5)]
    assert np.all(np.diff(losses) < 0)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_leaves_are_newton_steps(kind):
    X, target, weight = problem(kind)
    output = OUTPUTS[kind]
    rng = np.random.default_rng(1)
    trees = CompleteTrees(
        1, rng.normal(size=(3, 3)), np.zeros(3), np.zeros((4, output.n_outputs)),
        np.zeros(output.n_outputs),
    )  # fmt: skip
    made = with_boosted_leaves(trees, X, target, weight, output)
    forest = made.to_forest(output, Inputs(3))
    leaf = reference.exit_leaves(forest, X)[:, 0]
    step = 1e-4
    for at in range(4):
        w = weight * (leaf == at)
        for k in range(output.n_outputs):
            # Derivatives of the whole loss at the base score, by differences.
            raw = np.tile(made.base_score, (len(X), 1))
            values = []
            for side in (-step, 0.0, step):
                moved = raw.copy()
                moved[:, k] += side
                values.append(loss(kind, moved, target, w) * w.sum() if w.any() else 0.0)
            first = (values[2] - values[0]) / (2 * step)
            second = (values[2] - 2 * values[1] + values[0]) / step**2
            if kind == "values":  # the loss is the square, boosting takes half of it
                first, second = first / 2, second / 2
            rate = RATE_OF_FEW * (2 / 3 if kind == "three classes" else 1)
            # The second difference is exact to about 1e-4 of itself.
            assert made.v[at, k] == pytest.approx(-rate * first / (second + 1), rel=1e-3, abs=1e-6)


def test_rows_of_one_value_give_trees_that_decide_nothing():
    X, target = np.zeros((6, 2)), np.ones((6, 1))
    trees = boosted(X, target, np.ones(6), Output(1, F64), n_trees=2, depth=2, seed=0)
    raw = reference.raw(trees.to_forest(Output(1, F64), Inputs(2)), X)
    assert np.allclose(raw, 1.0)
