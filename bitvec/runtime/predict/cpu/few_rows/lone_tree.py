"""A lone tree, through which a row walks straight over X: a path reads a few columns only."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.compiling import Function, by_address
from bitvec.runtime.predict.cpu.few_rows import costs
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import load_int32, pointer, store
from bitvec.runtime.predict.cpu.traversal import single
from bitvec.runtime.predict.cpu.traversal.key_columns import DOUBLE, ROUNDED, SINGLE, reading_of


class LoneTree:
    """A tree packed as `bitvec.runtime.predict.cpu.traversal.single`, for X of a dtype."""

    name = "lone tree"
    has_vectors = False
    keys_bytes, leaves_bytes = 0, 4

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        tree = single.pack(forest).trees(dtype)
        self.cycles = costs.walk_cycles(forest)
        self.fields: dict[str, Any] = {
            "find": FIND[reading_of(dtype, forest.dtype)].address(),
            "nodes": tree.nodes,
            "leaf_at": tree.leaf_at,
        }


def _finder(reading: int) -> Function:
    """Return the function that finds the exit leaf of a row whose values are read so."""
    value = np.float32 if reading == SINGLE else np.float64
    word = np.uint64 if reading == DOUBLE else np.uint32

    @by_address
    def find_in_lone_tree(row, header, room):
        nodes = carray(pointer(field(header, "nodes")), (1, 4), word)
        at = single.exit_position(carray(pointer(row), (1, 1), value), nodes)
        leaf = load_int32(field(header, "leaf_at") + 4 * np.int64(at))
        store(room + field(header, "leaves_at"), leaf)
        return 0

    return find_in_lone_tree


FIND = {reading: _finder(reading) for reading in (SINGLE, ROUNDED, DOUBLE)}
"""The function of each way to read values."""
