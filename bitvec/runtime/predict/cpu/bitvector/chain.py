"""The chain kernel: B as one state per row and tree, without a branch or a gather.

Column j of B is zero on the leaves [lo, mid) of node j's left subtree. AND-ing the columns of the
true tests and taking the leftmost 1 is, in preorder, one state per row, the leftmost leaf that is
left: `if state == lo_j and h_j: state = mid_j`. A state is one byte (two in trees of more than 256
leaves), so that one instruction moves 64 rows past a node.
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
from bitvec.runtime.predict.cpu.bins.set_kernels import LOOKUP, look_up, lookup_fields, permuted
from bitvec.runtime.predict.cpu.bitvector.binned_trees import (
    FIELDS,
    LONG_PTR,
    LOOKUPS,
    MOST_ROOM,
    N_BINNED,
    N_LEAVES,
    N_NODES,
    N_TREES,
    NODE_PTR,
    NODES,
    OUTPUT,
    SET_PTR,
    START,
    TABLES,
    VALUES,
    WIDTH,
    BinnedTrees,
)
from bitvec.runtime.predict.cpu.compiling import Kernel, inner, int64s, kernel, stack_array
from bitvec.runtime.predict.cpu.kernel_arrays import pointer
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.target import has_byte_shuffle, vectors
from bitvec.runtime.predict.cpu.vectors import (
    I8,
    I16,
    I64,
    address,
    count,
    load,
    number,
    same,
    splat,
    store,
    vector,
)

BYTE_LEAVES = 256
MOST_LEAVES = 1 << 16
LANES = 64


def _node_record(wide: bool) -> np.dtype:
    """A node: binned column, the least byte that goes right, lo and mid; 6 bytes, or 8 if wide."""
    if wide:
        return np.dtype(
            [("bin_column", "u2"), ("least", "u1"), ("_", "u1"), ("lo", "u2"), ("mid", "u2")]
        )
    return np.dtype(
        [("bin_column", "u2"), ("least", "u1"), ("lo", "u1"), ("mid", "u1"), ("_", "u1")]
    )


_NODE, _WIDE_NODE = _node_record(False), _node_record(True)
_EXPLICIT = vectors() != "none"
_FOUR, _EIGHT = (128, 256) if vectors() == "avx512" else (192, 448)
"""Rows from which on a pass of 4 or 8 vectors costs less than shorter ones: with AVX-512 one of 8
takes 1.4 times as long as one of 2, whose states wait for each other; else registers are too few.
"""


def _make_chain(wide: bool, n_vectors: int, with_sets: bool):
    """Make a chain over the nodes [first, last) for `n_vectors` x 64 rows.

    `with_sets`, a node whose `least` is 0 looks its set up in the tables, without a binned column:
    its `bin_column` is the number of the lookup from `lookups` on.
    """
    state = I16 if wide else I8
    record = _node_record(wide)
    assert record.fields is not None
    offset = {name: field[1] for name, field in record.fields.items()}

    @intrinsic
    def chain(typing_context, binned, room, nodes, first, last, leaf, lookups, tables):
        def generate(context, builder, signature, arguments):
            binned, room, nodes, first, last, leaf, lookups, tables = arguments
            looks_up = with_sets and has_byte_shuffle()

            def body(j, states):
                node = builder.add(nodes, builder.mul(j, number(record.itemsize)))

                def field(name, element):
                    return load(builder, node, number(offset[name]), element)

                bin_column = builder.zext(field("bin_column", I16), I64)
                least = field("least", I8)
                lo = splat(builder, field("lo", state), LANES)
                mid = splat(builder, field("mid", state), LANES)

                def moved(k, right):
                    here = builder.icmp_unsigned("==", states[k], lo)
                    return builder.select(builder.and_(right, here), mid, states[k])

                def by_column():
                    row = builder.add(binned, builder.mul(bin_column, room))
                    most = splat(builder, least, LANES)
                    for k in range(n_vectors):
                        byte = load(builder, row, number(LANES * k), vector(I8, LANES))
                        yield moved(k, builder.icmp_unsigned(">=", byte, most))

                def by_table():
                    lookup = lookup_fields(builder, binned, room, lookups, bin_column, tables)
                    table = load(builder, lookup["table"], number(0), vector(I8, LANES))
                    bits = builder.add(lookup["code"], room)
                    for k in range(n_vectors):
                        byte = permuted(builder, table, lookup["code"], bits, number(LANES * k))
                        yield moved(k, builder.icmp_unsigned("!=", byte, same(I8, LANES, 0)))

                if not looks_up:
                    return list(by_column())
                is_set = builder.icmp_unsigned("==", least, ir.Constant(I8, 0))
                with builder.if_else(is_set) as (then, otherwise):
                    with then:
                        after_table, table_block = list(by_table()), builder.block
                    with otherwise:
                        after_column, column_block = list(by_column()), builder.block
                result = []
                for from_table, from_column in zip(after_table, after_column, strict=True):
                    phi = builder.phi(from_table.type)
                    phi.add_incoming(from_table, table_block)
                    phi.add_incoming(from_column, column_block)
                    result.append(phi)
                return result

            start = [same(state, LANES, 0)] * n_vectors
            for k, at in enumerate(count(builder, first, last, body, carried=start)):
                store(builder, at, leaf, number(LANES * k * state.width // 8))
            return context.get_dummy_value()

        return types.void(*[address] * 8), generate

    return chain


_chains = {
    (wide, n_vectors, with_sets): _make_chain(wide, n_vectors, with_sets)
    for wide in (False, True)
    for n_vectors in (1, 2, 4, 8)
    for with_sets in (False, True)
}


def _make_leaves(wide: bool, with_sets: bool):
    """Make a function that fills the leaves of all rows of a block, by vectors."""
    chain1, chain2, chain4, chain8 = (_chains[wide, n, with_sets] for n in (1, 2, 4, 8))
    # Of states of two bytes 8 vectors would not fit the registers.
    size, eight = (2, MOST_ROOM) if wide else (1, _EIGHT)

    @inner
    def leaves(binned, room, n, nodes, first, last, leaf, lookups, tables):
        row = 0
        while row < n:
            q, to, left = binned + row, leaf + size * row, n - row
            if left > eight:
                chain8(q, room, nodes, first, last, to, lookups, tables)
                row += 512
            elif left > _FOUR:
                chain4(q, room, nodes, first, last, to, lookups, tables)
                row += 256
            elif left > 64:
                chain2(q, room, nodes, first, last, to, lookups, tables)
                row += 128
            else:
                chain1(q, room, nodes, first, last, to, lookups, tables)
                row += 64

    return leaves


_byte_leaves, _wide_leaves = (_make_leaves(wide, False) for wide in (False, True))
_byte_set_leaves, _wide_set_leaves = (_make_leaves(wide, True) for wide in (False, True))


@inner
def _plain_leaves(binned, room, nodes, first, last, leaf):
    """The same as loops, for where vectors are not asked for."""
    for row in range(room):
        leaf[row] = 0
    for j in range(first, last):
        node = nodes[j]
        lo, mid, least = node.lo, node.mid, node.least
        byte = numba.carray(pointer(binned + np.int64(node.bin_column) * room), (room,), np.uint8)
        for row in range(room):
            leaf[row] = mid if ((byte[row] >= least) & (leaf[row] == lo)) else leaf[row]


@inner
def _leaves(at, binned, room, n, first, last, leaf, wide):
    goal = np.int64(leaf.ctypes.data)
    if _EXPLICIT:
        if wide:
            _wide_leaves(binned, room, n, at[NODES], first, last, goal, 0, 0)
        else:
            _byte_leaves(binned, room, n, at[NODES], first, last, goal, 0, 0)
    elif wide:
        nodes = numba.carray(pointer(at[NODES]), (at[N_NODES],), _WIDE_NODE)
        _plain_leaves(binned, room, nodes, first, last, leaf)
    else:
        nodes_of_bytes = numba.carray(pointer(at[NODES]), (at[N_NODES],), _NODE)
        _plain_leaves(binned, room, nodes_of_bytes, first, last, leaf)


@inner
def _set_leaves(at, binned, room, n, first, last, leaf, wide, lookups):
    """The same where trees look sets up as they go."""
    goal = np.int64(leaf.ctypes.data)
    if wide:
        _wide_set_leaves(binned, room, n, at[NODES], first, last, goal, lookups, at[TABLES])
    else:
        _byte_set_leaves(binned, room, n, at[NODES], first, last, goal, lookups, at[TABLES])


NO_SETS, SETS_IN_COLUMNS, SETS_IN_TABLES = 0, 1, 2
"""Lookups of the trees' own sets: none; in binned columns, tree by tree; short ones in tables."""


