"""Every kernel of the CPU engine is the reference, bit for bit, on every forest, X and thread."""

from __future__ import annotations

import copy
import os
import platform
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from row_answers import drawn_structure
from strategies import AXIS, EQUAL, KERNEL, SET, forests, forests_with_rows, rows

from bitvec import files
from bitvec.core import float_keys, reference, structure
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import MissingRule, Relation, axis_aligned
from bitvec.core.output import Aggregate, Output
from bitvec.errors import InputError
from bitvec.runtime.predict import threads
from bitvec.runtime.predict.cpu import choice, compiling, keys
from bitvec.runtime.predict.cpu.engine import NumbaEngine
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.engine import Engine
from bitvec.runtime.predict.reference_engine import ReferenceEngine

WITH_VECTORS = pytest.mark.skipif(vectors() == "none", reason="explicit vectors are turned off")


def quiet_raw(forest, X):
    with warnings.catch_warnings():  # NumPy remarks on the infinities that rows hold on purpose
        warnings.simplefilter("ignore", RuntimeWarning)
        return reference.raw(forest, X)


def held(forest):
    """The kernels that hold a forest."""
    names = (*choice.KERNELS, choice.ONE_ROW) if forest.feature_map is None else choice.KERNELS
    return [name for name in names if choice.unsupported_reason(name, forest) is None]


def check(forest, X):
    exits = reference.exit_leaves(forest, X)
    expected = quiet_raw(forest, X)
    for name in held(forest):
        engine = NumbaEngine(forest, kernel=name, n_jobs=1)
        leaves = engine.exit_leaves(X)
        assert leaves.dtype == np.int32
        assert np.array_equal(leaves, exits), name
        raw = engine.raw(X)
        assert raw.dtype == forest.output.dtype
        assert raw.shape == expected.shape
        assert np.array_equal(raw, expected, equal_nan=True), name
        signs = np.array_equal(np.signbit(raw), np.signbit(expected))
        assert signs or np.isnan(raw).any(), name


def random_forest(n_trees=20, n_leaves=60, n_features=7, width=3, seed=0, dtype=np.float32):
    """Random trees with thresholds and rows on one coarse grid, so that ties are common."""
    rng = np.random.default_rng(seed)
    B = drawn_structure(rng, [n_leaves] * n_trees, n_leaves)
    return Forest(
        tests=axis_aligned(
            rng.integers(0, n_features, B.n_nodes),
            (rng.integers(-8, 9, B.n_nodes) / 4).astype(dtype),
            relation=rng.integers(0, 2, B.n_nodes),
            missing_right=rng.random(B.n_nodes) < 0.5,
        ),
        bitvectors=B,
        leaves=Leaves(rng.normal(size=(B.n_leaves, width)).astype(np.float32)),
        output=Output(width, np.dtype(np.float32)),
        inputs=Inputs(n_features),
    )


def random_rows(forest, n_rows, seed=1):
    rng = np.random.default_rng(seed)
    X = (rng.integers(-9, 10, (n_rows, forest.n_features)) / 4).astype(forest.dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.02] = np.inf
    X[rng.random(X.shape) < 0.02] = -np.inf
    return X


# ---- one engine is the other


@given(forests_with_rows())
def test_mixed_forests_are_the_reference_bit_for_bit(drawn):
    check(*drawn)


@given(forests_with_rows(kinds=(AXIS, KERNEL), missing_rules=(MissingRule.NAN,)))
def test_axis_aligned_forests_are_the_reference_bit_for_bit(drawn):
    check(*drawn)
    assert {"deep", "mixed"} <= set(held(drawn[0]))


@given(forests_with_rows(kinds=(AXIS, EQUAL, KERNEL)))
def test_every_missing_rule_of_one_hot_tests_is_the_reference(drawn):
    check(*drawn)


