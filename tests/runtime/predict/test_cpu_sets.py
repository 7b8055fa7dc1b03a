"""Binned columns of category sets are the reference's answers, in every form of looking sets up."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import AXIS, EQUAL, SENTINEL, SET, bitvectors, forests, rows

from bitvec import api
from bitvec.core import reference, structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, axis_aligned, set_bits
from bitvec.core.output import Aggregate, Output
from bitvec.runtime.predict.cpu.bins import set_bins
from bitvec.runtime.predict.cpu.bins.binners import BinnedColumns
from bitvec.runtime.predict.cpu.bins.threshold_bins import bin_thresholds
from bitvec.runtime.predict.cpu.bitvector import chain, perfect
from bitvec.runtime.predict.cpu.kernel_arrays import address_of
from bitvec.runtime.predict.cpu.leaves import leaf_tables

SUMS = (Aggregate.SUM, Aggregate.MEAN)
KERNELS = {"chain": (chain, chain.Chain), "perfect": (perfect, perfect.Perfect)}
ALL = 1 << 16
"""More sets than any forest here has: each that several trees test has its own binned column."""

MIB = float(1 << 20)
ODD = [np.nan, -np.nan, -1, -0.5, -0.99, 0.99, -1e-40, 1e-40, 1e-36, -1e-36, 2e-35, 2.7, SENTINEL]
HUGE = [1e10, -1e10, 2.0**31 - 1, 2.0**31, 2.0**32, MIB, np.inf, -np.inf, -0.0, 0.0, 1, 2]
ENDS = [31, 32, 63, 64, 125, 126, 127, 128, 254, 255, 256, 509, 510, 511, 512, 513, 543, 544, 5000]
CODES = np.array([*ODD, *HUGE, *ENDS, 4999, 5001])
"""Values about which a set may be read wrongly, and those at the ends of tables."""


def binned_of(forest, most_shared=None):
    is_set = forest.tests.kind == Kind.SET
    bin_column, least = np.zeros(forest.n_nodes, np.int32), np.zeros(forest.n_nodes, np.uint8)
    others, sets = np.flatnonzero(~is_set), np.flatnonzero(is_set)
    bin_column[others], least[others], n_binned, bins = bin_thresholds(forest, others)
    bin_column[sets], least[sets], n_set_bins, binner = set_bins.bin_sets(
        forest, sets, n_binned, most_shared=most_shared
    )
    assert bin_column.max(initial=-1) < n_binned + n_set_bins
    return BinnedColumns(bin_column, least, n_binned + n_set_bins, (bins, binner))


def check(forest, X, kernels=tuple(KERNELS), shares=(0, ALL)):
    """Every kernel and form gives the reference's leaves and the bits of its sums."""
    if leaf_tables.unsupported_reason(forest) is not None:
        return
    exits = reference.exit_leaves(forest, X)
    with warnings.catch_warnings():  # NumPy remarks on the infinities that rows hold on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        raw = reference.raw(forest, X)
    for name in kernels:
        module, make = KERNELS[name]
        if module.unsupported_reason(forest) is not None:
            continue
        for most_shared in shares:
            packed = make(forest, binned_of(forest, most_shared))
            for same in (X, np.asfortranarray(X), X.repeat(2, 0).repeat(3, 1)[::-2, ::3][::-1]):
                found = np.full((len(X), forest.n_trees), -7, np.int32)
                packed.exit_leaves(same, found)
                assert np.array_equal(found, exits), (name, most_shared)
            total = np.zeros((len(X), forest.n_outputs), forest.output.dtype)
            if forest.output.base_first:
                total[:] = forest.output.base_score
            packed.add_leaves(X, total)
            finished = forest.output.finish(total, forest.n_trees)
            assert finished.dtype == raw.dtype
            assert np.array_equal(finished, raw, equal_nan=True), (name, most_shared)


