"""Laws of the C header: what a compiled header answers is what the reference answers."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from strategies import (
    AXIS,
    EQUAL,
    KERNEL,
    OBLIQUE,
    SET,
    forests,
    forests_with_rows,
)

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, MissingRule, Relation, axis_aligned, set_bits
from bitvec.core.output import Aggregate, Output
from bitvec.core.structure import arrange
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.c import to_c
from bitvec.runtime.export.c.levels import require_levels
from bitvec.runtime.export.ranks import compared

HARD = (AXIS, OBLIQUE, SET, EQUAL, KERNEL)
LEVELS = {"form": "levels", "thresholds": "exact"}
FINITE = LEVELS | {"finite": True}
OPTIONS = (
    {"form": "tables", "thresholds": "exact"},
    {"form": "tables", "thresholds": "ranks"},
    {"form": "unrolled", "thresholds": "exact"},
    {"form": "unrolled", "thresholds": "ranks"},
    LEVELS,
)


def holds(forest: Forest, option: dict[str, str]) -> bool:
    """Whether an option is not refused: some node compares for ranks, all of them in levels."""
    if option["form"] == "levels":
        try:
            require_levels(forest)
        except UnsupportedModelError:
            return False
    exact = option["thresholds"] == "exact"
    return exact or forest.n_nodes == 0 or bool(compared(forest).any())


@pytest.fixture
def check(gcc, case_of, same_bits):
    def check(drawn, *flags, options=OPTIONS, strict=True):
        cases = [
            case_of(forest, X, name=f"model_{i}_{j}", **option)
            for i, (forest, X) in enumerate(drawn)
            for j, option in enumerate(options)
            if holds(forest, option)
        ]
        for case, (leaves, raw) in zip(cases, gcc(cases, *flags, strict=strict), strict=True):
            assert np.array_equal(leaves, reference.exit_leaves(case.forest, case.X))
            assert same_bits(raw, reference.raw(case.forest, case.X))

    return check


def lists(size: int, **options: object) -> st.SearchStrategy:
    return st.lists(forests_with_rows(**options), min_size=size, max_size=size)


@pytest.mark.parametrize(
    "level", ["-O0", *(pytest.param(at, marks=pytest.mark.full) for at in ("-O2", "-O3"))]
)
@settings(max_examples=3)
@given(lists(4, kinds=HARD))
def test_leaves_and_raw_scores_are_the_references_bit_for_bit(check, level, drawn):
    check(drawn, "-std=c99", level)


@settings(max_examples=3)
@given(lists(4, kinds=(OBLIQUE, AXIS), max_leaves=12))
def test_fused_products_change_nothing(check, drawn):
    flags = ("-mfma",) if _knows_fma() else ()
    check(drawn, "-std=gnu11", "-O3", "-ffp-contract=fast", *flags)


@pytest.mark.full
@pytest.mark.parametrize("in_order", [0, 1])
@settings(max_examples=3)
@given(
    lists(
        6,
        kinds=(AXIS,),
        max_leaves=12,
        missing_rules=(MissingRule.NAN,),
        aggregates=(Aggregate.SUM, Aggregate.MEAN),
        linear=False,
    )
)
def test_trees_filled_to_one_depth_answer_as_the_reference(check, in_order, drawn):
    drawn = [(forest, X) for forest, X in drawn if holds(forest, LEVELS)]
    assume(drawn)
    finite = [(forest, X[~np.isnan(X).any(axis=1)]) for forest, X in drawn]
    flags = [f"-DMODEL_{i}_0_IN_ORDER={in_order}" for i in range(len(drawn))]
    flags += ["-std=c99", "-O2", "-fsanitize=undefined,address"]
    check(drawn, *flags, options=(LEVELS,))
    check([(forest, X) for forest, X in finite if len(X)], *flags, options=(FINITE,))


@pytest.mark.parametrize("in_order", [0, 1])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_bits_compare_as_numbers(gcc, case_of, relation, dtype, in_order):
    tiny, least = np.finfo(dtype).tiny, np.nextafter(dtype(0), dtype(1))
    first = {Relation.GREATER: 0.0, Relation.GREATER_EQUAL: least}[relation]
    cuts = np.array([first, least, tiny, 1.5, np.inf, -0.0, -least, -1.0, -np.inf], dtype)
    X = np.concatenate([cuts, -cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)])
    X = X.astype(dtype)[:, None]
    cases = []
    for some, n_columns in itertools.product((cuts[:5], cuts[1:]), (1, 40)):
        n = len(some)
        tests = axis_aligned(np.zeros(n, int), some, relation=relation)
        forest = Forest.from_matrices(np.ones((n, 1)), some.astype(float), *_stairs(n))
        forest = replace(forest, tests=tests, inputs=Inputs(n_columns))
        wide = np.repeat(X, n_columns, axis=1)
        cases.append(case_of(forest, wide, name=f"m{len(cases)}", form="levels", finite=True))
    whole, texts = dtype == np.float32, [case.source.text for case in cases]
    assert ["_key(const" in text for text in texts] == [whole] * 4
    assert ["^ 0x80000000U;" in text for text in texts] == [whole, whole, False, False]
    assert ["_keys(" in text for text in texts] == [False, False, whole, False]
    flags = [f"-DM{i}_IN_ORDER={in_order}" for i in range(4)]
    for case, (leaves, _) in zip(cases, gcc(cases, "-std=c99", "-O2", *flags), strict=True):
        assert np.array_equal(leaves, reference.exit_leaves(case.forest, case.X))


def _stairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return B and v of a chain of n nodes."""
    B = (np.arange(n + 1)[:, None] > np.arange(n)[None, ::-1]).astype(int)
    return B, np.arange(n + 1.0)


