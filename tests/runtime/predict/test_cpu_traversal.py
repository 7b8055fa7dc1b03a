"""The kernels that walk trees are the reference, bit for bit, each of them forced."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, KERNEL, SET, forests, rows

from bitvec.core import reference, structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, MissingRule, axis_aligned, set_bits
from bitvec.core.output import Aggregate, Output
from bitvec.runtime.predict.cpu.engine import NumbaEngine
from bitvec.runtime.predict.cpu.traversal import deep, keyed, mixed, single

KEYED = (AXIS, SET, EQUAL, KERNEL)
SUMS = (Aggregate.SUM, Aggregate.MEAN)


def quiet_raw(forest, X):
    with warnings.catch_warnings():  # NumPy remarks on the infinities that rows hold on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        return reference.raw(forest, X)


def exits_of(packed, X):
    exits = np.full((len(X), packed.forest.n_trees), -7, np.int32)
    packed.exit_leaves(X, exits)
    return exits


def raw_of(packed, X):
    forest, output = packed.forest, packed.forest.output
    total = np.zeros((len(X), output.n_outputs), output.dtype)
    if output.base_first:
        total[:] = output.base_score
    packed.add_leaves(X, total)
    return output.finish(total, forest.n_trees)


def few_rows(forest):
    return NumbaEngine(forest, kernel="onerow")


def same_bits(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    both_nan = np.isnan(a) & np.isnan(b)
    return bool(np.all((a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | both_nan))


def check(module, forest, X):
    assert module.unsupported_reason(forest) is None
    packed = module.pack(forest)
    for same in (X, np.asfortranarray(X), np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]):
        assert np.array_equal(exits_of(packed, same), reference.exit_leaves(forest, X))
        if forest.output.aggregate in SUMS and forest.leaves.linear is None:
            assert same_bits(raw_of(packed, same), quiet_raw(forest, X))
    return packed


def with_rows(options):
    """Forests with rows in the forest's dtype or in the other one."""
    return forests(**options).flatmap(
        lambda forest: st.tuples(
            st.just(forest), rows(forest, max_rows=40), st.sampled_from([np.float32, np.float64])
        )
    )


def cast(X, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return X.astype(dtype)


# ---- one kernel is the reference


@given(with_rows({"kinds": KEYED, "linear": False, "aggregates": SUMS}))
def test_deep_is_the_reference_bit_for_bit(drawn):
    forest, X, dtype = drawn
    check(deep, forest, cast(X, dtype))


@given(with_rows({}))
def test_mixed_is_the_reference_bit_for_bit(drawn):
    forest, X, dtype = drawn
    check(mixed, forest, cast(X, dtype))


@given(with_rows({"kinds": (AXIS, KERNEL), "missing_rules": (MissingRule.NAN,), "linear": False}))
def test_single_is_the_reference_bit_for_bit(drawn):
    forest, X, dtype = drawn
    if forest.n_nodes:
        check(single, forest, cast(X, dtype))


# ---- forms that drawn forests are too small for


def random_forest(sizes, n_features=7, width=3, n_values=None, dtype=np.float32, seed=0, **output):
    """Random trees of these numbers of leaves, with thresholds on a grid that rows share."""
    rng = np.random.default_rng(seed)
    left, right, roots, named = [], [], [], 0
    for n_leaves in sizes:
        if n_leaves == 1:
            roots.append(~named)
        else:
            roots.append(len(left))
            base = len(left)
            left += [0] * (n_leaves - 1)
            right += [0] * (n_leaves - 1)
            todo, made = [(base, 0, n_leaves)], base + 1
            while todo:
                node, lo, hi = todo.pop()
                cut = int(rng.integers(lo + 1, hi))
                for side, first, last in ((left, lo, cut), (right, cut, hi)):
                    if last - first == 1:
                        side[node] = ~(named + first)
                    else:
                        side[node] = made
                        todo.append((made, first, last))
                        made += 1
        named += n_leaves
    B = structure.from_children(np.array(left, int), np.array(right, int), np.array(roots))
    v = rng.normal(size=(B.n_leaves, width)).astype(dtype)
    if n_values:
        v = v[rng.integers(0, n_values, B.n_leaves)]
    return Forest(
        tests=axis_aligned(
            rng.integers(0, n_features, B.n_nodes),
            (rng.integers(-40, 41, B.n_nodes) / 4).astype(dtype),
            relation=rng.integers(0, 2, B.n_nodes),
            missing_right=rng.random(B.n_nodes) < 0.5,
        ),
        bitvectors=B,
        leaves=Leaves(v),
        output=Output(width, np.dtype(dtype), **output),
        inputs=Inputs(n_features),
    )


def random_rows(forest, n_rows, seed=1):
    rng = np.random.default_rng(seed)
    X = (rng.integers(-41, 42, (n_rows, forest.n_features)) / 4).astype(forest.dtype)
    for value, share in ((np.nan, 0.1), (-np.nan, 0.05), (np.inf, 0.02), (-np.inf, 0.02)):
        X[rng.random(X.shape) < share] = value
    return X


def check_exits(packed, X):
    """Like `check`, against the literal traversal, which does for large trees."""
    forest = packed.forest
    walked = reference.exit_leaf_traversal(forest, X)
    assert np.array_equal(exits_of(packed, X), walked)
    assert same_bits(raw_of(packed, X), reference.accumulate(forest, X, walked))


@pytest.mark.parametrize("module", [deep, mixed])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 15, 16, 17, 500, 9000])
def test_every_number_of_rows_is_the_reference(module, dtype, n_rows):
    forest = random_forest([1, 40, 1, 3000, 2], dtype=dtype)
    check_exits(module.pack(forest), random_rows(forest, n_rows))


