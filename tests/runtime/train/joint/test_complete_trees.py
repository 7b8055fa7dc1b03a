"""Complete trees: padded forests answer as the forests, on thresholds and beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, forests, rows

from bitvec.core import matrices, reference, structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import MissingRule, Relation, axis_aligned
from bitvec.core.output import Output
from bitvec.errors import InvalidForestError, UnsupportedModelError

pytest.importorskip("torch")

from bitvec.runtime.train.joint.complete_trees import (
    CompleteTrees,
    complete_bitvectors,
    completed,
    unsupported_reason,
)

DEPTH = 8


def drawn(n_trees=3, depth=3, n_features=4, n_outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    n_nodes, n_leaves = n_trees * ((1 << depth) - 1), n_trees << depth
    return CompleteTrees(
        n_trees,
        rng.normal(size=(n_nodes, n_features)),
        rng.normal(size=n_nodes),
        rng.normal(size=(n_leaves, n_outputs)),
        rng.normal(size=n_outputs),
    )


def plain(trees: CompleteTrees) -> Forest:
    output = Output(trees.v.shape[1], np.dtype(np.float64))
    return trees.to_forest(output, Inputs(trees.S.shape[1]))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_bitvectors_are_those_of_heaps(depth):
    n = (1 << depth) - 1
    number = np.arange(2 * n + 1)
    left, right = (np.where(number < n, 2 * number + side, -1) for side in (1, 2))
    B = structure.arrange(left, right, [0])[0]
    made = complete_bitvectors(2, depth)
    assert np.array_equal(matrices.dense(made.tree(1)), matrices.dense(B))


@given(st.data())
def test_a_completed_forest_answers_as_the_forest(data):
    forest = data.draw(
        forests(kinds=(AXIS,), max_leaves=20, linear=False, missing_rules=(MissingRule.NAN,))
    )
    X = data.draw(rows(forest, finite=True)).astype(np.float64)
    reason = unsupported_reason(forest, DEPTH)
    if reason is not None:
        with pytest.raises(UnsupportedModelError, match="must have"):
            completed(forest, DEPTH, X)
        return
    trees = completed(forest, DEPTH, X)
    again = plain(trees)
    assert again.n_leaves == forest.n_trees << DEPTH
    own, other = (reference.exit_leaves(one, X.astype(one.dtype)) for one in (forest, again))
    scores = [reference.raw(one, X.astype(one.dtype)) for one in (forest, again)]
    # The sums of a forest of float32 are rounded to 2 ** -24 of their largest part.
    assert np.allclose(*scores, rtol=1e-5, atol=1e-5)
    # A leaf of the forest is a run of equal leaves.
    B, width = forest.bitvectors, np.zeros(forest.n_leaves, np.int64)
    for tree in range(forest.n_trees):
        leaves = np.arange(B.leaf_ptr[tree], B.leaf_ptr[tree + 1])
        width[leaves] = 1 << (DEPTH - matrices.ternary(B.tree(tree)).astype(bool).sum(axis=1))
        stop = np.cumsum(width[leaves])
        found = np.searchsorted(stop, other[:, tree], side="right")
        assert np.array_equal(found, own[:, tree])


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_on_a_threshold_go_where_the_forest_sends_them(relation, dtype):

    value = dtype(0.1)
    stump = Forest.from_matrices([[1, 0]], [0.0], [[0], [1]], [10, 20])
    stump = replace(stump, tests=axis_aligned([0], np.array([value]), relation=relation))
    near = [np.nextafter(value, dtype(side)) for side in (-1, 1)]
    X = np.array([[value, 0], [near[0], 0], [near[1], 0]], dtype)
    expected = reference.raw(stump, X)
    got = reference.raw(plain(completed(stump, 2, X.astype(np.float64))), X)
    assert np.array_equal(got, expected)


def test_trees_that_are_too_deep_or_have_other_tests_are_refused():
    chain = structure.from_children([~0, ~1, ~2], [1, 2, ~3], [0])
    forest = plain(drawn(1, 2))

    deep = replace(forest, bitvectors=chain)
    with pytest.raises(UnsupportedModelError, match=r"depth 2 must have trees of at most 2 .* 3"):
        completed(deep, 2, np.zeros((1, 4)))
    assert unsupported_reason(deep, 3) is None


def test_arrays_that_fit_no_complete_trees_are_refused():
    with pytest.raises(InvalidForestError, match="power of 2"):
        CompleteTrees(1, np.zeros((2, 1)), np.zeros(2), np.zeros((3, 1)), np.zeros(1))
