"""Few trees, through which rows walk straight over X: a path reads a few columns only.

The answer to a row of a lone tree is its leaf's, so the answers of all leaves are made once. A
block of rows is looked over for what the source refuses, walks 16 rows in step, and copies its
leaves' answers.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.compiling import Function, by_address
from bitvec.runtime.predict.cpu.few_rows import costs, plain_walk
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import load_int32, load_int64, pointer, store
from bitvec.runtime.predict.cpu.traversal import single
from bitvec.runtime.predict.cpu.traversal.key_columns import DOUBLE, ROUNDED, SINGLE, reading_of


class DirectWalks:
    """Trees packed as `bitvec.runtime.predict.cpu.traversal.single`, for X of a dtype."""

    name = "direct"
    has_vectors = False
    keys_bytes = 8
    """The number of rows of a block, of a lone tree."""

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        tree, reading = single.pack(forest).trees(dtype), reading_of(dtype, forest.dtype)
        self.leaves_bytes = 4 * max(single.LANES, forest.n_trees)
        self.cycles = costs.direct_cycles(forest)
        self.fields: dict[str, Any] = {
            "find": FIND[reading].address(),
            "nodes": tree.nodes,
            "leaf_at": tree.leaf_at,
        }
        if forest.n_trees == 1:
            self.fields["find_rows"] = FIND_ROWS[reading].address()
            compared = min(dtype, forest.dtype, key=lambda each: each.itemsize)
            plain = plain_walk.fields_of(forest, compared)
            if plain:
                self.fields |= plain
                self.fields["find_finite_rows"] = FIND_FINITE_ROWS[reading].address()


def _finite_finder(reading: int) -> Function:
    """Return the function that finds the exit leaves of a block of rows of finite values."""
    size = 4 if reading == SINGLE else 8

    @by_address
    def find_finite_rows_in_lone_tree(row, header, room):
        plain_walk.walk(
            row,
            field(header, "n_features") * size,
            load_int64(room),
            field(header, "plain_nodes"),
            field(header, "column_bits"),
            field(header, "plain_leaf_at"),
            room + field(header, "leaves_at"),
            reading,
        )
        return 0

    return find_finite_rows_in_lone_tree


def _blocks_finder(reading: int) -> Function:
    """Return the function that finds the exit leaves of a block of rows whose values are so."""
    value = np.float32 if reading == SINGLE else np.float64
    word = np.uint64 if reading == DOUBLE else np.uint32

    @by_address
    def find_rows_in_lone_tree(row, header, room):
        like = carray(pointer(row), (1, 1), value)
        nodes = carray(pointer(field(header, "nodes")), (1, 4), word)
        leaf_at = carray(pointer(field(header, "leaf_at")), (1,), np.int32)
        found = carray(pointer(room + field(header, "leaves_at")), (single.LANES,), np.int32)
        step = field(header, "n_features") * like.itemsize
        rows = (row, step, like.itemsize)
        single.traverse(rows, like, load_int64(room), 0, nodes, leaf_at, found)
        return 0

    return find_rows_in_lone_tree


def _finder(reading: int) -> Function:
    """Return the function that finds the exit leaves of a row whose values are read so."""
    value = np.float32 if reading == SINGLE else np.float64
    word = np.uint64 if reading == DOUBLE else np.uint32

    node_bytes = 4 * np.dtype(word).itemsize

    @by_address
    def find_directly(row, header, room):
        x = carray(pointer(row), (1, 1), value)
        leaves, leaf_ptr = room + field(header, "leaves_at"), field(header, "leaf_ptr")
        all_nodes, leaf_at = field(header, "nodes"), field(header, "leaf_at")
        for tree in range(field(header, "n_trees")):
            first = load_int64(leaf_ptr + 8 * tree)
            nodes = carray(pointer(all_nodes + 2 * first * node_bytes), (1, 4), word)
            at = np.int64(single.exit_position(x, nodes))
            leaf = first + load_int32(leaf_at + 4 * (2 * first + at))
            store(leaves + 4 * tree, np.int32(leaf))
        return 0

    return find_directly


FIND_FINITE_ROWS = {reading: _finite_finder(reading) for reading in (SINGLE, ROUNDED, DOUBLE)}
FIND_ROWS = {reading: _blocks_finder(reading) for reading in (SINGLE, ROUNDED, DOUBLE)}
FIND = {reading: _finder(reading) for reading in (SINGLE, ROUNDED, DOUBLE)}
"""The function of each way to read values."""
