"""A margin over one column is a threshold of that column, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitvec.core import structure
from bitvec.core.float_keys import floats, key_of
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import Activation, MissingRule, NodeTests, Relation
from bitvec.core.output import Output
from bitvec.core.reference import turns
from bitvec.verify.probing import probe_rows
from bitvec.verify.probing.one_column import first_upper, weighted
from bitvec.verify.probing.probe_targets import Outcome


def margins(weights, b, dtype, *, r=None, offset=None, **other) -> NodeTests:
    """One node per list of weights: a row of S for each of its elements, all of column 0."""
    sizes = [len(row) for row in weights]
    n, n_rows = len(weights), sum(sizes)
    empty = {"set_ptr": np.zeros(n + 1, np.int64), "set_words": np.zeros(0, np.uint32)}
    codes = ("kind", "relation", "missing_rule", "code_rule")
    fields = {
        "node_ptr": np.append(0, np.cumsum(sizes)),
        "row_ptr": np.arange(n_rows + 1),
        "column": np.zeros(n_rows, np.int32),
        "weight": np.concatenate(weights).astype(dtype),
        "offset": np.zeros(n_rows, dtype) if offset is None else np.asarray(offset, dtype),
        "activation": np.zeros(n_rows, np.uint8),
        "r": np.ones(n_rows, dtype) if r is None else np.asarray(r, dtype),
        "b": np.asarray(b, dtype),
        **dict.fromkeys(codes, np.zeros(n, np.uint8)),
        **dict.fromkeys(("missing_right", "other_right"), np.zeros(n, bool)),
        **empty,
    }
    return NodeTests(**{**fields, **other})


@given(st.data(), st.sampled_from([np.float32, np.float64]))
def test_a_weighted_column_turns_at_its_first_upper_value_and_nowhere_else(data, dtype):
    number = st.floats(
        -100, 100, allow_nan=False, allow_subnormal=False, width=32 if dtype == np.float32 else 64
    )
    positive = st.floats(2**-20, 2**20, width=32)
    size = data.draw(st.integers(1, 3))
    weight = data.draw(st.lists(positive, min_size=size, max_size=size))
    r = data.draw(st.lists(positive, min_size=size, max_size=size))
    sign = data.draw(st.sampled_from([1, -1]))
    tests = margins(
        [np.array(weight) * sign],
        [data.draw(number | st.sampled_from([0.0, np.inf, -np.inf]))],
        dtype,
        r=r,
        offset=data.draw(st.lists(number, min_size=size, max_size=size)),
        relation=np.array([data.draw(st.sampled_from(list(Relation)))], np.uint8),
    )
    is_weighted, falls = weighted(tests)
    if tests.is_one_hot[0]:
        assert not is_weighted[0]
        return
    assert is_weighted[0]
    assert falls[0] == (sign < 0)
    first = int(first_upper(tests, np.array([0]), falls)[0])
    top = key_of(np.inf, np.dtype(dtype))
    key = np.concatenate(
        [first + np.arange(-50, 50), [-top, top, 0], np.linspace(-top, top, 99).astype(np.int64)]
    )
    key = key[np.abs(key) <= top]
    right = turns(tests, floats(key, np.dtype(dtype))[:, None], np.arange(key.size), 0 * key)
    assert np.array_equal(right != falls[0], key >= first)


def test_what_may_turn_more_than_once_is_left_out():
    dtype = np.float64
    two = np.array([0, 1], np.int32)
    for other in (
        margins([[1.0, -2.0]], [0.0], dtype),  # rises and falls
        margins([[2.0, 0.0]], [0.0], dtype),  # 0 · inf is no number
        margins([[2.0, 2.0]], [0.0], dtype, r=[1.0, -1.0]),
        margins([[2.0]], [0.0], dtype, activation=np.array([Activation.SOFTPLUS], np.uint8)),
        margins([[2.0]], [0.0], dtype, missing_rule=np.array([MissingRule.NAN_OR_ZERO], np.uint8)),
        margins([[2.0]], [0.0], dtype, indicator=np.array([3], np.int32)),
        margins([[2.0]], [0.0], dtype, substitute=np.array([3.0])),
        margins([[2.0, 2.0]], [0.0], dtype, column=two),
        margins([[1.0]], [0.0], dtype),  # one-hot
    ):
        assert not weighted(other)[0].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_paths_over_weighted_columns_are_intervals(dtype):
    # -x > -1 (x < 1) goes right, then 3 x > 3 cannot, then both values beside 2 x > -1 are shown.
    tests = margins([[-1.0], [3.0], [2.0]], [-1.0, 3.0, -1.0], dtype)
    B, _ = structure.arrange(np.array([~0, 2, ~1]), np.array([1, ~3, ~2]), np.array([0]))
    v = np.arange(4.0)[:, None]
    forest = Forest(tests, B, Leaves(v), Output(1, np.dtype(np.float64)), Inputs(1))
    found, coverage = probe_rows(forest).collect()
    assert coverage.fraction == 1
    assert coverage.reachable.all()
    assert not coverage.needed[1] & Outcome.RIGHT
    assert coverage.seen[2] & Outcome.EDGE
    assert {dtype(-0.5), np.nextafter(dtype(-0.5), dtype(0))} <= set(found[:, 0].tolist())
    unmissed = replace(forest, tests=replace(tests, missing_right=np.array([False, True, False])))
    _, coverage = probe_rows(unmissed, infinite=False).collect()
    assert coverage.fraction == 1
