"""Flat tables are walked to the exit leaf, whatever the shapes, blocks and narrowings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, KERNEL, forests, rows

from bitvec import reference, structure
from bitvec.forest import Forest
from bitvec.inputs import Inputs
from bitvec.leaves import Leaves
from bitvec.node_tests import MissingRule, axis_aligned
from bitvec.output import Output

torch = pytest.importorskip("torch")

from bitvec.runtime.torch import TorchEngine, walk  # noqa: E402

PLAIN = {"kinds": (AXIS, KERNEL), "missing_rules": (MissingRule.NAN,)}


def chains(depth, n_trees, seed=0):
    """Left and right chains of this depth, and of half of it, over one column."""
    rng = np.random.default_rng(seed)
    left, right, roots, leaf = [], [], [], 0
    for tree in range(n_trees):
        count = depth if tree % 3 else (depth + 1) // 2
        roots.append(len(left))
        for k in range(count):
            down = len(left) + 1 if k + 1 < count else ~(leaf + count)
            pair = (down, ~(leaf + k))
            left.append(pair[tree % 2])
            right.append(pair[1 - tree % 2])
        leaf += count + 1
    B = structure.arrange(np.array(left), np.array(right), np.array(roots))[0]
    return Forest(
        axis_aligned(
            np.zeros(B.n_nodes, np.int32),
            rng.normal(size=B.n_nodes).astype(np.float32),
            missing_right=rng.random(B.n_nodes) < 0.5,
        ),
        B,
        Leaves(rng.normal(size=(B.n_leaves, 1))),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )


@settings(max_examples=60)
@given(st.data(), st.integers(1, 5), st.integers(1, 3))
def test_every_block_and_narrowing_leads_to_the_exit_leaf(data, block, levels):
    forest = data.draw(forests(**PLAIN))
    X = data.draw(rows(forest))
    engine = TorchEngine(forest)
    expected = reference.exit_leaves(forest, X)
    assert np.array_equal(engine.exit_leaves(X), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "ROWS", {"cpu": block})
        patch.setattr(walk, "LEVELS", levels)
        assert np.array_equal(engine.exit_leaves(X), expected)


@settings(max_examples=40)
@given(st.data())
def test_only_trees_of_plain_comparisons_are_flattened(data):
    forest = data.draw(forests())
    tests, B = forest.tests, forest.bitvectors
    plain = walk.is_plain_tree(forest)
    for tree in np.flatnonzero(plain):
        part = tests.take(np.arange(B.node_ptr[tree], B.node_ptr[tree + 1]))
        assert np.all(part.is_one_hot)
        assert np.all(part.missing_rule == MissingRule.NAN)  # the strategy has a sentinel
        assert np.all(part.b == part.b)
        assert np.unique(part.relation).size <= 1
    found = [flat.trees.numpy() for flat in walk.flatten(forest, np.flatnonzero(plain), CPU)]
    assert sorted(np.concatenate([*found, []])) == np.flatnonzero(plain).tolist()


CPU = torch.device("cpu")


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 40, 300])
def test_chains_are_narrowed_to_the_rows_that_still_move(depth):
    forest = chains(depth, 4)
    X = np.random.default_rng(1).normal(size=(2000, 1)).astype(np.float32)
    X[::9] = np.nan
    X[1::9] = np.inf
    X[2::9] = -np.inf
    assert np.array_equal(TorchEngine(forest).exit_leaves(X), reference.exit_leaves(forest, X))


def test_a_cpu_walks_plain_trees_of_any_size_unless_products_are_asked_for():
    forest = chains(3, 4)
    assert TorchEngine(forest).info["gemm_trees"] == 0
    assert TorchEngine(forest).info["traversal_trees"] == 4
    assert TorchEngine(forest, gemm_leaves=8).info["gemm_trees"] == 4
