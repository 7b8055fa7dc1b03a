"""The perfect kernel: shallow trees padded to a full depth, evaluated from the leaves up.

A node selects between the leaf numbers that its two subtrees hand up; all of a tree's nodes are
one straight line of code, without a branch or a state that the next node waits for. A leaf above
the full depth stands for all the places below it, so whatever the padding tests changes nothing.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg"

from __future__ import annotations

from functools import cache

import numpy as np
from numba import types
from numba.extending import intrinsic

from bitvec import structure
from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.runtime.cpu import leaf_tables
from bitvec.runtime.cpu.arrays import address_of, constant
from bitvec.runtime.cpu.compiling import Kernel, kernel
from bitvec.runtime.cpu.planes import Planes
from bitvec.runtime.cpu.rank_trees import RankTrees
from bitvec.runtime.cpu.set_kernels import look_up
from bitvec.runtime.cpu.target import vectors
from bitvec.runtime.cpu.vectors import (
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

MOST_DEPTH = 8
LANES = 64
VECTORS = 2
"""Vectors of 64 rows that pass a tree together."""

_RECORD = np.dtype([("plane", "u2"), ("least", "u1"), ("_", "u1")])


@intrinsic(prefer_literal=True)
def _tree(typing_context, planes, room, nodes, leaf, depth):
    """Fill the places at which 128 rows leave one tree of a full depth, a literal.

    Its nodes stand in postorder.
    """
    depth = depth.literal_value

    def generate(context, builder, signature, arguments):
        planes, room, nodes, leaf = arguments[:4]
        met = 0

        def select(levels):
            nonlocal met
            below = [select(levels - 1) for _ in range(2)] if levels > 1 else None
            node = builder.add(nodes, number(met * _RECORD.itemsize))
            met += 1
            plane = builder.zext(load(builder, node, number(0), I16), I64)
            least = splat(builder, load(builder, node, number(2), I8), LANES)
            row = builder.add(planes, builder.mul(plane, room))
            half, none = same(I8, LANES, 1 << (levels - 1)), same(I8, LANES, 0)
            chosen = []
            for k in range(VECTORS):
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

    literal = types.IntegerLiteral(depth)
    return types.void(address, address, address, address, literal), generate


@cache
def _sum_kernel(depth: int, size: int, in_registers: int, sets: bool) -> Kernel:
    tree_bytes = ((1 << depth) - 1) * _RECORD.itemsize

    @kernel
    def perfect_sums(
        nodes,
        values,
        start,
        n_leaves,
        output,
        width,
        planes,
        n_planes,
        room,
        n_blocks,
        totals,
        totals_stride,
        set_ptr,
        long_ptr,
        lookups,
        tables,
    ):
        leaf = np.empty(room + 64, np.uint8)
        for tree in range(start.shape[0]):
            node = nodes.ctypes.data + tree * tree_bytes
            for block in range(n_blocks):
                q = planes + block * n_planes * room
                if sets:
                    look_up(q, room, lookups, set_ptr[tree], set_ptr[tree + 1], tables)
                for row in range(0, room, 128):
                    _tree(q + row, room, node, leaf.ctypes.data + row, depth)
                for k in range(width):
                    table = values.ctypes.data + (start[tree] + k * n_leaves[tree]) * size
                    total = totals + ((output[tree] + k) * totals_stride + block * room) * size
                    leaf_tables.add(
                        table, np.int64(leaf.ctypes.data), total, room, size, in_registers, 8
                    )

    return perfect_sums


@cache
def _exit_kernel(depth: int, sets: bool) -> Kernel:
    tree_bytes = ((1 << depth) - 1) * _RECORD.itemsize

    @kernel
    def perfect_exits(
        nodes, leaf_at, planes, n_planes, room, n_rows, exits, set_ptr, long_ptr, lookups, tables
    ):
        leaf = np.empty(room + 64, np.uint8)
        for block in range((n_rows + room - 1) // room):
            q = planes + block * n_planes * room
            first_row = block * room
            for tree in range(exits.shape[1]):
                if sets:
                    look_up(q, room, lookups, set_ptr[tree], set_ptr[tree + 1], tables)
                node = nodes.ctypes.data + tree * tree_bytes
                for row in range(0, room, 128):
                    _tree(q + row, room, node, leaf.ctypes.data + row, depth)
                for row in range(min(room, n_rows - first_row)):
                    exits[first_row + row, tree] = leaf_at[tree, leaf[row]]

    return perfect_exits


class Perfect(RankTrees):
    """A forest packed for the perfect kernel; see `bitvec.runtime.cpu.protocol.TreeKernel`."""

    name = "perfect"

    def __init__(self, forest: Forest, planes: Planes) -> None:
        self._depth = max(_depth(forest), 1)
        node, leaf = _padded(forest, self._depth)
        n_trees, places = forest.n_trees, 1 << self._depth
        tables = None
        if leaf_tables.adds(forest):
            tables = leaf_tables.leaf_tables(forest, leaf.ravel(), np.full(n_trees, places))
        super().__init__(forest, planes, tables)
        self._sets = self.tree_sets.lookups.size > 0
        nodes = np.zeros(node.shape, _RECORD)
        real = node >= 0
        nodes["plane"][real] = planes.plane[node[real]]
        nodes["least"][real] = planes.least[node[real]]
        self._nodes = constant(nodes[:, _postorder(self._depth)])
        first = forest.bitvectors.leaf_ptr[:-1]
        self._leaf_at = constant((leaf - first[:, None]).astype(np.uint8))
        self._in_registers = leaf_tables.registers(forest.output.dtype.itemsize, places)

    @property
    def tree_bytes(self) -> int:
        """Bytes of the packed trees."""
        return self._nodes.nbytes + self._leaf_at.nbytes

    def run_exits(self, planes: Array, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` from planes: see `RankTrees`."""
        _exit_kernel(self._depth, self._sets)(
            self._nodes,
            self._leaf_at,
            address_of(planes),
            self.n_planes,
            room,
            n_rows,
            out,
            *self.tree_sets.arguments,
        )

    def run_sums(self, planes: Array, room: int, n_blocks: int, totals: Array) -> None:
        """Add to `totals` from planes: see `RankTrees`."""
        tables = self.tables
        assert tables is not None
        _sum_kernel(self._depth, totals.itemsize, self._in_registers, self._sets)(
            self._nodes,
            *tables.arrays,
            tables.width,
            address_of(planes),
            self.n_planes,
            room,
            n_blocks,
            address_of(totals),
            totals.shape[1],
            *self.tree_sets.arguments,
        )


def refusal(forest: Forest) -> str | None:
    """Return why a forest cannot be packed, or None; its planes may refuse it too."""
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


def _padded(forest: Forest, depth: int) -> tuple[Array, Array]:
    """Return node (n_trees, 2**depth - 1), -1 where padding, level by level, and leaf per place."""
    _, levels = _levels(forest, depth)
    while len(levels) <= depth:
        levels.append(np.repeat(levels[-1], 2, axis=1))
    node = np.concatenate([np.maximum(level, -1) for level in levels[:depth]], axis=1)
    return node, ~levels[depth]


def _postorder(depth: int) -> Array:
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
