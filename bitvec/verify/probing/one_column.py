"""Tests that weigh one column: the value of that column at which each of them turns.

A margin over one column is a chain of products and sums that rise with the column, or fall with it,
all alike. Rounding keeps that order, so the literal test turns once as the column rises from -inf
to inf, and a bisection over the floats finds where, rounding and overflow included.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats, key_of
from bitvec.core.node_tests import Activation, Kind, MissingRule, NodeTests
from bitvec.core.reference import turns
from bitvec.core.shape_annotations import Bool, Int64


def weighted(tests: NodeTests) -> tuple[Bool[Array, " n_nodes"], Bool[Array, " n_nodes"]]:
    """Return which nodes' margins turn once along one column, and which of those fall along it.

    One-hot nodes are left out. Softplus is as well: no library promises that its rounded values
    rise.
    """
    n = tests.n_nodes
    if n == 0:
        return np.zeros(0, bool), np.zeros(0, bool)
    n_entries = np.diff(tests.row_ptr)
    row_node = np.repeat(np.arange(n), np.diff(tests.node_ptr))
    entry_row = np.repeat(np.arange(tests.n_rows), n_entries)
    entry_node = row_node[entry_row]
    slope = np.sign(tests.r)[entry_row] * np.sign(tests.weight)
    is_plain = (tests.kind == Kind.MARGIN) & (tests.missing_rule == MissingRule.NAN)
    is_plain &= ~tests.is_one_hot
    # 0 · inf is no number: a weight of 0 would make the infinities turn by themselves.
    is_plain[row_node[(tests.activation != Activation.IDENTITY) | (n_entries == 0)]] = False
    is_plain[entry_node[slope == 0]] = False
    first = tests.row_ptr[tests.node_ptr[:-1]]
    first = np.minimum(first, max(tests.column.size - 1, 0))
    is_plain[entry_node[tests.column != tests.column[first][entry_node]]] = False
    is_plain[entry_node[slope != slope[first][entry_node]]] = False
    if tests.indicator is not None:
        is_plain[entry_node[tests.indicator >= 0]] = False
    if tests.substitute is not None:
        is_plain[entry_node[~np.isnan(tests.substitute)]] = False
    falls = is_plain.copy()
    falls[is_plain] = slope[first[is_plain]] < 0
    return is_plain, falls


def first_upper(
    tests: NodeTests, nodes: Int64[Array, " n"], falls: Bool[Array, " n"]
) -> Int64[Array, " n"]:
    """Return the key of the first value on the upper side of each of some `weighted` nodes.

    That side is the right one, or the left one at a node that falls. Where no value is on it, not
    even infinity, the key is one beyond that of infinity.
    """
    part = tests.take(nodes)
    part = replace(part, column=np.zeros_like(part.column))
    every, top = np.arange(nodes.size), key_of(np.inf, tests.dtype)
    low, high = np.full(nodes.size, -top), np.full(nodes.size, top + 1)
    while np.any(low < high):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # a sum of float64 keys may overflow
        x = floats(np.minimum(middle, top), tests.dtype)[:, None]
        is_upper = (turns(part, x, every, every) != falls) | (low == high)
        low, high = np.where(is_upper, low, middle + 1), np.where(is_upper, middle, high)
    return low