@given(forests_with_rows(kinds=(AXIS, EQUAL)))
def test_rows_of_the_other_dtype_are_cast_first(drawn):
    forest, X = drawn
    other = np.float64 if forest.dtype == np.float32 else np.float32
    with np.errstate(over="ignore"):
        check(forest, X.astype(other))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "n_leaves", [256, 257, *(pytest.param(n, marks=pytest.mark.full) for n in (255, 700))]
)
def test_many_thresholds_and_many_leaves_are_the_reference(dtype, n_leaves):
    forest = random_forest(n_trees=6, n_leaves=n_leaves, n_features=2, width=1, dtype=dtype)
    rng = np.random.default_rng(0)
    b = rng.normal(size=forest.n_nodes).astype(dtype)
    b[6::7] = np.nextafter(b[0::7][: b[6::7].size], dtype(9), dtype=dtype)
    forest = replace(forest, tests=replace(forest.tests, b=b))
    X = rng.choice(b, (700, 2))
    X[:100] = rng.normal(size=(100, 2))
    X[rng.random(X.shape) < 0.1] = np.nan
    check(forest, X)
    check(forest, np.nextafter(X, dtype(-9), dtype=dtype))
    check(forest, X.astype(np.float64) + 1e-12)
    check(forest, X.astype(np.float32))


def test_values_that_round_to_a_threshold_are_compared_in_float64():
    b = np.array([1.0, 1.0 + 2e-16, 1.0 + 1e-9, 1e300, 1e-310, -1e-310, 0.0, -0.0])
    n = b.size
    B = structure.from_children(~np.arange(n), np.append(np.arange(1, n), ~n), np.array([0]))
    for relation in Relation:
        forest = Forest(
            axis_aligned(np.zeros(n), b, relation=relation),
            B,
            Leaves(np.arange(n + 1.0)[:, None]),
            Output(1, np.dtype(np.float64)),
            Inputs(1),
        )
        around = np.concatenate([b, np.nextafter(b, np.inf), np.nextafter(b, -np.inf)])
        X = np.concatenate([around, [np.inf, -np.inf, np.nan, -np.nan, 1e-320, 5e-324, 1e308]])
        check(forest, X[:, None])
        with np.errstate(over="ignore"):
            check(forest, X[:, None].astype(np.float32))


