"""Laws of the C header: what a compiled header answers is what the reference answers."""

from __future__ import annotations

import ast
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
    POLYTOPE,
    SET,
    forests,
    forests_with_rows,
)

import bitvec
from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Kind, MissingRule, axis_aligned, set_bits
from bitvec.core.output import Aggregate, Output, PostTransform
from bitvec.core.structure import arrange
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.export.c import to_c
from bitvec.runtime.export.c.levels import require_levels
from bitvec.runtime.export.ranks import compared

HARD = (AXIS, OBLIQUE, SET, EQUAL, KERNEL)
LEVELS = {"form": "levels", "thresholds": "exact"}
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


@pytest.mark.parametrize("level", ["-O0", pytest.param("-O2", marks=pytest.mark.full), "-O3"])
@settings(max_examples=3)
@given(lists(4, kinds=HARD))
def test_leaves_and_raw_scores_are_the_references_bit_for_bit(check, level, drawn):
    check(drawn, "-std=c99", level)


@settings(max_examples=3)
@given(lists(4, kinds=(OBLIQUE, AXIS), max_leaves=12))
def test_fused_products_change_nothing(check, drawn):
    flags = ("-mfma",) if _knows_fma() else ()
    check(drawn, "-std=gnu11", "-O3", "-ffp-contract=fast", *flags)


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
def test_trees_filled_to_one_depth_answer_as_the_reference(check, drawn):
    drawn = [(forest, X) for forest, X in drawn if holds(forest, LEVELS)]
    assume(drawn)
    check(drawn, "-std=c99", "-O2", "-fsanitize=undefined,address", options=(LEVELS,))


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
    assert all("_leaf_entry[" in case.source.text for case in cases)
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


@pytest.fixture(scope="module")
def random_forest():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 20))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=2000), [-0.5, 0.5])
    model = ensemble.RandomForestClassifier(50, max_depth=8, random_state=0).fit(X, y)
    return bitvec.convert(model)


def test_a_forest_of_depth_8_takes_at_most_24_bytes_a_node(random_forest):
    exact = to_c(random_forest).estimate
    ranks = to_c(random_forest, thresholds="ranks").estimate
    assert exact.n_nodes == random_forest.n_nodes
    assert exact.bytes_per_inner_node <= 24
    assert ranks.bytes_per_inner_node <= 24
    assert exact.most_comparisons <= 50 * 8
    assert exact.stack_bytes == 3 * 8


def test_equal_leaf_vectors_are_kept_once():
    v = np.tile([[0.1, 0.2, 0.7], [0.25, 0.35, 0.4]], (128, 1))
    left, right = [], []
    for node in range(255):  # a chain
        left.append(~node)
        right.append(node + 1 if node < 254 else ~255)
    B = arrange(left, right, [0])[0]
    tests = axis_aligned(np.zeros(255, int), np.arange(255, dtype=np.float32))
    forest = Forest(tests, B, Leaves(v), Output(3, np.dtype(np.float64)), Inputs(1))
    # A node: 1 byte of column, 4 of threshold, 1 of leaves on its left. A leaf: 1 of its vector.
    n_bytes = 255 * 6 + 256 * 1 + 2 * 3 * 8 + 2 * 2
    assert to_c(forest).estimate.constant_bytes == n_bytes


@pytest.mark.parametrize("name", ["", "Model", "_x", "1st", "a-b", "a b", "ä", "x" * 42, "a\n", 3])
def test_a_name_that_c_cannot_take_is_refused(stump, name):
    with pytest.raises(InputError, match="`name` must begin with a letter"):
        to_c(stump, name=name)


@pytest.mark.parametrize("name", ["int", "double", "class", "template", "co_await"])
def test_a_word_that_c_or_cxx_keeps_for_itself_is_refused(stump, name):
    with pytest.raises(InputError, match=f"`name` must be no word of C or C\\+\\+, got '{name}'"):
        to_c(stump, name=name)


def test_ranks_are_refused_where_no_node_has_one():
    oblique = Forest.from_matrices([[1.0, 2.0]], [0.5], [[0], [1]], [10, 20])
    with pytest.raises(InputError, match=r'compares one column with a threshold.*"exact"'):
        to_c(oblique, thresholds="ranks")
    mixed = Forest.from_matrices(
        [[1.0, 2.0], [1.0, 0.0]], [0.5, 1.0], [[0, 0], [0, 1], [1, 1]], [1, 2, 3]
    )
    assert "typedef uint8_t model_rank;" in to_c(mixed, thresholds="ranks").text


