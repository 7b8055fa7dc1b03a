"""The answer of every set to every code, as tables of bits by slot.

A slot is what codes become: 0 for a missing value, 1 + code, or the last one for any other value.
Where only few of a column's codes occur in its sets, those are numbered anew, so that even codes up
to a million fit a table that is looked up by bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import WORD_BITS, MissingRule, NodeTests
from bitvec.runtime.predict.cpu.bins.set_kernels import TABLE_SLOTS

MOST_MAPPED = 1 << 20
"""Codes of a column, at most, that are numbered anew where few of them occur in its sets."""
_CHUNK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class SetColumn:
    """One way in which set tests read codes from a column.

    Parameters
    ----------
    feature, missing_rule, code_rule : int
    n_codes : int
        One more than the highest code whose answer differs from that of other values.
    map : int32, (n_codes + 2,), optional
        The new slot of each slot, where codes are numbered anew.
    is_long : bool
        Whether its slots are more than a table looked up by bytes has.
    """

    feature: int
    missing_rule: int
    code_rule: int
    n_codes: int
    map: Array | None
    is_long: bool


@dataclass(frozen=True, slots=True, eq=False)
class SetTable:
    """The answer to every slot of a column: bits, or words of a long table, and its last slot."""

    column: int
    table: bytes
    last: int


def distinct_sets(forest: Forest, node: Array) -> tuple[list[SetColumn], list[SetTable], Array]:
    """Return the columns that set nodes read, their distinct sets, and which one is each node's."""
    tests = forest.tests
    rule = tests.missing_rule[node].astype(np.int64)
    sentinel = forest.inputs.missing_sentinel
    if sentinel is None or np.isnan(sentinel):
        rule[rule == MissingRule.NAN_OR_SENTINEL] = MissingRule.NAN
    reading = np.stack([tests.feature[node], rule, tests.code_rule[node]], axis=1)
    distinct, which = np.unique(reading.astype(np.int64), axis=0, return_inverse=True)
    columns: list[SetColumn] = []
    seen: dict[tuple[int, bytes, int], int] = {}
    set_of = np.zeros(node.size, np.int64)
    parts = [np.flatnonzero(which.ravel() == k) for k in range(len(distinct))]
    made = [
        (*_column(names, _telling_codes(tests, node[part])), part)
        for names, part in zip(distinct.tolist(), parts, strict=True)
    ]
    # Sets in long tables come last, here and so among those of each tree.
    for column, codes, part in sorted(made, key=lambda one: one[0].is_long):
        tables = _long_tables if column.is_long else _short_tables
        for k, (table, last) in zip(part, tables(tests, node[part], codes), strict=True):
            set_of[k] = seen.setdefault((len(columns), table, last), len(seen))
        columns.append(column)
    return columns, [SetTable(*key) for key in seen], set_of


def _column(names: list[int], codes: Array) -> tuple[SetColumn, Array]:
    """Return how codes are read, and those that have slots of their own, if it is some only.

    `names` are the feature, the missing rule and the code rule.
    """
    feature, missing_rule, code_rule = names
    n_codes = int(codes.max(initial=-1)) + 1
    if n_codes + 2 <= TABLE_SLOTS:
        return SetColumn(feature, missing_rule, code_rule, n_codes, None, False), np.arange(n_codes)
    if codes.size + 2 > TABLE_SLOTS or n_codes > MOST_MAPPED:
        return SetColumn(feature, missing_rule, code_rule, n_codes, None, True), codes
    slot_map = np.full(n_codes + 2, codes.size + 1, np.int32)
    slot_map[0] = 0
    slot_map[1 + codes] = 1 + np.arange(codes.size)
    return SetColumn(feature, missing_rule, code_rule, n_codes, slot_map, False), codes


def _telling_codes(tests: NodeTests, node: Array) -> Array:
    """Return the codes that at some node go another way than values that are no codes."""
    n_words = np.diff(tests.set_ptr)[node]
    start = np.cumsum(n_words) - n_words
    words = tests.set_words[ranges(tests.set_ptr[node], n_words)]
    words = words ^ np.repeat(_flip(tests, node), n_words)
    telling = np.zeros(int(n_words.max(initial=0)), np.uint32)
    np.bitwise_or.at(telling, np.arange(words.size) - np.repeat(start, n_words), words)
    place = np.flatnonzero(telling)
    bit = telling[place][:, None] >> np.arange(WORD_BITS, dtype=np.uint32) & np.uint32(1)
    word, within = np.nonzero(bit)
    return place[word] * WORD_BITS + within


def _flip(tests: NodeTests, node: Array) -> Array:
    return np.where(tests.other_right[node], np.uint32(0xFFFFFFFF), np.uint32(0))


def _short_tables(tests: NodeTests, node: Array, codes: Array) -> Iterator[tuple[bytes, int]]:
    """Return tables of the slots of these codes, in TABLE_SLOTS bits each."""
    words = np.append(tests.set_words, np.uint32(0))
    word, bit = codes // WORD_BITS, (codes % WORD_BITS).astype(np.uint32)
    for start in range(0, node.size, _CHUNK):
        part = node[start : start + _CHUNK]
        first, size = tests.set_ptr[part], np.diff(tests.set_ptr)[part]
        other = tests.other_right[part]
        within = word < size[:, None]
        at = np.where(within, first[:, None] + word, -1)
        right = np.where(within, words[at] >> bit & np.uint32(1), other[:, None])
        slots = np.zeros((part.size, TABLE_SLOTS), bool)
        slots[:, 0] = tests.missing_right[part]
        slots[:, 1 : 1 + codes.size] = right
        slots[:, 1 + codes.size] = other
        for table in np.packbits(slots, axis=1, bitorder="little"):
            yield table.tobytes(), codes.size + 1


def _long_tables(tests: NodeTests, node: Array, codes: Array) -> Iterator[tuple[bytes, int]]:
    """Return tables of the slots of each node's own words, the last one for all further codes."""
    for one, flip in zip(node.tolist(), _flip(tests, node), strict=True):
        words = tests.set_words[tests.set_ptr[one] : tests.set_ptr[one + 1]]
        size = int(np.flatnonzero(words != flip).max(initial=-1)) + 1
        table = np.zeros(size + 1, np.uint32)
        table[:size] = words[:size] << np.uint32(1)
        table[1:] |= words[:size] >> np.uint32(31)
        table[0] |= np.uint32(tests.missing_right[one])
        table[size] |= np.uint32(tests.other_right[one]) << np.uint32(1)
        yield table.tobytes(), size * WORD_BITS + 1
