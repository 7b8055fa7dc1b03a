"""Polytope nodes: the paper's identities, and the pruning of facets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitvec.converters.native.cpt import from_cpt
from bitvec.learners.growth.level import Blocks, level_of
from bitvec.learners.growth.polytope import Polytope, PolytopeRule, prune_facets
from bitvec.learners.growth.stump_test import exact_cut
from bitvec.learners.growth.targets import Labels

OCTAGON = np.array(
    [[8 * np.cos(a), 8 * np.sin(a), -4.0] for a in np.arange(8) * np.pi / 4]
)  # 8 facets at the distance 1/2


def rows(n: int = 400, seed: int = 0) -> tuple[np.ndarray, Labels]:
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, Labels((np.hypot(*X.T) < 0.55).astype(int), 2)


@given(st.integers(0, 2**32), st.floats(0.01, 0.99), st.floats(0.1, 20))
def test_the_gate_of_the_paper_is_the_sigmoid_of_the_margin(
    seed: int, p0: float, steepness: float
) -> None:
    rng = np.random.default_rng(seed)
    beta, r, X = rng.standard_normal((3, 4)), rng.uniform(0, 1, 3), rng.standard_normal((20, 3))
    g = PolytopeRule(beta, r).margins(X)
    noisy_or = 1 - np.prod((1 + np.exp(X @ beta[:, :-1].T + beta[:, -1])) ** -r, axis=1)
    assert 1 - np.exp(-g) == pytest.approx(noisy_or)
    gate = 1 / (1 + ((1 - noisy_or) / (1 - p0)) ** steepness)
    assert 1 / (1 + np.exp(-steepness * (g + np.log1p(-p0)))) == pytest.approx(gate)


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 6))
def test_margins_are_those_of_the_native_tree_bit_for_bit(seed: int, K: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    beta, r = rng.standard_normal((K, p + 1)) * 30, rng.uniform(0, 2, K)
    beta[rng.random(beta.shape) < 0.2] = 0
    X = rng.standard_normal((25, p))
    rule = PolytopeRule(beta, r)
    tree = from_cpt(beta[None], r[None], tau=[0.0], left=[~0], right=[~1], pi=[0.5, 0.5])
    assert np.array_equal(rule.margins(X), tree.g(0, X))


def test_trained_margins_are_those_of_the_rule_less_tau() -> None:
    X, target = rows()
    level = level_of(X * [1, 50] + 7, target, np.ones(400), [np.arange(150), np.arange(150, 400)])
    tests = Polytope(5).draw([np.random.default_rng(j) for j in range(2)], level, 3)
    shift = torch.tensor([[0.3, 0.9], [0.1, 0.5], [0.7, 0.2]])
    tests.center(shift, 1.5 - shift)
    blocks = Blocks(level)
    batch = blocks.at(0)
    margins = blocks.spread(tests.margins(batch.Z, batch.node)).detach().numpy()
    for restart in range(3):
        for j, own in enumerate((np.arange(150), np.arange(150, 400))):
            rule = tests.rule(restart, j, level.units)
            expected = rule.margins(X[own] * [1, 50] + 7) - tests.tau[restart, j].item()
            found = margins[restart, level.start[j] : level.start[j + 1]]
            assert found == pytest.approx(expected, abs=1e-4)


def test_centering_turns_margins_as_it_says() -> None:
    X, target = rows(50)
    level = level_of(X, target, np.ones(50), [np.arange(50)])
    tests = Polytope(4).draw([np.random.default_rng(0)], level, 2)
    batch = Blocks(level).at(0)
    before = tests.margins(batch.Z, batch.node)
    by, scale = torch.tensor([[0.3], [-1.0]]), torch.tensor([[2.0], [0.5]])
    expected = (before - by[..., None]) / scale[..., None]
    tests.center(by, scale)
    assert torch.allclose(tests.margins(batch.Z, batch.node), expected, atol=1e-6)


def test_facets_face_all_ways_at_the_start() -> None:
    X, target = rows()
    level = level_of(X, target, np.ones(400), [np.arange(400)])
    tests = Polytope(40).draw([np.random.default_rng(0)], level, 1)
    directions = tests.beta[0, 0, :, :-1].detach().numpy()
    singular = np.linalg.svd(directions / 4, compute_uv=False)
    assert singular.min() > 0.5 * singular.max()
    assert np.all(tests.beta[..., -1].detach().numpy() <= 0)


def test_pruning_drops_idle_facets_and_keeps_those_that_matter() -> None:
    X, target = rows()
    idle = np.array([[0.1, 0.0, -30.0], [0.0, 0.1, -30.0]])
    rule = PolytopeRule(np.concatenate([idle, OCTAGON]), np.ones(10))
    whole = exact_cut(rule, X, target, np.ones(400))
    pruned, cut = prune_facets(rule, X, target, np.ones(400), tol=0.0)
    assert set(map(tuple, idle)) & set(map(tuple, pruned.beta)) == set()
    assert cut.cost[0] <= whole.cost[0]
    assert 3 <= pruned.r.size <= 8
    assert exact_cut(pruned, X, target, np.ones(400)).cost[0] == cut.cost[0]


def test_pruning_is_the_literal_greedy_search() -> None:
    X, target = rows(120)
    rng = np.random.default_rng(3)
    weight = rng.uniform(0.5, 2, 120)
    rule = PolytopeRule(OCTAGON + rng.normal(0, 1, OCTAGON.shape), rng.uniform(0.5, 1.5, 8))
    found, cut = prune_facets(rule, X, target, weight, tol=0.02)
    least = exact_cut(rule, X, target, weight).cost[0]
    kept = list(range(8))
    while len(kept) > 1:
        costs = []
        for k in kept:
            rest = [one for one in kept if one != k]
            costs.append(
                exact_cut(PolytopeRule(rule.beta[rest], rule.r[rest]), X, target, weight).cost[0]
            )
        if min(costs) > least + 0.02 * weight.sum():
            break
        kept.pop(int(np.argmin(costs)))
        least = min(least, *costs)
    assert np.array_equal(found.beta, rule.beta[kept])
    assert 1 < len(kept) < 8
    assert cut.cost[0] <= least + 0.02 * weight.sum()


def test_without_a_tolerance_all_facets_stay() -> None:
    X, target = rows(60)
    rule = PolytopeRule(OCTAGON, np.ones(8))
    kept, _ = Polytope(8, None).finish(rule, X, target, np.ones(60))
    assert np.array_equal(kept.margins(X), rule.margins(X))
