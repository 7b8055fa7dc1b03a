"""Soft machines: the literal formula, its limit, exact gradients, and the way back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, OBLIQUE, POLYTOPE, SENTINEL, forests, forests_with_rows, rows

from bitvec.core import machine as machines
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.leaves import LinearTerms
from bitvec.core.machine import from_forest
from bitvec.core.output import Aggregate
from bitvec.core.source import Source
from bitvec.errors import InputError, InvalidForestError, UnsupportedModelError
from bitvec.files import identical

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax.leaf_maps import SCORE_MAPS  # noqa: E402
from bitvec.runtime.train.relax.soft_machine import TRAINABLE, SoftMachine  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)
MAPS = list(SCORE_MAPS)


def three_leaves():
    return Forest.from_matrices(np.eye(2), [0.0, 0.0], [[0, 0], [0, 1], [1, 1]], [1.0, 2.0, 3.0])


def relaxed(forest, score_map="softmax", **options):
    return SoftMachine.from_forest(forest, score_map=score_map, dtype=torch.float64, **options)


def shake(module, seed=0, amount=0.3):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter += amount * noise.to(parameter.dtype)
    return module


def at_first(module, X):
    """Return hard exits as leaf numbers within the trees, (batch, n_trees)."""
    return module.exit_leaves(X).numpy().T - module.origin.leaf_ptr[:-1]


# The formula and its limit.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=20)
@given(forests_with_rows(aggregates=SUMMED))
def test_hard_exits_are_the_machines_bit_for_bit(dtype, drawn):
    forest, X = drawn
    module = SoftMachine.from_forest(forest, dtype=dtype)
    assert np.array_equal(at_first(module, X), reference.exit_leaves(forest, X))


@settings(max_examples=20)
@given(forests(aggregates=SUMMED, max_leaves=12), st.sampled_from(MAPS), st.data())
def test_memberships_sum_to_one_whatever_the_rows(forest, score_map, data):
    X = data.draw(rows(forest))
    u = relaxed(forest, score_map).memberships(X).detach().numpy()
    assert np.all(u >= 0)
    total = np.add.reduceat(u, forest.bitvectors.leaf_ptr[:-1], axis=1)
    np.testing.assert_allclose(total, 1.0, atol=1e-12)  # rounding of float64


@settings(max_examples=20)
@given(
    forests(kinds=(AXIS, OBLIQUE), aggregates=SUMMED, max_leaves=9, dtypes=(np.float64,)),
    st.integers(0, 2**32 - 1),
)
def test_memberships_are_the_literal_formula(forest, seed):
    """softmax(gamma (B sigmoid(gamma (S x − b)) − c)), written with dense matrices."""
    X = np.random.default_rng(seed).normal(size=(6, forest.n_features))
    module = shake(relaxed(forest, trainable=("B", "c"), gamma=1.7))
    n = forest.n_nodes
    row, node = np.divmod(np.arange(len(X) * n), max(n, 1))
    z, missing = reference.margins(forest.tests, X, row, node, SENTINEL)
    m = (z - forest.tests.b[node]).reshape(len(X), n)
    h = reference.hard_tests(forest, X)
    hard = missing.reshape(len(X), n)
    with np.errstate(over="ignore"):
        gate = np.where(hard, h, 1 / (1 + np.exp(-1.7 * m)))
    found = module.memberships(X).detach().numpy()
    B, c = module.B.detach().numpy(), module.c.detach().numpy()
    start, node_ptr = machines.block_ptr(module.origin.leaf_ptr), forest.bitvectors.node_ptr
    for tree, (first, last) in enumerate(pairwise(forest.bitvectors.leaf_ptr)):
        block = B[start[tree] : start[tree + 1]].reshape(last - first, -1 + last - first)
        score = 1.7 * (gate[:, node_ptr[tree] : node_ptr[tree + 1]] @ block.T - c[first:last])
        expected = np.exp(score - score.max(axis=1, keepdims=True))
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found[:, first:last], expected, atol=1e-10)  # rounding


@settings(max_examples=20)
@given(
    forests(kinds=(AXIS, OBLIQUE), aggregates=SUMMED, max_leaves=12, dtypes=(np.float32,)),
    st.sampled_from(MAPS),
    st.integers(0, 2**32 - 1),
)
def test_memberships_tend_to_the_exit_leaf_as_gamma_grows(forest, score_map, seed):
    X = np.random.default_rng(seed).normal(size=(8, forest.n_features)).astype(np.float32)
    module = relaxed(forest, score_map, gamma=1e6)
    margin = module.prepare(X).margin.numpy()
    hard = module.prepare(X).hard.numpy()
    clear = ((np.abs(margin) > 1e-4) | hard).all(axis=0)
    u = module.memberships(X).detach().numpy()[clear]
    leaf = (reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1])[clear]
    expected = np.zeros_like(u)
    expected[np.arange(len(u))[:, None], leaf] = 1
    # Gates are within exp(−100) of 0 and 1, and scores 2 · 10⁶ apart.
    np.testing.assert_allclose(u, expected, atol=1e-12)
    soft, hard = module(X).detach().numpy()[clear], module.hard(X).detach().numpy()[clear]
    np.testing.assert_allclose(soft, hard, rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(forests_with_rows(aggregates=SUMMED, kinds=(AXIS, OBLIQUE), max_leaves=12))
def test_hard_scores_are_the_machines_to_rounding(drawn):
    forest, X = drawn
    X = np.clip(X, -100, 100)
    found = relaxed(forest).hard(X).detach().numpy()
    expected = reference.raw(forest, X)
    # A few products of numbers below 100 by random weights, in the narrower dtype of the two.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=4e-2)


# The way back.


@settings(max_examples=20)
@given(forests(aggregates=SUMMED, max_leaves=12), st.data())
def test_what_has_not_moved_comes_back_itself(forest, data):
    machine = from_forest(forest)
    module = SoftMachine.from_machine(machine, trainable=TRAINABLE)
    assert module.machine() is machine
    assert module.calibrate(data.draw(rows(forest))).machine() is machine


@pytest.mark.parametrize("trainable", [("B",), ("c",), ("b",), ("v",), ("S",)])
@settings(max_examples=12)
@given(forests(kinds=(AXIS, OBLIQUE, POLYTOPE), aggregates=SUMMED, max_leaves=9), st.data())
def test_what_may_not_move_comes_back_bit_for_bit(trainable, forest, data):
    machine = from_forest(forest)
    module = SoftMachine.from_machine(machine, trainable=trainable).calibrate(
        data.draw(rows(forest))
    )
    hard = shake(module, amount=0.1).machine()
    may = {"b": ("b",), "S": ("weight", "offset")}.get(trainable[0], ())
    for name in machine.tests.__dataclass_fields__:
        old, new = getattr(machine.tests, name), getattr(hard.tests, name)
        assert name in may or old is new is None or old.tobytes() == new.tobytes(), name
    assert "B" in trainable or hard.B.tobytes() == machine.B.tobytes()
    assert "c" in trainable or hard.c.tobytes() == machine.c.tobytes()
    assert "v" in trainable or hard.leaves is machine.leaves


@settings(max_examples=20)
@given(
    forests(kinds=(AXIS, OBLIQUE), aggregates=SUMMED, max_leaves=9, dtypes=(np.float64,)),
    st.integers(0, 2**32 - 1),
)
def test_a_machine_that_has_moved_exits_where_its_module_does(forest, seed):
    rng = np.random.default_rng(seed)
    X = 50 + rng.normal(size=(32, forest.n_features))
    X[rng.random(X.shape) < 0.05] = np.nan
    module = relaxed(forest, trainable=TRAINABLE).calibrate(X)
    machine = shake(module, seed % 1000).machine()
    margin = module._margins(module.prepare(X)).detach().numpy()
    # Margins are rounded here and there; so are scores, to the machine's grid.
    clear = ((np.abs(margin) > 1e-9) | module.prepare(X).hard.numpy()).all(axis=0)
    exits = machines.exit_leaves(machine, X)
    assert np.array_equal(at_first(module, X)[clear], exits[clear])
    if forest.n_nodes:
        with pytest.raises(UnsupportedModelError, match="has moved"):
            machines.to_forest(machine)


def test_scores_of_moved_rows_of_S_are_read_from_the_columns_centers():
    X = np.random.default_rng(0).normal(size=(40, 2)) * [1.0, 100.0] + [1000.0, -50.0]
    forest = Forest.from_matrices(
        [[1, 0.1], [0, 1]], [1000.0, -50.0], [[0, 0], [0, 1], [1, 1]], [1, 2, 3]
    )
    module = relaxed(forest, trainable=("S",)).calibrate(X)
    before = module.prepare(X).margin
    assert float(before.std(dim=1, correction=0).sub(1).abs().max()) < 1e-9  # units of deviation
    shake(module)
    machine = module.machine()
    row, node = np.divmod(np.arange(len(X) * 2), 2)
    z = reference.margins(machine.tests, X, row, node)[0] - machine.tests.b[node]
    margin = module._margins(module.prepare(X)).detach().numpy().T
    # Sums of products of a thousand, in another order.
    np.testing.assert_allclose(z.reshape(40, 2) / module.units.margin, margin, atol=1e-9)
    assert not np.array_equal(machine.tests.weight, forest.tests.weight)


def test_the_source_of_a_machine_that_has_moved_says_so():
    forest = replace(three_leaves(), source=Source("sklearn", "1.5", leaf_cover=np.ones(3)))
    hard = shake(relaxed(forest)).machine()
    assert hard.source.metadata["retrained_from"] == "sklearn 1.5"
    assert hard.source.leaf_cover is None


def test_a_machine_that_has_diverged_is_not_hardened():
    for name in ("S", "b", "B", "c"):
        module = relaxed(three_leaves(), trainable=TRAINABLE)
        with torch.no_grad():
            getattr(module, name)[0] = torch.nan
        with pytest.raises(InvalidForestError, match="lower the learning rate"):
            module.machine()
    module = relaxed(three_leaves(), trainable=TRAINABLE)
    with torch.no_grad():
        module.B[0] = 1.5e308
        module.B[1] = 1.5e308
    with pytest.raises(InvalidForestError, match="must be finite in float64"):
        module.machine()


def test_a_moved_machine_is_relaxed_again():
    machine = shake(relaxed(three_leaves())).machine()
    again = SoftMachine.from_machine(machine, dtype=torch.float64)
    assert again.machine() is machine
    assert identical(shake(again, amount=0.0).machine(), machine)


# Gradients.


@pytest.mark.parametrize("score_map", MAPS)
def test_gradients_are_exact(score_map):
    rng = np.random.default_rng(0)
    forest = Forest.from_matrices(
        [[1, 0.5], [0, 1], [1, -1]],
        [0.1, 0.2, 0.3],
        [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]],
        rng.normal(size=(4, 2)),
    )
    X = rng.normal(size=(5, 2))
    X[0, 0] = np.nan
    module = shake(
        relaxed(forest, score_map, trainable=TRAINABLE, gamma=0.8).calibrate(X), amount=0.2
    )
    ready = module.prepare(X)
    moving = {name: value for name, value in module.named_parameters() if value.numel()}

    def run(*values):
        return torch.func.functional_call(module, dict(zip(moving, values, strict=True)), (ready,))

    assert set(moving) == {"S", "b", "B", "c", "functions.v", "functions.constant"}
    assert torch.autograd.gradcheck(run, tuple(moving.values()))


def test_hard_tests_give_no_gradient():
    module = relaxed(three_leaves(), trainable=("b", "S"))
    module(np.array([[np.nan, np.inf]])).sum().backward()
    assert module.b.grad.tolist() == [0.0, 0.0]
    assert module.S.grad.tolist() == [0.0, 0.0]


def test_huge_margins_and_gammas_give_numbers():
    forest = Forest.from_matrices([[1.0]], [1.7e308], [[0], [1]], [1.0, 2.0])
    module = relaxed(forest, gamma=1e6)
    raw = module(np.array([[-1.7e308], [0.0], [1.79e308]]))
    assert raw[:, 0].tolist() == [1.0, 1.0, 2.0]
    raw.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in module.parameters() if p.grad is not None)


# What is refused.


@pytest.mark.parametrize("encoding", ["bitvector", "sign"])
@pytest.mark.parametrize("score_map", MAPS)
def test_encodings_that_tie_are_refused(encoding, score_map):
    with pytest.raises(UnsupportedModelError, match='Encode the forest as "ternary"'):
        SoftMachine.from_forest(three_leaves(), encoding, score_map=score_map)


def test_a_softmax_of_tied_scores_would_tend_to_all_of_them():
    """Why they are refused: both leaves of a stump have score 0 where its test is false."""
    machine = from_forest(Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [1.0, 2.0]), "bitvector")
    module = SoftMachine(machine, "softmax", (), 1e6, torch.float64)
    assert module.memberships(np.array([[-1.0]])).tolist() == [[0.5, 0.5]]


def test_what_cannot_be_relaxed_is_refused_in_one_sentence():
    forest = three_leaves()
    least = replace(forest, output=replace(forest.output, aggregate=Aggregate.MIN))
    with pytest.raises(UnsupportedModelError, match="aggregate min"):
        SoftMachine.from_forest(least)
    with pytest.raises(UnsupportedModelError, match="must have a tree"):
        SoftMachine.from_forest(forest.take([]))
    with pytest.raises(TypeError, match="DecisionMachine"):
        SoftMachine.from_machine(forest)
    for options, message in (
        ({"score_map": "argmax"}, "`score_map`"),
        ({"trainable": ("D",)}, "`trainable`"),
        ({"gamma": 0.0}, "`gamma`"),
        ({"dtype": torch.int64}, "`dtype`"),
    ):
        with pytest.raises(InputError, match=message):
            SoftMachine.from_forest(forest, **options)
    with pytest.raises(InputError, match="at least one row"):
        relaxed(forest).calibrate(np.zeros((0, 2)))


# Use.


def test_rows_are_taken_as_they_are():
    X = np.random.default_rng(0).normal(size=(9, 2))
    module = relaxed(three_leaves(), trainable=TRAINABLE).calibrate(X)
    ready = module.prepare(X)
    part = ready.take(torch.tensor([4, 0]))
    assert len(ready) == 9
    assert torch.equal(module(part), module(ready)[[4, 0]])
    assert module(X[:0]).shape == (0, 1)


def test_linear_leaves_are_functions_here_too():
    linear = LinearTerms(
        np.array([0, 1, 1, 1]), np.array([0], np.int32), np.array([[2.0]]), np.zeros((3, 1))
    )
    forest = three_leaves()
    forest = replace(forest, leaves=replace(forest.leaves, linear=linear))
    X = np.array([[-3.0, -1.0], [np.nan, -1.0], [1.0, 1.0]])
    module = relaxed(forest)
    assert module.hard(X).tolist() == reference.raw(forest, X).tolist() == [[-6.0], [1.0], [3.0]]
    module(X).sum().backward()
    assert float(module.functions.weight.grad.abs().sum()) > 0


def accuracy(machine, X, y):
    return float(np.mean(machines.raw(machine, X).argmax(axis=1) == y))


def test_letting_B_move_lowers_the_loss_and_the_hard_machine_holds():
    """Digits by one tree of 16 leaves; half of the rows are never seen in training."""
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_digits
    from sklearn.tree import DecisionTreeClassifier

    from bitvec.converters.sklearn.read import convert

    X, y = load_digits(return_X_y=True)
    train, test = slice(0, None, 2), slice(1, None, 2)
    tree = DecisionTreeClassifier(max_leaf_nodes=16, random_state=0).fit(X[train], y[train])
    forest = convert(tree)
    module = SoftMachine.from_forest(forest, trainable=("B", "c", "v")).calibrate(X[train])
    ready = module.prepare(X[train])
    target = torch.nn.functional.one_hot(torch.tensor(y[train]), 10)

    def loss():
        return (module(ready) - target).square().sum(dim=1).mean()

    before = float(loss().detach())
    optimizer = torch.optim.Adam(module.parameters(), lr=0.03)
    n_steps = 100
    for step in range(n_steps):
        module.gamma = 1.0 + 3.0 * step / n_steps
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    machine = module.machine()
    assert float(loss().detach()) < before
    assert not np.array_equal(machine.B, module.origin.B)
    start = accuracy(from_forest(forest), X[test], y[test])
    assert start == tree.score(X[test], y[test])
    # Honest: hard, by the machine itself, on rows that it has not seen.
    assert accuracy(machine, X[test], y[test]) > start
