"""What the path to each node admits: per column an exact set of values, and whether it may be missing.

Values are the integer keys of `bitvec.float_keys`, so an interval of floats is closed and exact. The
usual test sends an upper interval of values right; the paths' intersections of those are one
interval per node and column. Every other axis-aligned test (set, equal, a missing rule beyond NaN)
cuts its column into atoms on which all of these tests are constant; a path then also admits a subset
of the atoms. So emptiness is computed, not searched for, wherever a path is axis-aligned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int64

from bitvec import structure
from bitvec.arrays import Array, ranges
from bitvec.float_keys import first_at_least, floats, key_of, keys
from bitvec.forest import Forest
from bitvec.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    CodeRule,
    Kind,
    MissingRule,
    Relation,
    set_codes,
)

Intervals = tuple[Int64[Array, " n"], Int64[Array, " n"]]
"""First and last keys of disjoint closed intervals, rising."""

MASK_LIMIT = 1 << 26
"""Most elements of a mask over atoms; a block that needs more is split."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is known of a forest's nodes before any path is looked at.

    `split` is the smallest key that goes right at a node with one upper interval, and 0 elsewhere;
    `is_split` marks those nodes, `feature` is -1 at nodes of several columns. `low` and `high` are
    the keys of the smallest and largest value that rows may hold.
    """

    forest: Forest
    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    parent: Int64[Array, " n_nodes"]
    from_right: Bool[Array, " n_nodes"]
    feature: Int[Array, " n_nodes"]
    is_split: Bool[Array, " n_nodes"]
    split: Int64[Array, " n_nodes"]
    low: int
    high: int
    missing: bool


def plan(forest: Forest, *, missing: bool, infinite: bool) -> Plan:
    """Read the tests of a forest; `missing` and `infinite` say which values rows may hold."""
    tests = forest.tests
    feature = tests.feature
    rule = tests.missing_rule
    plain_rule = rule == MissingRule.NAN
    if forest.inputs.missing_sentinel is None:
        plain_rule |= rule == MissingRule.NAN_OR_SENTINEL
    ordered = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    is_split = (feature >= 0) & ordered & plain_rule
    split = np.zeros(forest.n_nodes, np.int64)
    strict = tests.relation == Relation.GREATER
    split[is_split] = (keys(tests.b) + strict)[is_split]
    top = key_of(np.inf, forest.dtype) - (not infinite)
    left, right = structure.children(forest.bitvectors)
    parent, from_right = structure.parents(forest.bitvectors)
    return Plan(
        forest, left, right, parent, from_right, feature, is_split, split, -top, top, missing
    )


def missing_values(forest: Forest, node: int) -> Intervals:
    """Return the values, NaN aside, that count as missing at a node."""
    rule, dtype = forest.tests.missing_rule[node], forest.dtype
    sentinel = forest.inputs.missing_sentinel
    if rule == MissingRule.NAN_OR_ZERO:
        zero = key_of(ZERO_THRESHOLD, dtype)
        return np.array([-zero]), np.array([zero])
    if rule == MissingRule.NAN_OR_SENTINEL and sentinel is not None and not np.isnan(sentinel):
        at = np.array([key_of(sentinel, dtype)])
        return at, at
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def right_values(forest: Forest, node: int) -> Intervals:
    """Return the values, NaN aside, that go right at an axis-aligned node."""
    tests, top = forest.tests, key_of(np.inf, forest.dtype)
    if tests.kind[node] == Kind.SET:
        right = _right_codes(forest, node)
    else:
        at = int(keys(tests.b[node : node + 1])[0])
        if tests.kind[node] == Kind.EQUAL:
            right = np.array([at]), np.array([at])
        else:
            first = at + (tests.relation[node] == Relation.GREATER)
            right = np.array([first]), np.array([top])
    if tests.kind[node] == Kind.SET:
        return _merged(*right)  # a missing rule beyond NaN applies to set nodes as well, below
    return right


def node_right_values(forest: Forest, node: int) -> Intervals:
    """Return `right_values` with the node's missing rule applied."""
    first, last = right_values(forest, node)
    special_first, special_last = missing_values(forest, node)
    if special_first.size == 0:
        return _merged(first, last)
    if forest.tests.missing_right[node]:
        return _merged(
            np.concatenate([first, special_first]), np.concatenate([last, special_last])
        )
    top = key_of(np.inf, forest.dtype)
    outside = _complement(special_first, special_last, top)
    return intersection((first, last), outside)