def cast(X, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return X.astype(dtype)


def forest_of(B, tests, n_features):
    """A forest of these trees, whose leaves add numbers that show in what order they are added."""
    v = np.random.default_rng(0).normal(size=(B.n_leaves, 1))
    return Forest(
        tests=tests,
        bitvectors=B,
        leaves=Leaves(v),
        output=Output(1, np.dtype(np.float64), base_score=np.zeros(1)),
        inputs=Inputs(n_features, missing_sentinel=SENTINEL),
    )


def set_tests(rng, n_nodes, n_features, dtype, spans, n_distinct):
    """Set nodes that draw from a few distinct sets, with ranges of codes up to one of `spans`."""
    pool = []
    for _ in range(n_distinct):
        span = int(rng.choice(spans))
        size = int(rng.integers(0, min(span, 700) + 1))
        pool.append(np.append(rng.choice(span, size, replace=False), span - 1))
    which = rng.integers(0, n_distinct, n_nodes)
    ptr, words = set_bits([pool[k] for k in which])
    return axis_aligned(
        which % n_features,
        np.zeros(n_nodes, dtype),
        kind=Kind.SET,
        missing_rule=rng.choice(list(MissingRule), n_distinct)[which],
        missing_right=rng.random(n_nodes) < 0.5,
        code_rule=rng.choice(list(CodeRule), n_distinct)[which],
        other_right=rng.random(n_nodes) < 0.5,
        set_ptr=ptr,
        set_words=words,
    )


@st.composite
def set_forests(draw):
    B = draw(bitvectors(max_trees=6, max_leaves=9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    n_features = draw(st.integers(1, 3))
    spans = draw(st.lists(st.sampled_from([1, 32, 64, 126, 510, 511, 512, 544, 5000]), min_size=1))
    n_distinct = draw(st.integers(1, 12))
    tests = set_tests(rng, B.n_nodes, n_features, dtype, spans, n_distinct)
    return forest_of(B, tests, n_features)


def code_rows(forest, seed, n_rows):
    rng = np.random.default_rng(seed)
    X = rng.choice(CODES, (n_rows, forest.n_features))
    usual = rng.random(X.shape) < 0.5
    X[usual] = rng.integers(0, rng.choice([8, 130, 600, 5100]), int(usual.sum()))
    return X


def trees_of_one_set(n_nodes, n_trees=2):
    """A right-going chain of nodes, several times over."""
    left = ~(np.arange(n_trees * n_nodes) + np.repeat(np.arange(n_trees), n_nodes))
    right = np.arange(1, n_trees * n_nodes + 1)
    right[n_nodes - 1 :: n_nodes] = ~(np.arange(1, n_trees + 1) * (n_nodes + 1) - 1)
    return structure.arrange(left, right, np.arange(n_trees) * n_nodes)[0]


# ---- every set in every form is the reference


@given(
    forests(kinds=(SET, SET, AXIS, EQUAL), linear=False, aggregates=SUMS).flatmap(
        lambda forest: st.tuples(st.just(forest), rows(forest, max_rows=40))
    ),
    st.sampled_from([np.float32, np.float64]),
)
def test_sets_among_other_tests_are_the_reference_bit_for_bit(drawn, dtype):
    forest, X = drawn
    check(forest, cast(X, dtype))


@given(
    set_forests(),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 127, 129, 300]),
    st.sampled_from([np.float32, np.float64]),
)
def test_sets_of_every_range_are_the_reference_bit_for_bit(forest, seed, n_rows, dtype):
    check(forest, cast(code_rows(forest, seed, n_rows), dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("span", [1, 40, 510, 511, 5000])
@pytest.mark.parametrize("code_rule", list(CodeRule))
@pytest.mark.parametrize("missing_rule", list(MissingRule))
def test_each_reading_of_each_special_value_is_the_references(missing_rule, code_rule, span, dtype):
    B = trees_of_one_set(4)
    codes = [np.arange(0, span, 2), np.arange(span), np.array([span - 1]), np.zeros(0, np.int64)]
    ptr, words = set_bits(codes * 2)
    tests = axis_aligned(
        np.zeros(8, np.int64),
        np.zeros(8, dtype),
        kind=Kind.SET,
        missing_rule=missing_rule,
        missing_right=np.array([0, 1] * 4, bool),
        code_rule=code_rule,
        other_right=np.array([0, 0, 1, 1] * 2, bool),
        set_ptr=ptr,
        set_words=words,
    )
    forest = forest_of(B, tests, 1)
    for given_dtype in (np.float32, np.float64):
        check(forest, cast(CODES[:, None], given_dtype))


def test_rows_in_several_blocks_are_the_reference():
    B = trees_of_one_set(5, n_trees=3)
    rng = np.random.default_rng(3)
    for spans in ([100], [5000], [100, 5000]):
        forest = forest_of(B, set_tests(rng, B.n_nodes, 2, np.float64, spans, 4), 2)
        check(forest, code_rows(forest, 4, 1500))


def test_trees_of_more_than_256_leaves_look_sets_up_too():
    B = trees_of_one_set(300)
    tests = set_tests(np.random.default_rng(5), B.n_nodes, 2, np.float32, [100, 5000], 80)
    forest = forest_of(B, tests, 2)
    check(forest, code_rows(forest, 6, 700))


# ---- how much memory sets take


def distinct_sets(n, span):
    rng = np.random.default_rng(7)
    return [np.append(rng.choice(span, 5, replace=False), span - 1) for _ in range(n)]


def forest_of_sets(codes, n_trees):
    B = trees_of_one_set(len(codes) // n_trees, n_trees)
    ptr, words = set_bits(codes)
    zeros = np.zeros(len(codes))
    tests = axis_aligned(zeros, zeros, kind=Kind.SET, set_ptr=ptr, set_words=words)
    return forest_of(B, tests, 1)


def test_thousands_of_distinct_sets_need_no_more_binned_columns_than_one_tree():
    forest = forest_of_sets(distinct_sets(2000, 200), n_trees=100)
    binned = binned_of(forest)
    assert binned.n_binned <= 20 + 4
    check(forest, code_rows(forest, 8, 50), kernels=("chain",))


def test_equal_sets_of_several_trees_share_one_binned_column_and_one_table():
    codes = distinct_sets(1, 300)[0]
    short = np.append(np.setdiff1d(codes, codes.max()), codes.max())
    forest = forest_of_sets([codes, short] * 50, n_trees=50)
    binned = binned_of(forest, most_shared=ALL)
    assert np.unique(binned.bin_column).size == 1
    assert binned.packed_bytes < 2000


def test_a_few_codes_far_apart_take_memory_by_their_words_alone():
    codes = [np.array([3, 70_000]), np.array([2, 900_000]), np.array([], int), np.array([5])]
    forest = forest_of_sets(codes, n_trees=2)
    X = np.array([[2.0], [3], [5], [70_000], [69_999], [900_000], [900_001], [1e9], [np.nan]])
    check(forest, X)
    far = forest_of_sets([np.array([3, 1 << 24]), np.array([2])], n_trees=2)
    check(far, np.array([[2.0], [3], [1 << 24], [(1 << 24) - 1], [(1 << 24) + 2], [np.nan]]))
    assert binned_of(far).packed_bytes < 2 * far.tests.set_words.nbytes + 1000


def test_codes_beyond_an_int32_are_refused(monkeypatch):
    forest = forest_of_sets([np.array([100]), np.array([2])], n_trees=2)
    assert set_bins.unsupported_reason(forest) is None
    monkeypatch.setattr(set_bins, "MOST_CODES", 64)
    assert set_bins.unsupported_reason(forest) == "a set has codes above 63"


def test_no_set_nodes_make_no_binned_columns():
    forest = forest_of_sets([np.array([1]), np.array([2])], n_trees=2)
    bin_column, least, n_binned, binner = set_bins.bin_sets(forest, np.zeros(0, np.int64), 3)
    assert (bin_column.size, least.size, n_binned) == (0, 0, 0)
    binned = np.zeros(128 * 3, np.uint8)
    binner.fill(np.zeros((1, 1)), address_of(binned), 3, 128)


# ---- models of the libraries


def categorical_data(n_codes, dtype=np.float64):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(1200, 6)).astype(dtype)
    X[:, :3] = rng.integers(0, n_codes, (1200, 3))
    effects = rng.normal(size=(3, n_codes))
    y = sum(effects[j][X[:, j].astype(int)] * (1 + X[:, 3 + j]) for j in range(3))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


def odd_rows(X):
    rng = np.random.default_rng(12)
    odd = X[:300].copy()
    odd[:, :3] = rng.choice(CODES, (300, 3))
    return np.concatenate([X[:300], odd])


@pytest.mark.parametrize("to_onehot", [1, 1000])
def test_lightgbms_sets_are_the_reference(to_onehot):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = categorical_data(200)
    options = {"verbose": -1, "max_cat_to_onehot": to_onehot, "min_data_per_group": 5}
    data = lightgbm.Dataset(X, y, categorical_feature=[0, 1, 2])
    model = lightgbm.train({**options, "num_leaves": 15, "min_data_in_leaf": 5}, data, 20)
    forest = api.convert(model)
    assert np.count_nonzero(forest.tests.kind == Kind.SET) > 50
    for dtype in (np.float32, np.float64):
        check(forest, cast(odd_rows(X), dtype))


@pytest.mark.parametrize("n_codes", [7, 700])
def test_xgboosts_sets_are_the_reference(n_codes):
    xgboost = pytest.importorskip("xgboost")
    X, y = categorical_data(n_codes, np.float32)
    types = ["c"] * 3 + ["float"] * 3
    data = xgboost.DMatrix(X, y, feature_types=types, enable_categorical=True)
    model = xgboost.train({"max_depth": 5, "tree_method": "hist"}, data, 20)
    forest = api.convert(model)
    assert np.count_nonzero(forest.tests.kind == Kind.SET) > 50
    for dtype in (np.float32, np.float64):
        check(forest, cast(odd_rows(X), dtype))


# ---- every level of vectors

LAWS = (
    "several_blocks or more_than_256 or far_apart or (special_value and float32 and (510 or 5000))"
)


def run_laws(environment):
    """Run some of the laws above in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", LAWS, __file__]
    child = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stdout[-3000:] + child.stderr[-3000:]
    assert "passed" in child.stdout


@pytest.mark.full
@pytest.mark.parametrize("level", ["portable", "none"])
def test_every_level_of_vectors_is_the_reference(level):
    run_laws({"BITVEC_VECTORS": level})


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names x86 processors")
@pytest.mark.full
@pytest.mark.parametrize("processor", ["haswell", "x86-64"])
def test_older_processors_are_the_reference(processor):
    features = {"haswell": "+avx2,+avx,+sse4.2,+ssse3,+bmi,+bmi2,+fma", "x86-64": "+sse2"}
    run_laws({"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features[processor]})
