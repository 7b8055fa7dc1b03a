"""The values that go right at axis-aligned nodes, as closed intervals of float keys.

Values are the integer keys of `float_keys`, so intervals are closed and exact; NaN, which no
interval holds, always goes in the node's missing direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array, ranges, unique_integers
from bitvec.core.float_keys import first_at_least, key_of
from bitvec.core.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
)
from bitvec.core.shape_annotations import Bool, Int64


class Intervals(NamedTuple):
    """Keys [first, last] for the node at position `which` of some nodes, rising and apart."""

    which: Int64[Array, " n"]
    first: Int64[Array, " n"]
    last: Int64[Array, " n"]


class Runs(NamedTuple):
    """Codes [first, last] of the set at position `which` that go right or not, as long as can be.

    In the order of the sets, rising.
    """

    which: Int64[Array, " n"]
    first: Int64[Array, " n"]
    last: Int64[Array, " n"]
    right: Bool[Array, " n"]


def n_codes(tests: NodeTests, nodes: Int64[Array, " n"]) -> Int64[Array, " n"]:
    """Return the sizes of the nodes' ranges, 0 for a node without a set."""
    return (tests.set_ptr[nodes + 1] - tests.set_ptr[nodes]) * WORD_BITS


def runs(tests: NodeTests, nodes: Int64[Array, " n"]) -> Runs:
    """Return the runs of some nodes' sets.

    A set may have a range of millions of codes of which it names a few. Its words are read where
    two neighbouring codes part ways, so the cost is that of its words, not of its codes.

    >>> from bitvec.core.node_tests import axis_aligned, set_bits
    >>> ptr, words = set_bits([np.array([0, 1, 2, 40])])
    >>> tests = axis_aligned([0], np.zeros(1), kind=Kind.SET, set_ptr=ptr, set_words=words)
    >>> found = runs(tests, np.array([0]))
    >>> found.first.tolist(), found.right.tolist()
    ([0, 3, 40, 41], [True, False, True, False])
    """
    count = n_codes(tests, nodes) // WORD_BITS
    words = tests.set_words[ranges(tests.set_ptr[nodes], count)]
    start = np.cumsum(count) - count
    before = np.zeros_like(words)
    before[1:] = words[:-1] >> np.uint32(WORD_BITS - 1)
    parts = words ^ ((words << np.uint32(1)) | before)
    parts[start[count > 0]] |= np.uint32(1)  # a range begins with a run, whatever lies before it
    busy = np.flatnonzero(parts)
    bits = np.unpackbits(parts[busy].astype("<u4").view(np.uint8), bitorder="little")
    word, bit = np.divmod(np.flatnonzero(bits), WORD_BITS)
    word = busy[word]
    position = word * WORD_BITS + bit
    which = np.repeat(np.arange(nodes.size), count)[word]
    end = np.append(position[1:], words.size * WORD_BITS)[: position.size] - 1
    shift = start[which] * WORD_BITS
    right = (words[word] >> bit.astype(np.uint32)) & np.uint32(1) == 1
    return Runs(which, position - shift, end - shift, right)


def told_values(
    tests: NodeTests, nodes: Int64[Array, " n"], dtype: np.dtype
) -> tuple[Intervals, Bool[Array, " n"]]:
    """Return the values of `dtype` that each axis-aligned node tells from all others.

    Besides, whether these others go right. The missing rules are left aside.
    """
    kind = tests.kind[nodes]
    others_right = (kind == Kind.SET) & tests.other_right[nodes]
    plain = np.flatnonzero(kind != Kind.SET)
    b, is_equal = tests.b[nodes[plain]].astype(np.float64), kind[plain] == Kind.EQUAL
    first = first_at_least(b, dtype)
    is_held = _holds(dtype, b)
    strict = ~is_equal & (tests.relation[nodes[plain]] == Relation.GREATER)
    first += strict & is_held
    # A threshold that `dtype` cannot hold equals none of its values.
    last = np.where(is_equal, first - ~is_held, key_of(np.inf, dtype))
    sets = np.flatnonzero(kind == Kind.SET)
    which, code, last_code, right = runs(tests, nodes[sets])
    told = np.flatnonzero(right != others_right[sets[which]])
    which, code, last_code = sets[which[told]], code[told], last_code[told]
    # The exact rule reads single floats, so that a run of its codes is no interval of values.
    is_exact = tests.code_rule[nodes[which]] == CodeRule.EXACT
    size = np.where(is_exact, last_code - code + 1, 1)
    which, code, last_code = np.repeat(which, size), ranges(code, size), np.repeat(last_code, size)
    low, high = code_values(tests, nodes[which], dtype, code, last_code)
    which, first = np.concatenate([plain, which]), np.concatenate([first, low])
    last = np.concatenate([last, high])
    held = first <= last
    return _joined(Intervals(which[held], first[held], last[held])), others_right


