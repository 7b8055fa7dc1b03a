"""Few trees, through which rows walk straight over X: a path reads a few columns only.

Rows walk a tree 16 in step, one by one where there are less than `TOGETHER`, and by plain
comparisons where no value is NaN or infinite. The answer to a row of a lone tree is its leaf's, so
the answers of all leaves are made once, and copied.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import carray

from bitvec.core import tree_paths
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.compiling import Function, by_address
from bitvec.runtime.predict.cpu.few_rows import costs, plain_walk
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.few_rows.lone_tree import are_sound
from bitvec.runtime.predict.cpu.kernel_arrays import (
    load_float64,
    load_int64,
    pointer,
    room_on_stack,
    store,
)
from bitvec.runtime.predict.cpu.traversal import single
from bitvec.runtime.predict.cpu.traversal.key_columns import DOUBLE, ROUNDED, SINGLE, reading_of

TOGETHER: Final = 4
"""Rows from which on a tree costs less in step, where 16 take as long as one."""
LOOKED_OVER: Final = 8
"""Columns that are looked over for NaN and infinities as fast as a level takes longer with them."""


class DirectWalks:
    """Trees packed as `bitvec.runtime.predict.cpu.traversal.single`, for X of a dtype."""

    name = "direct"
    has_vectors = False
    keys_bytes = 8
    """The address of the row; of a lone tree the number of rows of a block."""

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        tree, reading = single.pack(forest).trees(dtype), reading_of(dtype, forest.dtype)
        self.leaves_bytes = 4 * (single.LANES if forest.n_trees == 1 else forest.n_trees)
        self.cycles = costs.direct_cycles(forest)
        compared = min(dtype, forest.dtype, key=lambda each: each.itemsize)
        self.fields: dict[str, Any] = {
            "find": point_at_row.address(),
            "walk": WALK[reading].address(),
            "nodes": tree.nodes,
            "leaf_at": tree.leaf_at,
            **plain_walk.fields_of(forest, compared),
        }
        levels = tree_paths.levels(forest.bitvectors)
        self.fields["looks"] = forest.n_features <= LOOKED_OVER * levels
        if forest.n_trees == 1:
            self.fields["find_rows"] = FIND_ROWS[reading].address()
            if "plain_nodes" in self.fields:
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


@by_address
def point_at_row(row, header, room):
    store(room, row)
    return 0


def _walker(reading: int) -> Function:
    """Return the function that finds the exit leaves of rows whose values are read so."""
    value = np.float32 if reading == SINGLE else np.float64
    word = np.uint64 if reading == DOUBLE else np.uint32
    position_bytes = 4 * np.dtype(word).itemsize
    plain_bytes = 2 * (4 if reading != DOUBLE else 8)

    @by_address
    def walk_directly(n_rows, header, room):
        leaf_ptr, leaves = field(header, "leaf_ptr"), room + field(header, "leaves_at")
        nodes_at, leaf_at_at = field(header, "nodes"), field(header, "leaf_at")
        plain, plain_leaf_at = field(header, "plain_nodes"), field(header, "plain_leaf_at")
        room_bytes, column_bits = field(header, "room_bytes"), field(header, "column_bits")
        row = load_int64(room)
        like = carray(pointer(row), (1, 1), value)
        step = field(header, "n_features") * like.itemsize
        place = room_on_stack(4 * single.LANES)
        found = carray(pointer(place), (single.LANES,), np.int32)
        is_plain = plain != 0 and n_rows >= TOGETHER
        if is_plain and not field(header, "finite"):
            n, largest = n_rows * field(header, "n_features"), field(header, "largest")
            is_plain = field(header, "looks") and are_sound(row, n, value(load_float64(largest)))
        for tree in range(field(header, "n_trees")):
            first_leaf = load_int64(leaf_ptr + 8 * tree)
            position = 2 * first_leaf
            nodes = carray(pointer(nodes_at + position * position_bytes), (1, 4), word)
            leaf_at = carray(pointer(leaf_at_at + 4 * position), (1,), np.int32)
            for first in range(0, n_rows, single.LANES):
                n = min(single.LANES, n_rows - first)
                some, to = row + first * step, leaves + first * room_bytes + 4 * tree
                if n < TOGETHER:
                    for i in range(n):
                        x = carray(pointer(some + i * step), (1, 1), value)
                        found[i] = leaf_at[single.exit_position(x, nodes)]
                elif is_plain:
                    of_tree, at = plain + position * plain_bytes, plain_leaf_at + 4 * position
                    plain_walk.walk(some, step, n, of_tree, column_bits, at, place, reading)
                else:
                    single.traverse((some, step, like.itemsize), like, n, 0, nodes, leaf_at, found)
                for i in range(n):
                    store(to + i * room_bytes, np.int32(first_leaf + found[i]))
        return 0

    return walk_directly


FIND_FINITE_ROWS = {reading: _finite_finder(reading) for reading in (SINGLE, ROUNDED, DOUBLE)}
FIND_ROWS = {reading: _blocks_finder(reading) for reading in (SINGLE, ROUNDED, DOUBLE)}
WALK = {reading: _walker(reading) for reading in (SINGLE, ROUNDED, DOUBLE)}
"""The function of each way to read values."""
