"""Leaves as functions of x: each is the reference's, sums are theirs, what is unmoved stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, forests, rows

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.output import Aggregate
from bitvec.errors import InputError, InvalidForestError, UnsupportedModelError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax.leaf_functions import LeafFunctions, to_leaves  # noqa: E402

BIG = 100.0


@st.composite
def linear_forests(draw, finite=False):
    """A forest, often with linear leaves, and rows of moderate size, missing and infinite."""
    forest = draw(forests(kinds=(AXIS,), aggregates=(Aggregate.SUM,), max_leaves=12))
    X = draw(rows(forest, finite=finite))
    # Products of the largest numbers overflow in one dtype and not in the other.
    X[np.isfinite(X)] = np.clip(X[np.isfinite(X)], -BIG, BIG)
    return forest, X


def made(forest, *, moves=True, dtype=torch.float64):
    return LeafFunctions(forest.leaves, forest.n_outputs, moves=moves, dtype=dtype)


def every_vector(forest, X):
    """Return the reference's vector of every leaf, (n_leaves, batch, width)."""
    with np.errstate(all="ignore"):
        return np.stack(
            [
                reference.leaf_vectors(forest, X, np.full(len(X), leaf))
                for leaf in range(forest.n_leaves)
            ]
        )


def rounding(forest, center=0.0):
    """Return what three terms of size BIG may be off by, in the narrower dtype of the two."""
    return 16 * np.finfo(forest.leaves.v.dtype).eps * 4 * (BIG + center)


def assert_near(found, expected, bound):
    finite = np.isfinite(expected)
    assert np.array_equal(np.where(finite, 0, found), np.where(finite, 0, expected), equal_nan=True)
    assert np.all(np.abs(found[finite] - expected[finite].astype(np.float64)) <= bound)


@given(linear_forests(), st.booleans())
def test_every_leaf_is_the_references_to_rounding(drawn, calibrated):
    forest, X = drawn
    functions = made(forest)
    if calibrated:
        functions.calibrate(X)
    found = functions(functions.prepare(X)).detach().numpy()
    assert_near(found, every_vector(forest, X), rounding(forest, BIG))


@given(linear_forests(), st.integers(0, 2**32 - 1))
def test_combine_is_the_dense_sum_and_what_is_not_reached_adds_nothing(drawn, seed):
    forest, X = drawn
    functions = made(forest)
    rng = np.random.default_rng(seed)
    u = rng.random((forest.n_leaves, len(X))) * (rng.random((forest.n_leaves, len(X))) < 0.5)
    dense = every_vector(forest, X).astype(np.float64)
    with np.errstate(invalid="ignore"):
        terms = np.where(u[:, :, None] > 0, u[:, :, None] * dense, 0.0)
        expected = np.zeros((len(X), forest.n_outputs))
        for leaf in range(forest.n_leaves):
            if forest.leaves.output is None:
                expected += terms[leaf]
            else:
                expected[:, forest.leaves.output[leaf]] += terms[leaf, :, 0]
    found = functions.combine(torch.tensor(u), functions.prepare(X)).detach().numpy()
    assert_near(found, expected, forest.n_leaves * rounding(forest))


@given(linear_forests())
def test_hard_memberships_give_the_references_raw_score_to_rounding(drawn):
    forest, X = drawn
    functions = made(forest)
    leaf = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    u = np.zeros((forest.n_leaves, len(X)))
    weight = forest.output.tree_weight
    for tree in range(forest.n_trees):
        u[leaf[:, tree], np.arange(len(X))] = 1.0 if weight is None else weight[tree]
    found = functions.combine(torch.tensor(u), functions.prepare(X)).detach().numpy()
    plain = replace(
        forest,
        output=replace(
            forest.output,
            base_score=np.zeros(forest.n_outputs, forest.output.dtype),
            base_first=False,
            scale=None,
        ),
    )
    with np.errstate(all="ignore"):
        expected = reference.raw(plain, X)
    # Of single rounded trees at most three sums of at most three terms, times a weight below 4.
    eps = np.finfo(np.float32).eps
    assert_near(found, expected, 64 * eps * 4 * BIG)


@given(linear_forests(), st.sampled_from([torch.float32, torch.float64]), st.booleans())
def test_what_has_not_moved_comes_back_itself(drawn, dtype, calibrated):
    forest, X = drawn
    functions = made(forest, dtype=dtype)
    if calibrated:
        functions.calibrate(X)
    assert to_leaves(functions) is forest.leaves


