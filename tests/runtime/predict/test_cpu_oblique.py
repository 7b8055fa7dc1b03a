"""Margin binned columns and paths decide every node as the reference does, bit for bit."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from numba import njit
from oblique_forests import hostile_rows, oblique, rows_at_thresholds
from strategies import AXIS, OBLIQUE, POLYTOPE, forests_with_rows

from bitvec.core import reference, structure
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate
from bitvec.runtime.predict.cpu import choice
from bitvec.runtime.predict.cpu.bins import oblique_bins
from bitvec.runtime.predict.cpu.bins.binners import BinnedColumns
from bitvec.runtime.predict.cpu.bitvector.chain import Chain
from bitvec.runtime.predict.cpu.kernel_arrays import address_of
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.oblique import polytopes
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.traversal import paths

DTYPES = (np.float32, np.float64)
SUMS = (Aggregate.SUM, Aggregate.MEAN)


def quietly(function, *arguments):
    with warnings.catch_warnings():  # NumPy remarks on the infinities that rows hold on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*arguments)


def outcomes(forest, X, first_column=0, room=128):
    """Return h of all nodes, from binned columns with others on both sides."""
    node = np.arange(forest.n_nodes)
    bin_column, least, n_binned, binner = oblique_bins.bin_oblique(forest, node, first_column)
    every = first_column + n_binned + 2
    n_blocks = -(-len(X) // room)
    binned = np.full(n_blocks * every * room, 7, np.uint8)
    binner.fill(X, address_of(binned), every, room)
    by_block = binned.reshape(n_blocks, every, room)
    assert np.all(by_block[:, :first_column] == 7)
    assert np.all(by_block[:, first_column + n_binned :] == 7)
    byte = by_block[:, bin_column].transpose(0, 2, 1).reshape(n_blocks * room, -1)
    assert byte[: len(X)].max(initial=0) <= 1
    return byte[: len(X)] >= least


def expected(forest, X):
    return quietly(reference.hard_tests, forest, quietly(reference.columns, forest, X))


def on_bins(forest):
    bin_column, least, n_binned, binner = oblique_bins.bin_oblique(
        forest, np.arange(forest.n_nodes), 0
    )
    return Chain(forest, BinnedColumns(bin_column, least, n_binned, (binner,)))


# ---- binned columns are the reference's outcomes


@given(forests_with_rows(kinds=(OBLIQUE, POLYTOPE, AXIS)))
def test_bins_hold_the_outcomes_of_all_oblique_tests(drawn):
    forest, X = drawn
    assert np.array_equal(outcomes(forest, X, first_column=3), expected(forest, X))


@given(forests_with_rows(kinds=(OBLIQUE, POLYTOPE), aggregates=SUMS, linear=False))
def test_chains_on_oblique_bins_reach_the_leaves_of_the_reference(drawn):
    forest, X = drawn
    if leaf_tables.unsupported_reason(forest) is not None:
        return
    exits = np.empty((len(X), forest.n_trees), np.int32)
    on_bins(forest).exit_leaves(X, exits)
    assert np.array_equal(exits, quietly(reference.exit_leaves, forest, X))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 5, 15, 16, 17, 21, 40])
def test_any_number_of_columns_and_rows_gives_the_outcomes_of_the_reference(dtype, n_features):
    forest = oblique(3, 3, n_features, dtype, exact=True)
    for n_rows in (1, 7, 15, 16, 33, 64, 65, 130, 300):
        X = hostile_rows(forest, n_rows)
        assert np.array_equal(outcomes(forest, X, room=128), expected(forest, X))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("per_node", [None, 3])
def test_margins_within_units_in_the_last_place_of_b_go_the_way_of_the_reference(dtype, per_node):
    forest = oblique(4, 4, 12, dtype, per_node=per_node)
    X = rows_at_thresholds(forest, 400)
    h = expected(forest, X)
    assert np.array_equal(outcomes(forest, X), h)
    # The rows do what they are for: a sum in another order decides some of them otherwise.
    z = X @ forest.rows.toarray().T
    greater = np.where(forest.tests.relation == 0, z > forest.tests.b, z >= forest.tests.b)
    assert np.any(greater != h)


@pytest.mark.parametrize("dtype", DTYPES)
def test_polytopes_near_b_are_decided_as_in_the_reference(dtype):
    forest = oblique(2, 4, 6, dtype, rows=3)
    X = hostile_rows(forest, 200)
    Z = quietly(reference.columns, forest, X)
    row, node = np.divmod(np.arange(len(X) * forest.n_nodes), forest.n_nodes)
    z, _ = quietly(reference.margins, forest.tests, Z, row, node)
    z = z.reshape(len(X), -1)
    for shift in (-2, -1, 0, 1, 2):
        b = z[np.arange(forest.n_nodes) * 3 % len(X), np.arange(forest.n_nodes)].copy()
        b[~np.isfinite(b)] = 0
        for _ in range(abs(shift)):
            b = np.nextafter(b, dtype(np.copysign(np.inf, shift)))
        near = replace(forest, tests=replace(forest.tests, b=b))
        assert np.array_equal(outcomes(near, X), expected(near, X))


def layouts(X):
    """Return the same rows in memory in other ways."""
    wide = np.zeros((2 * len(X), 3 * X.shape[1]), X.dtype)
    wide[::2, ::3] = X
    return {
        "C": X,
        "F": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
    }


@pytest.mark.parametrize(
    "layout",
    ["C", "strided", *(pytest.param(o, marks=pytest.mark.full) for o in ("F", "backwards"))],
)
@pytest.mark.parametrize("x_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_and_dtype_of_rows_is_read_as_cast_first(dtype, x_dtype, layout):
    forest = oblique(2, 4, 19, dtype)
    with np.errstate(over="ignore"):
        X = hostile_rows(forest, 150).astype(x_dtype)
    X[0] = 1e300 if x_dtype is np.float64 else 3e38
    X[1:40] += x_dtype(1e-9)
    X = layouts(X)[layout]
    assert np.array_equal(outcomes(forest, X), expected(forest, X))
    check_paths(forest, X)


def test_equal_tests_share_a_binned_column_and_others_do_not():
    forest = oblique(1, 3, 4, np.float32, exact=True)
    twice = forest.take([0, 0])
    bin_column, _, n_binned, _ = oblique_bins.bin_oblique(twice, np.arange(twice.n_nodes), 5)
    assert n_binned == forest.n_nodes
    assert sorted(set(bin_column.tolist())) == list(range(5, 5 + n_binned))
    assert np.array_equal(bin_column[: forest.n_nodes], bin_column[forest.n_nodes :])
    tests = twice.tests
    for change in (
        {"b": tests.b + np.arange(tests.n_nodes, dtype=np.float32)},
        {"missing_right": ~tests.missing_right & (np.arange(tests.n_nodes) >= forest.n_nodes)},
        {"weight": tests.weight + np.arange(tests.weight.size, dtype=np.float32)},
        {"offset": np.arange(tests.n_rows, dtype=np.float32)},
    ):
        changed = replace(twice, tests=replace(tests, **change))
        X = hostile_rows(changed, 50)
        assert np.array_equal(outcomes(changed, X), expected(changed, X))
        more = oblique_bins.bin_oblique(changed, np.arange(changed.n_nodes), 0)[2]
        assert more > n_binned


def test_softplus_tails_err_less_than_the_bound_says():
    tail = njit(error_model="numpy")(polytopes.tail.py_func)
    for dtype in DTYPES:
        u = np.concatenate([np.linspace(0, 30, 30_001), np.geomspace(1e-30, 1e30, 2000)])
        got = np.array([tail(x, dtype) for x in u.astype(dtype)], np.float64)
        error = np.abs(got - np.log1p(np.exp(-u.astype(dtype).astype(np.float64))))
        assert error.max() < polytopes.ERROR / 2
        assert np.isnan(tail(dtype(np.nan), dtype))


# ---- paths are the reference


@given(forests_with_rows(kinds=(OBLIQUE, AXIS), aggregates=SUMS, linear=False))
def test_paths_reach_the_leaves_of_the_reference_where_they_are_not_refused(drawn):
    forest, X = drawn
    if paths.unsupported_reason(forest) is not None:
        return
    check_paths(forest, X)


def check_paths(forest, X):
    if vectors() == "none":
        return
    kernel = paths.pack(forest)
    exits = np.empty((len(X), forest.n_trees), np.int32)
    kernel.exit_leaves(X, exits)
    want = quietly(reference.exit_leaves, forest, X)
    assert np.array_equal(exits, want)
    total = np.zeros((len(X), forest.n_outputs), forest.output.dtype)
    sums = total.copy()
    kernel.add_leaves(X, total)
    leaf = want + forest.bitvectors.leaf_ptr[:-1]
    for tree in range(forest.n_trees):
        v = forest.leaves.v[leaf[:, tree]].astype(sums.dtype)
        if forest.output.tree_weight is not None:
            v = forest.output.tree_weight[tree] * v
        if forest.leaves.output is None:
            sums += v
        else:
            sums[np.arange(len(X)), forest.leaves.output[leaf[:, tree]]] += v[:, 0]
    assert np.array_equal(total, sums)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_trees", [1, 5, 40])
@pytest.mark.parametrize("n_features", [1, 4, 7, 16, 19, 33])
def test_paths_of_every_batch_and_width_are_the_reference(dtype, n_trees, n_features):
    forest = oblique(n_trees, 3, n_features, dtype, exact=True)
    for n_rows in (1, 2, 5, 16, 50):
        check_paths(forest, hostile_rows(forest, n_rows))


@pytest.mark.parametrize("dtype", DTYPES)
def test_paths_near_thresholds_are_the_reference(dtype):
    forest = oblique(4, 6, 30, dtype)
    check_paths(forest, rows_at_thresholds(forest, 300))


def test_paths_walk_chains_and_single_leaves():
    left = np.array([1, 2, ~0, ~4])
    right = np.array([~3, ~2, ~1, ~5])
    B = structure.from_children(left, right, np.array([0, ~6, 3]))
    model = oblique(1, 3, 5, np.float32, exact=True)
    forest = replace(
        model,
        tests=model.tests.take(np.arange(4)),
        bitvectors=B,
        leaves=Leaves(np.arange(14, dtype=np.float32).reshape(7, 2)),
    )
    for n_rows in (1, 3, 20):
        check_paths(forest, hostile_rows(forest, n_rows))


@pytest.mark.skipif(vectors() == "none", reason="paths needs vectors")
def test_paths_refuse_what_they_cannot_hold():
    assert "activation" in paths.unsupported_reason(oblique(1, 2, 3, np.float32, rows=2))
    leaf = oblique(1, 1, 3, np.float32)
    assert "no nodes" in paths.unsupported_reason(
        replace(
            leaf,
            tests=leaf.tests.take(np.zeros(0, np.int64)),
            bitvectors=structure.from_children(np.zeros(0, int), np.zeros(0, int), np.array([~0])),
            leaves=Leaves(np.zeros((1, 2), np.float32)),
        )
    )


def test_the_rule_takes_all_nodes_of_small_trees_and_paths_of_deep_ones():
    small = choice.choose(oblique(10, 3, 20, np.float32))
    assert small.name in ("perfect", "chain")
    assert "cycles a row" in small.why
    deep = choice.choose(oblique(2, 10, 20, np.float32))
    assert deep.name == ("paths" if vectors() != "none" else "mixed")
