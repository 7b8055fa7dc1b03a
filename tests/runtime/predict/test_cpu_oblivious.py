"""The oblivious kernel is the reference, bit for bit, where all nodes of a level share a test."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import bitvec
from bitvec.core import reference, structure, tree_paths
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, from_rows, set_bits
from bitvec.core.output import Output
from bitvec.errors import InputError
from bitvec.runtime.predict.cpu import choice
from bitvec.runtime.predict.cpu.engine import NumbaEngine
from bitvec.runtime.predict.cpu.target import vectors

N_FEATURES = 5

pytestmark = pytest.mark.skipif(vectors() == "none", reason="explicit vectors are turned off")


def oblivious_forest(seed, depths, dtype, sums, width=1, outputs=None, sets=False, cut=0.0):
    """Trees of the given depths with one test a level; some nodes are leaves where `cut`."""
    rng = np.random.default_rng(seed)
    left, right = [], []
    n_leaves = 0

    def grow(depth, level):
        nonlocal n_leaves
        if level == depth or (level and rng.random() < cut):
            n_leaves += 1
            return ~(n_leaves - 1)
        node = len(left)
        left.append(0)
        right.append(0)
        left[node] = grow(depth, level + 1)
        right[node] = grow(depth, level + 1)
        return node

    roots = [grow(depth, 0) for depth in depths]
    B = structure.from_children(np.array(left, int), np.array(right, int), np.array(roots, int))
    n_tests = sum(depths) + 1
    start = np.concatenate([[0], np.cumsum(depths)]).astype(int)
    level = start[B.tree_of_node] + tree_paths.node_depth(B)
    is_set = (rng.random(n_tests) < 0.4) & sets
    codes = [np.flatnonzero(rng.random(40) < 0.5) if one else np.zeros(0, int) for one in is_set]
    set_ptr, set_words = set_bits([codes[k] for k in level])
    n = B.n_nodes
    tests = from_rows(
        np.arange(n + 1),
        rng.integers(0, N_FEATURES, n_tests)[level],
        np.ones(n, dtype),
        (rng.integers(-8, 9, n_tests) / 4)[level].astype(dtype),
        relation=np.where(is_set, 0, rng.integers(0, 2, n_tests))[level].astype(np.uint8),
        missing_right=(rng.random(n_tests) < 0.5)[level],
        missing_rule=rng.integers(0, 2, n_tests)[level].astype(np.uint8),
        kind=np.where(is_set, Kind.SET, rng.choice([Kind.MARGIN, Kind.EQUAL], n_tests))[
            level
        ].astype(np.uint8),
        other_right=(is_set & (rng.random(n_tests) < 0.5))[level],
        set_ptr=set_ptr,
        set_words=set_words,
    )
    output = None
    if outputs is not None:
        output = np.repeat(rng.integers(0, outputs, B.n_trees), np.diff(B.leaf_ptr)).astype(
            np.int32
        )
    return Forest(
        tests=tests,
        bitvectors=B,
        leaves=Leaves(rng.normal(size=(B.n_leaves, width)).astype(sums), output),
        output=Output(outputs or width, np.dtype(sums)),
        inputs=Inputs(N_FEATURES),
    )


def drawn_rows(seed, n_rows, dtype):
    rng = np.random.default_rng(seed)
    X = (rng.integers(-9, 40, (n_rows, N_FEATURES)) / 4).astype(dtype)
    near = rng.random(X.shape) < 0.1
    X[near] = np.nextafter(X[near], rng.choice([-np.inf, np.inf], near.sum()).astype(dtype))
    for value in (np.nan, np.inf, -np.inf, -0.0):
        X[rng.random(X.shape) < 0.04] = value
    return X


def check(forest, X, kernel="oblivious"):
    engine = NumbaEngine(forest, kernel=kernel, n_jobs=1)
    assert np.array_equal(engine.exit_leaves(X), reference.exit_leaves(forest, X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = reference.raw(forest, X)
    raw = engine.raw(X)
    assert raw.dtype == expected.dtype
    assert raw.tobytes() == expected.tobytes()


LATER = [(depth, sets) for depth in (0, 1, 2, 3, 5, 7, 8, 10) for sets in (False, True)]


@pytest.mark.parametrize(
    ("deepest", "sets"),
    [(6, False), (9, True), *(pytest.param(*each, marks=pytest.mark.full) for each in LATER)],
)
@settings(max_examples=20)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 4), max_size=11),
    st.sampled_from([1, 2, 63, 64, 65, 129, 513, 1000]),
    st.sampled_from([(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float64)]),
    st.sampled_from([(1, None), (3, None), (9, None), (17, None), (1, 2)]),
    st.sampled_from([0.0, 0.2]),
)
@example(1, [4, 0, 3], 1000, (np.float32, np.float64), (2, None), 0.0)
def test_drawn_oblivious_forests(deepest, sets, seed, depths, n_rows, dtypes, shape, cut):
    depths = [*(min(depth, deepest) for depth in depths), deepest]
    forest = oblivious_forest(seed, depths, *dtypes, *shape, sets=sets, cut=cut)
    check(forest, drawn_rows(seed, n_rows, dtypes[0]))
    check(forest, drawn_rows(seed + 1, n_rows, np.float64 if seed % 2 else np.float32))


def test_a_forest_without_trees_or_levels_adds_nothing_wrong():
    for depths in ([], [0], [0] * 9):
        forest = oblivious_forest(0, depths, np.float32, np.float64, 2)
        check(forest, drawn_rows(0, 5, np.float32))


def test_sums_of_negative_zeros_keep_their_sign():
    forest = oblivious_forest(3, [2, 2, 1], np.float32, np.float64)
    zeros = replace(forest.leaves, v=np.full(forest.leaves.v.shape, -0.0))
    output = replace(forest.output, base_score=np.array([-0.0]), base_first=True)
    check(replace(forest, leaves=zeros, output=output), drawn_rows(1, 70, np.float32))


def test_trees_of_16_levels_are_held_and_deeper_ones_refused():
    forest = line_of(16)
    check(forest, drawn_rows(2, 300, np.float32))
    with pytest.raises(InputError, match="a tree is 17 deep, more than 16"):
        NumbaEngine(line_of(17), kernel="oblivious")


def line_of(depth):
    """A tree whose nodes stand one below the other."""
    at = np.arange(depth)
    B = structure.from_children(np.append(at[1:], ~depth), ~at, np.array([0]))
    rng = np.random.default_rng(depth)
    tests = from_rows(
        np.arange(depth + 1),
        rng.integers(0, N_FEATURES, depth),
        np.ones(depth, np.float32),
        rng.integers(5, 9, depth).astype(np.float32),
    )
    leaves = Leaves(rng.normal(size=(depth + 1, 1)))
    return Forest(tests, B, leaves, Output(1, np.dtype(np.float64)), Inputs(N_FEATURES))


@pytest.mark.parametrize(
    "changed",
    [
        "b",
        "column",
        "relation",
        "missing_right",
        "missing_rule",
        "kind",
        "set_words",
        "other_right",
    ],
)
def test_a_level_of_two_tests_is_refused(changed):
    is_of_sets = changed in ("set_words", "other_right")
    seed = next(
        seed
        for seed in range(99)
        if (forest := oblivious_forest(seed, [3], np.float32, np.float64, sets=True))
        and (forest.tests.kind[-1] == Kind.SET) == is_of_sets
        and (not is_of_sets or np.diff(forest.tests.set_ptr)[-1])
    )
    forest = oblivious_forest(seed, [3], np.float32, np.float64, sets=True)
    check(forest, drawn_rows(seed, 200, np.float32))
    values = getattr(forest.tests, changed).copy()
    if changed == "column":
        values[-1] = (values[-1] + 1) % N_FEATURES
    elif changed == "set_words":
        values[-1] ^= 1
    elif changed == "kind":
        values[-1] = Kind.EQUAL if values[-1] == Kind.MARGIN else Kind.MARGIN
    elif changed == "b":
        values[-1] += 1
    else:
        values[-1] = 1 - values[-1]
    other = replace(forest, tests=replace(forest.tests, **{changed: values}))
    with pytest.raises(InputError, match="nodes of one level test differently"):
        NumbaEngine(other, kernel="oblivious")


def test_padding_that_would_take_much_memory_is_refused():
    forest = oblivious_forest(0, [1] * 2000 + [10], np.float32, np.float64)
    with pytest.raises(InputError, match="leaves would take 2049024 places"):
        NumbaEngine(forest, kernel="oblivious")


def test_the_choice_takes_it_for_symmetric_trees():
    forest = oblivious_forest(0, [6] * 60, np.float32, np.float64)
    assert choice.choose(forest).name == "oblivious"
    check(forest, drawn_rows(0, 700, np.float32), kernel=None)


def test_the_catboost_models_of_the_catalogue():
    pytest.importorskip("catboost")
    from tests.models import catboost as catalogue

    X = np.repeat(catalogue.small().X, 2, axis=0).astype(np.float32)
    n_held = 0
    for name, model in catalogue.MODELS.items():
        forest = bitvec.convert(catalogue.trained(name))
        if choice.unsupported_reason("oblivious", forest) is None:
            n_held += 1
            check(forest, X)
        else:
            assert model.parameters.get("grow_policy", "SymmetricTree") != "SymmetricTree", name
    assert n_held > 10


FORCED = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+bmi,+bmi2,+fma,+popcnt,+sse4.2",
}


@pytest.mark.full
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="forces x86 processors")
def test_without_avx512_the_bits_are_the_same(tmp_path):
    script = """
        import numpy as np
        from test_cpu_oblivious import check, drawn_rows, oblivious_forest
        from bitvec.runtime.predict.cpu.target import vectors
        for depth, sums in ((6, np.float64), (9, np.float64)):
            forest = oblivious_forest(depth, [depth, 2, 3], np.float32, sums, 2, sets=True)
            check(forest, drawn_rows(depth, 700, np.float32))
        print(vectors())
    """
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **FORCED, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["portable"]