@pytest.fixture
def stump():
    return Forest.from_matrices([[1.0, 0.0]], [0.5], [[0], [1]], [10, 20])


def test_names_of_columns_and_classes_cannot_leave_their_place(gcc, case_of, stump):
    words = ('*/ int a; /*"\\', '??/\n"; int b; @raw $x /\\', "ü\u202e*/")
    output = Output(3, np.dtype(np.float64), classes=(np.array(words),))
    forest = replace(
        stump,
        leaves=Leaves(np.eye(3)[:2]),
        output=output,
        inputs=Inputs(2, feature_names=words[:2]),
    )
    case = case_of(forest, np.zeros((1, 2)))
    assert case.source.text.isascii()
    gcc([case], "-std=c99")
    start = case.source.text.index("names[3] = {") + len("names[3] = {")
    listed = case.source.text[start:].split("};")[0].strip().rstrip(",").split(",\n")
    assert tuple(ast.literal_eval(f"b{line.strip()}").decode() for line in listed) == words


def classifier(stump: Forest, *names: str) -> Forest:
    output = Output(len(names), np.dtype(np.float64), classes=(np.array(names),))
    return replace(stump, leaves=Leaves(np.eye(len(names))[:2]), output=output)


def test_a_zero_byte_in_a_class_does_not_end_its_name(tmp_path, stump):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    to_c(classifier(stump, "a\x00b", "c")).save(tmp_path / "model.h")
    main = '#include <stdio.h>\n#include "model.h"\nint main(void)\n'
    main += "{ puts(model_class_name(0)); return 0; }\n"
    (tmp_path / "main.c").write_text(main)
    subprocess.run(
        ["gcc", "-std=c99", "-o", str(tmp_path / "main"), str(tmp_path / "main.c"), "-lm"],
        check=True,
    )
    assert subprocess.check_output([str(tmp_path / "main")], text=True) == "a\\0b\n"


def test_a_class_name_longer_than_a_text_of_c99_is_refused(gcc, case_of, stump):
    gcc([case_of(classifier(stump, "ü" * 2047, "b"), np.zeros((1, 2)))], "-std=c99")
    with pytest.raises(UnsupportedModelError, match="at most 4095 bytes in UTF-8, got 4096"):
        to_c(classifier(stump, "ü" * 2048, "b"))


def test_categories_are_named_in_the_header(gcc, case_of, stump):
    books = (("Bern", "Lima", "*/ Oslo", "ü", "bern"), None)
    inputs = Inputs(2, feature_names=("home city", "age"), categories=books)
    case = case_of(replace(stump, inputs=inputs), np.zeros((1, 2)), name="m")
    text = case.source.text
    gcc([case], "-std=c99")
    for code, label in enumerate(("Bern", "Lima", "* / Oslo", "\\xfc", "bern")):
        assert f"     {code}  {label}\n" in text or f"     {code}  {label} */" in text
    assert "#define M_HOME_CITY_LIMA 1\n" in text
    assert "#define M_HOME_CITY_OSLO 2\n" in text
    assert "#define M_HOME_CITY_U 3\n" in text
    # Two labels of one name are in the comment alone.
    assert "M_HOME_CITY_BERN" not in text
    assert text.count("#define M_HOME_CITY_") == 3
    bare = replace(stump, inputs=Inputs(2, categories=((3, 5.5, True), None)))
    assert "#define M_X0_3 0\n" in to_c(bare, name="m").text


def test_the_names_of_categories_are_nobody_elses(gcc, case_of, stump):
    # N_FEATURES, H and NO_MATH are names of the header's own.
    names, books = ("n", "no", "N-"), (("features", "trees"), ("math", "x"), ("x", "outputs"))
    forest = Forest.from_matrices([[1.0, 0.0, 0.0]], [0.5], [[0], [1]], [10, 20])
    forest = replace(forest, inputs=Inputs(3, feature_names=names, categories=books))
    case = case_of(forest, np.zeros((1, 3)))
    gcc([case], "-std=c99")
    assert "#define MODEL_N_FEATURES 3\n" in case.source.text
    assert "#define MODEL_NO_X 1\n" in case.source.text
    for absent in ("MODEL_NO_MATH", "MODEL_N_TREES 1\n#define MODEL_N_TREES", "MODEL_N_X"):
        assert f"#define {absent}" not in case.source.text


def test_hashed_categories_are_named_as_hashes(stump):
    inputs = Inputs(2, categories=(("Bern", 12345), None), hashed=(0,))
    text = to_c(replace(stump, inputs=inputs), name="m").text
    assert "#define M_X0_BERN 0\n" in text
    assert "     1  hash 12345" in text
    assert "M_X0_12345" not in text


