"""Sums and products along paths: those of the dense matrices, exact where factors are 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bitvectors

from bitvec.core import matrices, reference, structure

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax.leaf_maps import per_tree  # noqa: E402
from bitvec.runtime.train.relax.path_layout import PathLayout, path_sum  # noqa: E402
from bitvec.runtime.train.relax.path_products import path_product, sigmoid_paths  # noqa: E402


def two_trees():
    left, right = np.array([1, ~0, ~2, ~4]), np.array([2, ~1, ~3, ~5])
    return structure.arrange(left, right, np.array([0, 3]))[0]


@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_sums_are_the_dense_product_with_the_ternary_matrix(B, seed):
    layout = PathLayout(B)
    turns = np.random.default_rng(seed).integers(-8, 8, (B.n_nodes, 2, 3)).astype(np.float64)
    D = matrices.ternary(B)
    expected = (D == -1) @ turns[:, 0] + (D == 1) @ turns[:, 1]
    got = path_sum(layout.by_level(torch.tensor(turns)), layout)
    assert np.array_equal(got.numpy(), expected)  # whole numbers: exact


@given(bitvectors(max_leaves=20), st.integers(0, 2**32 - 1))
def test_products_are_those_of_the_ternary_matrix_zeros_included(B, seed):
    layout = PathLayout(B)
    turns = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.0], (B.n_nodes, 2, 3))
    D = matrices.ternary(B)[:, :, None]
    expected = np.where(D == -1, turns[:, 0], np.where(D == 1, turns[:, 1], 1.0)).prod(axis=1)
    got = path_product(layout.by_level(torch.tensor(turns)), layout)
    assert np.array_equal(got.numpy(), expected)  # powers of two: exact


@given(bitvectors(max_leaves=20), st.integers(0, 2**32 - 1))
def test_the_sigmoids_own_recursion_is_the_product_of_sigmoids(B, seed):
    rng, layout = np.random.default_rng(seed), PathLayout(B)
    m = torch.tensor(rng.normal(size=(B.n_nodes, 4)) * 3, requires_grad=True)
    weight = torch.tensor(rng.normal(size=(B.n_leaves, 4)))
    found = []
    for u in (
        sigmoid_paths(m, layout),
        path_product(torch.stack((-m, m), dim=1).sigmoid(), layout),
    ):
        (u * weight).sum().backward()
        found.append((u.detach(), m.grad))
        m.grad = None
    assert torch.equal(found[0][0], found[1][0])
    assert torch.allclose(found[0][1], found[1][1], rtol=1e-9, atol=1e-14)  # sums in another order


def test_gradients_of_products_are_exact_where_factors_are_0():
    B = two_trees()
    turns = torch.tensor(np.random.default_rng(0).uniform(size=(B.n_nodes, 2, 3)))
    turns[0, 0, 0] = turns[1, 1, 1] = turns[2, :, 2] = 0
    layout = PathLayout(B)
    turns.requires_grad_()
    assert torch.autograd.gradcheck(lambda turns: path_product(turns, layout), (turns,))


def test_a_share_that_is_tiny_keeps_its_gradient():
    B = structure.arrange([~0], [~1], [0])[0]
    for sign in (1.0, -1.0):
        m = torch.tensor([[sign * 40.0]], requires_grad=True)
        u = sigmoid_paths(m, PathLayout(B))
        (u * torch.tensor([[1.0], [3.0]])).sum().backward()
        # exp(-40), which 1 - s would round to 0.
        assert torch.allclose(m.grad, torch.tensor([[2 * np.exp(-40.0)]], dtype=torch.float32))


@given(bitvectors(), st.integers(0, 2**32 - 1))
def test_the_layout_walks_to_the_exit_leaf_along_the_nodes_that_are_reached(B, seed):
    h = np.random.default_rng(seed).random((5, B.n_nodes)) < 0.5
    layout = PathLayout(B)
    right = layout.by_level(torch.tensor(h.T.copy()))
    leaf = layout.exit_leaves(right).numpy().T - B.leaf_ptr[:-1]
    assert np.array_equal(leaf, reference.exit_leaf_bitvector(B, h))
    depth = layout.leaf_depth.numpy()[layout.exit_leaves(right).numpy()]
    assert np.array_equal(layout.reached(right).sum(0).numpy(), depth.sum(axis=0))


@given(bitvectors(max_trees=5), st.integers(0, 2**32 - 1))
def test_maps_act_on_each_tree_by_itself(B, seed):
    layout = PathLayout(B)
    score = torch.tensor(np.random.default_rng(seed).normal(size=(B.n_leaves, 3)))
    got = per_tree(lambda part: torch.softmax(part, dim=1), score, layout)
    for first, last in zip(B.leaf_ptr[:-1], B.leaf_ptr[1:], strict=True):
        expected = torch.softmax(score[first:last], dim=0)
        assert torch.allclose(got[first:last], expected, rtol=1e-12)
