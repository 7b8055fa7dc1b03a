"""A lone tree, through which a row walks straight over X: a path reads a few columns only."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.compiling import by_address, inner
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


@inner
def _find(X, nodes, header, room):
    """Find the leaf of the first row of X."""
    at = single.exit_position(X, nodes)
    leaf = load_int32(field(header, "leaf_at") + 4 * np.int64(at))
    store(room + field(header, "leaves_at"), leaf)


@by_address
def _lone_single(row, header, room):
    """Find the exit leaf of a row of float32."""
    nodes = carray(pointer(field(header, "nodes")), (1, 4), np.uint32)
    _find(carray(pointer(row), (1, 1), np.float32), nodes, header, room)
    return 0


@by_address
def _lone_rounded(row, header, room):
    """Find the exit leaf of a row of float64 that is compared in float32."""
    nodes = carray(pointer(field(header, "nodes")), (1, 4), np.uint32)
    _find(carray(pointer(row), (1, 1), np.float64), nodes, header, room)
    return 0


@by_address
def _lone_double(row, header, room):
    """Find the exit leaf of a row of float64."""
    nodes = carray(pointer(field(header, "nodes")), (1, 4), np.uint64)
    _find(carray(pointer(row), (1, 1), np.float64), nodes, header, room)
    return 0


FIND = {SINGLE: _lone_single, ROUNDED: _lone_rounded, DOUBLE: _lone_double}
"""The function of each way to read values."""
