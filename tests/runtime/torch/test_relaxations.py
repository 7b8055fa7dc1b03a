"""Soft memberships: one sum of 1, the exit leaf in the limit, exact gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import bitvectors, forests, rows

from bitvec import matrices, reference, structure
from bitvec.output import Aggregate

torch = pytest.importorskip("torch")

from bitvec.errors import InputError  # noqa: E402
from bitvec.runtime.torch import SoftForest  # noqa: E402
from bitvec.runtime.torch.paths import PathLayout, path_sum  # noqa: E402
from bitvec.runtime.torch.relaxations import RELAXATIONS, find, memberships  # noqa: E402
from bitvec.runtime.torch.sparsemax import sparsemax  # noqa: E402

NAMES = list(RELAXATIONS)
SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def soft(name, B, margin, gamma):
    """Return u, (n_leaves, batch), for margins in the forest's order."""
    layout, kind = PathLayout(B), find(name)
    m = layout.by_level(torch.as_tensor(margin))
    u = memberships(kind, layout, m, None, m > 0, gamma)
    return u.exp() if kind.is_log else u


def drawn_margins(B, seed, batch=8):
    """Return margins of at least 1/4 in size, of both signs."""
    rng = np.random.default_rng(seed)
    size = (B.n_nodes, batch)
    return rng.uniform(0.25, 2.0, size) * rng.choice([-1.0, 1.0], size)


@settings(max_examples=50)
@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_path_sums_are_the_dense_product_with_the_ternary_matrix(B, seed):
    layout = PathLayout(B)
    turns = np.random.default_rng(seed).integers(-8, 8, (B.n_nodes, 2, 3)).astype(np.float64)
    D = matrices.ternary(B)
    expected = (D == -1) @ turns[:, 0] + (D == 1) @ turns[:, 1]
    got = path_sum(layout.by_level(torch.tensor(turns)), layout)
    assert np.array_equal(got.numpy(), expected)  # whole numbers: exact


@settings(max_examples=50)
@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_the_layout_walks_to_the_exit_leaf(B, seed):
    h = np.random.default_rng(seed).random((5, B.n_nodes)) < 0.5
    layout = PathLayout(B)
    right = layout.by_level(torch.tensor(h.T.copy()))
    leaf = layout.exit_leaves(right).numpy().T - B.leaf_ptr[:-1]
    assert np.array_equal(leaf, reference.exit_leaf_bitvector(B, h))


@settings(max_examples=50)
@given(bitvectors(), st.integers(0, 2**32 - 1), st.sampled_from(NAMES))
def test_memberships_of_each_tree_sum_to_one(B, seed, name):
    u = soft(name, B, drawn_margins(B, seed), 1.5)
    assert torch.all(u >= 0)
    for first, last in zip(B.leaf_ptr[:-1], B.leaf_ptr[1:], strict=True):
        total = u[first:last].sum(dim=0)
        # Rounding of up to 70 terms in float64.
        assert torch.all((total - 1).abs() < 1e-12)


@settings(max_examples=50)
@given(bitvectors(), st.integers(0, 2**32 - 1), st.sampled_from(NAMES))
def test_every_relaxation_tends_to_the_exit_leaf(B, seed, name):
    m = drawn_margins(B, seed)
    expected = torch.zeros((B.n_leaves, m.shape[1]), dtype=torch.float64)
    leaf = torch.tensor((reference.exit_leaf_bitvector(B, m.T > 0) + B.leaf_ptr[:-1]).T.copy())
    expected.scatter_(0, leaf, 1.0)
    # Margins are at least 1/4, so at gamma 400 what is left is below exp(-100) a node.
    assert torch.all((soft(name, B, m, 400.0) - expected).abs() < 1e-12)


@settings(max_examples=50)
@given(bitvectors(max_trees=1, max_leaves=12), st.integers(0, 2**32 - 1))
def test_the_sigmoid_relaxation_is_that_of_the_reference(B, seed):
    m = drawn_margins(B, seed)
    expected = reference.sigmoid_memberships(B, m.T, 1.5).T
    # Sums in another order, in float64.
    assert np.allclose(soft("sigmoid", B, m, 1.5).numpy(), expected, rtol=1e-12, atol=0)


def test_softmax_of_B_h_is_not_a_relaxation():
    with pytest.raises(InputError, match="must be one of"):
        find("bitvector_softmax")


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_memberships_are_exact(name):
    left, right = np.array([1, ~0, ~2, ~4]), np.array([2, ~1, ~3, ~5])
    B = structure.arrange(left, right, np.array([0, 3]))[0]
    rng = np.random.default_rng(3)
    m = torch.tensor(rng.normal(size=(B.n_nodes, 4)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda m: soft(name, B, m, 1.3), (m,))


def test_the_gradient_of_sparsemax_is_exact():
    score = torch.tensor(np.random.default_rng(0).normal(size=(2, 5, 3)), requires_grad=True)
    assert torch.autograd.gradcheck(sparsemax, (score,))


@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_sparsemax_is_the_nearest_point_of_the_simplex(n, seed):
    score = np.random.default_rng(seed).normal(size=n) * 2
    p = sparsemax(torch.tensor(score)[None, :, None])[0, :, 0].numpy()
    # Optimality: score - p is one constant on the support and no larger outside it.
    gap = score - p
    assert abs(p.sum() - 1) < 1e-12
    assert np.all(gap <= gap[p > 0].min() + 1e-12)
    assert np.ptp(gap[p > 0]) < 1e-12


@settings(max_examples=60)
@given(
    st.data(),
    st.sampled_from(NAMES),
    st.sampled_from([("b", "v"), ("S", "b", "v"), ("S", "b", "v", "r")]),
    st.booleans(),
)
def test_hostile_rows_leave_sums_and_gradients_sound(data, name, movable, calibrated):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=20))
    X = data.draw(rows(forest))
    module = SoftForest.from_forest(forest, name, movable=movable, dtype=torch.float64)
    if calibrated:
        module.calibrate(X)
    u = module.memberships(X)
    B = forest.bitvectors
    for first, last in zip(B.leaf_ptr[:-1], B.leaf_ptr[1:], strict=True):
        total = u[:, first:last].sum(dim=1)
        # Margins reach 1e15 here; sigmoids of them sum to 1 in float64 all the same.
        assert torch.all((total - 1).abs() < 1e-12)
    module(X).square().sum().backward()
    for parameter in module.parameters():
        assert parameter.grad is None or bool(torch.isfinite(parameter.grad).all())


@settings(max_examples=40)
@given(st.data(), st.sampled_from(NAMES))
def test_a_soft_forest_with_hard_tests_only_is_the_hard_forest(data, name):
    forest = data.draw(
        forests(kinds=("set", "equal"), linear=False, aggregates=SUMMED, max_leaves=20)
    )
    X = data.draw(rows(forest))
    module = SoftForest.from_forest(forest, name, movable=(), dtype=torch.float64, gamma=0.3)
    expected = np.zeros((len(X), forest.n_leaves))
    leaf = reference.exit_leaves(forest, X) + forest.bitvectors.leaf_ptr[:-1]
    np.put_along_axis(expected, leaf, 1.0, axis=1)
    # Softmax and sparsemax end in a division or a subtraction of whole scores.
    assert np.allclose(module.memberships(X).numpy(), expected, rtol=0, atol=1e-12)