def code_values(
    tests: NodeTests,
    node: Int64[Array, " n"],
    dtype: np.dtype,
    code: Int64[Array, " n"],
    last_code: Int64[Array, " n"] | None = None,
) -> tuple[Int64[Array, " n"], Int64[Array, " n"]]:
    """Return the first and last key read as a code of a set node; first > last if there is none.

    The exact rule reads one float per code (none where the dtype cannot hold the code), the others
    read [code, code + 1), and truncation (-1, 1) for code 0. With these, `last_code` extends what
    is read to a run of codes.
    """
    rule, value = tests.code_rule[node], code.astype(np.float64)
    first = first_at_least(value, dtype)
    last = first_at_least((code if last_code is None else last_code) + 1.0, dtype) - 1
    first = np.where((rule == CodeRule.TRUNCATE) & (code == 0), key_of(-1.0, dtype) + 1, first)
    return first, np.where(rule == CodeRule.EXACT, first - ~_holds(dtype, value), last)


def _holds(dtype: np.dtype, value: Array) -> Bool[Array, " n"]:
    with np.errstate(over="ignore"):
        held: Array = value.astype(dtype).astype(np.float64) == value
    return held


def missing_values(
    tests: NodeTests, nodes: Int64[Array, " n"], dtype: np.dtype, sentinel: float | None
) -> Intervals:
    """Return the values of `dtype`, NaN aside, that count as missing at some nodes."""
    rule = tests.missing_rule[nodes]
    zero, at = key_of(ZERO_THRESHOLD, dtype), 0
    special = rule == MissingRule.NAN_OR_ZERO
    if sentinel is not None and not np.isnan(sentinel):
        special |= rule == MissingRule.NAN_OR_SENTINEL
        at = key_of(sentinel, dtype)
    which = np.flatnonzero(special)
    is_zero = rule[which] == MissingRule.NAN_OR_ZERO
    return Intervals(which, np.where(is_zero, -zero, at), np.where(is_zero, zero, at))


def atoms(
    tests: NodeTests, nodes: Int64[Array, " n"], top: int, sentinel: float | None
) -> tuple[Int64[Array, " n_atoms"], Int64[Array, " n_atoms"], Bool[Array, "n n_atoms"]]:
    """Cut [-top, top] into intervals on which the tests of some nodes of one column are constant.

    Returns
    -------
    first, last, goes_right
    """
    told, others_right = told_values(tests, nodes, tests.dtype)
    special = missing_values(tests, nodes, tests.dtype, sentinel)
    cuts = (np.array([-top]), told.first, told.last + 1, special.first, special.last + 1)
    first = unique_integers(np.concatenate(cuts))
    first = first[(first >= -top) & (first <= top)]
    goes_right = _cover(told, nodes.size, first, top) != others_right[:, None]
    missing_right = tests.missing_right[nodes]
    absent = _cover(special, nodes.size, first, top)
    return (
        first,
        np.append(first[1:] - 1, top),
        np.where(absent, missing_right[:, None], goes_right),
    )


def _cover(a: Intervals, n: int, first: Array, top: int) -> Bool[Array, "n n_atoms"]:
    """Tell which atoms lie in the intervals of each of n nodes."""
    within = (a.first <= top) & (a.last >= -top)
    which, begin, end = (part[within] for part in a)
    # +1 where an interval begins and -1 behind its end: its nodes' intervals are apart.
    steps = np.zeros((n, first.size + 1), np.int8)
    steps[which, np.searchsorted(first, begin)] = 1
    steps[which, np.searchsorted(first, end + 1)] = -1
    covered: Array = np.cumsum(steps[:, :-1], axis=1, dtype=np.int8) > 0
    return covered


def _joined(a: Intervals) -> Intervals:
    """Join intervals of a node that touch; they must be rising and disjoint."""
    opens = np.ones(a.which.size, bool)
    opens[1:] = (a.which[1:] != a.which[:-1]) | (a.first[1:] > a.last[:-1] + 1)
    closes = np.append(opens[1:], True)[: opens.size]
    return Intervals(a.which[opens], a.first[opens], a.last[closes])
