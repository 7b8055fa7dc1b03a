"""The chain kernel: B as one state per row and tree, without a branch or a gather.

Column j of B is zero on the leaves [lo, mid) of node j's left subtree. AND-ing the columns of the
true tests and taking the leftmost 1 is, in preorder, one state per row, the leftmost leaf that is
left: `if state == lo_j and h_j: state = mid_j`. A state is one byte (two in trees of more than 256
leaves), so that one instruction moves 64 rows past a node.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.runtime.cpu import leaf_tables
from bitvec.runtime.cpu.arrays import address_of, constant, pointer
from bitvec.runtime.cpu.compiling import Kernel, inner, kernel
from bitvec.runtime.cpu.planes import Planes
from bitvec.runtime.cpu.rank_trees import RankTrees
from bitvec.runtime.cpu.target import vectors
from bitvec.runtime.cpu.vectors import (
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
    """A node: its plane, the least byte that goes right, lo and mid; 6 bytes, or 8 if wide."""
    if wide:
        return np.dtype([("plane", "u2"), ("least", "u1"), ("_", "u1"), ("lo", "u2"), ("mid", "u2")])
    return np.dtype([("plane", "u2"), ("least", "u1"), ("lo", "u1"), ("mid", "u1"), ("_", "u1")])


def _make_chain(wide: bool, n_vectors: int):
    """Make a chain over the nodes [first, last) for `n_vectors` x 64 rows."""
    state = I16 if wide else I8
    record = _node_record(wide)
    assert record.fields is not None
    offset = {name: field[1] for name, field in record.fields.items()}

    @intrinsic
    def chain(typing_context, planes, room, nodes, first, last, leaf):
        def generate(context, builder, signature, arguments):
            planes, room, nodes, first, last, leaf = arguments

            def body(j, states):
                node = builder.add(nodes, builder.mul(j, number(record.itemsize)))

                def field(name, element):
                    return load(builder, node, number(offset[name]), element)

                plane = builder.zext(field("plane", I16), I64)
                least = splat(builder, field("least", I8), LANES)
                lo = splat(builder, field("lo", state), LANES)
                mid = splat(builder, field("mid", state), LANES)
                row = builder.add(planes, builder.mul(plane, room))
                moved = []
                for k, at in enumerate(states):
                    byte = load(builder, row, number(LANES * k), vector(I8, LANES))
                    right = builder.icmp_unsigned(">=", byte, least)
                    here = builder.icmp_unsigned("==", at, lo)
                    moved.append(builder.select(builder.and_(right, here), mid, at))
                return moved

            start = [same(state, LANES, 0)] * n_vectors
            for k, at in enumerate(count(builder, first, last, body, carried=start)):
                store(builder, at, leaf, number(LANES * k * state.width // 8))
            return context.get_dummy_value()

        return types.void(address, address, address, address, address, address), generate

    return chain


_chains = {
    (wide, n_vectors): _make_chain(wide, n_vectors)
    for wide in (False, True)
    for n_vectors in (2, 4, 8)
}
_chain2, _chain4, _chain8 = (_chains[False, n] for n in (2, 4, 8))
_wide_chain2, _wide_chain4 = (_chains[True, n] for n in (2, 4))


@inner
def _byte_leaves(planes, room, nodes, first, last, leaf):
    row = 0
    while row + 512 <= room:
        _chain8(planes + row, room, nodes, first, last, leaf + row)
        row += 512
    if row + 256 <= room:
        _chain4(planes + row, room, nodes, first, last, leaf + row)
        row += 256
    if row + 128 <= room:
        _chain2(planes + row, room, nodes, first, last, leaf + row)


@inner
def _wide_leaves(planes, room, nodes, first, last, leaf):
    row = 0
    while row + 256 <= room:
        _wide_chain4(planes + row, room, nodes, first, last, leaf + 2 * row)
        row += 256
    if row + 128 <= room:
        _wide_chain2(planes + row, room, nodes, first, last, leaf + 2 * row)


@inner
def _plain_leaves(planes, room, nodes, first, last, leaf):
    """The same as loops, for where vectors are not asked for."""
    for row in range(room):
        leaf[row] = 0
    for j in range(first, last):
        node = nodes[j]
        lo, mid, least = node.lo, node.mid, node.least
        byte = planes[np.int64(node.plane) * room : (np.int64(node.plane) + 1) * room]
        for row in range(room):
            leaf[row] = mid if ((byte[row] >= least) & (leaf[row] == lo)) else leaf[row]


@inner
def _leaves(planes, room, nodes, first, last, leaf, wide, explicit):
    if explicit:
        base = np.int64(nodes.ctypes.data)
        if wide:
            _wide_leaves(planes, room, base, first, last, np.int64(leaf.ctypes.data))
        else:
            _byte_leaves(planes, room, base, first, last, np.int64(leaf.ctypes.data))
    else:
        view = numba.carray(pointer(planes), (1 << 40,), np.uint8)
        _plain_leaves(view, room, nodes, first, last, leaf)


@cache
def _sum_kernel(wide: bool, size: int, in_registers: int) -> Kernel:
    explicit = vectors() != "none"
    index_type = np.uint16 if wide else np.uint8
    index_bits = 16 if wide else 8

    @kernel
    def chain_sums(
        nodes, node_ptr, values, start, n_leaves, output, width,
        planes, n_planes, room, n_blocks, totals, totals_stride,
    ):
        leaf = np.empty(room + 64, index_type)
        for tree in range(node_ptr.shape[0] - 1):
            for block in range(n_blocks):
                q = planes + block * n_planes * room
                _leaves(q, room, nodes, node_ptr[tree], node_ptr[tree + 1], leaf, wide, explicit)
                for k in range(width):
                    table = values.ctypes.data + (start[tree] + k * n_leaves[tree]) * size
                    total = totals + ((output[tree] + k) * totals_stride + block * room) * size
                    leaf_tables.add(
                        table, np.int64(leaf.ctypes.data), total, room, size, in_registers, index_bits
                    )

    return chain_sums


@cache
def _exit_kernel(wide: bool) -> Kernel:
    explicit = vectors() != "none"
    index_type = np.uint16 if wide else np.uint8

    @kernel
    def chain_exits(nodes, node_ptr, planes, n_planes, room, n_rows, exits):
        leaf = np.empty(room + 64, index_type)
        for block in range((n_rows + room - 1) // room):
            q = planes + block * n_planes * room
            first_row = block * room
            for tree in range(node_ptr.shape[0] - 1):
                _leaves(q, room, nodes, node_ptr[tree], node_ptr[tree + 1], leaf, wide, explicit)
                for row in range(min(room, n_rows - first_row)):
                    exits[first_row + row, tree] = leaf[row]

    return chain_exits


class Chain(RankTrees):
    """A forest packed for the chain kernel; see `bitvec.runtime.cpu.protocol.TreeKernel`."""

    name = "chain"

    def __init__(self, forest: Forest, planes: Planes) -> None:
        B = forest.bitvectors
        n_leaves = np.diff(B.leaf_ptr)
        tables = None
        if leaf_tables.adds(forest):
            tables = leaf_tables.leaf_tables(forest, np.arange(B.n_leaves), n_leaves)
        super().__init__(forest, planes, tables)
        most = int(n_leaves.max(initial=1))
        self._wide = most > BYTE_LEAVES
        preorder = np.lexsort((-B.hi, B.lo, B.tree_of_node))
        nodes = np.zeros(B.n_nodes, _node_record(self._wide))
        for name, values in (
            ("plane", planes.plane),
            ("least", planes.least),
            ("lo", B.lo),
            ("mid", B.mid),
        ):
            nodes[name] = values[preorder]
        self._nodes = constant(nodes)
        self._node_ptr = constant(B.node_ptr)
        self._in_registers = leaf_tables.registers(forest.output.dtype.itemsize, most)

    @property
    def tree_bytes(self) -> int:
        """Bytes of the packed trees."""
        return self._nodes.nbytes + self._node_ptr.nbytes

    def run_exits(self, planes: Array, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` from planes: see `RankTrees`."""
        _exit_kernel(self._wide)(
            self._nodes, self._node_ptr, address_of(planes), self.n_planes, room, n_rows, out
        )

    def run_sums(self, planes: Array, room: int, n_blocks: int, totals: Array) -> None:
        """Add to `totals` from planes: see `RankTrees`."""
        tables = self.tables
        assert tables is not None
        _sum_kernel(self._wide, totals.itemsize, self._in_registers)(
            self._nodes,
            self._node_ptr,
            *tables.arrays,
            tables.width,
            address_of(planes),
            self.n_planes,
            room,
            n_blocks,
            address_of(totals),
            totals.shape[1],
        )


def refusal(forest: Forest) -> str | None:
    """Return why a forest cannot be packed, or None; its planes may refuse it too."""
    most = int(np.diff(forest.bitvectors.leaf_ptr).max(initial=1))
    if most > MOST_LEAVES:
        return f"a tree has {most} leaves, more than {MOST_LEAVES}"
    return None