@cache
def _sum_kernel(wide: bool, size: int, in_registers: int, sets: int) -> Kernel:
    index_type = np.uint16 if wide else np.uint8
    index_bits = 16 if wide else 8
    in_columns, in_tables = sets == SETS_IN_COLUMNS, sets == SETS_IN_TABLES
    lookup_bytes = LOOKUP.itemsize

    @kernel
    def chain_sums(fields, binned, room, n_rows, totals, stride):
        at = int64s(fields, len(FIELDS))
        n_trees, n_binned, width = at[N_TREES], at[N_BINNED], at[WIDTH]
        node_ptr, start = int64s(at[NODE_PTR], n_trees + 1), int64s(at[START], n_trees)
        n_leaves, output = int64s(at[N_LEAVES], n_trees), int64s(at[OUTPUT], n_trees)
        set_ptr, long_ptr = int64s(at[SET_PTR], n_trees + 1), int64s(at[LONG_PTR], n_trees)
        leaf = stack_array(room, index_type)
        for tree in range(n_trees):
            first, last = node_ptr[tree], node_ptr[tree + 1]
            for block in range(stride // room):
                q = binned + block * n_binned * room
                n = min(room, n_rows - block * room)
                if in_columns:
                    look_up(q, room, at[LOOKUPS], set_ptr[tree], set_ptr[tree + 1], at[TABLES])
                if in_tables:
                    look_up(q, room, at[LOOKUPS], long_ptr[tree], set_ptr[tree + 1], at[TABLES])
                    own = at[LOOKUPS] + set_ptr[tree] * lookup_bytes
                    _set_leaves(at, q, room, n, first, last, leaf, wide, own)
                else:
                    _leaves(at, q, room, n, first, last, leaf, wide)
                for k in range(width):
                    table = at[VALUES] + (start[tree] + k * n_leaves[tree]) * size
                    total = totals + ((output[tree] + k) * stride + block * room) * size
                    goal = np.int64(leaf.ctypes.data)
                    leaf_tables.add(table, goal, total, n, size, in_registers, index_bits)

    return chain_sums


@cache
def _exit_kernel(wide: bool, sets: int) -> Kernel:
    index_type = np.uint16 if wide else np.uint8
    in_columns, in_tables = sets == SETS_IN_COLUMNS, sets == SETS_IN_TABLES
    lookup_bytes = LOOKUP.itemsize

    @kernel
    def chain_exits(fields, binned, room, n_rows, exits):
        at = int64s(fields, len(FIELDS))
        n_trees, n_binned = at[N_TREES], at[N_BINNED]
        node_ptr = int64s(at[NODE_PTR], n_trees + 1)
        set_ptr, long_ptr = int64s(at[SET_PTR], n_trees + 1), int64s(at[LONG_PTR], n_trees)
        leaf = stack_array(room, index_type)
        for block in range((n_rows + room - 1) // room):
            q = binned + block * n_binned * room
            first_row = block * room
            for tree in range(n_trees):
                first, last = node_ptr[tree], node_ptr[tree + 1]
                if in_columns:
                    look_up(q, room, at[LOOKUPS], set_ptr[tree], set_ptr[tree + 1], at[TABLES])
                if in_tables:
                    look_up(q, room, at[LOOKUPS], long_ptr[tree], set_ptr[tree + 1], at[TABLES])
                    own = at[LOOKUPS] + set_ptr[tree] * lookup_bytes
                    _set_leaves(at, q, room, room, first, last, leaf, wide, own)
                else:
                    _leaves(at, q, room, room, first, last, leaf, wide)
                for row in range(min(room, n_rows - first_row)):
                    exits[first_row + row, tree] = leaf[row]

    return chain_exits


class Chain(BinnedTrees):
    """A forest packed for the chain kernel; see `protocol.TreeKernel`."""

    name = "chain"

    def __init__(self, forest: Forest, binned: BinnedColumns) -> None:
        B = forest.bitvectors
        n_leaves = np.diff(B.leaf_ptr)
        tables = None
        if leaf_tables.adds(forest):
            tables = leaf_tables.leaf_tables(forest, np.arange(B.n_leaves), n_leaves)
        super().__init__(forest, binned, tables)
        most = int(n_leaves.max(initial=1))
        self._wide = most > BYTE_LEAVES
        preorder = tree_paths.preorder(B)
        nodes = np.zeros(B.n_nodes, _node_record(self._wide))
        for name, values in (
            ("bin_column", binned.bin_column),
            ("least", binned.least),
            ("lo", B.lo),
            ("mid", B.mid),
        ):
            nodes[name] = values[preorder]
        self._sets = NO_SETS
        if self.tree_sets.lookups.size:
            self._sets = SETS_IN_TABLES if has_byte_shuffle() else SETS_IN_COLUMNS
        if self._sets == SETS_IN_TABLES:
            number, is_short = self.tree_sets.short_lookups(
                nodes["bin_column"], B.tree_of_node[preorder]
            )
            nodes["bin_column"][is_short], nodes["least"][is_short] = number[is_short], 0
        self.bind(nodes, node_ptr=B.node_ptr)
        size = forest.output.dtype.itemsize
        registers = leaf_tables.registers(size, most)
        self._exits = _exit_kernel(self._wide, self._sets)
        self.sums = _sum_kernel(self._wide, size, registers, self._sets)

    def run_exits(self, binned: int, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` from binned columns: see `BinnedTrees`."""
        self._exits(self.address, binned, room, n_rows, out)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why a forest cannot be packed, or None; its binned columns may refuse it too."""
    most = int(np.diff(forest.bitvectors.leaf_ptr).max(initial=1))
    if most > MOST_LEAVES:
        return f"a tree has {most} leaves, more than {MOST_LEAVES}"
    return None
