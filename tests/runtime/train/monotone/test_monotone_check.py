"""The exact check of monotone trees: the same verdict as all rows of a grid give."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SENTINEL, bitvectors, examples

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, MissingRule, Relation, axis_aligned, set_bits
from bitvec.core.output import Output
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.train.monotone import (
    Monotone,
    leaf_order,
    monotone_check,
    monotone_constraints,
)
from bitvec.runtime.train.monotone.monotone_check import trees_out_of_order

HALVES = np.concatenate([[-np.inf], np.arange(-2.5, 3, 0.5), [np.inf]])
"""On and between all thresholds, and beyond them."""


@st.composite
def small_forests(draw: st.DrawFn) -> Forest:
    """Forests of two numbers and a category, of whole thresholds, and leaves of few values."""
    B = draw(bitvectors(max_trees=2, max_leaves=8))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = B.n_nodes
    column = random.choice(3, n, p=[0.5, 0.3, 0.2])
    is_set = column == 2
    words = [np.flatnonzero(random.random(4) < 0.5) if one else [] for one in is_set]
    ptr, bits = set_bits(words)
    rule = draw(st.sampled_from(list(MissingRule)))
    tests = axis_aligned(
        column,
        random.integers(-2, 3, n).astype(np.float32),
        kind=np.where(is_set, Kind.SET, Kind.MARGIN),
        relation=random.choice([int(one) for one in Relation], n),
        missing_right=random.random(n) < 0.5,
        missing_rule=np.where(is_set, MissingRule.NAN, rule),
        other_right=is_set & (random.random(n) < 0.5),
        set_ptr=ptr,
        set_words=bits,
    )
    most = draw(st.integers(1, 3))
    weight = random.choice([-1.0, 2.0], B.n_trees) if draw(st.booleans()) else None
    return Forest(
        tests,
        B,
        Leaves(random.integers(0, most + 1, (B.n_leaves, 1)).astype(np.float64)),
        Output(1, np.dtype(np.float64), tree_weight=weight),
        Inputs(3, missing_sentinel=SENTINEL),
    )


def falls_on_a_grid(forest: Forest, sign: int) -> list[bool]:
    """Return which trees fall along the first column, by their answers to all rows of a grid."""
    rules = set(forest.tests.missing_rule[forest.tests.feature == 0].tolist())
    first = HALVES[HALVES != 0] if MissingRule.NAN_OR_ZERO in rules else HALVES
    second = [*HALVES, np.nan, SENTINEL]
    third = [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 40.0, 0.5, np.nan]
    rows = np.array(list(product(second, third, first)), np.float32)[:, [2, 0, 1]]
    falls = []
    for tree in range(forest.n_trees):
        part = forest.take(np.array([tree]))
        raw = reference.accumulate(part, rows, reference.exit_leaves(part, rows))
        lines = raw[:, 0].reshape(-1, len(first))
        falls.append(bool(np.any(sign * np.diff(lines, axis=1) < 0)))
    return falls


SIGNS = st.sampled_from([1, -1])
SIZES = st.sampled_from([0, leaf_order.MOST_LEAVES])
"""Leaves from which trees count as large, all of them or none."""


@given(small_forests(), SIGNS, SIZES)
@examples(40)
def test_the_verdict_is_that_of_all_rows(forest: Forest, sign: int, most: int) -> None:
    signs = np.array([sign, 0, 0], np.int8)
    with patch.object(monotone_check, "MOST_LEAVES", most):
        assert trees_out_of_order(forest, signs).tolist() == falls_on_a_grid(forest, sign)


@given(small_forests(), SIGNS, SIZES)
@examples(25)
def test_a_cut_forest_falls_nowhere_and_a_monotone_tree_is_not_cut(
    forest: Forest, sign: int, most: int
) -> None:
    keeps = Monotone(np.array([sign, 0, 0], np.int8))
    with patch.object(monotone_constraints, "MOST_LEAVES", most):
        kept = keeps.kept(forest)
    assert keeps.holds(kept)
    assert not any(falls_on_a_grid(kept, sign))
    assert keeps.kept(kept) is kept
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.bitvectors.leaf_ptr))
    fine = ~np.array(falls_on_a_grid(forest, sign))[tree]
    assert np.array_equal(kept.leaves.v[fine], forest.leaves.v[fine])


def test_leaves_that_no_row_tells_apart_by_the_column_alone_may_differ() -> None:
    # Right of the root, by the second column: 5 and 6; left of it 0 and 1, then 5 is not above 6.
    S = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    B = [[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]
    tree = Forest.from_matrices(S, [0.0, 0.0, 0.0], B, [0.0, 5.0, 1.0, 6.0])
    rising = np.array([1, 0], np.int8)
    assert not trees_out_of_order(tree, rising).any()  # though 5, on the left, is above 1
    assert Monotone(rising).kept(tree) is tree


@pytest.mark.parametrize("kind", [Kind.SET, Kind.EQUAL])
def test_a_test_that_is_no_threshold_is_refused(kind: Kind) -> None:
    ptr, words = set_bits([np.array([1, 2])])
    forest = Forest(
        axis_aligned([0], np.zeros(1), kind=kind, set_ptr=ptr, set_words=words),
        Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0.0, 1.0]).bitvectors,
        Leaves(np.array([[0.0], [1.0]])),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )
    with pytest.raises(UnsupportedModelError, match="that column alone with a threshold"):
        trees_out_of_order(forest, np.array([1], np.int8))
