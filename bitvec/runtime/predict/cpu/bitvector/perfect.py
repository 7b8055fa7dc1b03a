"""The perfect kernel: shallow trees padded to a full depth, evaluated from the leaves up.

A node selects between the leaf numbers that its two subtrees hand up; all of a tree's nodes are
one straight line of code, without a branch or a state that the next node waits for. A leaf above
the full depth stands for all the places below it, so whatever the padding tests changes nothing.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.bins.binners import BinnedColumns
from bitvec.runtime.predict.cpu.bins.set_kernels import look_up
from bitvec.runtime.predict.cpu.bitvector.binned_trees import (
    FIELDS,
    LEAF_AT,
    LOOKUPS,
    N_BINNED,
    N_LEAVES,
    N_TREES,
    NODES,
    OUTPUT,
    RECORD,
    SET_PTR,
    START,
    TABLES,
    VALUES,
    WIDTH,
    BinnedTrees,
)
from bitvec.runtime.predict.cpu.compiling import Kernel, inner, int64s, kernel, stack_array
from bitvec.runtime.predict.cpu.kernel_arrays import pointer, room_on_stack
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    I8,
    I16,
    I64,
    address,
    load,
    number,
    same,
    splat,
    store,
    vector,
)

LEAST_DEPTH, MOST_DEPTH = 3, 8
"""Full depths to which trees are padded; each is compiled on its own."""
LANES = 64
ROWS = 2 * LANES
"""Rows that pass a tree together."""


@intrinsic(prefer_literal=True)
def _places(typing_context, binned, room, nodes, leaf, depth, vectors):
    """Fill the places at which some vectors of rows leave a tree: two literals."""
    depth, vectors = depth.literal_value, vectors.literal_value

    def generate(context, builder, signature, arguments):
        binned, room, nodes, leaf = arguments[:4]
        met = 0

        def select(levels):
            nonlocal met
            below = [select(levels - 1) for _ in range(2)] if levels > 1 else None
            node = builder.add(nodes, number(met * RECORD.itemsize))
            met += 1
            bin_column = builder.zext(load(builder, node, number(0), I16), I64)
            least = splat(builder, load(builder, node, number(2), I8), LANES)
            row = builder.add(binned, builder.mul(bin_column, room))
            half, none = same(I8, LANES, 1 << (levels - 1)), same(I8, LANES, 0)
            chosen = []
            for k in range(vectors):
                byte = load(builder, row, number(LANES * k), vector(I8, LANES))
                right = builder.icmp_unsigned(">=", byte, least)
                if below is None:
                    chosen.append(builder.select(right, half, none))
                else:
                    upper = builder.add(below[1][k], half)
                    chosen.append(builder.select(right, upper, below[0][k]))
            return chosen

        for k, value in enumerate(select(depth)):
            store(builder, value, leaf, number(LANES * k))
        return context.get_dummy_value()

    literals = types.IntegerLiteral(depth), types.IntegerLiteral(vectors)
    return types.void(address, address, address, address, *literals), generate


@cache
def places(depth: int) -> Callable[..., None]:
    """Return what fills the places at which n rows of a block leave a tree of a full depth.

    Its nodes stand in postorder.
    """

    @inner
    def fill(binned, room, n, node, leaf):
        for row in range(0, n, ROWS):
            if n - row > LANES:
                _places(binned + row, room, node, leaf + row, depth, 2)
            else:
                _places(binned + row, room, node, leaf + row, depth, 1)

    return fill


@cache
def _sum_kernel(depth: int, size: int, in_registers: int, sets: bool) -> Kernel:
    tree_bytes, fill = ((1 << depth) - 1) * RECORD.itemsize, places(depth)

    @kernel
    def perfect_sums(fields, binned, room, n_rows, totals, stride):
        at = int64s(fields, len(FIELDS))
        n_trees, n_binned, width = at[N_TREES], at[N_BINNED], at[WIDTH]
        start, n_leaves = int64s(at[START], n_trees), int64s(at[N_LEAVES], n_trees)
        output, set_ptr = int64s(at[OUTPUT], n_trees), int64s(at[SET_PTR], n_trees + 1)
        leaf: int = room_on_stack(room)
        for tree in range(n_trees):
            node = at[NODES] + tree * tree_bytes
            for block in range(stride // room):
                q = binned + block * n_binned * room
                n = min(room, n_rows - block * room)
                if sets:
                    look_up(q, room, at[LOOKUPS], set_ptr[tree], set_ptr[tree + 1], at[TABLES])
                fill(q, room, n, node, leaf)
                for k in range(width):
                    table = at[VALUES] + (start[tree] + k * n_leaves[tree]) * size
                    total = totals + ((output[tree] + k) * stride + block * room) * size
                    leaf_tables.add(table, leaf, total, n, size, in_registers, 8)

    return perfect_sums


@cache
def _exit_kernel(depth: int, sets: bool) -> Kernel:
    tree_bytes, n_places = ((1 << depth) - 1) * RECORD.itemsize, 1 << depth
    fill = places(depth)

    @kernel
    def perfect_exits(fields, binned, room, n_rows, exits):
        at = int64s(fields, len(FIELDS))
        n_trees, n_binned = at[N_TREES], at[N_BINNED]
        set_ptr = int64s(at[SET_PTR], n_trees + 1)
        leaf_at = numba.carray(pointer(at[LEAF_AT]), (n_trees * n_places,), np.uint8)
        leaf = stack_array(room, np.uint8)
        for block in range((n_rows + room - 1) // room):
            q = binned + block * n_binned * room
            first_row = block * room
            for tree in range(n_trees):
                node = at[NODES] + tree * tree_bytes
                if sets:
                    look_up(q, room, at[LOOKUPS], set_ptr[tree], set_ptr[tree + 1], at[TABLES])
                fill(q, room, room, node, np.int64(leaf.ctypes.data))
                for row in range(min(room, n_rows - first_row)):
                    exits[first_row + row, tree] = leaf_at[tree * n_places + leaf[row]]

    return perfect_exits


class Perfect(BinnedTrees):
    """A forest packed for the perfect kernel; see `protocol.TreeKernel`."""

    name = "perfect"

    def __init__(self, forest: Forest, binned: BinnedColumns) -> None:
        self._depth = max(_depth(forest), LEAST_DEPTH)
        node, leaf = padded(forest, self._depth)
        n_trees, places = forest.n_trees, 1 << self._depth
        tables = None
        if leaf_tables.adds(forest):
            tables = leaf_tables.leaf_tables(forest, leaf.ravel(), np.full(n_trees, places))
        super().__init__(forest, binned, tables)
        self._sets = self.tree_sets.lookups.size > 0
        nodes = np.zeros(node.shape, RECORD)
        real = node >= 0
        nodes["bin_column"][real] = binned.bin_column[node[real]]
        nodes["least"][real] = binned.least[node[real]]
        first = forest.bitvectors.leaf_ptr[:-1]
        self.bind(
            nodes[:, postorder(self._depth)],
            leaf_at=(leaf - first[:, None]).astype(np.uint8),
        )
        size = forest.output.dtype.itemsize
        registers = leaf_tables.registers(size, places)
        self._exits = _exit_kernel(self._depth, self._sets)
        self.sums = _sum_kernel(self._depth, size, registers, self._sets)

    def run_exits(self, binned: int, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` from binned columns: see `BinnedTrees`."""
        self._exits(self.address, binned, room, n_rows, out)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why a forest cannot be packed, or None; its binned columns may refuse it too."""
    if vectors() == "none":
        return "explicit vectors are turned off"
    depth = _depth(forest)
    if depth > MOST_DEPTH:
        return f"a tree is {depth} deep, more than {MOST_DEPTH}"
    return None


def _depth(forest: Forest) -> int:
    """Return the depth of the deepest tree, or a number above `MOST_DEPTH`."""
    return _levels(forest, MOST_DEPTH + 1)[0]


def _levels(forest: Forest, most: int) -> tuple[int, list[Array]]:
    """Return the depth, at most `most`, and the occupant of each place of each level.

    Level d has 2 ** d places per tree: a node of the forest, or `~leaf`, which hands itself down.
    """
    B = forest.bitvectors
    left, right = structure.children(B)
    has_nodes = np.diff(B.leaf_ptr) > 1
    level = np.where(has_nodes, B.node_ptr[:-1], ~B.leaf_ptr[:-1])[:, None]
    levels = [level]
    while len(levels) <= most and np.any(level >= 0):
        inner = level >= 0
        at = np.where(inner, level, 0)
        sides = [np.where(inner, side[at], level) for side in (left, right)]
        level = np.stack(sides, axis=2).reshape(len(level), -1)
        levels.append(level)
    return len(levels) - 1, levels


def padded(forest: Forest, depth: int) -> tuple[Array, Array]:
    """Return node (n_trees, 2**depth - 1), -1 where padding, level by level, and leaf per place."""
    _, levels = _levels(forest, depth)
    while len(levels) <= depth:
        levels.append(np.repeat(levels[-1], 2, axis=1))
    node = np.concatenate([np.maximum(level, -1) for level in levels[:depth]], axis=1)
    return node, ~levels[depth]


def postorder(depth: int) -> Array:
    """Return the level-by-level position of each node in postorder."""
    order: list[int] = []
    stack = [(0, False)]
    while stack:
        at, done = stack.pop()
        if done or 2 * at + 1 >= (1 << depth) - 1:
            order.append(at)
        else:
            stack += [(at, True), (2 * at + 2, False), (2 * at + 1, False)]
    return np.array(order)
