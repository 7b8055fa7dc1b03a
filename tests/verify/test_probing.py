"""Probing reaches what can be reached, shows what can be shown there, and says so exactly."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    AXIS,
    EQUAL,
    KERNEL,
    OBLIQUE,
    POLYTOPE,
    SENTINEL,
    SET,
    examples,
    forests,
    rows,
)

from bitvec.core import matrices, reference, structure
from bitvec.core.float_keys import floats, key_of, keys, ulps
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves, LinearTerms
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, axis_aligned, set_bits, set_codes
from bitvec.core.output import Output
from bitvec.core.value_sets import runs
from bitvec.errors import InputError
from bitvec.verify.probing import LONG_RUN, has_long_runs, probe_rows
from bitvec.verify.probing.code_runs import shown_codes
from bitvec.verify.probing.probe_targets import Outcome
from bitvec.verify.probing.regions import plan

COLUMN_KINDS = (AXIS, SET, EQUAL, KERNEL)


def forest_of(left, right, tests, n_features, **inputs) -> Forest:
    B, order = structure.arrange(np.array(left), np.array(right), np.array([0]))
    assert np.array_equal(order.node, np.arange(len(left)))
    v = np.arange(B.n_leaves, dtype=np.float64)[:, None]
    return Forest(
        tests, B, Leaves(v), Output(1, np.dtype(np.float64)), Inputs(n_features, **inputs)
    )


def shown(forest: Forest, X: np.ndarray) -> dict[int, list[tuple[int, bool]]]:
    """All (row, goes right) pairs of the rows that come by each node, by the literal tests."""
    left, right = structure.children(forest.bitvectors)
    come: dict[int, list[tuple[int, bool]]] = {node: [] for node in range(forest.n_nodes)}
    for root in forest.bitvectors.node_ptr[:-1][np.diff(forest.bitvectors.leaf_ptr) > 1]:
        row, node = np.arange(len(X)), np.full(len(X), root)
        while len(row):
            h = reference.outcomes(forest, X, row, node)
            for r, n, goes_right in zip(row.tolist(), node.tolist(), h.tolist(), strict=True):
                come[n].append((r, goes_right))
            node = np.where(h, right[node], left[node])
            row, node = row[node >= 0], node[node >= 0]
    return come


def candidates(forest: Forest, column: int) -> np.ndarray:
    """Every value of a column at which some test may change, its neighbours, what lies between."""
    tests, dtype = forest.tests, forest.dtype
    values = [0.0, -0.0, SENTINEL, 1e-35, -1e-35, -1.0, np.inf, -np.inf]
    for node in np.flatnonzero(tests.feature == column):
        values.append(float(tests.b[node]))
        if tests.kind[node] == Kind.SET:
            size = int(tests.set_ptr[node + 1] - tests.set_ptr[node]) * 32
            values += [*range(size + 1), *np.arange(size) + 0.5]
    key = np.unique(keys(np.array(values, dtype)))
    key = np.unique(np.concatenate([key - 1, key, key + 1]))
    top = key_of(np.inf, dtype)
    return np.append(floats(key[np.abs(key) <= top], dtype), dtype.type(np.nan))


def brute_force(forest: Forest) -> np.ndarray:
    """Every combination of `candidates`, which decides what can be reached and shown."""
    pools = [candidates(forest, column) for column in range(forest.n_features)]
    return np.array(list(itertools.product(*pools)), forest.dtype).reshape(-1, forest.n_features)


def narrow(forest: Forest) -> Forest:
    """Let a drawn forest read its first two columns only."""
    tests = replace(forest.tests, column=(forest.tests.column % 2).astype(np.int32))
    leaves = Leaves(forest.leaves.v, forest.leaves.output)
    inputs = Inputs(2, missing_sentinel=forest.inputs.missing_sentinel)
    return replace(forest, tests=tests, leaves=leaves, inputs=inputs)


@examples(12)
@given(forests(kinds=COLUMN_KINDS, max_trees=2, max_leaves=7))
def test_what_is_reachable_and_can_be_shown_is_what_brute_force_finds(forest):
    forest = narrow(forest)
    X = brute_force(forest)
    rows, coverage = probe_rows(forest).collect()
    assert rows.dtype == forest.dtype
    assert coverage.fraction == 1
    tests, feature = forest.tests, forest.tests.feature
    for node, come in shown(forest, X).items():
        assert coverage.reachable[node] == bool(come)
        values = [(X[row, feature[node]], h) for row, h in come]
        finite = {h for x, h in values if not np.isnan(x)}
        needed = Outcome(int(coverage.needed[node]))
        assert (Outcome.LEFT in needed) == (False in finite)
        assert (Outcome.RIGHT in needed) == (True in finite)
        assert (Outcome.MISSING in needed) == any(np.isnan(x) for x, _ in values)
        assert (Outcome.PLUS_INF in needed) == any(x == np.inf for x, _ in values)
        assert (Outcome.MINUS_ZERO in needed) == any(x == 0 for x, _ in values)
        if tests.kind[node] != Kind.SET:
            b = int(keys(tests.b[node : node + 1])[0])
            seen = {int(k) for k in keys(np.array([x for x, _ in values], forest.dtype))}
            for outcome, key in ((Outcome.TIE, b), (Outcome.BELOW, b - 1), (Outcome.ABOVE, b + 1)):
                inside = abs(key) <= key_of(np.inf, forest.dtype)
                assert (outcome in needed) == (inside and key in seen)


@given(forests(kinds=COLUMN_KINDS), st.booleans(), st.booleans(), st.integers(0, 9))
def test_claimed_outcomes_are_shown_by_the_rows_themselves(forest, missing, infinite, seed):
    rows, coverage = probe_rows(forest, seed=seed, missing=missing, infinite=infinite).collect()
    assert coverage.fraction == 1
    assert missing or not np.isnan(rows).any()
    assert infinite or not np.isinf(rows).any()
    tests, feature = forest.tests, forest.tests.feature
    for node, come in shown(forest, rows).items():
        assert not (come and not coverage.reachable[node])
        x = np.array([rows[row, feature[node]] for row, _ in come], forest.dtype)
        h = np.array([h for _, h in come], bool)
        number = ~np.isnan(x)
        facts = {
            Outcome.LEFT: ~h & number,
            Outcome.RIGHT: h & number,
            Outcome.MISSING: ~number,
            Outcome.PLUS_INF: x == np.inf,
            Outcome.MINUS_INF: x == -np.inf,
            Outcome.PLUS_ZERO: (x == 0) & ~np.signbit(x),
            Outcome.MINUS_ZERO: (x == 0) & np.signbit(x),
        }
        if tests.kind[node] != Kind.SET:
            b = keys(tests.b[node : node + 1])
            facts[Outcome.TIE] = number & (keys(x) == b)
            facts[Outcome.BELOW] = number & (keys(x) == b - 1)
            facts[Outcome.ABOVE] = number & (keys(x) == b + 1)
        for outcome, fact in facts.items():
            if coverage.seen[node] & outcome:
                assert fact.any(), (node, outcome)


def test_every_code_of_a_set_reaches_it():
    ptr, words = set_bits([np.array([1, 33])])
    tests = axis_aligned(
        [0], np.zeros(1), kind=Kind.SET, set_ptr=ptr, set_words=words, other_right=True
    )
    rows, coverage = probe_rows(forest_of([~0], [~1], tests, 1)).collect()
    assert set(range(65)) <= set(rows[:, 0].tolist())
    needed = Outcome(int(coverage.needed[0]))
    assert needed == coverage.seen[0]
    for outcome in (Outcome.UNSEEN, Outcome.NEGATIVE, Outcome.FRACTION, Outcome.CODE_OUT):
        assert outcome in needed


@given(st.lists(st.sets(st.integers(0, 130) | st.integers(5000, 5300)), min_size=1, max_size=4))
def test_runs_of_codes_are_the_bits_of_the_sets(sets):
    ptr, words = set_bits([np.array(sorted(codes), int) for codes in sets])
    n = len(sets)
    tests = axis_aligned(np.zeros(n, int), np.zeros(n), kind=Kind.SET, set_ptr=ptr, set_words=words)
    nodes = np.arange(n)[::-1]
    which, first, last, right = runs(tests, nodes)
    codes = [np.zeros(0, int) for _ in nodes]
    for i, low, high, goes_right in zip(which, first, last, right, strict=True):
        if goes_right:
            codes[i] = np.append(codes[i], np.arange(low, high + 1))
    for i, node in enumerate(nodes):
        assert np.array_equal(codes[i], set_codes(tests, int(node)))
        own = which == i
        # Runs tile the range, and neighbours go different ways.
        assert np.array_equal(first[own][1:], last[own][:-1] + 1)
        assert np.all(right[own][1:] != right[own][:-1])
        assert (last[own] - first[own] + 1).sum() == (ptr[node + 1] - ptr[node]) * 32
    at, code, goes_right = shown_codes(tests, nodes)
    for i, node in enumerate(nodes):
        assert np.all(np.diff(code[at == i]) > 0)
        assert np.array_equal(code[(at == i) & goes_right], set_codes(tests, int(node)))


@pytest.mark.parametrize("rule", list(CodeRule))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_millions_of_codes_those_are_shown_that_a_set_names_and_the_ends_of_its_runs(
    rule, dtype
):
    named = [0, 3, 10_000, 3_000_001, 3_000_002]
    ptr, words = set_bits([np.array(named)])
    for other_right in (False, True):
        flipped = ~words if other_right else words
        tests = axis_aligned(
            [0],
            np.zeros(1, dtype),
            kind=Kind.SET,
            set_ptr=ptr,
            set_words=flipped,
            code_rule=rule,
            other_right=other_right,
        )
        forest = forest_of([~0], [~1], tests, 1)
        rows, coverage = probe_rows(forest).collect()
        assert has_long_runs(forest)
        assert coverage.fraction == 1
        assert coverage.needed[0] & Outcome.CODE_IN
        assert coverage.needed[0] & Outcome.CODE_OUT
        ends = [1, 2, 4, 5, 9_999, 10_001, 10_002, 3_000_000, 3_000_003, words.size * 32 - 1]
        assert {*named, *ends} <= set(rows[:, 0].tolist())
        assert len(rows) < 1000


def test_every_code_of_a_run_that_is_not_long_is_shown():
    ptr, words = set_bits([np.array([LONG_RUN - 1])])
    tests = axis_aligned([0], np.zeros(1), kind=Kind.SET, set_ptr=ptr, set_words=words)
    forest = forest_of([~0], [~1], tests, 1)
    rows, _ = probe_rows(forest).collect()
    assert not has_long_runs(forest)
    assert set(range(LONG_RUN)) <= set(rows[:, 0].tolist())


@pytest.mark.parametrize("rule", list(CodeRule))
def test_both_code_rules_show_values_between_codes(rule):
    ptr, words = set_bits([np.array([1])])
    tests = axis_aligned(
        [0], np.zeros(1), kind=Kind.SET, set_ptr=ptr, set_words=words, code_rule=rule
    )
    rows, coverage = probe_rows(forest_of([~0], [~1], tests, 1)).collect()
    finite = rows[np.isfinite(rows[:, 0]), 0]
    between = finite[(finite % 1 != 0) & (finite > -1)]
    assert coverage.fraction == 1
    assert (between > 0).any()
    assert (between < 0).any()


def test_a_node_behind_a_missing_value_only_is_reached_by_nan():
    # x <= 1 goes left, then x > 2 goes right: only NaN, which goes left and then right, does both.
    tests = axis_aligned(
        [0, 0, 1], np.array([1.0, 2.0, 0.0]), missing_right=np.array([False, True, False])
    )
    forest = forest_of([1, ~0, ~1], [~3, 2, ~2], tests, 2)
    rows, coverage = probe_rows(forest).collect()
    assert coverage.fraction == 1
    assert coverage.reachable.all()
    assert {row for row, _ in shown(forest, rows)[2]} <= set(np.flatnonzero(np.isnan(rows[:, 0])))
    _, without = probe_rows(forest, missing=False).collect()
    assert without.reachable.tolist() == [True, True, False]


def test_an_impossible_node_is_listed_as_unreachable_and_its_tie_is_not_asked_for():
    tests = axis_aligned([0, 0, 0], np.array([1.0, 2.0, 1.0]))
    forest = forest_of([1, 2, ~0], [~3, ~2, ~1], tests, 1)
    _, coverage = probe_rows(forest).collect()
    assert coverage.reachable.tolist() == [True, True, True]
    # Below x <= 1 nothing exceeds 2, nor 1 once more.
    assert not coverage.needed[1] & (Outcome.RIGHT | Outcome.TIE)
    assert not coverage.needed[2] & (Outcome.RIGHT | Outcome.ABOVE)
    assert coverage.needed[2] & Outcome.TIE
    tests = axis_aligned([0, 0, 0], np.array([1.0, 2.0, 1.5]))
    forest = forest_of([1, ~0, ~1], [~3, 2, ~2], tests, 1)
    _, coverage = probe_rows(forest).collect()
    assert coverage.reachable.tolist() == [True, True, False]
    assert coverage.fraction == 1


@pytest.mark.parametrize("rule", [MissingRule.NAN_OR_ZERO, MissingRule.NAN_OR_SENTINEL])
def test_values_that_count_as_missing_and_their_neighbours_reach_the_node(rule):
    tests = axis_aligned([0], np.array([0.5], np.float32), missing_rule=rule, missing_right=True)
    forest = forest_of([~0], [~1], tests, 1, missing_sentinel=SENTINEL)
    rows, coverage = probe_rows(forest).collect()
    edge = np.float32(1e-35 if rule == MissingRule.NAN_OR_ZERO else SENTINEL)
    beyond = np.float32(np.inf if rule == MissingRule.NAN_OR_ZERO else -np.inf)
    assert edge in rows[:, 0]
    assert np.nextafter(edge, beyond) in rows[:, 0]
    assert coverage.needed[0] & Outcome.SPECIAL
    assert coverage.fraction == 1


@settings(max_examples=12)
@given(forests(kinds=(AXIS, OBLIQUE, POLYTOPE), max_trees=1, max_leaves=6))
def test_below_tests_of_several_columns_nothing_is_claimed_that_was_not_shown(forest):
    rows, coverage = probe_rows(forest).collect()
    for node, come in shown(forest, rows).items():
        assert not (come and not coverage.reachable[node])
        went = {h for _, h in come}
        assert not coverage.seen[node] & Outcome.LEFT or False in went
        assert not coverage.seen[node] & Outcome.RIGHT or True in went


def test_oblique_nodes_with_room_are_all_shown_on_both_sides_and_at_their_edge():
    rng = np.random.default_rng(0)
    # Random directions in 8 dimensions: every cell of a tree of depth 4 is an open cone.
    S, B = (
        rng.normal(size=(15, 8)),
        matrices.dense(
            structure.from_children(
                [1, 3, 5, 7, 9, 11, 13, -1, -3, -5, -7, -9, -11, -13, -15],
                [2, 4, 6, 8, 10, 12, 14, -2, -4, -6, -8, -10, -12, -14, -16],
                [0],
            )
        ),
    )
    forest = Forest.from_matrices(S, rng.normal(size=15), B, np.arange(16))
    rows, coverage = probe_rows(forest).collect()
    assert coverage.fraction == 1
    assert np.all(coverage.seen & Outcome.EDGE)
    z = rows @ S.T - forest.tests.b
    # The two sides of an edge are neighbours up to the rounding of a sum of 8 products.
    assert np.all(np.nanmin(np.abs(z), axis=0) < 1e-13)


def random_oblique(n_features: int, depth: int, dtype, seed: int, *, axis: float = 0.0) -> Forest:
    """A complete tree of dense rows in general position, a share of them axis-aligned."""
    rng = np.random.default_rng(seed)
    n = 2**depth - 1
    left = np.where(np.arange(n) < n // 2, 2 * np.arange(n) + 1, -2 * np.arange(n) - 1)
    right = np.where(np.arange(n) < n // 2, 2 * np.arange(n) + 2, -2 * np.arange(n) - 2)
    S = rng.normal(size=(n, n_features))
    for node in np.flatnonzero(rng.random(n) < axis):
        S[node] = np.eye(n_features)[rng.integers(n_features)]
    B = matrices.dense(structure.from_children(left, right, [0]))
    forest = Forest.from_matrices(S, rng.normal(size=n), B, np.arange(n + 1))
    tests = forest.tests
    floats_of = {
        name: getattr(tests, name).astype(dtype) for name in ("weight", "offset", "r", "b")
    }
    return replace(forest, tests=replace(tests, **floats_of, missing_right=rng.random(n) < 0.5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0.0, 0.3])
def test_oblique_paths_no_longer_than_the_features_are_all_covered(dtype, axis):
    forest = random_oblique(12, 8, dtype, seed=1, axis=axis)
    rows, coverage = probe_rows(forest).collect()
    oblique = forest.tests.feature < 0
    assert coverage.fraction == 1
    if axis == 0:
        # Independent halfspaces always meet, in every combination of sides.
        assert coverage.reachable.all()
        assert np.all(coverage.seen & (Outcome.LEFT | Outcome.RIGHT) == 3)
        assert np.all(coverage.seen[oblique] & Outcome.EDGE)
    for node, come in shown(forest, rows).items():
        went = {h for _, h in come}
        assert not coverage.seen[node] & Outcome.LEFT or False in went
        assert not coverage.seen[node] & Outcome.RIGHT or True in went


@pytest.mark.parametrize("seed", range(4))
def test_oblique_nodes_in_the_plane_are_reached_or_proven_out_of_reach(seed):
    forest = random_oblique(2, 5, np.float64, seed)
    _, coverage = probe_rows(forest).collect()
    assert coverage.fraction == 1
    assert not coverage.reachable.all()
    # What a dense grid and far rows come by is never called out of reach.
    axis = np.concatenate([np.linspace(-6, 6, 241), [-1e3, 1e3]])
    X = np.stack([x.ravel() for x in np.meshgrid(axis, axis)], axis=1)
    X = np.concatenate([X, [[np.nan, 0.0], [0.0, np.nan], [np.nan, np.nan]]])
    for node, come in shown(forest, X).items():
        assert coverage.reachable[node] or not come
        if coverage.reachable[node]:
            went = {h for _, h in come}
            assert False not in went or coverage.needed[node] & Outcome.LEFT
            assert True not in went or coverage.needed[node] & Outcome.RIGHT


@examples(12)
@given(st.data())
def test_no_row_comes_by_what_is_called_out_of_reach(data):
    forest = data.draw(forests(kinds=(AXIS, OBLIQUE, POLYTOPE, SET), max_trees=2, max_leaves=8))
    _, coverage = probe_rows(forest).collect()
    X = data.draw(rows(forest, max_rows=200, finite=True))
    X[np.abs(X) > 1000] = 0  # proofs hold within a magnitude, at least 1024
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.1] = np.nan
    column = plan(forest).feature
    for node, come in shown(forest, X).items():
        assert coverage.reachable[node] or not come
        for row, goes_right in come:
            side = Outcome.RIGHT if goes_right else Outcome.LEFT
            # A missing value of the only column of a test is an outcome of its own.
            is_missing = column[node] >= 0 and np.isnan(X[row, column[node]])
            assert coverage.needed[node] & (Outcome.MISSING if is_missing else side)


def test_a_side_is_not_out_of_reach_because_one_value_of_it_is():
    # Values above -0.165 come to a set, and some of those to -x > 0.25. The row that is given
    # would go left there, and does not come by.
    S, b = np.array([[-0.25], [1.0], [-1.0]]), np.array([0.0413, 0.0, 0.25])
    B = matrices.dense(structure.from_children([1, 2, ~0], [~3, ~2, ~1], [0]))
    forest = Forest.from_matrices(S, b, B, np.arange(4.0))
    ptr, words = set_bits([np.zeros(0, int), np.array([2, 7]), np.zeros(0, int)])
    tests = replace(
        forest.tests,
        kind=np.array([Kind.MARGIN, Kind.SET, Kind.MARGIN], np.uint8),
        code_rule=np.full(3, CodeRule.TRUNCATE, np.uint8),
        missing_rule=np.array([MissingRule.NAN_OR_SENTINEL, 0, 0], np.uint8),
        missing_right=np.array([True, False, False]),
        set_ptr=ptr,
        set_words=words,
    )
    forest = replace(forest, tests=tests, inputs=Inputs(1, missing_sentinel=SENTINEL))
    for given_row in (-0.2, -0.5, 3.0):
        _, coverage = probe_rows(forest, base_rows=np.array([[given_row]])).collect()
        assert coverage.needed[2] == Outcome.LEFT
        assert coverage.fraction == 1


def test_a_missing_value_that_settles_an_oblique_test_opens_the_node_behind_it():
    # x + y > 1 and x + y <= 0 exclude each other; only NaN goes right and then left.
    S, b = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]]), np.array([1.0, 0.0, 0.0])
    B = matrices.dense(structure.from_children([~0, 2, ~1], [1, ~3, ~2], [0]))
    forest = Forest.from_matrices(S, b, B, np.arange(4))
    missing_right = np.array([True, False, False])
    forest = replace(forest, tests=replace(forest.tests, missing_right=missing_right))
    found, coverage = probe_rows(forest).collect()
    assert coverage.reachable.all()
    assert coverage.fraction == 1
    assert all(np.isnan(found[row]).any() for row, _ in shown(forest, found)[2])
    _, without = probe_rows(forest, missing=False).collect()
    assert without.reachable.tolist() == [True, True, False]
    assert without.fraction == 1


def test_base_rows_fill_the_columns_off_the_path():
    tests = axis_aligned([0], np.array([0.5]))
    forest = forest_of([~0], [~1], tests, 3)
    base = np.array([[0.0, 7.0, 8.0]])
    rows, _ = probe_rows(forest, base_rows=base).collect()
    # Most values are those of the given row; some are drawn around all thresholds.
    given = rows[:, 1:] == base[:, 1:]
    assert 0.5 < given.mean() < 1


def test_rows_are_distinct_and_the_same_for_the_same_seed():
    tests = axis_aligned([0, 1], np.array([0.5, 0.0]))
    forest = forest_of([1, ~0], [~2, ~1], tests, 2)
    first, second = (probe_rows(forest, seed=3).collect()[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()
    for block, _ in probe_rows(forest).blocks():
        assert len({row.tobytes() for row in block}) == len(block)


def test_a_column_that_only_linear_leaves_read_is_filled_with_many_values():
    tests = axis_aligned([0], np.array([0.5]))
    forest = forest_of([~0], [~1], tests, 3)
    linear = LinearTerms(
        leaf_ptr=np.array([0, 1, 1]),
        column=np.array([2], np.int32),
        weight=np.ones((1, 1)),
        constant=np.zeros((2, 1)),
    )
    forest = replace(forest, leaves=replace(forest.leaves, linear=linear))
    rows, _ = probe_rows(forest).collect()
    assert len(np.unique(rows[:, 2])) > len(rows) // 2
    # A column that nothing reads is drawn around all thresholds: a source may read it.
    assert np.isin([0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1)], rows[:, 1]).any()
    assert len(np.unique(rows[:, 1])) > 1


def test_a_tree_of_one_leaf_is_covered():
    B = structure.from_children([], [], [~0])
    leaf = Forest(
        axis_aligned(np.zeros(0, int), np.zeros(0)),
        B,
        Leaves(np.ones((1, 1))),
        Output(1, np.dtype(np.float64)),
        Inputs(2),
    )
    rows, coverage = probe_rows(leaf).collect()
    assert rows.shape == (1, 2)
    assert coverage.fraction == 1


@pytest.mark.parametrize("base", [np.zeros((0, 1)), np.zeros((3, 2)), np.zeros(3)])
def test_base_rows_of_another_shape_are_refused(base):
    forest = forest_of([~0], [~1], axis_aligned([0], np.zeros(1)), 1)
    with pytest.raises(InputError, match="base_rows"):
        probe_rows(forest, base_rows=base)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_keys_order_floats_and_step_by_one_ulp(dtype):
    x = np.array([-np.inf, -1.0, -1e-45, 0.0, 1e-45, 1.0, np.inf], dtype)
    assert np.all(np.diff(keys(x)) >= 0)
    assert np.array_equal(floats(keys(x), np.dtype(dtype)), x)
    up = np.nextafter(np.array([1.0, 0.0, -2.5], dtype), dtype(np.inf))
    assert np.array_equal(keys(up), keys(np.array([1.0, 0.0, -2.5], dtype)) + 1)
    far = ulps(np.array([-np.inf], dtype), np.array([np.inf], dtype))
    assert int(far[0]) == 2 * key_of(np.inf, np.dtype(dtype))