@given(linear_forests(finite=True), st.integers(0, 2**32 - 1))
def test_what_has_moved_comes_back_as_the_module_computes_it(drawn, seed):
    forest, X = drawn
    forest = replace(forest, leaves=_widened(forest.leaves))
    functions = made(forest).calibrate(X)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in functions.parameters():
            pick = rng.random(parameter.shape) < 0.5
            parameter += torch.tensor(np.where(pick, rng.normal(size=parameter.shape), 0.0))
    moved = replace(forest, leaves=to_leaves(functions))
    found = functions(functions.prepare(X)).detach().numpy()
    # A weight is divided by its column's spread, which may be small beside the center.
    scale = np.abs(functions.center).max(initial=1) / functions.spread.min(initial=1)
    bound = 64 * np.finfo(np.float64).eps * (BIG + scale) * 8
    assert_near(found, every_vector(moved, X), bound)


def _widened(leaves):
    linear = leaves.linear
    if linear is not None:
        linear = replace(
            linear,
            weight=linear.weight.astype(np.float64),
            constant=linear.constant.astype(np.float64),
        )
        return Leaves(leaves.v.astype(np.float64), leaves.output, linear)
    return Leaves(leaves.v.astype(np.float64), leaves.output)


def small(**options) -> Leaves:
    """Three leaves: of two terms, of none, of one."""
    linear = LinearTerms(
        leaf_ptr=np.array([0, 2, 2, 3]),
        column=np.array([0, 3, 3], np.int32),
        weight=np.array([[1.0], [2.0], [-1.0]]),
        constant=np.array([[10.0], [20.0], [30.0]]),
        **options,
    )
    return Leaves(np.array([[1.0], [2.0], [3.0]]), linear=linear)


X = np.array([[1.0, 9, 9, 2.0], [np.nan, 9, 9, 4.0], [1.0, 9, 9, np.nan], [1e-40, 9, 9, -1.0]])


def test_a_missing_column_sends_a_leaf_to_its_constant_vector():
    functions = LeafFunctions(small(), 1, moves=False, dtype=torch.float64)
    found = functions(functions.prepare(X))[:, :, 0]
    assert found[:, :3].tolist() == [[15.0, 1.0, 1.0], [2.0, 2.0, 2.0], [28.0, 26.0, 3.0]]
    only = functions.columns
    assert only.tolist() == [0, 3]


def test_small_values_count_as_zero_where_the_leaves_say_so():
    functions = LeafFunctions(small(zero_threshold=1.5), 1, moves=False, dtype=torch.float64)
    found = functions(functions.prepare(X))[:, :, 0]
    assert found[:, 0].tolist() == [14.0, 2.0, 28.0]
    assert found[:, 3].tolist() == [10.0, 2.0, 30.0]


def test_rows_are_taken_as_they_are():
    functions = LeafFunctions(small(), 1, moves=False)
    ready = functions.prepare(X)
    part = ready.take(torch.tensor([2, 0]))
    assert len(part) == 2
    assert torch.equal(functions(part), functions(ready)[:, [2, 0]])
    none = functions.prepare(X[:0])
    assert functions.combine(torch.zeros((3, 0)), none).shape == (0, 1)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_gradients_are_exact(named, missing):
    rng = np.random.default_rng(0)
    width = 1 if named else 2
    leaves = Leaves(
        rng.normal(size=(4, width)),
        np.array([0, 2, 1, 0], np.int32) if named else None,
        LinearTerms(
            np.array([0, 2, 2, 3, 5]),
            np.array([0, 2, 1, 1, 0], np.int32),
            rng.normal(size=(5, width)),
            rng.normal(size=(4, width)),
        ),
    )
    rows = rng.normal(size=(6, 3)) * 5 + 100
    if missing:
        rows[rng.random(rows.shape) < 0.3] = np.nan
    n_outputs = 3 if named else 2
    functions = LeafFunctions(leaves, n_outputs, moves=True, dtype=torch.float64).calibrate(rows)
    ready = functions.prepare(rows)
    u = torch.tensor(rng.random((4, 6)), requires_grad=True)
    names = [name for name, _ in functions.named_parameters()]

    def combine(u, *values):
        return torch.func.functional_call(
            _Combined(functions),
            dict(zip([f"of.{n}" for n in names], values, strict=True)),
            (u, ready),
        )

    assert torch.autograd.gradcheck(combine, (u, *functions.parameters()))


