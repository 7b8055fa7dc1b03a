"""What no row does is proven, ties included, and a row that is found passes the literal tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitvec.core import structure
from bitvec.core.float_keys import floats, keys
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Activation, NodeTests, Relation
from bitvec.core.output import Output
from bitvec.core.reference import turns
from bitvec.verify.probing import probe_rows
from bitvec.verify.probing.branching import path_of, settle
from bitvec.verify.probing.probe_targets import Outcome
from bitvec.verify.probing.proofs import BOXES, decide, magnitudes
from bitvec.verify.probing.regions import plan
from bitvec.verify.probing.same_margins import contradict, margin_classes

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def oblique(S, b, dtype, **other) -> NodeTests:
    """One node per row of S, all entries stored."""
    S = np.array(S, dtype)
    n, d = S.shape
    codes = ("kind", "relation", "missing_rule", "code_rule", "activation")
    fields = {
        "node_ptr": np.arange(n + 1),
        "row_ptr": d * np.arange(n + 1),
        "column": np.tile(np.arange(d, dtype=np.int32), n),
        "weight": S.ravel(),
        "offset": np.zeros(n, dtype),
        "r": np.ones(n, dtype),
        "b": np.asarray(b, dtype),
        **dict.fromkeys(codes, np.zeros(n, np.uint8)),
        **dict.fromkeys(("missing_right", "other_right"), np.zeros(n, bool)),
        "set_ptr": np.zeros(n + 1, np.int64),
        "set_words": np.zeros(0, np.uint32),
    }
    return NodeTests(**{**fields, **other})


def polytopes(S, offset, r, b, node_ptr, dtype) -> NodeTests:
    """One facet per row of S, `node_ptr` says whose."""
    facets = oblique(S, np.zeros(len(S)), dtype)
    n = len(b)
    each = {name: getattr(facets, name)[:n] for name in ("kind", "relation", "missing_rule")}
    each |= {name: getattr(facets, name)[:n] for name in ("code_rule", "missing_right")}
    return replace(
        facets,
        **each,
        other_right=facets.other_right[:n],
        set_ptr=facets.set_ptr[: n + 1],
        node_ptr=np.array(node_ptr),
        offset=np.array(offset, dtype),
        r=np.array(r, dtype),
        b=np.array(b, dtype),
        activation=np.full(len(S), Activation.SOFTPLUS, np.uint8),
    )


def chain_forest(tests: NodeTests, right) -> Forest:
    """A tree whose nodes follow each other, turned to the right or left, and a last one."""
    n = tests.n_nodes
    next_node, leaf = np.append(np.arange(1, n), ~(n - 1)), ~np.append(np.arange(n - 1), n)
    turn = np.array(right, bool)
    left, to_right = np.where(turn, leaf, next_node), np.where(turn, next_node, leaf)
    B, order = structure.arrange(left, to_right, np.array([0]))
    v = np.arange(n + 1.0)[:, None]
    columns = int(tests.column.max()) + 1
    return Forest(
        tests.take(order.node), B, Leaves(v), Output(1, np.dtype(np.float64)), Inputs(columns)
    )


def settled(tests: NodeTests, right, *, magnitude=1024.0, boxes=BOXES):
    n_columns = int(tests.column.max()) + 1
    right, every = np.array(right, bool), np.arange(tests.n_nodes)
    path = path_of(tests, every, right, np.ones(every.size, bool), np.arange(n_columns))
    low = np.full(n_columns, -magnitude, tests.dtype)
    none, row, cost = settle(path, low, -low, boxes)
    assert cost <= boxes
    if row is not None:
        assert not none
        passed = turns(tests, row[None], np.zeros(every.size, np.int64), every) == right
        assert passed.all()
    return none, row


# Margins that are equal, negated or taken by a power of two


def test_equal_margins_with_opposite_turns_contradict():
    S = np.array([[0.1, 0.2, -0.3], [0.5, 1.0, 0.0]], np.float32)
    tests = oblique(np.vstack([S, S, -S]), [1, 1, 1, 1, -1, -1], np.float32)
    number, factor = margin_classes(tests, np.arange(6))
    assert number.tolist() == [0, 1, 0, 1, 0, 1]
    assert factor[0] == factor[2] == -factor[4]

    def excluded(test, right) -> bool:
        test = np.array(test)
        return contradict(tests, number[test], factor[test], test, np.array(right))

    assert excluded([0, 2], [True, False])
    assert excluded([0, 1, 2], [False, True, True])
    assert not excluded([0, 2], [True, True])
    assert not excluded([0, 1], [True, False])
    # z > 1 and -z > -1 exclude each other, z <= 1 and -z <= -1 leave the tie.
    assert excluded([0, 4], [True, True])
    assert not excluded([0, 4], [False, False])
    greater_equal = np.full(6, Relation.GREATER_EQUAL, np.uint8)
    tests = replace(tests, relation=greater_equal, missing_right=np.ones(6, bool))
    assert not excluded([0, 4], [True, True])
    assert excluded([0, 4], [False, False])


def test_a_missing_value_passes_equal_margins_only_if_all_of_them_send_it_that_way():
    tests = oblique([[1, 1], [1, 1]], [2, 0], np.float64)
    number, factor = margin_classes(tests, np.arange(2))
    path, turned = np.arange(2), np.array([True, False])  # z > 2, then z <= 0
    assert contradict(tests, number, factor, path, turned)
    opened = replace(tests, missing_right=turned)
    assert not contradict(opened, number, factor, path, turned)


@DTYPES
def test_a_power_of_two_is_divided_out_unless_subnormal_numbers_could_tell(dtype):
    S = [[0.5, 1.0], [0.25, 0.5], [-2.0, -4.0], [0.3, 0.6], [0.25, 0.5]]
    tests = oblique(S, [-0.5, -0.25, 2.0, -0.3, 0.0], dtype)
    number, factor = margin_classes(tests, np.arange(5))
    assert number[0] == number[1] == number[2]
    assert number[3] != number[0]
    assert (factor[:3] / factor[0]).tolist() == [1.0, 0.5, -4.0]
    # z > 0 and z / 2 <= 0: the half of the smallest number is 0.
    assert number[4] != number[0]
    smallest = np.finfo(dtype).smallest_subnormal
    row = np.array([[0, smallest]], dtype)
    pair = oblique([[0.5, 1.0], [0.25, 0.5]], [0, 0], dtype)
    assert turns(pair, row, np.zeros(2, int), np.arange(2)).tolist() == [True, False]
    assert margin_classes(pair, np.arange(2))[0].tolist() == [0, 1]


# Boxes


def test_a_row_of_subnormal_numbers_is_found_where_only_these_pass():
    none, row = settled(oblique([[0.5, 1.0], [0.25, 0.5]], [0, 0], np.float32), [True, False])
    assert not none
    assert row is not None


@DTYPES
@pytest.mark.parametrize(
    ("S", "b", "right"),
    [
        # 2 x + y < 3/2 and y - x > -3/2 meet 3 x - 2 y >= 4 in no more than a point.
        ([[-0.5, 0.5], [-1, -0.5], [-0.75, 0.5]], [-0.75, -0.75, -1], [1, 1, 0]),
        ([[0.5, 0.5], [-0.25, -0.75], [-1, -0.5]], [0, 0.5, -0.5], [1, 1, 1]),
        # x <= 0, y > 1 and x / 2 - y / 4 > -1/4
        ([[1, 0], [0, 1], [0.5, -0.25]], [0, 1, -0.25], [0, 1, 1]),
    ],
)
def test_halfspaces_that_miss_each_other_at_a_tie_are_proven_to(dtype, S, b, right):
    assert settled(oblique(S, b, dtype), right) == (True, None)


@DTYPES
def test_halfspaces_that_only_rounding_opens_are_entered(dtype):
    # x + y <= 1 and 3 (x + y) > 3: in exact arithmetic nothing.
    none, row = settled(oblique([[1, 1], [3, 3]], [1, 3], dtype), [0, 1])
    assert not none
    if row is not None:
        assert abs(float(row[0]) + float(row[1]) - 1) < 1e-5


def test_a_gap_of_a_sixth_is_seen_in_a_box_of_any_size():
    tests = oblique([[0.5, 0], [-1, 0], [0.75, 0], [0, 2]], [-1, 0.5, -0.25, 0], np.float32)
    for magnitude in (1.0, 64.0, 1024.0, 4096.0, 2.0**18):
        assert settled(tests, [1, 1, 1, 1], magnitude=magnitude)[0]


def test_a_sum_of_softplus_is_entered_on_its_right_side_and_proven_to_be_left():
    # softplus(x) + softplus(-x) is 2 log 2 at 0 and rises on both sides.
    S, r = [[1], [-1], [1], [-1]], [1, 1, 1, 1]
    b = [2 * np.log(2) + 1e-3, 2 * np.log(2) + 2e-3]
    tests = polytopes(S, np.zeros(4), r, b, [0, 2, 4], np.float64)
    assert settled(tests, [1, 1])[1] is not None
    assert settled(tests, [1, 0])[1] is not None
    assert settled(tests, [0, 1]) == (True, None)
    below = replace(tests, b=np.array([1.386, 10.0]))  # 2 log 2 = 1.38629...
    assert settled(below, [0, 0]) == (True, None)


@DTYPES
def test_a_sum_of_softplus_is_zero_where_its_terms_underflow(dtype):
    # 1e-3 softplus(-x) <= 0 asks for x beyond 100 (of float32) or 740 (of float64) already.
    tests = polytopes([[-1.0], [1.0]], [0, 0], [1e-3, 1], [0, 1e4], [0, 1, 2], dtype)
    none, row = settled(tests, [0, 0])
    assert not none
    assert row is not None
    none, row = settled(replace(tests, b=np.array([0, 30], dtype)), [0, 0])
    assert none


def test_sides_that_every_row_meets_cost_no_boxes():
    # x >= 6 and y >= 6.6 follow from the last two; the first then falls short of 2.3.
    facets = [[0, -0.25], [-1, 0.25], [-0.5, 0.75], [-0.75, 0.5], [0.25, 0.5], [-0.75, -0.25]]
    facets += [[-1, 0], [-1, 1], [-1, -1], [-0.5, 0.75], [-0.5, 1]]
    offset = [0.25, 0.5, -0.25, 0, 0.75, -0.75, 0.75, 0.5, -0.75, -0.25, -1]
    r = [1, 1, 0.5, 1, 1.5, 0.5, 2, 1.5, 0.5, 1, 1.5]
    b = [2.3025849, 0.35667497, 0, 0, 2.3025849, 6.9077682]
    tests = polytopes(facets, offset, r, b, [0, 3, 5, 6, 9, 10, 11], np.float32)
    assert settled(tests, [1, 1, 1, 1, 0, 1], magnitude=8192.0, boxes=128) == (True, None)


@given(st.data(), st.sampled_from([np.float32, np.float64]))
def test_no_row_near_a_tie_passes_what_is_proven_empty(data, dtype):
    d = data.draw(st.integers(1, 3))
    n = data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    right = rng.random(n) < 0.5
    if data.draw(st.booleans()):
        tests = oblique(rng.integers(-4, 5, (n, d)) / 4, rng.integers(-4, 5, n) / 4, dtype)
    else:
        facets = rng.integers(1, 3, n)
        ptr, m = np.append(0, np.cumsum(facets)), int(facets.sum())
        tests = polytopes(
            rng.integers(-4, 5, (m, d)) / 4,
            rng.integers(-4, 5, m) / 4,
            rng.integers(0, 5, m) / 2,
            -np.log(1 - rng.choice([0.0, 0.3, 0.5, 0.999], n)),
            ptr,
            dtype,
        )
    none, row = settled(tests, right, boxes=64)
    X = (rng.integers(-12, 13, (4000, d)) / 4 * 2.0 ** rng.integers(-2, 8, (4000, 1))).astype(dtype)
    X = np.concatenate([X, rng.normal(size=(500, d)).astype(dtype)])
    if row is not None:
        X = np.concatenate([X, np.tile(row, (500, 1))])
    X = floats(keys(X) + rng.integers(-3, 4, X.shape), np.dtype(dtype))
    pair = np.divmod(np.arange(len(X) * n), n)
    passed = (turns(tests, X, *pair).reshape(len(X), n) == right).all(axis=1)
    passed &= np.all(np.abs(X) < 1024, axis=1)
    assert not (none and passed.any())


# Paths of a forest


@DTYPES
def test_opposite_turns_at_one_test_are_not_asked_for(dtype):
    tests = oblique([[0.1, 0.7], [0.3, -0.2], [0.1, 0.7]], [0.3, 0.1, 0.3], dtype)
    forest = chain_forest(tests, [False, True, True])
    _, coverage = probe_rows(forest).collect()
    assert coverage.fraction == 1
    assert coverage.reachable.all()
    assert not coverage.needed[2] & Outcome.RIGHT
    assert coverage.seen[2] & Outcome.LEFT


def test_a_side_that_a_missing_value_above_rules_out_is_not_asked_for():
    # Only NaN has neither x > 0 nor x <= 0 here; with it, x + y > 1 goes left.
    S, b = [[1, 0], [-1, 0], [1, 1]], [-1, 0, 1]
    forest = chain_forest(oblique(S, b, np.float64), [False, False, True])
    tests = forest.tests
    assert tests.missing_right.tolist() == [False] * 3
    _, coverage = probe_rows(forest).collect()
    assert coverage.fraction == 1
    assert coverage.reachable.all()
    assert not coverage.needed[2] & Outcome.RIGHT


def test_a_decision_counts_a_wide_box_as_several():
    rng = np.random.default_rng(0)
    tests = oblique(rng.normal(size=(3, 32)), [0, 0, 0], np.float64)
    facts = plan(chain_forest(tests, [True, True, True]))
    low = np.full(32, -np.finfo(np.float64).max)
    verdict = decide(
        facts, 2, 1, low, -low, np.zeros(32, bool), magnitudes(facts.forest, None), boxes=64
    )
    assert verdict.row is not None
    assert verdict.cost == 16
