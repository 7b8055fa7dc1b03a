"""Few trees, through which rows walk straight over X: a path reads a few columns only.

Rows walk a tree 16 in step, one by one where there are less than `TOGETHER`. The answer to a row of
a lone tree is its leaf's, so the answers of all leaves are made once, and copied.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np

from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu import choice
from bitvec.runtime.predict.cpu.compiling import Function, by_address
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import load_int32, load_int64, room_on_stack, store
from bitvec.runtime.predict.cpu.traversal import single
from bitvec.runtime.predict.cpu.traversal.key_columns import SINGLE

TOGETHER: Final = 4
"""Rows from which on a tree costs less in step, where 16 take as long as one."""


class DirectWalks:
    """Trees packed as `bitvec.runtime.predict.cpu.traversal.single`, for X of a dtype."""

    name = "direct"
    has_vectors = False
    keys_bytes = 8
    """The address of the row; of a lone tree the number of rows of a block."""

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        self._trees, self._dtype = single.pack(forest), dtype
        self.leaves_bytes = 4 * (single.LANES if forest.n_trees == 1 else forest.n_trees)
        self.cycles = choice.single_cycles(forest)
        self.fields = self._fields(finite=False)

    @cached_property
    def finite_fields(self) -> dict[str, Any]:
        """The fields for rows without NaN and infinities, for which trees may be simpler."""
        return self._fields(finite=True)

    def _fields(self, *, finite: bool) -> dict[str, Any]:
        trees = self._trees.trees(self._dtype, finite=finite)
        fields = {
            "find": point_at_row.address(),
            "walk": WALK[trees.form].address(),
            "nodes": trees.nodes,
            "column_bits": trees.column_bits,
            "depth": trees.depth,
            "leaf_at": trees.leaf_at,
        }
        if self._trees.forest.n_trees == 1:
            fields["find_rows"] = FIND_ROWS[trees.form].address()
        return fields


def _blocks_finder(form: single.Form) -> Function:
    """Return the function that finds the exit leaves of a block of rows."""
    walk, size = single.walker(form), 4 if form.reading == SINGLE else 8

    @by_address
    def find_rows_in_lone_tree(row, header, room):
        step, n = field(header, "n_features") * size, load_int64(room)
        nodes, depth = field(header, "nodes"), load_int64(field(header, "depth"))
        bits, leaf_at = field(header, "column_bits"), field(header, "leaf_at")
        walk(row, step, size, n, nodes, depth, bits, leaf_at, room + field(header, "leaves_at"))
        return 0

    return find_rows_in_lone_tree


@by_address
def point_at_row(row, header, room):
    store(room, row)
    return 0


def _walker(form: single.Form) -> Function:
    """Return the function that finds the exit leaves of rows."""
    walk, walk_alone = single.walker(form), single.walker(form, 1)
    size, node_bytes = 4 if form.reading == SINGLE else 8, form.node.itemsize

    @by_address
    def walk_directly(n_rows, header, room):
        leaf_ptr, leaves = field(header, "leaf_ptr"), room + field(header, "leaves_at")
        nodes, leaf_at = field(header, "nodes"), field(header, "leaf_at")
        room_bytes, bits = field(header, "room_bytes"), field(header, "column_bits")
        row, step = load_int64(room), field(header, "n_features") * size
        found, depths = room_on_stack(4 * single.LANES), field(header, "depth")
        for tree in range(field(header, "n_trees")):
            first_leaf, depth = load_int64(leaf_ptr + 8 * tree), load_int64(depths + 8 * tree)
            own, at = nodes + 2 * first_leaf * node_bytes, leaf_at + 8 * first_leaf
            for first in range(0, n_rows, single.LANES):
                n = min(single.LANES, n_rows - first)
                some, to = row + first * step, leaves + first * room_bytes + 4 * tree
                if n < TOGETHER:
                    for i in range(n):
                        x, to_leaf = some + i * step, found + 4 * i
                        walk_alone(x, step, size, 1, own, depth, bits, at, to_leaf)
                else:
                    walk(some, step, size, n, own, depth, bits, at, found)
                for i in range(n):
                    leaf = first_leaf + load_int32(found + 4 * i)
                    store(to + i * room_bytes, np.int32(leaf))
        return 0

    return walk_directly


FIND_ROWS = {form: _blocks_finder(form) for form in single.FORMS}
WALK = {form: _walker(form) for form in single.FORMS}
"""The function of each form of a walk."""