class _Combined(torch.nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.of = functions

    def forward(self, u, rows):
        return self.of.combine(u, rows)


def test_a_leaf_that_is_not_reached_gives_no_nan_and_no_gradient_of_nan():
    leaves = small()
    leaves = replace(leaves, v=np.array([[np.inf], [-np.inf], [3.0]]))
    functions = LeafFunctions(leaves, 1, moves=True, dtype=torch.float64)
    rows = functions.prepare(np.array([[np.inf, 0, 0, 1.0], [np.nan, 0, 0, 1.0], [1.0, 0, 0, 1.0]]))
    u = torch.zeros((3, 3), dtype=torch.float64)
    u[2] = 1.0
    u.requires_grad_()
    raw = functions.combine(u, rows)
    assert raw[:, 0].tolist() == [29.0, 29.0, 29.0]
    raw.sum().backward()
    for tensor in (u, *functions.parameters()):
        assert bool(tensor.grad.isfinite().all())
    u.data[0] = 0.5
    assert functions.combine(u, rows)[:2, 0].tolist() == [np.inf, np.inf]


def test_columns_far_from_zero_are_read_in_units_of_their_spread():
    rng = np.random.default_rng(0)
    rows = np.zeros((50, 4))
    rows[:, 0], rows[:, 3] = 1e6 + 1e3 * rng.normal(size=50), 7.0
    functions = LeafFunctions(small(), 1, moves=True).calibrate(rows)
    value = functions.prepare(rows).value
    assert abs(float(value[0].mean())) < 1e-4  # float32 of numbers around 1
    assert abs(float(value[0].std(correction=0)) - 1) < 1e-4
    assert value[1].tolist() == [0.0] * 50  # a constant column: no spread to divide by


def test_many_leaves_and_columns_cost_no_more_than_their_terms():
    n = 200_000  # leaves x columns would be 4e10 numbers
    linear = LinearTerms(
        np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones((n, 1)), np.zeros((n, 1))
    )
    functions = LeafFunctions(Leaves(np.zeros((n, 1)), linear=linear), 1, moves=True)
    u = torch.zeros((n, 2))
    u[7] = 1.0
    rows = functions.prepare(np.tile(np.arange(n, dtype=np.float64), (2, 1)))
    assert functions.combine(u, rows).tolist() == [[7.0], [7.0]]


def test_constant_leaves_are_functions_too():
    leaves = Leaves(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    functions = LeafFunctions(leaves, 2, moves=True)
    rows = functions.prepare(np.zeros((3, 5), np.float32))
    assert functions(rows).shape == (2, 3, 2)
    assert functions.combine(torch.full((2, 3), 0.5), rows).tolist() == [[2.0, 3.0]] * 3
    with torch.no_grad():
        functions.v[1, 0] = 7.0
    assert to_leaves(functions).v.tolist() == [[1.0, 2.0], [7.0, 4.0]]
    assert to_leaves(functions).v.dtype == np.float32


def test_parameters_move_only_where_they_may():
    for moves in (False, True):
        functions = LeafFunctions(small(), 1, moves=moves)
        assert [p.requires_grad for p in functions.parameters()] == [moves] * 3


def test_numbers_that_cannot_be_relaxed_or_hardened_are_refused():
    leaves = small()
    infinite = replace(leaves, linear=replace(leaves.linear, weight=np.full((3, 1), np.inf)))
    with pytest.raises(UnsupportedModelError, match="finite weights"):
        LeafFunctions(infinite, 1, moves=False)
    huge = replace(leaves, v=np.full((3, 1), 1e300))
    LeafFunctions(huge, 1, moves=False)
    with pytest.raises(InputError, match=r"got `v` up to 1e\+300"):
        LeafFunctions(huge, 1, moves=True)
    for name in ("v", "weight", "constant"):
        functions = LeafFunctions(leaves, 1, moves=True)
        with torch.no_grad():
            getattr(functions, name)[0] = np.nan
        with pytest.raises(InvalidForestError, match="lower the learning rate"):
            to_leaves(functions)


def test_a_forest_with_linear_leaves_learns_a_slope():
    rng = np.random.default_rng(0)
    rows = rng.uniform(100, 200, (200, 1))
    y = np.where(rows[:, 0] > 150, 3 * rows[:, 0], -rows[:, 0])
    linear = LinearTerms(
        np.array([0, 1, 2]), np.zeros(2, np.int32), np.zeros((2, 1)), np.zeros((2, 1))
    )
    stump = Forest.from_matrices([[1.0]], [150.0], [[0], [1]], [0.0, 0.0])
    stump = replace(stump, leaves=replace(stump.leaves, linear=linear))
    functions = LeafFunctions(stump.leaves, 1, moves=True).calibrate(rows)
    ready = functions.prepare(rows)
    leaf = reference.exit_leaves(stump, rows)[:, 0]
    u = torch.nn.functional.one_hot(torch.tensor(leaf), 2).T.to(torch.float32)
    optimizer = torch.optim.Adam(functions.parameters(), lr=5.0)
    for _ in range(1500):
        optimizer.zero_grad()
        loss = (functions.combine(u, ready)[:, 0] - torch.tensor(y)).square().mean()
        loss.backward()
        optimizer.step()
    slope = to_leaves(functions).linear.weight[:, 0]
    np.testing.assert_allclose(slope, [-1.0, 3.0], rtol=0.02)  # of 1500 steps
