"""The conditions of a YDF model as a forest's node tests."""

from __future__ import annotations

import numpy as np

from bitvec.converters.ydf.conditions import Conditions, ConditionType
from bitvec.converters.ydf.data_spec import Columns, ColumnType
from bitvec.converters.ydf.engines import Missing
from bitvec.core.arrays import Array, ranges
from bitvec.core.node_tests import WORD_BITS, Kind, NodeTests, Relation, from_rows
from bitvec.core.shape_annotations import Int64, UInt8, UInt32


def node_tests(
    conditions: Conditions, columns: Columns, missing: Missing, node: Int64[Array, " n_nodes"]
) -> NodeTests:
    """Return the tests of some nodes, in this order."""
    test, column = conditions.test[node], conditions.column[node]
    oblique = test == ConditionType.OBLIQUE
    n_terms = np.diff(conditions.term_ptr)[node]
    count = np.where(oblique, n_terms, 1)
    term = ranges(conditions.term_ptr[:-1][node[oblique]], n_terms[oblique])
    entry_of_term = np.repeat(oblique, count)
    row_ptr = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    read = np.repeat(column, count)
    read[entry_of_term] = conditions.term_column[term]
    weight = np.ones(read.size, np.float32)
    weight[entry_of_term] = conditions.weight[term]
    substitute = np.full(read.size, np.nan, np.float32)
    substitute[entry_of_term] = missing.substitute[term]
    place = np.full(columns.type.size, -1, np.int32)
    place[columns.features] = np.arange(columns.features.size, dtype=np.int32)
    # The empty string, missing as well, has a code of its own, so such a test needs a set.
    named = np.isin(column, list(columns.words)) & (columns.type[column] == ColumnType.CATEGORICAL)
    is_set = conditions.is_set[node] | ((test == ConditionType.NA) & named)
    set_ptr, set_words, other_right = _sets(conditions, columns, missing, node, is_set, named)
    absent = (test == ConditionType.NA) & ~is_set
    return from_rows(
        row_ptr,
        place[read],
        weight,
        np.where(absent, np.float32(np.inf), conditions.threshold[node]),
        kind=np.where(is_set, Kind.SET, Kind.MARGIN),
        relation=np.where(absent, Relation.GREATER, Relation.GREATER_EQUAL),
        missing_right=missing.right[node],
        other_right=other_right,
        set_ptr=set_ptr,
        set_words=set_words,
        substitute=None if np.all(np.isnan(substitute)) else substitute,
    )


def _sets(
    conditions: Conditions,
    columns: Columns,
    missing: Missing,
    node: Array,
    is_set: Array,
    named: Array,
) -> tuple[Int64[Array, " n_nodes_plus_1"], UInt32[Array, " n_words"], Array]:
    """Return the sets of right-going codes, and which nodes send other codes right.

    A code that a column does not have counts as code 0, so every spare bit is that of code 0.
    """
    at = node[is_set]
    n_codes = columns.n_codes[conditions.column[at]]
    n_words = -(-(n_codes + named[is_set]) // WORD_BITS)
    member, first = _members(conditions, columns, at, n_codes)
    start = (np.cumsum(n_words) - n_words) * WORD_BITS
    zero = member[first]
    bits: UInt8[Array, " n_bits"] = np.repeat(zero, n_words * WORD_BITS)
    bits[ranges(start, n_codes)] = member
    empty = (start + n_codes)[named[is_set]]
    bits[empty] = missing.right[at][named[is_set]]
    words = np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32)
    count = np.zeros(node.size, np.int64)
    count[is_set] = n_words
    other_right = np.zeros(node.size, np.bool_)
    other_right[is_set] = zero != 0
    return np.concatenate([[0], np.cumsum(count)]).astype(np.int64), words, other_right


def _members(
    conditions: Conditions, columns: Columns, at: Array, n_codes: Array
) -> tuple[UInt8[Array, " n_codes"], Array]:
    """Return the members of the sets of some nodes, one after the other; a test for NA has none."""
    size = np.where(conditions.is_set, columns.n_codes[conditions.column], 0)
    source = (np.cumsum(size) - size)[at]
    first = np.cumsum(n_codes) - n_codes
    member = np.zeros(int(n_codes.sum()), np.uint8)
    own = conditions.is_set[at]
    target = ranges(first[own], n_codes[own])
    member[target] = conditions.member[ranges(source[own], n_codes[own])]
    return member, first
