"""Margins over learned columns: the reference's z, and gradients that reach φ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import AXIS, OBLIQUE, POLYTOPE, SENTINEL, forests_with_rows

from bitvec.core import reference
from bitvec.core.feature_maps import Concatenate, Identity, Layers, Linear, ReLU
from bitvec.core.node_tests import Kind

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax.feature_layers import to_torch  # noqa: E402
from bitvec.runtime.train.relax.feature_margins import (  # noqa: E402
    ColumnUnits,
    margin_rows,
    margins,
    standardise,
)

CPU = torch.device("cpu")


def reference_margins(forest, X):
    n = forest.n_nodes
    row, node = np.divmod(np.arange(len(X) * n), max(n, 1))
    with np.errstate(all="ignore"):
        z, missing = reference.margins(forest.tests, X, row, node, SENTINEL)
    return z.reshape(len(X), n).T, missing.reshape(len(X), n).T


def node_of_entry(tests):
    row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))
    return np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))[row]


@given(forests_with_rows(max_leaves=12))
def test_margins_are_the_references(drawn):
    forest, X = drawn
    rows = margin_rows(forest.tests, SENTINEL, CPU)
    z, hard, right = (part.numpy() for part in margins(rows, torch.tensor(X.T.copy())))
    expected, missing = reference_margins(forest, X)
    tests = forest.tests
    compares = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    must = missing | ~compares[:, None] | ~np.isfinite(expected)
    assert np.all(hard[must])
    # Where no sum decides, h is the reference's, of missing values and sets as well.
    sure = tests.is_one_hot
    row, node = np.divmod(np.arange(len(X) * forest.n_nodes), max(forest.n_nodes, 1))
    h = reference.turns(tests, X, row, node, SENTINEL).reshape(len(X), forest.n_nodes).T
    assert np.array_equal(right[sure], h[sure])
    # Sums of huge terms in another order, and 0 · inf, may not be finite here alone.
    reads_infinite = np.zeros(hard.shape, bool)
    np.logical_or.at(reads_infinite, node_of_entry(tests), np.isinf(X.T[tests.column]))
    assert not np.any(hard & ~must & ~reads_infinite)
    one_hot = np.broadcast_to(tests.is_one_hot[:, None], hard.shape) & ~hard
    assert np.array_equal(z[one_hot], expected[one_hot])
    # Other sums have at most 15 terms; softplus is torch's here and NumPy's there.
    wide = ~hard & ~one_hot
    with np.errstate(all="ignore"):
        terms = np.abs(np.nan_to_num(X.T[tests.column])) * np.abs(tests.weight)[:, None]
        size = np.zeros((tests.n_nodes, len(X)))
        np.add.at(size, node_of_entry(tests), terms.astype(np.float64))
        bound = 64 * np.finfo(forest.dtype).eps * 4 * (size + 8)
        assert np.all(np.abs(z.astype(np.float64) - expected)[wide] <= bound[wide])


@settings(max_examples=8)
@given(forests_with_rows(kinds=(AXIS, OBLIQUE, POLYTOPE), dtypes=(np.float64,), max_leaves=6))
def test_gradients_through_S_reach_the_columns(drawn):
    forest, X = drawn
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, forest.n_features))
    X[rng.random(X.shape) < 0.1] = np.nan
    rows = margin_rows(forest.tests, SENTINEL, CPU)
    present = ~np.isnan(X.T)
    values = torch.tensor(X.T[present], requires_grad=True)

    def run(values):
        Zt = torch.full(X.T.shape, torch.nan, dtype=torch.float64)
        return margins(rows, Zt.masked_scatter(torch.tensor(present), values))[0]

    assert torch.autograd.gradcheck(run, (values,))


def test_gradients_through_S_reach_a_network():
    rng = np.random.default_rng(0)
    layers = (Linear(rng.normal(size=(3, 2)), rng.normal(size=3)), ReLU())
    phi = Concatenate((Identity(2), Layers(layers)))
    from bitvec.core.forest import Forest

    S = [[0, 0, 1, 0, 0], [1, 0, 0.5, -1, 2]]
    forest = Forest.from_matrices(S, [0.0, 0.0], [[0, 0], [0, 1], [1, 1]], [0, 1, 2])
    rows = margin_rows(forest.tests, None, CPU)
    module = to_torch(phi, trainable=True, dtype=torch.float64)
    X = torch.tensor([[1.0, -2.0], [torch.nan, 1.0], [0.3, 0.4], [torch.inf, 0.0]])
    X = X.to(torch.float64)
    names = [name for name, _ in module.named_parameters()]

    def run(*values):
        Z = torch.func.functional_call(module, dict(zip(names, values, strict=True)), (X,))
        return margins(rows, Z.T)[0]

    parameters = tuple(module.parameters())
    assert torch.autograd.gradcheck(run, parameters)
    run(*parameters).sum().backward()
    assert all(bool(p.grad.isfinite().all()) and bool(p.grad.any()) for p in parameters)
    expected = phi(X[[0, 2]].numpy()) @ np.array(S).T
    # A handful of products in another order.
    np.testing.assert_allclose(run(*parameters).detach().numpy()[:, [0, 2]].T, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_standardised_columns_are_clipped_and_differentiable(dtype):
    units = ColumnUnits(np.array([1.0, 10.0]), np.array([2.0, 0.5]))
    Zt = torch.tensor(
        [[3.0, np.nan, np.inf, 1e30, -1.0], [10.0, -np.inf, 11.0, 9.0, 10.0]],
        dtype=dtype,
        requires_grad=True,
    )
    found = standardise(Zt, units, 1e3, dtype)
    assert found.dtype == dtype
    assert found.tolist() == [[1.0, 0.0, 1e3, 1e3, -1.0], [0.0, -1e3, 2.0, -2.0, 0.0]]
    found.sum().backward()
    assert Zt.grad.tolist() == [[0.5, 0.0, 0.0, 0.0, 0.5], [2.0, 0.0, 2.0, 2.0, 2.0]]
