"""Sparse routing: the leaves that are reached, with the scores and gradients of the recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import forests, rows

from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import InputError

torch = pytest.importorskip("torch")

from bitvec.runtime.train.relax import SoftForest, block_scores, sparse_routing  # noqa: E402

SUMMED = (Aggregate.SUM, Aggregate.MEAN)


def both(forest, X=None, **options):
    """Return modules that route densely and sparsely."""
    options = {"trainable": ("S", "b", "v", "r"), "dtype": torch.float64} | options
    modules = [
        SoftForest.from_forest(forest, "smooth_step", routing=routing, **options)
        for routing in ("dense", "sparse")
    ]
    return modules if X is None else [module.calibrate(X) for module in modules]


@given(st.data(), st.sampled_from([0.7, 2.0, 20.0]))
def test_scores_and_gradients_are_those_of_the_dense_recursion(data, gamma):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=20))
    X = data.draw(rows(forest))
    dense, sparse = both(forest, X if data.draw(st.booleans()) else None, gamma=gamma)
    weight = torch.tensor(np.random.default_rng(0).normal(size=(len(X), forest.n_outputs)))
    scores = [module(X) for module in (dense, sparse)]
    # The same terms in another order, in float64.
    assert torch.allclose(*scores, rtol=1e-9, atol=1e-9)
    for score in scores:
        (score * weight).sum().backward()
    for (name, one), other in zip(dense.named_parameters(), sparse.parameters(), strict=True):
        a, b = (torch.zeros_like(p) if p.grad is None else p.grad for p in (one, other))
        size = max(1.0, float(a.abs().max())) if a.numel() else 1.0
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-9 * size), name


@given(st.data())
def test_the_leaves_that_are_reached_are_those_of_positive_membership(data):
    forest = data.draw(forests(linear=False, aggregates=SUMMED, max_leaves=20))
    X = data.draw(rows(forest))
    module = both(forest, gamma=1.5)[1]
    expected = module.memberships(X).detach()
    got = torch.zeros_like(expected)
    for block, parameters in module.parts():
        reached = sparse_routing.route(
            block,
            parameters,
            module.prepare(X),
            module.plan().shift,
            gamma=module.gamma,
            dtype=torch.float64,
        )
        # Products that fall below the smallest number are 0 in both.
        got[reached.row, reached.leaf + block.leaves.start] = reached.u.detach()
    assert torch.allclose(got, expected, rtol=1e-12, atol=0)


def chain(depth):
    B = np.array([[int(leaf != node) for node in range(depth)] for leaf in range(depth + 1)])
    return Forest.from_matrices(np.eye(1)[[0] * depth], np.arange(depth), B, np.arange(depth + 1.0))


def test_visits_are_linear_in_what_is_reached():
    module = both(chain(200), gamma=30.0)[1]
    rows_ = module.prepare(np.linspace(-1, 9, 64)[:, None])
    ((block, parameters),) = module.parts()
    reached = sparse_routing.route(
        block, parameters, rows_, module.plan().shift, gamma=30.0, dtype=torch.float64
    )
    assert reached.n_pairs <= 64 * 11


def test_the_way_is_chosen_by_what_is_reached():
    forest = chain(300)
    X = np.linspace(-1, 3, 64)[:, None]
    for gamma, is_sparse in ((30.0, True), (1e-3, False)):
        module = SoftForest.from_forest(forest, "smooth_step", gamma=gamma)
        scores = block_scores.sparse_total(module.plan(), module.whole(), module.prepare(X))
        assert (scores is not None) is is_sparse


def test_sparse_routing_of_another_gate_is_refused():
    with pytest.raises(InputError, match="exact zeros"):
        SoftForest.from_forest(chain(2), "sigmoid", routing="sparse")