@settings(max_examples=3)
@given(lists(4, kinds=(AXIS, SET)))
def test_without_missing_values_nodes_need_not_say_where_they_go(check, drawn):
    options = [option | {"finite": True} for option in OPTIONS]
    drawn = [(forest, X[~np.isnan(X).any(axis=1)]) for forest, X in drawn]
    check(
        [(forest, X) for forest, X in drawn if len(X)],
        *("-std=c99", "-O1"),
        options=options,
    )


def test_zeros_of_leaves_are_left_out(gcc, case_of, same_bits):
    X, y = load_digits(return_X_y=True)
    forest = bitvec.convert(RandomForestClassifier(7, max_depth=5, random_state=0).fit(X, y))
    X = np.concatenate([X[:300], np.where(X[:100] > 8, np.nan, X[:100])]).astype(np.float32)
    cases = [case_of(forest, X, name=f"m{i}", **options) for i, options in enumerate(OPTIONS)]
    kept = ["_leaf_share[" if o["form"] == "levels" else "_leaf_entry[" for o in OPTIONS]
    assert all(word in case.source.text for word, case in zip(kept, cases, strict=True))
    for leaves, raw in gcc(cases, "-std=c99", "-O2"):
        assert np.array_equal(leaves, reference.exit_leaves(forest, X))
        assert same_bits(raw, reference.raw(forest, X))


def _knows_fma() -> bool:
    listed = Path("/proc/cpuinfo")
    return listed.exists() and " fma " in listed.read_text()


@settings(max_examples=2)
@given(lists(3, kinds=HARD, max_leaves=20))
def test_a_header_is_also_cxx(check, drawn):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    check(drawn, "-xc++", "-std=c++17", "-O1")