def test_a_header_without_math_holds_what_needs_none(stump, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    output = Output(
        1,
        np.dtype(np.float64),
        post_transform=PostTransform.SIGMOID,
        classes=(np.array([0, 1]),),
    )
    source = to_c(replace(stump, output=output))
    source.save(tmp_path / "model.h")
    for call, passes in (("model_raw(x, y)", True), ("model_probabilities(x, y)", False)):
        (tmp_path / "main.c").write_text(
            '#define MODEL_NO_MATH\n#include "model.h"\n#ifdef _MATH_H\n#error\n#endif\n'
            f"void answer(const double *x, double *y);\n"
            f"void answer(const double *x, double *y) {{ {call}; }}\n"
        )
        command = ["gcc", "-std=c99", "-Werror", "-fsyntax-only", str(tmp_path / "main.c")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == passes, done.stderr


def test_a_saved_header_is_whole_and_nothing_else_is_left(stump, tmp_path):
    source = to_c(stump)
    path = tmp_path / "model.h"
    assert source.save(path) == path
    assert path.read_text() == source.text
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.h"]
    assert source.save(tmp_path / "MODEL.H").read_text() == source.text
    with pytest.raises(InputError, match=r"end in \.h"):
        source.save(tmp_path / "model.c")


def test_what_a_header_cannot_hold_is_refused_in_one_sentence(stump):
    median = Output(
        1, np.dtype(np.float64), aggregate=Aggregate.WEIGHTED_MEDIAN, tree_weight=np.ones(1)
    )
    with pytest.raises(UnsupportedModelError, match="weighted median"):
        to_c(replace(stump, output=median))
    with pytest.raises(UnsupportedModelError, match="at least one tree"):
        to_c(stump.take([]))
    with pytest.raises(InputError, match="`form` must be one of"):
        to_c(stump, form="table")
    with pytest.raises(InputError, match="`thresholds` must be one of"):
        to_c(stump, thresholds="rank")
    with pytest.raises(TypeError, match="bitvec Forest"):
        to_c("model")


def test_trees_too_large_to_unroll_are_refused_with_the_other_form(random_forest):
    with pytest.raises(UnsupportedModelError, match=r"4096 nodes at most.*`tables`"):
        to_c(random_forest, form="unrolled")
    left = [~node for node in range(101)]
    right = [node + 1 for node in range(100)] + [~101]
    tests = axis_aligned(np.zeros(101, int), np.arange(101.0))
    leaves = Leaves(np.zeros((102, 1)))
    B = arrange(left, right, [0])[0]
    chain = Forest(tests, B, leaves, Output(1, np.dtype(np.float64)), Inputs(1))
    with pytest.raises(UnsupportedModelError, match=r"depth 100 at most, got 101.*`tables`"):
        to_c(chain, form="unrolled")


@pytest.mark.parametrize("n_thresholds", [254, 255, 65534, 65535])
def test_ranks_take_the_narrowest_type_that_counts_them(n_thresholds):
    child = np.arange(1, 2 * n_thresholds + 1)  # a complete tree
    child = np.where(child < n_thresholds, child, ~(child - n_thresholds))
    B = arrange(child[::2], child[1::2], [0])[0]
    b = np.arange(n_thresholds, dtype=np.float32)
    leaves = Leaves(np.zeros((n_thresholds + 1, 1)))
    tests = axis_aligned(np.zeros(n_thresholds, int), b)
    forest = Forest(tests, B, leaves, Output(1, np.dtype(np.float64)), Inputs(1))
    if n_thresholds == 65535:
        with pytest.raises(UnsupportedModelError, match='thresholds="exact"'):
            to_c(forest, thresholds="ranks")
        return
    kind = "uint8_t" if n_thresholds == 254 else "uint16_t"
    assert f"typedef {kind} model_rank;" in to_c(forest, thresholds="ranks").text


@settings(max_examples=5)
@given(forests(kinds=(POLYTOPE,)).filter(lambda forest: forest.n_nodes > 0))
def test_polytopes_are_refused(forest):
    with pytest.raises(UnsupportedModelError, match="polytope"):
        to_c(forest)


@settings(max_examples=5)
@given(forests(kinds=(KERNEL,), soft=True).filter(lambda f: f.kernel is not None))
def test_a_soft_forest_is_refused(forest):
    with pytest.raises(UnsupportedModelError, match="prediction kernel"):
        to_c(forest)
