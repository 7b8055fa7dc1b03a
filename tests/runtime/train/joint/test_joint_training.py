"""Joint training: the literal soft sum, its gradient and its limit; what moves and what stays."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bitvec.core import reference  # noqa: E402
from bitvec.core.inputs import Inputs  # noqa: E402
from bitvec.core.output import Output, PostTransform  # noqa: E402
from bitvec.runtime.train.joint import (  # noqa: E402
    CompleteTrees,
    JointRecipe,
    SoftTrees,
    offer,
    train_jointly,
)
from bitvec.runtime.train.joint.adamw_steps import AdamW  # noqa: E402
from bitvec.runtime.train.joint.complete_paths import leaf_shares  # noqa: E402
from bitvec.runtime.train.retrain import objective  # noqa: E402
from bitvec.runtime.train.retrain.selection import Selection  # noqa: E402
from bitvec.runtime.train.retrain.training_data import Data  # noqa: E402

QUICK = JointRecipe(steps=40, batch_size=32, dropout=0.2, learning_rate=0.05)


def problem(n=200, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * 3 + 5
    y = (X[:, 0] - X[:, 1] > 0).astype(int) + (X[:, 2] > 6)
    return X, y


def start(X, n_trees=3, depth=3, n_outputs=3, seed=1):
    rng = np.random.default_rng(seed)
    n_nodes = n_trees * ((1 << depth) - 1)
    S = np.eye(X.shape[1])[rng.integers(X.shape[1], size=n_nodes)]
    b = (S * X[rng.integers(len(X), size=n_nodes)]).sum(axis=1) + 0.01
    v = rng.normal(size=(n_trees << depth, n_outputs)) * 0.1
    return CompleteTrees(n_trees, S, b, v, np.zeros(n_outputs))


SOFTMAX = Output(
    3, np.dtype(np.float64), post_transform=PostTransform.SOFTMAX, classes=(np.arange(3),)
)


def labelled():
    X, y = problem()
    return Data(X, np.eye(3)[y], np.ones(len(X))), objective.build(SOFTMAX, np.eye(3)[y], soft=True)


def literal(module, X, gamma, root):
    """Raw scores by one loop over trees, leaves and the turns of a path; margins in own units."""
    trees = module.to_trees()
    n, depth = (1 << trees.depth) - 1, trees.depth
    raw = np.tile(trees.base_score, (len(X), 1))
    for tree in range(trees.n_trees):
        own = slice(tree * n, (tree + 1) * n)
        m = gamma * (X @ trees.S[own].T - trees.b[own]) / module.unit[own]
        right = 1 / (1 + np.exp(-m))
        for leaf in range(n + 1):
            share = root[tree].copy()
            for level in range(depth):
                node = (1 << level) - 1 + (leaf >> (depth - level))
                turn = leaf >> (depth - level - 1) & 1
                share *= right[:, node] if turn else 1 - right[:, node]
            raw += share[:, None] * trees.v[tree * (n + 1) + leaf]
    return raw


@pytest.mark.parametrize("rows", ["dense", "fixed"])
def test_soft_scores_are_the_literal_sum_over_paths(rows):
    X, _ = problem()
    module = SoftTrees(start(X), X, rows=rows, dtype=torch.float64)
    with torch.no_grad():
        module.b += 0.3
        module.S += 0.2 * (rows == "dense")
    root = np.random.default_rng(0).choice([0.0, 2.0], (3, len(X)))
    got = module(module.standardised(X), 2.5, torch.tensor(root)).detach().numpy()
    assert np.allclose(got, literal(module, X, 2.5, root), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 63, 65, 130])  # beside a run of rows
def test_shares_of_a_tree_are_its_root_divided(n_rows):
    margin = torch.randn(2, 7, n_rows, generator=torch.Generator().manual_seed(0)) * 40
    share = leaf_shares(margin, torch.full((2, n_rows), 1.25))
    assert torch.allclose(share.sum(dim=1), torch.tensor(1.25))
    assert bool(((share == 0) | (share > 1e-30)).all())


def test_gradients_are_those_of_finite_differences():
    X, _ = problem(6)
    module = SoftTrees(start(X, 2, 2), X, dtype=torch.float64)
    Z, root = module.standardised(X), torch.tensor(np.full((2, 6), 1.25))
    parameters = [module.S, module.b, module.v]

    def raw(S, b, v):
        values = dict(zip(("S", "b", "v"), (S, b, v), strict=True))
        return torch.func.functional_call(module, values, (Z, 1.5, root))

    assert torch.autograd.gradcheck(raw, [p.detach().requires_grad_() for p in parameters])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steep_trees_tend_to_the_hard_forest(dtype):
    X, _ = problem()
    trees = start(X)
    module = SoftTrees(trees, X, dtype=dtype)
    hard = reference.raw(trees.to_forest(SOFTMAX, Inputs(4)), X)
    away = [np.abs(module(module.standardised(X), g).detach().numpy() - hard).max() for g in (
        4.0, 1e7
    )]  # fmt: skip
    # Thresholds lie .01 beside values, so no row is on one; leaves are float32 numbers here.
    assert away[0] > 0.01
    assert away[1] < 1e-6


def test_the_way_back_is_the_start():
    X, _ = problem()
    trees = start(X)
    back = SoftTrees(trees, X, dtype=torch.float64).to_trees()
    assert np.allclose(back.S, trees.S, atol=1e-12)
    assert np.allclose(back.b, trees.b, atol=1e-12)


def test_training_lowers_the_loss_and_is_the_same_for_a_seed():
    data, goal = labelled()
    looks = list(train_jointly(start(data.X), data, goal, QUICK, looks=4))
    again = list(train_jointly(start(data.X), data, goal, QUICK, looks=4))
    assert [look.step for look in looks] == [10, 20, 30, 40]
    assert looks[-1].loss < looks[0].loss
    assert np.array_equal(looks[-1].trees.S, again[-1].trees.S)
    assert np.array_equal(looks[-1].trees.v, again[-1].trees.v)
    (until,) = train_jointly(start(data.X), data, goal, QUICK, looks=1, until=20)
    assert np.array_equal(until.trees.b, looks[1].trees.b)


def test_fixed_rows_stay_bit_for_bit():
    data, goal = labelled()
    trees = start(data.X)
    recipe = JointRecipe(steps=20, batch_size=32, columns="fixed")
    *_, last = train_jointly(trees, data, goal, recipe)
    assert np.array_equal(last.trees.S, trees.S)
    assert not np.array_equal(last.trees.b, trees.b)


def test_limited_rows_read_few_columns_in_every_look():
    data, goal = labelled()
    recipe = JointRecipe(steps=40, batch_size=32, columns=2)
    looks = list(train_jointly(start(data.X), data, goal, recipe, looks=8))
    assert [look.step for look in looks] == [25, 30, 35, 40]
    for look in looks:
        assert ((look.trees.S != 0).sum(axis=1) <= 2).all()
    assert ((looks[-1].trees.S != 0).sum(axis=1) == 2).any()


def test_weights_count_rows_as_often():
    data, goal = labelled()
    twice = np.repeat(np.arange(len(data)), 1 + np.arange(len(data)) % 2)
    weighted = Data(data.X, data.target, 1.0 + np.arange(len(data)) % 2)
    recipe = JointRecipe(steps=5, batch_size=10**6, dropout=0.0)
    trees = start(data.X)
    found = []
    for rows in (data.take(twice), weighted):
        module = SoftTrees(trees, data.X, dtype=torch.float64)
        from bitvec.runtime.train.joint.joint_training import _Training

        _Training(module, rows, goal, recipe).run(5)
        found.append(module.to_trees())
    assert np.allclose(found[0].S, found[1].S, atol=1e-7)
    assert np.allclose(found[0].v, found[1].v, atol=1e-7)


def test_steps_are_those_of_adamw():
    rng, rate, decay, (first, second) = np.random.default_rng(0), 0.02, 0.3, (0.9, 0.99)
    ours, theirs = torch.ones(3, dtype=torch.float64), np.ones(3)
    mean = square = np.zeros(3)
    optimizer = AdamW([(ours, decay, 2.0)], betas=(first, second))
    for step in range(1, 6):
        g = rng.normal(size=3)
        mean, square = first * mean + (1 - first) * g, second * square + (1 - second) * g * g
        away = np.sqrt(square / (1 - second**step)) + 1e-8
        theirs = theirs * (1 - rate * decay) - rate * mean / (1 - first**step) / away
        optimizer.step([torch.tensor(g)], rate / 2)
        assert np.allclose(ours.numpy(), theirs, rtol=1e-12)


def test_the_start_stays_where_nothing_is_better():
    data, goal = labelled()
    trees, inputs = start(data.X), Inputs(4)
    first = trees.to_forest(SOFTMAX, inputs)
    y = data.target.argmax(axis=1)[:, None]
    hard = objective.build(SOFTMAX, y, metric="log_loss")
    selection = Selection(first, hard, data.X, y, data.weight)
    looks = train_jointly(trees, data, goal, QUICK)
    step = offer(looks, selection, SOFTMAX, inputs, QUICK)
    assert step > 0
    assert selection.score > selection.start_score
    kept = Selection(selection.best, hard, data.X, y, data.weight)
    wild = JointRecipe(steps=2, batch_size=32, learning_rate=30.0)
    assert offer(train_jointly(trees, data, goal, wild), kept, SOFTMAX, inputs, wild) == 0
    assert kept.best is selection.best


def test_a_loss_that_is_not_finite_ends_the_training():
    data, _ = labelled()
    trees = start(data.X, n_outputs=1)
    output = Output(1, np.dtype(np.float64))
    target = np.full((len(data), 1), 1e300)
    goal = objective.build(output, target)
    rows = Data(data.X, target, data.weight)
    assert list(train_jointly(trees, rows, goal, QUICK)) == []
