"""Forests in fewer bytes: rounding stays within half a step, pruning is the best of its price."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitvec.compression.model_costs import largest, table_bytes
from bitvec.compression.storage import Storage, centred, on_grid, shared_thresholds
from bitvec.compression.subtrees import pruned
from bitvec.compression.sums import weighted_sum
from bitvec.core.forest import Forest
from bitvec.runtime.predict.predictor import compile
from tests.chain_forests import chains

SEEDS = st.integers(0, 2**16)


def drawn(seed: int, n_trees: int = 3) -> Forest:
    """Return trees of four leaves in three columns, in float32."""
    random = np.random.default_rng(seed)
    parts = []
    for _ in range(n_trees):
        S = np.eye(3)[random.integers(0, 3, 3)]
        B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
        parts.append(Forest.from_matrices(S, random.normal(size=3), B, random.normal(size=4)))
    return joined(parts)


def joined(parts: list[Forest]) -> Forest:
    from bitvec.core.leaves import Leaves
    from bitvec.core.node_tests import axis_aligned
    from bitvec.core.output import Output
    from bitvec.core.structure import Bitvectors

    B = [part.bitvectors for part in parts]
    counts = [part.n_leaves for part in parts]
    return Forest(
        axis_aligned(
            np.concatenate([p.tests.feature for p in parts]),
            np.concatenate([p.tests.b for p in parts]).astype(np.float32),
        ),
        Bitvectors(
            *(np.concatenate([getattr(one, name) for one in B]) for name in ("lo", "mid", "hi")),
            np.concatenate([[0], np.cumsum(counts)]),
        ),
        Leaves(np.concatenate([p.leaves.v for p in parts]).astype(np.float32)),
        Output(1, np.dtype(np.float32)),
        parts[0].inputs,
    )


@settings(max_examples=30)
@given(SEEDS, st.sampled_from([8, 16]))
def test_leaves_on_a_grid_are_within_half_a_step(seed: int, bits: int) -> None:
    forest = drawn(seed)
    small = on_grid(forest, bits)
    v = centred(forest).leaves.v.astype(np.float64)
    step = np.ptp(v) / (2**bits - 1)
    assert np.abs(small.leaves.v - v).max() <= 2 * step
    assert table_bytes(small) < table_bytes(forest)


@settings(max_examples=20)
@given(SEEDS, st.floats(-1e3, 1e3))
def test_what_all_leaves_of_a_tree_have_in_common_costs_no_step(seed: int, mean: float) -> None:
    forest = drawn(seed)
    leaves = forest.leaves
    far = leaves.v + (np.arange(leaves.n_leaves) < 4)[:, None] * np.float32(mean)
    moved = replace(forest, leaves=replace(leaves, v=far.astype(np.float32)))
    X = np.random.default_rng(seed).normal(size=(50, 3)).astype(np.float32)
    apart = compile(on_grid(moved, 8)).raw(X) - compile(on_grid(forest, 8)).raw(X)
    assert np.abs(apart - mean).max() <= 1e-3 + 3 * 2 * np.ptp(leaves.v) / 255
    same = compile(centred(moved)).raw(X) - compile(moved).raw(X)
    assert np.abs(same).max() <= 1e-3


@settings(max_examples=20)
@given(SEEDS, SEEDS, st.floats(-2, 2))
def test_a_weighted_sum_answers_the_weighted_sum(one: int, other: int, weight: float) -> None:
    forests = [drawn(one), drawn(other, n_trees=2)]
    X = np.random.default_rng(one).normal(size=(50, 3)).astype(np.float32)
    answers = [compile(forest).raw(X) for forest in forests]
    found = compile(weighted_sum(forests, [0.5, weight])).raw(X)
    assert np.allclose(found, 0.5 * answers[0] + weight * answers[1], atol=1e-5)


@settings(max_examples=20)
@given(SEEDS, st.integers(2, 5))
def test_probabilities_on_a_grid_add_to_one(seed: int, n_classes: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.3), 4)
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    tree = Forest.from_matrices(np.eye(3), [0, 0, 0], B, p)
    v = on_grid(tree, 8).leaves.v
    assert np.all(v >= 0)
    assert np.array_equal(v.sum(axis=1), np.ones(4))
    assert np.abs(v - p).max() < 1 / 128


@settings(max_examples=20)
@given(SEEDS, st.integers(3, 9))
def test_shared_thresholds_are_few_and_among_those_there_were(seed: int, n: int) -> None:
    forest = drawn(seed, n_trees=8)
    X = np.random.default_rng(seed).normal(size=(100, 3)).astype(np.float32)
    small = shared_thresholds(forest, X, n)
    for column in range(3):
        own = forest.tests.feature == column
        assert set(small.tests.b[own]) <= set(forest.tests.b[own])
    assert len(np.unique(small.tests.b)) <= max(n, 3)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.floats(1e-3, 3.0))
def test_pruning_is_the_best_of_all_subtrees_at_its_price(seed: int, alpha: float) -> None:
    forest = drawn(seed, n_trees=1)
    weight = np.random.default_rng(seed).integers(1, 9, 4).astype(np.float64)
    v = forest.leaves.v.astype(np.float64)[:, 0]

    def cost(groups: list[list[int]]) -> float:
        return sum(
            alpha + weight[g] @ (v[g] - np.average(v[g], weights=weight[g])) ** 2 for g in groups
        )

    halves = [([[0], [1]], [[0, 1]]), ([[2], [3]], [[2, 3]])]
    best = min(cost([[0, 1, 2, 3]]), *(cost([*a, *b]) for a, b in itertools.product(*halves)))
    small = pruned(forest, weight, alpha)
    X = np.zeros((0, 3))
    assert compile(small).raw(X).shape == (0, 1)
    grid = np.array(list(itertools.product(np.linspace(-4, 4, 17), repeat=3)), np.float32)
    before, after = compile(forest).raw(grid)[:, 0], compile(small).raw(grid)[:, 0]
    change = sum(
        weight[i] * float((after[before == np.float32(v[i])][0] - v[i]) ** 2)
        for i in range(4)
        if np.any(before == np.float32(v[i]))
    )
    assert small.n_leaves * alpha + change <= best + 1e-4


def test_a_deep_tree_is_pruned_to_a_leaf() -> None:
    forest = chains([200])
    small = pruned(replace(forest, source=None), np.ones(forest.n_leaves), 1e9)
    assert small.n_leaves == forest.n_trees


def test_the_largest_forest_within_a_cost_is_found() -> None:
    forest = drawn(1, n_trees=50)

    def made(n: int) -> Forest:
        return Storage(8)(forest.take(np.arange(n)), np.zeros((4, 3), np.float32))

    for limit in (60, 200, 333, 10_000):
        found = largest(made, table_bytes, 50, limit)
        sizes = [table_bytes(made(n)) for n in range(1, 51)]
        fits = [n for n, size in enumerate(sizes, start=1) if size <= limit]
        assert (found[0] if found else 0) == (max(fits) if fits else 0)
    assert largest(made, table_bytes, 50, 3) is None


@pytest.mark.parametrize("n", [None, 6])
def test_storage_keeps_a_forest_plain(n: int | None) -> None:
    forest = Storage(8, n)(drawn(3), np.random.default_rng(0).normal(size=(50, 3)))
    assert forest.dtype == np.float32
    assert forest.output.dtype == np.float32