def test_infinite_and_signed_constants_keep_their_bits(gcc, case_of, same_bits):
    inf, tiny = np.inf, float(np.finfo(np.float64).smallest_subnormal)
    B = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]
    v = [[-0.0, inf], [tiny, -inf], [np.nan, 1e308], [0.1, -0.0], [-tiny, 3.0]]
    forest = Forest.from_matrices([[1.0]] * 4, [inf, 0.0, -tiny, -inf], B, v)
    output = replace(forest.output, base_first=True, base_score=np.array([-0.0, -0.0]))
    forest = replace(forest, output=output)
    X = np.array([[inf], [1.0], [tiny], [0.0], [-0.0], [-tiny], [-2 * tiny], [-inf], [np.nan]])
    cases = [case_of(forest, X, name=f"m{i}", **options) for i, options in enumerate(OPTIONS)]
    for leaves, raw in gcc(cases, "-std=c99", "-O2"):
        assert np.array_equal(leaves, reference.exit_leaves(forest, X))
        assert same_bits(raw, reference.raw(forest, X))


def test_sets_read_codes_by_every_rule(gcc, case_of):
    n = 3 * 2 * 2
    rule, beyond, missing = np.unravel_index(np.arange(n), (3, 2, 2))
    ptr, words = set_bits([np.array([0, 2, 33]) if i % 5 else np.array([], int) for i in range(n)])
    tests = axis_aligned(
        np.zeros(n, int),
        np.zeros(n, np.float32),
        kind=Kind.SET,
        code_rule=rule,
        other_right=beyond.astype(bool),
        missing_right=missing.astype(bool),
        set_ptr=ptr,
        set_words=words,
    )
    leaf = np.arange(2 * n)
    B = arrange(~leaf[::2], ~leaf[1::2], np.arange(n))[0]
    v = Leaves(np.zeros((2 * n, 1)))
    forest = Forest(tests, B, v, Output(1, np.dtype(np.float64)), Inputs(1))
    codes = [-np.inf, -1, -0.5, -0.0, 0, 0.5, 1, 2, 2.9, 33, 33.5, 34, 63, 64, 1e9, 2**32, 3e38]
    X = np.array([*codes, np.inf, np.nan], np.float32)[:, None]
    exact = [o for o in OPTIONS if o["thresholds"] == "exact" and holds(forest, o)]
    cases = [case_of(forest, X, name=f"m{i}", **options) for i, options in enumerate(exact)]
    for leaves, _ in gcc(cases, "-std=c99", "-O1", "-fsanitize=undefined,address"):
        assert np.array_equal(leaves, reference.exit_leaves(forest, X))


def test_a_forest_of_single_leaves_needs_no_test(gcc, case_of):
    forest = Forest.from_matrices(np.zeros((0, 1)), [], np.zeros((1, 0)), [2.5])
    X = np.zeros((2, 1))
    options = [option for option in OPTIONS if holds(forest, option)]
    cases = [case_of(forest, X, name=f"m{i}", **option) for i, option in enumerate(options)]
    for leaves, raw in gcc(cases, "-std=c99"):
        assert leaves.tolist() == [[0], [0]]
        assert raw.tolist() == [[2.5], [2.5]]


@settings(max_examples=2)
@given(st.lists(forests(kinds=HARD), min_size=3, max_size=3))
def test_the_estimate_counts_the_bytes_that_a_compiler_stores(tmp_path, drawn):
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        pytest.skip("gcc is not installed")
    for forest, options in itertools.product(drawn, OPTIONS[:2]):
        if not holds(forest, options):
            continue
        source = to_c(forest, **options)
        source.save(tmp_path / "model.h")
        main = f"void answer(const {source.name}_input *x, {source.name}_score *raw)\n"
        main = f'#include "model.h"\n{main}; {main}{{ {source.name}_raw(x, raw); }}\n'
        (tmp_path / "main.c").write_text(main)
        built = tmp_path / "main.o"
        command = ["gcc", "-std=c99", "-O0", "-c", "-o", str(built), str(tmp_path / "main.c")]
        subprocess.run(command, check=True)
        listed = subprocess.run(
            ["nm", "-S", str(built)], capture_output=True, text=True, check=True
        ).stdout
        # Private read-only data, without the sizes of groups that a post-transform keeps.
        stored = re.findall(r"^\w+ (\w+) r model_", listed, re.MULTILINE)
        assert sum(int(size, 16) for size in stored) == source.estimate.constant_bytes