@pytest.mark.parametrize("n_thresholds", [65_535, 65_536])
def test_ranks_that_do_not_fit_two_bytes_are_refused(n_thresholds):
    n_leaves = 61
    n_trees = -(-n_thresholds // (n_leaves - 1))
    forest = random_forest(n_trees=n_trees, n_leaves=n_leaves, n_features=1, width=1)
    b = np.minimum(np.arange(forest.n_nodes), n_thresholds - 1).astype(np.float32)
    b = np.random.default_rng(0).permutation(b)
    tests = replace(forest.tests, b=b, missing_right=np.zeros(b.size, bool))
    tests = replace(tests, relation=np.zeros(b.size, np.uint8))
    forest = replace(forest, tests=tests)
    X = np.random.default_rng(1).integers(-2, n_thresholds + 2, (40, 1)).astype(np.float32)
    walked = reference.exit_leaf_traversal(forest, X)
    for kernel in ("chain", "perfect"):
        reason = choice.unsupported_reason(kernel, forest)
        if n_thresholds > 65_535 and kernel == "chain":
            assert reason == "a column has 65536 thresholds, more than 65535"
        if reason is None:
            assert np.array_equal(NumbaEngine(forest, kernel=kernel).exit_leaves(X), walked)
    assert np.array_equal(NumbaEngine(forest).exit_leaves(X), walked)


@pytest.mark.parametrize("sentinel", [None, np.nan, -7.0])
def test_a_sentinel_that_adds_nothing_to_nan_is_no_rule_of_its_own(sentinel):
    forest = random_forest(n_trees=4, n_leaves=9, n_features=2)
    rule = np.arange(forest.n_nodes, dtype=np.uint8) % 2 * np.uint8(MissingRule.NAN_OR_SENTINEL)
    forest = replace(
        forest,
        tests=replace(forest.tests, missing_rule=rule),
        inputs=Inputs(2, missing_sentinel=sentinel),
    )
    X = random_rows(forest, 300)
    X[::5, 0] = -7.0
    check(forest, X)


def test_thresholds_are_packed_alike_where_subnormal_numbers_count_as_zero():
    torch = pytest.importorskip("torch")
    b = np.array([1e-310, -1e-310, 0.0, 5e-324])
    relation = np.array([0, 1, 1, 0])
    expected = keys.thresholds(b, relation, np.dtype(np.float64))
    equal = keys.equal_range(b, np.dtype(np.float64))
    torch.set_flush_denormal(True)
    try:
        flushed = keys.thresholds(b, relation, np.dtype(np.float64))
        equal_flushed = keys.equal_range(b, np.dtype(np.float64))
    finally:
        torch.set_flush_denormal(False)
    assert np.array_equal(flushed, expected)
    assert np.array_equal(equal_flushed, equal)


@WITH_VECTORS
def test_a_kernel_that_cannot_hold_the_forest_is_refused_with_its_reason():
    deep = random_forest(n_trees=1, n_leaves=2000)
    with pytest.raises(InputError, match="the kernel perfect cannot hold this forest: a tree is"):
        NumbaEngine(deep, kernel="perfect")
    with pytest.raises(InputError, match="`kernel` must be one of perfect, chain"):
        NumbaEngine(deep, kernel="quick")


def test_the_engine_says_which_kernel_runs_and_why():
    info = NumbaEngine(random_forest(n_leaves=31)).info()
    assert info["kernel"] in choice.KERNELS
    assert "cycles a row" in info["kernel_why"]
    assert info["packed_bytes"] > 0
    assert NumbaEngine(random_forest(), kernel="deep").info()["kernel_why"] == "asked for"


def test_a_copy_of_an_engine_answers_alike():
    forest = random_forest()
    X = random_rows(forest, 50)
    engine = NumbaEngine(forest, kernel="chain")
    again = copy.deepcopy(engine)
    assert again.info()["kernel"] == "chain"
    assert np.array_equal(again.raw(X), engine.raw(X))


@settings(max_examples=20)
@given(forests_with_rows(kinds=(KERNEL, AXIS), soft=True, linear=False, max_leaves=12))
def test_soft_forests_are_the_reference(drawn):
    forest, X = drawn
    assert np.array_equal(NumbaEngine(forest).raw(X), reference.raw(forest, X), equal_nan=True)


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 7, 8, 9, 10, 11, 100, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_batch_size_is_the_reference(n_rows, dtype):
    forest = random_forest(n_trees=5, dtype=dtype)
    X = random_rows(forest, n_rows)
    engine = NumbaEngine(forest, n_jobs=2)
    walked = reference.exit_leaf_traversal(forest, X)
    assert np.array_equal(engine.exit_leaves(X), walked)
    assert np.array_equal(engine.raw(X), reference.accumulate(forest, X, walked))


@pytest.mark.parametrize("width", [1, 3])
def test_every_kernel_takes_blocks_of_every_size(width):
    # Some hand over vectors of 64 rows; the last block of several may hold few.
    forest = random_forest(n_trees=4, n_leaves=9, width=width)
    for n_rows in (1, 16, 17, 63, 64, 65, 127, 129, 191, 193, 449, 513, 550, 577, 1025):
        check(forest, random_rows(forest, n_rows))


@pytest.mark.parametrize("width", [1, 2, 40])
@pytest.mark.parametrize("zeros", [0.0, 0.4, 0.95])
@pytest.mark.parametrize("base", [-0.0, 0.0])
def test_leaf_vectors_with_zeros_of_both_signs_add_up_as_in_the_reference(width, zeros, base):
    forest = random_forest(width=width, n_trees=4)
    rng = np.random.default_rng(0)
    v = forest.leaves.v.copy()
    v[rng.random(v.shape) < zeros] = 0.0
    v[rng.random(v.shape) < zeros / 2] = -0.0
    forest = replace(
        forest,
        leaves=Leaves(v),
        output=Output(
            width,
            np.dtype(np.float32),
            base_first=True,
            base_score=np.full(width, base, np.float32),
            tree_weight=np.array([1, -2, 0, 0.1], np.float32),
        ),
    )
    check(forest, random_rows(forest, 40))


def test_a_weighted_median_is_the_reference():
    forest = random_forest(n_trees=5, n_leaves=9)
    output = Output(
        3,
        np.dtype(np.float32),
        aggregate=Aggregate.WEIGHTED_MEDIAN,
        tree_weight=np.array([1, 2, 3, 2, 1], np.float32),
    )
    check(replace(forest, output=output), random_rows(forest, 30))


def test_sums_run_in_tree_order_in_float32():
    # 2**24 + 1 - 2**24 is 0 in float32 in this order, and 1 in any wider type.
    v = np.array([2.0**24, 1.0, -(2.0**24)], np.float32)[:, None]
    B = structure.from_children(np.zeros(0, int), np.zeros(0, int), np.array([~0, ~1, ~2]))
    forest = Forest(
        axis_aligned([], np.zeros(0, np.float32)),
        B,
        Leaves(v),
        Output(1, np.dtype(np.float32)),
        Inputs(2),
    )
    assert NumbaEngine(forest).raw(np.zeros((1, 2), np.float32)).tolist() == [[0.0]]


def test_forests_without_trees_and_rows_without_columns():
    B = structure.Bitvectors(*[np.zeros(0, np.int32)] * 3, np.zeros(1, np.int64))
    output = Output(
        2, np.dtype(np.float64), base_score=np.array([1.0, 2.0]), aggregate=Aggregate.MEAN
    )
    forest = Forest(axis_aligned([], np.zeros(0)), B, Leaves(np.zeros((0, 2))), output, Inputs(0))
    engine = NumbaEngine(forest)
    assert engine.exit_leaves(np.zeros((3, 0))).shape == (3, 0)
    assert engine.raw(np.zeros((3, 0))).tolist() == [[1.0, 2.0]] * 3


def test_chains_of_ten_thousand_nodes_need_no_stack():
    n = 10_000
    left = ~np.arange(n)
    right = np.append(np.arange(1, n), ~n)
    B = structure.from_children(left, right, np.array([0]))
    b = np.arange(n, dtype=np.float64)
    forest = Forest(
        axis_aligned(np.zeros(n), b),
        B,
        Leaves(np.arange(n + 1.0)[:, None]),
        Output(1, np.dtype(np.float64)),
        Inputs(1),
    )
    X = np.array([[0.0], [0.5], [n / 2], [n - 1.0], [np.inf], [np.nan]])
    assert NumbaEngine(forest).raw(X).ravel().tolist() == [0, 1, n / 2, n - 1, n, 0]


@dataclass(frozen=True)
class Pairs:
    """Products of the columns, two by two."""

    n_inputs: int

    @property
    def n_features(self):
        return self.n_inputs**2

    def __call__(self, X):
        return (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)


@settings(max_examples=20)
@given(forests(linear=False))
def test_a_feature_map_stands_in_front(forest):
    pairs = Pairs(int(np.ceil(np.sqrt(forest.n_features))))
    inputs = replace(forest.inputs, n_features=pairs.n_inputs)
    forest = replace(forest, inputs=inputs, feature_map=pairs)
    check(forest, np.random.default_rng(0).normal(size=(9, forest.n_features)).astype(forest.dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_keys_are_in_the_order_of_the_values(dtype):
    info = np.finfo(dtype)
    positive = [info.smallest_subnormal, info.tiny, 0.5, 1.0, info.max, np.inf]
    values = np.array([*(-x for x in reversed(positive)), 0.0, *positive], dtype)
    key = float_keys.keys(values)
    assert np.all(key[1:] > key[:-1])
    assert np.array_equal(float_keys.floats(key, np.dtype(dtype)), values)
    assert float_keys.keys(np.array([-0.0], dtype)).tolist() == [0]
    bits = np.iinfo(f"i{np.dtype(dtype).itemsize}")
    assert key[0] > bits.min
    assert key[-1] < bits.max, "NaN has room on both sides"


# ---- how X lies in memory, and threads


@given(forests_with_rows(kinds=(AXIS, SET)))
def test_the_layout_of_X_does_not_matter(drawn):
    forest, X = drawn
    engine = NumbaEngine(forest, n_jobs=1)
    expected = engine.raw(X)
    read_only = X.copy()
    read_only.flags.writeable = False
    wider = np.zeros((len(X), X.shape[1] + 3), X.dtype)
    wider[:, 1:-2] = X
    layouts = [np.asfortranarray(X), read_only, np.repeat(X, 2, axis=0)[::2], wider[:, 1:-2]]
    layouts.append(X[::-1, ::-1].copy()[::-1, ::-1])
    for same in layouts:
        assert np.array_equal(engine.raw(same), expected, equal_nan=True)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 8, -1, None])
def test_the_number_of_threads_does_not_change_a_bit(n_jobs):
    forest = random_forest()
    X = random_rows(forest, 20_000)
    expected = NumbaEngine(forest, n_jobs=1).raw(X)
    assert np.array_equal(NumbaEngine(forest, n_jobs=n_jobs).raw(X), expected)


def test_callers_on_many_threads_do_not_disturb_each_other():
    forest = random_forest()
    engines = [NumbaEngine(forest, n_jobs=k) for k in (1, 2, 3)]
    batches = [random_rows(forest, 3000 + 7 * k, seed=k) for k in range(12)]
    expected = [engines[0].raw(X) for X in batches]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(3):
            got = pool.map(lambda k: engines[k % 3].raw(batches[k]), range(12))
            assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize(
    "kernel",
    [pytest.param("perfect", marks=WITH_VECTORS), "chain", "single", "deep", "mixed", None],
)
def test_first_calls_from_many_threads_at_once_are_right(kernel):
    n_trees = 1 if kernel in ("single", None) else 5
    forest = random_forest(n_trees=n_trees, n_leaves=9)
    X = random_rows(forest, 300)
    expected = NumbaEngine(forest, n_jobs=1).raw(X)
    start = threading.Barrier(4)

    def answer(engine, part):
        start.wait(10)
        rows = X[part * 75 : part * 75 + 75].astype((np.float32, np.float64)[part % 2])
        few = np.concatenate([engine.raw(rows[k : k + 1]) for k in range(5)])
        return np.array_equal(few, engine.raw(rows)[:5]), engine.raw(rows)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(25):
            engine = NumbaEngine(forest, kernel=kernel, n_jobs=1)
            answers = list(pool.map(answer, [engine] * 4, range(4)))
            assert all(agree for agree, _ in answers)
            assert np.array_equal(np.concatenate([raw for _, raw in answers]), expected)


@pytest.mark.skipif(threads.available_cores() == 1, reason="no other core to help")
def test_an_error_in_a_helping_thread_reaches_the_caller():
    caller = threading.get_ident()

    def work(part):
        if threading.get_ident() != caller:
            raise ZeroDivisionError(part)
        threading.Event().wait(0.01)

    with pytest.raises(ZeroDivisionError):
        threads.for_each_block(work, 1000, block=1, n_threads=3)


def test_a_busy_pool_blocks_nobody():
    release, done = threading.Event(), []

    def wait(part):
        release.wait(10)

    holder = threading.Thread(
        target=threads.for_each_block, args=(wait, 8), kwargs={"block": 1, "n_threads": 8}
    )
    holder.start()
    try:
        threads.for_each_block(done.append, 50, block=1, n_threads=4)
    finally:
        release.set()
        holder.join()
    assert sorted(part.start for part in done) == list(range(50))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_predicts_on_threads_of_its_own():
    script = """
        import os, sys
        import numpy as np
        from bitvec.core.forest import Forest
        from bitvec.runtime.predict.cpu.engine import NumbaEngine
        stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
        engine = NumbaEngine(stump, n_jobs=2)
        X = np.random.default_rng(0).random((100_000, 2))
        expected = engine.raw(X)
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(engine.raw(X), expected) else 3)
        _, status = os.waitpid(child, 0)
        assert np.array_equal(engine.raw(X), expected)
        sys.exit(os.waitstatus_to_exitcode(status))
    """
    done = run(script)
    assert done.returncode == 0, done.stderr


def run(script, *arguments, **env):
    program = textwrap.dedent(script)
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


PREDICT = """
    from bitvec.core.forest import Forest
    from bitvec.runtime.predict.cpu.engine import NumbaEngine
    stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    X = np.array([[0.0, 9.0], [1.0, 9.0]])
    assert NumbaEngine(stump).raw(X).tolist() == [[10.0], [20.0]]
"""


@pytest.mark.full
def test_predicts_where_no_cache_folder_can_be_written():
    # Root may write anywhere, so the probe by which numba tells is made to fail instead.
    script = """
        import tempfile
        import numpy as np
        def refuse(*args, **kwargs):
            raise PermissionError("read-only")
        tempfile.TemporaryFile = refuse
    """
    done = run(textwrap.dedent(script) + textwrap.dedent(PREDICT))
    assert done.returncode == 0, done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr
    assert "later runs load them" not in done.stderr


@pytest.mark.full
def test_predicts_where_the_disk_is_full(tmp_path):
    script = """
        import numpy as np
        import numba.core.caching as caching
        def full(self, *args):
            raise OSError(28, "No space left on device")
        caching.IndexDataCacheFile.save = full
    """
    done = run(textwrap.dedent(script) + textwrap.dedent(PREDICT), NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "The next run compiles kernels again" in done.stderr
    assert not any(path.suffix == ".nbc" for path in tmp_path.rglob("*")), "the disk was not full"


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_a_number_of_jobs_that_means_nothing_is_refused(n_jobs):
    with pytest.raises(InputError, match="n_jobs"):
        threads.effective_jobs(n_jobs)


def test_negative_jobs_count_back_from_the_available_cores():
    cores = threads.available_cores()
    assert threads.effective_jobs(None) == threads.effective_jobs(-1) == cores
    assert threads.effective_jobs(-cores) == threads.effective_jobs(-cores - 5) == 1


def test_engines_fulfil_the_protocol():
    stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    for engine in (NumbaEngine(stump), ReferenceEngine(stump)):
        assert isinstance(engine, Engine)


LEVELS = {
    "portable": {"BITVEC_VECTORS": "portable"},
    "none": {"BITVEC_VECTORS": "none"},
    "no AVX-512": {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx,+avx2,+bmi,+bmi2,+fma,+popcnt,+sse4.2",
    },
    "no features": {"NUMBA_CPU_NAME": "generic"},
}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="forces x86 processors")
@pytest.mark.parametrize(
    "level",
    [
        pytest.param("portable", marks=pytest.mark.full),
        pytest.param("none", marks=pytest.mark.full),
        pytest.param("no AVX-512", marks=pytest.mark.full),
        pytest.param("no features", marks=pytest.mark.full),
    ],
)
def test_lesser_processors_answer_with_the_same_bits(level, tmp_path):
    forest = random_forest(n_trees=9, n_leaves=64)
    small = random_forest(n_trees=9, n_leaves=9, width=1)
    for name, model in (("forest", forest), ("small", small)):
        files.save(model, tmp_path / name)
        X = random_rows(model, 900)
        np.save(tmp_path / f"{name}.npy", X)
        np.save(tmp_path / f"{name}-raw.npy", NumbaEngine(model).raw(X))
    script = """
        import sys
        from pathlib import Path
        import numpy as np
        from bitvec import files
        from bitvec.runtime.predict.cpu import choice
        from bitvec.runtime.predict.cpu.engine import NumbaEngine
        from bitvec.runtime.predict.cpu.target import vectors
        folder = Path(sys.argv[1])
        for name in ("forest", "small"):
            forest = files.load(folder / name)
            X, raw = np.load(folder / f"{name}.npy"), np.load(folder / f"{name}-raw.npy")
            for kernel in (*choice.KERNELS, choice.ONE_ROW):
                if choice.unsupported_reason(kernel, forest) is None:
                    for rows in (X, X.astype(np.float64)):
                        got = NumbaEngine(forest, kernel=kernel, n_jobs=1).raw(rows)
                        assert np.array_equal(got, raw), (name, kernel)
        print(vectors())
    """
    done = run(script, str(tmp_path), **LEVELS[level])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [LEVELS[level].get("BITVEC_VECTORS", "portable")]


def test_a_level_of_vectors_that_there_is_not_is_refused():
    done = run(
        "from bitvec.runtime.predict.cpu.target import vectors; vectors()", BITVEC_VECTORS="mmx"
    )
    assert "BITVEC_VECTORS must be one of" in done.stderr


@pytest.mark.full
def test_only_a_run_that_compiles_warns_and_it_does_so_once(tmp_path):
    kernels = """
    for kernel in ("chain", "onerow"):
        assert NumbaEngine(stump, kernel=kernel).raw(X).tolist() == [[10.0], [20.0]]
    """
    script = "import numpy as np\n" + textwrap.dedent(PREDICT) + textwrap.dedent(kernels)
    cold = run(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert cold.returncode == 0, cold.stderr
    [said] = cold.stderr.splitlines()
    assert said.startswith(compiling.COMPILES)
    assert "later runs load them" in said
    warm = run(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert warm.returncode == 0, warm.stderr
    assert warm.stderr == ""


# ---- real models


@pytest.fixture(scope="module")
def digits():
    datasets = pytest.importorskip("sklearn.datasets")
    X, y = datasets.load_digits(return_X_y=True)
    return X.astype(np.float32), y


@pytest.mark.parametrize("name", ["RandomForestClassifier", "ExtraTreesRegressor"])
def test_scikit_learn_forests_answer_with_the_same_bits(digits, name):
    ensemble = pytest.importorskip("sklearn.ensemble")
    from bitvec.converters.sklearn.read import convert

    X, y = digits
    model = getattr(ensemble, name)(30, random_state=0, n_jobs=1).fit(X[::2], y[::2])
    forest = convert(model)
    theirs = getattr(model, "predict_proba", model.predict)(X)
    for kernel in held(forest):
        raw = NumbaEngine(forest, kernel=kernel).raw(X)
        assert np.array_equal(raw.reshape(theirs.shape), theirs), kernel


def test_drawn_rows_reach_both_sides():
    # A guard of the laws above: the rows that are drawn go left and right.
    seen = set()

    @settings(max_examples=50, database=None)
    @given(forests(kinds=(AXIS,), missing_rules=(MissingRule.NAN,)).flatmap(with_rows))
    def draw(drawn):
        forest, X = drawn
        seen.update(np.unique(NumbaEngine(forest).exit_leaves(X) > 0).tolist())

    draw()
    assert seen == {False, True}


def with_rows(forest):
    return rows(forest).map(lambda X: (forest, X))


def test_rows_that_fill_no_step_pay_for_no_binned_columns():
    forest = random_forest(n_trees=20, n_leaves=60)
    few, many = choice.choose(forest, few=True), choice.choose(forest)
    assert many.name in choice.BITVECTOR
    assert few.name not in choice.BITVECTOR
