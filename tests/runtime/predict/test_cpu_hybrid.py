"""The hybrid kernel is the reference, bit for bit, for trees of every depth that it holds."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from bitvec.core import reference, structure, tree_paths
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, axis_aligned, set_bits
from bitvec.core.output import Output
from bitvec.errors import InputError
from bitvec.runtime.predict.cpu import choice
from bitvec.runtime.predict.cpu.bitvector import hybrid
from bitvec.runtime.predict.cpu.engine import NumbaEngine
from bitvec.runtime.predict.cpu.target import vectors

N_FEATURES = 6
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]

pytestmark = pytest.mark.skipif(vectors() == "none", reason="explicit vectors are turned off")


def forest_of(depths, dtype=DTYPES[0], n_outputs=1, cut=0.0, sets=0.0, seed=0):
    """Trees of some depths; below the first level of a tree, some nodes are leaves where `cut`."""
    rng = np.random.default_rng(seed)
    left, right = [], []
    n_leaves = 0

    def grow(depth):
        nonlocal n_leaves
        if depth == 0 or (left and rng.random() < cut):
            n_leaves += 1
            return ~(n_leaves - 1)
        node = len(left)
        left.append(0)
        right.append(0)
        left[node], right[node] = grow(depth - 1), grow(depth - 1)
        return node

    roots = [grow(depth) for depth in depths]
    B = structure.from_children(np.array(left), np.array(right), np.array(roots))
    n = B.n_nodes
    is_set = rng.random(n) < sets
    codes = [np.flatnonzero(rng.random(9) < 0.5) if one else np.zeros(0, int) for one in is_set]
    set_ptr, set_words = set_bits(codes)
    tests = axis_aligned(
        rng.integers(0, N_FEATURES, n),
        np.where(is_set, 0, rng.integers(-300, 300, n) / 64).astype(dtype),
        kind=np.where(is_set, Kind.SET, rng.choice([Kind.MARGIN, Kind.EQUAL], n, p=[0.9, 0.1])),
        relation=rng.integers(0, 2, n) * ~is_set,
        missing_rule=rng.integers(0, 2, n),
        missing_right=rng.random(n) < 0.5,
        set_ptr=set_ptr,
        set_words=set_words,
    )
    tree_output = rng.integers(0, n_outputs, len(depths)).astype(np.int32)
    output = np.repeat(tree_output, np.diff(B.leaf_ptr))
    leaves = Leaves(rng.normal(size=(B.n_leaves, 1)), output if n_outputs > 1 else None)
    return Forest(tests, B, leaves, Output(n_outputs, dtype), Inputs(N_FEATURES))


def rows_of(forest, n_rows, seed=1):
    rng = np.random.default_rng(seed)
    X = (rng.integers(-310, 310, (n_rows, N_FEATURES)) / 64).astype(forest.dtype)
    X[: n_rows // 3] = np.trunc(X[: n_rows // 3])
    for value in (np.nan, np.inf, -np.inf, -0.0):
        X[rng.random(X.shape) < 0.04] = value
    return X


def check(forest, X):
    engine = NumbaEngine(forest, kernel="hybrid", n_jobs=1)
    with warnings.catch_warnings():  # NumPy remarks on the infinities that rows hold on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = reference.raw(forest, X)
    assert engine.raw(X).tobytes() == expected.tobytes()
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))


@pytest.mark.parametrize(
    "depth", [1, 7, 8, 9, *(pytest.param(d, marks=pytest.mark.full) for d in (10, 11, 12, 13))]
)
def test_trees_of_each_depth(depth):
    forest = forest_of([depth, 0, max(depth - 1, 0), depth], cut=0.1)
    assert tree_paths.leaf_depth(forest.bitvectors).max() == depth
    for n_rows in (1, 129, 700):
        check(forest, rows_of(forest, n_rows))


@pytest.mark.parametrize(
    ("dtype", "n_outputs", "sets"), [(DTYPES[0], 3, 0.0), (DTYPES[1], 1, 0.5), (DTYPES[1], 2, 0.1)]
)
def test_sums_of_either_dtype_of_several_outputs_and_sets(dtype, n_outputs, sets):
    forest = forest_of([9] * 7, dtype, n_outputs, cut=0.05, sets=sets)
    X = rows_of(forest, 300)
    check(forest, X)
    check(forest, np.asfortranarray(X))


def test_tall_boosting_runs_so():
    forest = forest_of([9] * 50)
    assert NumbaEngine(forest).info()["kernel"] == "hybrid"


def test_forests_that_it_does_not_hold():
    deep = forest_of([hybrid.MOST_DEPTH + 1])
    assert "deep" in hybrid.unsupported_reason(deep)
    sparse = forest_of([1] * 300 + [13], cut=0.1)
    assert "places" in hybrid.unsupported_reason(sparse)
    wide = forest_of([8])
    wide = replace(wide, leaves=Leaves(np.zeros((wide.n_leaves, 2))), output=Output(2, DTYPES[0]))
    assert "values" in hybrid.unsupported_reason(wide)
    with pytest.raises(InputError, match="hybrid cannot hold"):
        choice.require_kernel("hybrid", wide)
