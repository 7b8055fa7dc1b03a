"""The hybrid kernel: trees padded to a full depth, selected at the top and walked below.

The upper levels of a tree are evaluated as in `perfect`, 128 rows at a time, which gives each row a
subtree. Below, a row goes from place p of a level to 2p, or 2p + 1 if its byte reaches the node's:
nodes hold no links, and steps end by themselves at the full depth. A leaf above that stands for all
the places below it. Memory: 4 bytes for each node of the full tree.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.bins.binners import BinnedColumns
from bitvec.runtime.predict.cpu.bins.set_kernels import look_up
from bitvec.runtime.predict.cpu.bitvector import perfect
from bitvec.runtime.predict.cpu.bitvector.binned_trees import (
    FIELDS,
    LEAF_AT,
    LOOKUPS,
    LOWER,
    N_BINNED,
    N_TREES,
    NODES,
    OUTPUT,
    RECORD,
    SET_PTR,
    START,
    TABLES,
    VALUES,
    BinnedTrees,
    padding_reason,
)
from bitvec.runtime.predict.cpu.compiling import Kernel, int64s, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import pointer, room_on_stack
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I8,
    I32,
    I64,
    address,
    count,
    load,
    number,
    store,
)

TOP = 7
"""Levels that are selected."""
MOST_DEPTH = 13
ROOM = 256
"""Rows of a block at most, whose bytes the first-level cache holds beside a tree's lower nodes."""
_UNROLLED = 8


@intrinsic(prefer_literal=True)
def _descend(typing_context, binned, room, n, lower, place, found, values, size, depth):
    """Walk n rows, and some behind, from their subtrees at `place`, bytes, to the full depth.

    With `values`, add those of the leaves to the sums at `found`, numbers of `size` bytes; else
    store the places of the leaves there, int32. `size`, 0 for places, and `depth` are literals.
    """
    size, depth = size.literal_value, depth.literal_value

    def generate(context, builder, signature, arguments):
        binned, room, n, lower, place, found, values = arguments[:7]

        def body(first, _):
            rows = [builder.add(first, number(k)) for k in range(_UNROLLED)]
            at = [builder.zext(load(builder, place, row, I8), I64) for row in rows]
            columns = [builder.add(binned, row) for row in rows]
            for level in range(TOP, depth):
                nodes = builder.add(lower, number(4 * ((1 << level) - (1 << TOP))))
                for k in range(_UNROLLED):
                    node = load(builder, nodes, builder.shl(at[k], number(2)), I32)
                    column = builder.zext(builder.and_(node, ir.Constant(I32, 0xFFFF)), I64)
                    least = builder.lshr(node, ir.Constant(I32, 16))
                    byte = load(builder, columns[k], builder.mul(column, room), I8)
                    right = builder.icmp_unsigned(">=", builder.zext(byte, I32), least)
                    at[k] = builder.add(builder.add(at[k], at[k]), builder.zext(right, I64))
            for row, leaf in zip(rows, at, strict=True):
                if size == 0:
                    store(builder, builder.trunc(leaf, I32), found, builder.shl(row, number(2)))
                    continue
                element = F32 if size == 4 else F64
                to = builder.mul(row, number(size))
                value = load(builder, values, builder.mul(leaf, number(size)), element)
                store(builder, builder.fadd(load(builder, found, to, element), value), found, to)

        count(builder, number(0), n, body, step=_UNROLLED)
        return context.get_dummy_value()

    literals = types.IntegerLiteral(size), types.IntegerLiteral(depth)
    return types.void(*[address] * 7, *literals), generate


