"""Flat tables are walked to the exit leaf, whatever the shapes, blocks and narrowings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import AXIS, KERNEL, forests, rows

from bitvec.core import reference, structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import MissingRule, axis_aligned
from bitvec.core.output import Output

torch = pytest.importorskip("torch")

from bitvec.runtime.predict.torch import TorchEngine, compared_columns, engine, flat_trees  # noqa: E402
from bitvec.runtime.predict.torch.hard_columns import HardColumns  # noqa: E402

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


@given(st.data(), st.integers(1, 5), st.integers(1, 3))
def test_every_block_and_narrowing_leads_to_the_exit_leaf(data, block, levels):
    forest = data.draw(forests(**PLAIN))
    X = data.draw(rows(forest))
    expected = reference.exit_leaves(forest, X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "ROWS", block)
        patch.setattr(flat_trees, "LEVELS", levels)
        assert np.array_equal(TorchEngine(forest, form="levels").exit_leaves(X), expected)


@settings(max_examples=20)
@given(forests(max_leaves=20))
def test_compared_columns_hold_every_node(forest):
    found = compared_columns.lay_out(forest)
    V = HardColumns(forest, found)(torch.zeros((3, forest.n_features), dtype=found_dtype(forest)))
    assert V.shape == (3, found.n_compared)
    assert found.node_column.max(initial=0) < max(1, found.n_compared)


def found_dtype(forest):
    return {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}[forest.dtype]


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 40, 300])
def test_chains_are_narrowed_to_the_rows_that_still_move(depth):
    forest = chains(depth, 4)
    X = np.random.default_rng(1).normal(size=(2000, 1)).astype(np.float32)
    X[::9] = np.nan
    X[1::9] = np.inf
    X[2::9] = -np.inf
    assert np.array_equal(TorchEngine(forest).exit_leaves(X), reference.exit_leaves(forest, X))
