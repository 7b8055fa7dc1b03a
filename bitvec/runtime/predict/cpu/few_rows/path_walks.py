"""Oblique trees, through which pairs of a row and a tree walk in step: for any number of rows."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from bitvec.core.arrays import FLOATS
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.compiling import Function, by_address
from bitvec.runtime.predict.cpu.few_rows import costs
from bitvec.runtime.predict.cpu.few_rows.call_header import field
from bitvec.runtime.predict.cpu.kernel_arrays import pointer
from bitvec.runtime.predict.cpu.oblique.oblique_columns import read_rows, record_of
from bitvec.runtime.predict.cpu.traversal import paths


class PathWalks:
    """A forest packed as `bitvec.runtime.predict.cpu.traversal.paths`, for X of a dtype."""

    name = "paths"
    has_vectors = False

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        trees = paths.pack(forest)
        self.keys_bytes = trees.width * forest.dtype.itemsize
        self.leaves_bytes = 4 * forest.n_trees
        self.cycles = paths.cycles(forest) + costs.added_cycles(forest)
        self.fields: dict[str, Any] = {
            "find": READ[dtype, forest.dtype].address(),
            "walk": WALK[forest.dtype].address(),
            "nodes": trees.nodes,
            "roots": trees.root,
            "weights": trees.weights,
            "n_keys": trees.width,
            "key_columns": trees.records,
            "n_columns": trees.records.size,
        }


def _reader(dtype: np.dtype, of_forest: np.dtype) -> Function:
    """Return the function that reads a row of a dtype as the weights of a forest's dtype do."""
    value, kind, record = dtype.type, of_forest.type, record_of(of_forest)
    size = dtype.itemsize

    @by_address
    def read_row(row, header, room):
        n_entries, n = field(header, "n_keys"), field(header, "n_columns")
        records = carray(pointer(field(header, "key_columns")), (n,), record)
        out = carray(pointer(room), (1, n_entries), kind)
        read_rows((row, np.int64(0), np.int64(size)), records, 1, out, value(0))
        for k in range(n, n_entries):
            out[0, k] = 0
        return 0

    return read_row


def _walker(dtype: np.dtype) -> Function:
    """Return the function that finds the exit leaves of rows that have been read."""
    walk = paths.walker(dtype.itemsize)

    @by_address
    def walk_paths(n_rows, header, room):
        room_bytes, leaves = field(header, "room_bytes"), room + field(header, "leaves_at")
        weights, width = field(header, "weights"), field(header, "n_keys")
        nodes, roots = field(header, "nodes"), field(header, "roots")
        trees = (weights, width, nodes, roots, field(header, "leaf_ptr"))
        n_trees = field(header, "n_trees")
        walk((room, room_bytes), n_rows, trees, n_trees, leaves, room_bytes, 4)
        return 0

    return walk_paths


READ = {(dtype, kind): _reader(dtype, kind) for dtype in FLOATS for kind in FLOATS}
WALK = {dtype: _walker(dtype) for dtype in FLOATS}
"""The functions by dtypes."""