@pytest.mark.parametrize("n_rows", [1, 15, 16, 17, 300])
def test_every_number_of_rows_is_the_reference_of_single(n_rows):
    forest = random_forest([1, 1000, 2])
    check_exits(single.pack(forest), random_rows(forest, n_rows))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("forest_dtype", [np.float32, np.float64])
def test_single_tells_nan_from_infinities_at_infinite_thresholds(forest_dtype, dtype):
    # Some tests are passed by all values but NaN, or by none, one below the other.
    forest = random_forest([1, 9, 300], n_features=3, dtype=forest_dtype)
    rng, n = np.random.default_rng(0), forest.n_nodes
    for share in (0.0, 0.5, 1.0):
        tests = axis_aligned(
            forest.tests.feature,
            rng.choice(np.array([-np.inf, np.inf, 0.0], forest_dtype), n, p=[0.3, 0.3, 0.4]),
            relation=rng.integers(0, 2, n),
            missing_right=rng.random(n) < share,
        )
        values = [np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).max, -1e-44]
        X = rng.choice(np.array(values, dtype), (400, 3))
        check(single, replace(forest, tests=tests), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_names_columns_of_wide_rows(dtype):
    forest = random_forest([9000], n_features=1 << 18, dtype=np.float32)
    assert (1 << 18) * 2 * 9000 > 1 << 32  # no link of 32 bits holds a column and a position
    X = np.random.default_rng(0).normal(size=(20, 1 << 18)).astype(dtype)
    check_exits(single.pack(forest), X)


@pytest.mark.parametrize("n_values", [None, 3, 1500])
@pytest.mark.parametrize("width", [1, 4])
def test_shared_and_own_leaf_vectors_add_up_as_in_the_reference(n_values, width):
    forest = random_forest([2000, 1, 2500], width=width, n_values=n_values)
    packed = deep.pack(forest)
    X = random_rows(forest, 200)
    check_exits(packed, X)
    few = np.ascontiguousarray(X[:9])
    assert same_bits(few_rows(forest).raw(few), quiet_raw(forest, few))


@pytest.mark.parametrize("zeros", [0.0, 0.4, 0.95])
@pytest.mark.parametrize("base", [-0.0, 0.0])
def test_zeros_of_both_signs_in_leaf_vectors_add_up_as_in_the_reference(zeros, base):
    forest = random_forest([30, 40, 1, 9], width=12)
    rng = np.random.default_rng(0)
    v = forest.leaves.v.copy()
    v[rng.random(v.shape) < zeros] = 0.0
    v[rng.random(v.shape) < zeros / 2] = -0.0
    output = Output(
        12,
        np.dtype(np.float32),
        base_first=True,
        base_score=np.full(12, base, np.float32),
        tree_weight=np.array([1, -2, 0, 0.1], np.float32),
    )
    forest = replace(forest, leaves=Leaves(v), output=output)
    X = np.ascontiguousarray(random_rows(forest, 40))
    for module in (deep, mixed):
        check_exits(module.pack(forest), X)
    assert same_bits(few_rows(forest).raw(X), quiet_raw(forest, X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_more_key_columns_than_a_short_link_can_name_take_a_wide_one(dtype):
    forest = random_forest([4000], n_features=1500, dtype=dtype)
    packed = deep.pack(forest)
    X = random_rows(forest, 50)
    check_exits(packed, X)
    assert not packed.trees(X.dtype).is_narrow
    few = np.ascontiguousarray(X[:3])
    assert same_bits(few_rows(forest).raw(few), quiet_raw(forest, few))


@pytest.mark.full
def test_a_chain_of_a_hundred_thousand_nodes_needs_no_stack():
    n = 100_000
    B = structure.from_children(~np.arange(n), np.append(np.arange(1, n), ~n), np.array([0]))
    forest = Forest(
        axis_aligned(np.zeros(n), np.arange(n, dtype=np.float64)),
        B,
        Leaves(np.arange(n + 1.0)[:, None]),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )
    X = np.array([[0.0], [0.5], [n / 2], [n - 1.0], [np.inf], [np.nan]])
    expected = [0, 1, n / 2, n - 1, n, 0]
    for module in (deep, single, mixed):
        packed = module.pack(forest)
        assert exits_of(packed, X).ravel().tolist() == expected
        assert raw_of(packed, X).ravel().tolist() == expected
    assert few_rows(forest).raw(X).ravel().tolist() == expected


def test_sums_run_in_tree_order_in_float32():
    # 2**24 + 1 - 2**24 is 0 in float32 in this order, and 1 in any wider type.
    v = np.array([2.0**24, 1.0, -(2.0**24)], np.float32)[:, None]
    B = structure.from_children(np.zeros(0, int), np.zeros(0, int), np.array([~0, ~1, ~2]))
    output = Output(1, np.dtype(np.float32))
    none = axis_aligned([], np.zeros(0, np.float32))
    forest = Forest(none, B, Leaves(v), output, Inputs(2))
    X = np.zeros((1, 2), np.float32)
    for module in (deep, mixed):
        assert raw_of(module.pack(forest), X).tolist() == [[0.0]]
    assert few_rows(forest).raw(X).tolist() == [[0.0]]


def test_a_forest_without_trees_answers_its_base_score():
    B = structure.Bitvectors(*[np.zeros(0, np.int32)] * 3, np.zeros(1, np.int64))
    base = np.array([1.0, 2.0])
    output = Output(2, np.dtype(np.float64), base_score=base, aggregate=Aggregate.MEAN)
    forest = Forest(axis_aligned([], np.zeros(0)), B, Leaves(np.zeros((0, 2))), output, Inputs(0))
    X = np.zeros((3, 0))
    for module in (deep, mixed):
        assert exits_of(module.pack(forest), X).shape == (3, 0)
        assert raw_of(module.pack(forest), X).tolist() == [[1.0, 2.0]] * 3
    assert few_rows(forest).raw(X).tolist() == [[1.0, 2.0]] * 3


# ---- memory, refusals, copies


def test_a_deep_forest_of_few_leaf_vectors_takes_at_most_12_bytes_a_node():
    forest = random_forest([5000] * 4, width=10, n_values=10)
    packed = deep.pack(forest)
    packed.trees(np.dtype(np.float32))
    assert packed.packed_bytes <= 12 * (forest.n_nodes + forest.n_leaves)


def test_siblings_lie_in_one_cache_line_and_leaves_in_their_trees():
    forest = random_forest([64, 1, 900])
    nodes = deep.pack(forest).trees(np.dtype(np.float32)).nodes
    assert nodes.__array_interface__["data"][0] % 64 == 0
    links = (nodes >> np.uint64(42)).astype(int)
    own = np.arange(nodes.size) - np.repeat(2 * forest.bitvectors.leaf_ptr[:-1], [128, 2, 1800])
    assert np.all((links % 2 == 0) | (links == own)), "pairs begin at even positions"


def test_too_many_distinct_sets_are_left_to_mixed():
    n = keyed.DERIVED + 1
    B = structure.from_children(~np.arange(n), np.append(np.arange(1, n), ~n), np.array([0]))
    ptr, words = set_bits([np.array([code]) for code in range(n)])
    tests = axis_aligned(
        np.zeros(n), np.zeros(n, np.float32), kind=Kind.SET, set_ptr=ptr, set_words=words
    )
    leaves = Leaves(np.arange(n + 1, dtype=np.float32)[:, None])
    forest = Forest(tests, B, leaves, Output(1, np.dtype(np.float32)), Inputs(1))
    assert "sets" in deep.unsupported_reason(forest)
    X = np.array([[0.0], [3.0], [n - 1], [n]], np.float32)
    check(mixed, forest, X)


def test_nodes_that_read_several_columns_are_refused():
    oblique = Forest.from_matrices([[1, 1]], [0.5], [[0], [1]], [10, 20])
    for module in (deep, single):
        assert "column" in module.unsupported_reason(oblique)
    assert mixed.unsupported_reason(oblique) is None


@pytest.mark.parametrize("module", [deep, single, mixed])
def test_a_copy_answers_the_same(module):
    forest = random_forest([70, 30])
    X = random_rows(forest, 20)
    packed = module.pack(forest)
    assert same_bits(raw_of(copy.deepcopy(packed), X), raw_of(packed, X))