@cache
def _sum_kernel(depth: int, size: int, sets: bool) -> Kernel:
    top_bytes = RECORD.itemsize * ((1 << TOP) - 1)
    lower_bytes = RECORD.itemsize * ((1 << depth) - (1 << TOP))
    fill = perfect.places(TOP)

    @kernel
    def hybrid_sums(fields, binned, room, n_rows, totals, stride):
        at = int64s(fields, len(FIELDS))
        n_trees, n_binned = at[N_TREES], at[N_BINNED]
        start, output = int64s(at[START], n_trees), int64s(at[OUTPUT], n_trees)
        set_ptr = int64s(at[SET_PTR], n_trees + 1)
        place: int = room_on_stack(room)
        for block in range(stride // room):
            q = binned + block * n_binned * room
            n = min(room, n_rows - block * room)
            for tree in range(n_trees):
                if sets:
                    look_up(q, room, at[LOOKUPS], set_ptr[tree], set_ptr[tree + 1], at[TABLES])
                node = at[NODES] + tree * top_bytes
                fill(q, room, n, node, place)
                lower = at[LOWER] + tree * lower_bytes
                total = totals + (output[tree] * stride + block * room) * size
                values = at[VALUES] + start[tree] * size
                _descend(q, room, n, lower, place, total, values, size, depth)

    return hybrid_sums


@cache
def _exit_kernel(depth: int, sets: bool) -> Kernel:
    top_bytes = RECORD.itemsize * ((1 << TOP) - 1)
    lower_bytes = RECORD.itemsize * ((1 << depth) - (1 << TOP))
    fill = perfect.places(TOP)

    @kernel
    def hybrid_exits(fields, binned, room, n_rows, exits):
        at = int64s(fields, len(FIELDS))
        n_trees, n_binned = at[N_TREES], at[N_BINNED]
        set_ptr = int64s(at[SET_PTR], n_trees + 1)
        leaf_at = numba.carray(pointer(at[LEAF_AT]), (n_trees << depth,), np.uint16)
        place: int = room_on_stack(room)
        found = np.empty(room, np.int32)
        for block in range((n_rows + room - 1) // room):
            q = binned + block * n_binned * room
            first_row = block * room
            for tree in range(n_trees):
                if sets:
                    look_up(q, room, at[LOOKUPS], set_ptr[tree], set_ptr[tree + 1], at[TABLES])
                node = at[NODES] + tree * top_bytes
                fill(q, room, room, node, place)
                lower = at[LOWER] + tree * lower_bytes
                goal = np.int64(found.ctypes.data)
                _descend(q, room, room, lower, place, goal, 0, 0, depth)
                for row in range(min(room, n_rows - first_row)):
                    exits[first_row + row, tree] = leaf_at[(tree << depth) + found[row]]

    return hybrid_exits


class Hybrid(BinnedTrees):
    """A forest packed for the hybrid kernel; see `protocol.TreeKernel`."""

    name = "hybrid"
    most_room = ROOM

    def __init__(self, forest: Forest, binned: BinnedColumns) -> None:
        depth = depth_of(forest)
        node, leaf = perfect.padded(forest, depth)
        tables = None
        if leaf_tables.adds(forest):
            places = np.full(forest.n_trees, 1 << depth)
            tables = leaf_tables.leaf_tables(forest, leaf.ravel(), places)
        super().__init__(forest, binned, tables)
        nodes = np.zeros(node.shape, RECORD)
        real = node >= 0
        nodes["bin_column"][real] = binned.bin_column[node[real]]
        nodes["least"][real] = binned.least[node[real]]
        n_top = (1 << TOP) - 1
        first = forest.bitvectors.leaf_ptr[:-1]
        self.bind(
            nodes[:, perfect.postorder(TOP)],
            lower=nodes[:, n_top:],
            leaf_at=(leaf - first[:, None]).astype(np.uint16),
        )
        sets = self.tree_sets.lookups.size > 0
        self._exits = _exit_kernel(depth, sets)
        self.sums = _sum_kernel(depth, forest.output.dtype.itemsize, sets)

    def run_exits(self, binned: int, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` from binned columns: see `BinnedTrees`."""
        self._exits(self.address, binned, room, n_rows, out)


def depth_of(forest: Forest) -> int:
    """Return the full depth to which trees are padded."""
    return max(TOP + 1, int(tree_paths.leaf_depth(forest.bitvectors).max(initial=0)))


def unsupported_reason(forest: Forest) -> str | None:
    """Return why a forest cannot be packed, or None; its binned columns may refuse it too."""
    if vectors() == "none":
        return "explicit vectors are turned off"
    if forest.leaves.v.shape[1] > 1:
        return "its leaves have several values"
    depth = depth_of(forest)
    if depth > MOST_DEPTH:
        return f"a tree is more than {MOST_DEPTH} deep"
    return padding_reason(forest, depth)
