"""Directions of rows at nodes: their rows of S, entry by entry, against b.

Sums of a row of S run in the order of storage, in the dtype of the tests, without fused
multiply-adds.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    Activation,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
)
from bitvec.core.shape_annotations import Bool, Float, Int
from bitvec.core.softplus import softplus


def is_missing(x: Array, rule: Array | int, sentinel: float | None) -> Bool[Array, " n"]:
    """Return which values count as missing by a `MissingRule`, one for all or one for each."""
    missing = np.isnan(x)
    missing |= (rule == MissingRule.NAN_OR_ZERO) & (np.abs(x) <= ZERO_THRESHOLD)
    if sentinel is not None:
        missing |= (rule == MissingRule.NAN_OR_SENTINEL) & (x == x.dtype.type(sentinel))
    return missing


def margins(
    tests: NodeTests,
    Z: Float[Array, "batch n_columns"],
    row: Int[Array, " n_pairs"],
    node: Int[Array, " n_pairs"],
    sentinel: float | None = None,
) -> tuple[Float[Array, " n_pairs"], Bool[Array, " n_pairs"]]:
    """Return z (before b) and whether it is missing, for pairs of a row of Z and a node.

    z = sum over the node's rows k of r_k · activation((S z)_k − offset_k).
    """
    total = np.zeros(len(node), tests.dtype)
    missing = np.zeros(len(node), bool)
    n_rows = tests.node_ptr[node + 1] - tests.node_ptr[node]
    for k in range(int(n_rows.max(initial=0))):
        pair = np.flatnonzero(k < n_rows)
        s_row = tests.node_ptr[node[pair]] + k
        value, row_missing = _row_value(
            tests, Z, row[pair], s_row, tests.missing_rule[node[pair]], sentinel
        )
        soft = tests.activation[s_row] == Activation.SOFTPLUS
        with np.errstate(invalid="ignore", over="ignore"):
            value = value - tests.offset[s_row]
            value[soft] = softplus(value[soft])
            # The first row starts the sum: 0 + z would turn -0.0 into 0.0.
            term = tests.r[s_row] * value
            total[pair] = term if k == 0 else total[pair] + term
        missing[pair] |= row_missing
    return total, missing


def _row_value(
    tests: NodeTests, Z: Array, row: Array, s_row: Array, rule: Array, sentinel: float | None
) -> tuple[Array, Array]:
    total = np.zeros(len(s_row), tests.dtype)
    missing = np.zeros(len(s_row), bool)
    n_entries = tests.row_ptr[s_row + 1] - tests.row_ptr[s_row]
    for k in range(int(n_entries.max(initial=0))):
        pair = np.flatnonzero(k < n_entries)
        entry = tests.row_ptr[s_row[pair]] + k
        x = Z[row[pair], tests.column[entry]]
        absent = is_missing(x, rule[pair], sentinel)
        if tests.substitute is not None:
            substitute = tests.substitute[entry]
            replaced = absent & ~np.isnan(substitute)
            x = np.where(replaced, substitute, x)
            absent &= ~replaced
        if tests.indicator is not None:
            code = tests.indicator[entry]
            x = np.where(code >= 0, (x == code).astype(x.dtype), x)
        with np.errstate(invalid="ignore", over="ignore"):
            term = tests.weight[entry] * x
            total[pair] = term if k == 0 else total[pair] + term
        missing[pair] |= absent
    return total, missing


def codes(x: Array, rule: Array | int) -> Float[Array, " n"]:
    """Return the category codes of values by a `CodeRule`, whole numbers; -1 where there is none.

    >>> codes(np.array([2.7, -0.5, np.nan]), CodeRule.TRUNCATE).tolist()
    [2.0, -0.0, -1.0]
    """
    with np.errstate(invalid="ignore"):
        whole = np.trunc(x)
        readable = (x > -1) & ((x == whole) | (np.asarray(rule) != CodeRule.EXACT))
    readable &= (x >= 0) | (np.asarray(rule) == CodeRule.TRUNCATE)
    return np.where(readable, whole, x.dtype.type(-1))


def _set_outcome(tests: NodeTests, x: Array, node: Array) -> Bool[Array, " n"]:
    first, last = tests.set_ptr[node], tests.set_ptr[node + 1]
    code = codes(x, tests.code_rule[node])
    at = np.flatnonzero((code >= 0) & (code < (last - first) * WORD_BITS))
    right = tests.other_right[node].copy()
    inside = code[at].astype(np.int64)
    word = tests.set_words[first[at] + inside // WORD_BITS]
    right[at] = (word >> (inside % WORD_BITS).astype(np.uint32)) & np.uint32(1) == 1
    return right


def turns(
    tests: NodeTests,
    Z: Float[Array, "batch n_columns"],
    row: Int[Array, " n_pairs"],
    node: Int[Array, " n_pairs"],
    sentinel: float | None = None,
) -> Bool[Array, " n_pairs"]:
    """Return h for pairs of a row of Z and a node: True goes right."""
    z, missing = margins(tests, Z, row, node, sentinel)
    kind, b = tests.kind[node], tests.b[node]
    with np.errstate(invalid="ignore"):
        right = np.where(tests.relation[node] == Relation.GREATER, z > b, z >= b)
        right = np.where(kind == Kind.EQUAL, z == b, right)
    is_set = np.flatnonzero(kind == Kind.SET)
    right[is_set] = _set_outcome(tests, z[is_set], node[is_set])
    # z may be NaN without a missing value (infinities of both signs in one row): same direction.
    undefined = missing | (np.isnan(z) & (kind != Kind.SET))
    return np.where(undefined, tests.missing_right[node], right)
