"""A walk of rows without missing values through a tree, 16 in step, by plain comparisons.

    at = 0;  while it moves:  at = child[at] + (x[column[at]] > threshold[at])

A position is a threshold and a link, the child above the column's bits; a leaf is its own child,
with an infinite threshold.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from bitvec.core.float_keys import floats, key_of
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import ROUNDED, SINGLE
from bitvec.runtime.predict.cpu.traversal.single import LANES
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I32,
    I64,
    address,
    load,
    number,
    settled,
    store,
)


def fields_of(forest: Forest, dtype: np.dtype) -> dict[str, Any]:
    """Return the fields of the walk: none where a link has too few bits for a tree."""
    tests, B = forest.tests, forest.bitvectors
    size = dtype.itemsize
    column_bits = max(1, (forest.n_features - 1).bit_length())
    if 2 * int(np.diff(B.leaf_ptr).max(initial=0)) >= 1 << (8 * size - column_bits):
        return {}
    position, leaf_position, child = keyed.positions(B)
    word = np.dtype(f"u{size}")
    nodes = np.zeros((2 * B.n_leaves, 2), word)
    last_left = keys.thresholds(tests.b, tests.relation, dtype) - 1
    infinity = key_of(np.inf, dtype)
    thresholds = floats(np.clip(last_left, -infinity, infinity), dtype)
    nodes[position, 0] = thresholds.view(word)
    nodes[position, 1] = (child.astype(word) << word.type(column_bits)) | tests.feature.astype(word)
    nodes[leaf_position, 0] = np.array([np.inf], dtype).view(word)
    first_leaf = np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    own = leaf_position - 2 * first_leaf
    nodes[leaf_position, 1] = own.astype(word) << word.type(column_bits)
    leaf_at = np.zeros(2 * B.n_leaves, np.int32)
    leaf_at[leaf_position] = np.arange(B.n_leaves) - first_leaf
    return {
        "plain_nodes": constant(nodes), "plain_leaf_at": leaf_at, "column_bits": column_bits
    }  # fmt: skip


@intrinsic(prefer_literal=True)
def walk(typing_context, row, step, n, nodes, column_bits, leaf_at, found, reading):
    """Fill `found` with the leaves of the first n of 16 rows, `step` bytes apart; the rest repeat.

    `reading` is a literal: how the values of a row become those that are compared.
    """
    way = reading.literal_value
    read = F32 if way == SINGLE else F64
    compared = F64 if way not in (SINGLE, ROUNDED) else F32
    size = 4 if compared is F32 else 8
    link_type = I32 if compared is F32 else I64

    def generate(context, builder, signature, arguments):
        row, step, n, nodes, column_bits, leaf_at, found = arguments[:7]
        mask = builder.sub(builder.shl(number(1), column_bits), number(1))
        last = builder.sub(n, number(1))
        rows = []
        for lane in range(LANES):
            within = builder.icmp_signed("<", number(lane), last)
            place = builder.select(within, number(lane), last)
            rows.append(builder.add(row, builder.mul(place, step)))

        def moved(at, lane):
            node = builder.add(nodes, builder.mul(at, number(2 * size)))
            link = load(builder, node, number(size), link_type)
            link = link if link_type is I64 else builder.zext(link, I64)
            column = builder.and_(link, mask)
            width = number(4 if read is F32 else 8)
            value = load(builder, rows[lane], builder.mul(column, width), read)
            value = builder.fptrunc(value, F32) if way == ROUNDED else value
            threshold = load(builder, node, number(0), compared)
            right = builder.zext(builder.fcmp_ordered(">", value, threshold), I64)
            return builder.add(builder.lshr(link, column_bits), right)

        for lane, place in enumerate(settled(builder, LANES, moved)):
            leaf = load(builder, leaf_at, builder.mul(place, number(4)), I32)
            store(builder, leaf, found, number(4 * lane))
        return context.get_dummy_value()

    return types.void(*[address] * 7, reading), generate
