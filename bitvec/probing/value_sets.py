"""The values that go right at an axis-aligned node, as closed intervals of float keys.

Values are the integer keys of `float_keys`, so intervals are closed and exact; NaN, which no
interval holds, always goes in the node's missing direction.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from bitvec.arrays import Array
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
from bitvec.probing.float_keys import first_at_least, key_of

Intervals = tuple[Int64[Array, " _"], Int64[Array, " _"]]
"""First and last keys of closed intervals, disjoint and rising."""

EMPTY: Intervals = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def right_values(forest: Forest, node: int) -> Intervals:
    """Return the values that go right at an axis-aligned node, its missing rule included."""
    tests = forest.tests
    top = key_of(np.inf, forest.dtype)
    if tests.kind[node] == Kind.SET:
        right = _right_codes(forest, node)
    else:
        at = key_of(float(tests.b[node]), forest.dtype)
        if tests.kind[node] == Kind.EQUAL:
            right = interval(at, at)
        else:
            right = interval(at + int(tests.relation[node] == Relation.GREATER), top)
    special = missing_values(forest, node)
    if tests.missing_right[node]:
        return union(right, special)
    return intersection(right, complement(special, top))


def missing_values(forest: Forest, node: int) -> Intervals:
    """Return the values, NaN aside, that count as missing at a node."""
    rule, sentinel = forest.tests.missing_rule[node], forest.inputs.missing_sentinel
    if rule == MissingRule.NAN_OR_ZERO:
        zero = key_of(ZERO_THRESHOLD, forest.dtype)
        return interval(-zero, zero)
    if rule == MissingRule.NAN_OR_SENTINEL and sentinel is not None and not np.isnan(sentinel):
        at = key_of(sentinel, forest.dtype)
        return interval(at, at)
    return EMPTY


def code_values(forest: Forest, node: int, codes: Array) -> Intervals:
    """Return, per code of a set node, the values read as it; codes without any are left out.

    The exact rule reads one float per code (none where the dtype cannot hold the code), the others
    read [code, code + 1), and truncation (-1, 1) for code 0.
    """
    dtype = forest.dtype
    codes = np.asarray(codes, np.float64)
    first = first_at_least(codes, dtype)
    if forest.tests.code_rule[node] == CodeRule.EXACT:
        held = codes.astype(dtype).astype(np.float64) == codes
        return first[held], first[held]
    last = first_at_least(codes + 1, dtype) - 1
    if forest.tests.code_rule[node] == CodeRule.TRUNCATE:
        first = np.where(codes == 0, key_of(-1.0, dtype) + 1, first)
    held = first <= last
    return first[held], last[held]


def n_codes(forest: Forest, node: int) -> int:
    """Return the size of a set node's range."""
    return int(forest.tests.set_ptr[node + 1] - forest.tests.set_ptr[node]) * WORD_BITS


def _right_codes(forest: Forest, node: int) -> Intervals:
    right = set_codes(forest.tests, node)
    if not forest.tests.other_right[node]:
        return union(code_values(forest, node, right), EMPTY)
    wrong = np.setdiff1d(np.arange(n_codes(forest, node)), right)
    return complement(union(code_values(forest, node, wrong), EMPTY), key_of(np.inf, forest.dtype))


def interval(first: int, last: int) -> Intervals:
    """Return one closed interval; empty if first > last."""
    return (np.array([first]), np.array([last])) if first <= last else EMPTY


def union(a: Intervals, b: Intervals) -> Intervals:
    """Return the union of intervals, touching ones joined."""
    first, last = (np.concatenate(pair) for pair in zip(a, b, strict=True))
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order]) if first.size else last
    starts = np.concatenate([[True], first[1:] > last[:-1] + 1])[: first.size]
    ends = np.concatenate([starts[1:], [True]])[: first.size]
    return first[starts], last[ends]


def complement(a: Intervals, top: int) -> Intervals:
    """Return what rising disjoint intervals leave of [-top, top]."""
    first = np.concatenate([[-top], a[1] + 1])
    last = np.concatenate([a[0] - 1, [top]])
    left = first <= last
    return first[left], last[left]


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """Return the intersection of rising disjoint intervals."""
    # Each interval of `a` meets a run of intervals of `b`.
    start = np.searchsorted(b[1], a[0])
    stop = np.searchsorted(b[0], a[1], side="right")
    count = np.maximum(stop - start, 0)
    i = np.repeat(np.arange(a[0].size), count)
    j = np.concatenate([np.arange(s, s + c) for s, c in zip(start, count, strict=True)] or [start])
    j = j.astype(np.int64)
    return np.maximum(a[0][i], b[0][j]), np.minimum(a[1][i], b[1][j])


def contains(a: Intervals, key: Array) -> Array:
    """Tell which keys lie in rising disjoint intervals."""
    if a[0].size == 0:
        return np.zeros(np.shape(key), bool)
    at = np.searchsorted(a[0], key, side="right") - 1
    return (at >= 0) & (key <= a[1][np.maximum(at, 0)])
