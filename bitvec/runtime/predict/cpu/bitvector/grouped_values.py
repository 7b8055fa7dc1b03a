"""Values of oblivious trees in groups of 8, by the place at which a row leaves each tree.

A row adds the 8 values of a group one after the other. Memory, for each group and each output that
a leaf has: 8 tables of 2 ** d values. With AVX-512, small tables are planes of 8 or 16 bits of the
values, looked up in registers for 64 or 32 rows at once. Where leaves have several values, those of
one place stand side by side in whole registers, and are added to the sums of a row together. A
group that lacks trees is filled up with values -0.0, which change no sum.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.core.arrays import Array, unique_integers
from bitvec.runtime.predict.cpu.bitvector.binned_trees import MOST_ROOM
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.target import has_byte_shuffle, vectors
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I8,
    I64,
    address,
    count,
    load,
    number,
    shuffle,
    store,
    vector,
)

GROUP = 8
"""Trees whose values a row adds in one go."""
LANES = 64
"""Rows whose places are compared, and whose values are looked up in registers, together."""
UNROLLED = 4
"""Rows of a step where values are loaded one by one."""
REGISTER = 64
"""Bytes of the values that are added together where a leaf has several."""
LEAST_VECTOR = 3
"""Values of a leaf from which on they are added together."""
MOST_REGISTERS = 4
"""Registers of a row's sums that are added to together."""
_PLANES_TO = 8
"""Depth up to which a table is looked up in registers, ..."""
_WORDS_TO = 6
"""... and by 16 bits at once: a plane of two registers is one instruction."""


def place_bytes(depth: int) -> int:
    """Return the bytes of a place."""
    return 1 if depth <= 8 else 2


def stride(depth: int) -> int:
    """Return the bytes between the places of one tree and the next."""
    return MOST_ROOM * place_bytes(depth)


@intrinsic(prefer_literal=True)
def add(typing_context, values, place, total, n, size, depth):
    """Add to the sum of each of n rows, and of some behind, what 8 trees have at its places.

    `size` is the bytes of a value, 4 or 8; `size` and `depth` are literals.
    """
    size, depth = size.literal_value, depth.literal_value
    element = F32 if size == 4 else F64
    place_bits = place_bytes(depth) * 8
    table_bytes = table_places(depth) * size

    def generate(context, builder, signature, arguments):
        values, place, total, n = arguments[:4]

        def in_registers(row, _):
            at = builder.mul(row, number(size))
            parts = [
                load(builder, total, builder.add(at, number(64 * k)), vector(element, 64 // size))
                for k in range(size)
            ]

            def add_tree(tree, parts):
                of_tree = builder.add(place, builder.mul(tree, number(stride(depth))))
                where = load(builder, of_tree, row, vector(I8, LANES))
                table = builder.add(values, builder.mul(tree, number(table_bytes)))
                added = looked_up(builder, table, where, size, depth)
                return [
                    builder.fadd(part, builder.bitcast(value, part.type))
                    for part, value in zip(parts, added, strict=True)
                ]

            parts = count(builder, number(0), number(GROUP), add_tree, carried=parts)
            for k, part in enumerate(parts):
                store(builder, part, total, builder.add(at, number(64 * k)))

        def one_by_one(first, _):
            for k in range(UNROLLED):
                row = builder.add(first, number(k))
                at = builder.mul(row, number(size))
                of_row = builder.add(place, builder.mul(row, number(place_bits // 8)))
                found = load(builder, total, at, element)
                for tree in range(GROUP):
                    offset = number(tree * stride(depth))
                    where = load(builder, of_row, offset, ir.IntType(place_bits))
                    where = builder.mul(builder.zext(where, I64), number(size))
                    value = builder.add(values, where)
                    table = number(tree * table_bytes)
                    found = builder.fadd(found, load(builder, value, table, element))
                store(builder, found, total, at)

        if by_planes(depth):
            count(builder, number(0), n, in_registers, step=LANES)
        else:
            count(builder, number(0), n, one_by_one, step=UNROLLED)
        return context.get_dummy_value()

    literals = types.IntegerLiteral(size), types.IntegerLiteral(depth)
    return types.void(address, address, address, address, *literals), generate


@intrinsic(prefer_literal=True)
def add_vectors(typing_context, values, place, total, n, n_trees, width, size, depth):
    """Add to the `width` sums of each of n rows, and of some behind, the vectors at its places.

    Some rows go side by side, with their sums in registers: the additions to one sum wait for each
    other. `size` is the bytes of a value, 4 or 8; `width`, `size` and `depth` are literals.
    """
    width, size, depth = (one.literal_value for one in (width, size, depth))
    kind = vector(F32 if size == 4 else F64, REGISTER // size)
    place_type = ir.IntType(place_bytes(depth) * 8)
    registers = range(0, width * size, REGISTER)
    n_at_once = min(len(registers), MOST_REGISTERS)
    n_rows = 1 << (sums_at_once() // n_at_once).bit_length() - 1

    def generate(context, builder, signature, arguments):
        values, place, total, n, n_trees = arguments[:5]

        def add_rows(first, _):
            rows = [builder.add(first, number(k)) for k in range(n_rows)]
            for start in range(0, len(registers), n_at_once):
                some = registers[start : start + n_at_once]
                sums = [
                    (builder.add(total, builder.mul(row, number(width * size))), number(at))
                    for row in rows
                    for at in some
                ]

                def add_tree(tree, found, some=some):
                    places = builder.add(place, builder.mul(tree, number(stride(depth))))
                    table = builder.mul(tree, number(width * size << depth))
                    table, added = builder.add(values, table), []
                    for row in rows:
                        at = builder.mul(row, number(place_bytes(depth)))
                        where = builder.zext(load(builder, places, at, place_type), I64)
                        start = builder.add(table, builder.mul(where, number(width * size)))
                        added += [load(builder, start, number(at), kind) for at in some]
                    pairs = zip(found, added, strict=True)
                    return [builder.fadd(one, other) for one, other in pairs]

                found = [load(builder, *at, kind) for at in sums]
                found = count(builder, number(0), n_trees, add_tree, carried=found)
                for one, at in zip(found, sums, strict=True):
                    store(builder, one, *at)

        count(builder, number(0), n, add_rows, step=n_rows)
        return context.get_dummy_value()

    literals = [types.IntegerLiteral(one) for one in (width, size, depth)]
    return types.void(*[address] * 5, *literals), generate


def sums_at_once() -> int:
    """Return how many registers of `REGISTER` bytes hold sums, beside what is added to them."""
    return 16 if vectors() == "avx512" else 4


def looked_up(builder, table, place, size, depth):
    """Return the values at 64 places, row after row, from planes of parts of them."""
    bits = plane_bits(depth)
    planes, lanes, at_once = 8 * size // bits, 512 // bits, LANES * bits // 512
    parts = vector(ir.IntType(bits), lanes)
    # Joining planes takes elements from all quarters of a register: rows are put in its order.
    order = np.arange(LANES).reshape(at_once, planes, 4, -1).swapaxes(1, 2).reshape(at_once, lanes)
    found = []
    for some in order.tolist():
        index = builder.zext(shuffle(builder, place, place, some), parts)
        values = []
        for plane in range(planes):
            start = plane * table_places(depth) * bits // 8
            registers = [
                load(builder, table, number(start + k), parts)
                for k in range(0, table_places(depth) * bits // 8, 64)
            ]
            values.append(leaf_tables.looked_up(builder, registers, index, parts, parts))
        found += _joined(builder, values)
    return found


def _joined(builder, parts):
    """Return vectors of the numbers whose low to high parts stand in some vectors."""
    if len(parts) == 1:
        return parts
    lanes, bits = parts[0].type.count, parts[0].type.element.width
    wider, quarter = vector(ir.IntType(2 * bits), lanes // 2), lanes // 4
    joined = []
    for start in (0, quarter // 2):
        pairs = [
            first + start + k + part
            for first in range(0, lanes, quarter)
            for k in range(quarter // 2)
            for part in (0, lanes)
        ]
        both = [shuffle(builder, parts[k], parts[k + 1], pairs) for k in range(0, len(parts), 2)]
        joined += _joined(builder, [builder.bitcast(one, wider) for one in both])
    return joined


def by_planes(depth: int) -> bool:
    """Return whether values are looked up in registers, by planes of parts of them."""
    return vectors() == "avx512" and depth <= _PLANES_TO


def plane_bits(depth: int) -> int:
    """Return the bits of a value in each plane of a table."""
    return 8 if depth > _WORDS_TO and has_byte_shuffle() else 16


def table_places(depth: int) -> int:
    """Return the places of a tree's table: planes fill two registers at least."""
    return max(1 << depth, 1024 // plane_bits(depth)) if by_planes(depth) else 1 << depth


def slots_of(output: Array) -> tuple[Array, int]:
    """Return the slot of each tree, and how many there are: trees of one output side by side."""
    slot = np.zeros(output.size, np.int64)
    n_slots = 0
    for one in unique_integers(output):
        trees = np.flatnonzero(output == one)
        slot[trees] = n_slots + np.arange(trees.size)
        n_slots += -(-trees.size // GROUP) * GROUP
    return slot, n_slots


def side_by_side(
    tables: leaf_tables.LeafTables, slot: Array, n_slots: int, depth: int
) -> leaf_tables.LeafTables:
    """Return tables of groups: tree after tree, place after place, its values in whole registers.

    `width` is that of the registers; all trees must add to all outputs.
    """
    places, dtype = 1 << depth, tables.values.dtype
    lanes = REGISTER // dtype.itemsize
    width, n_groups = -(-tables.width // lanes) * lanes, n_slots // GROUP
    of_slot = np.full((n_slots, places, width), -0.0, dtype)
    n_values = slot.size * tables.width * places
    of_tree = tables.values[:n_values].reshape(-1, tables.width, places)
    of_slot[slot, :, : tables.width] = of_tree.swapaxes(1, 2)
    return leaf_tables.LeafTables(
        constant(of_slot.ravel()),
        constant(np.arange(n_groups, dtype=np.int64) * (GROUP * places * width)),
        constant(np.full(n_groups, GROUP * places, np.int64)),
        constant(np.zeros(n_groups, np.int64)),
        width,
    )


def grouped(
    tables: leaf_tables.LeafTables, slot: Array, n_slots: int, depth: int
) -> leaf_tables.LeafTables:
    """Return tables of groups: a group's outputs one after the other, in each its trees' tables."""
    places, dtype = 1 << depth, tables.values.dtype
    n_groups, table_size = n_slots // GROUP, table_places(depth)
    of_slot = np.full((n_slots, tables.width, table_size), -0.0, dtype)
    n_values = slot.size * tables.width * places
    of_slot[slot, :, :places] = tables.values[:n_values].reshape(-1, tables.width, places)
    output = np.zeros(n_slots, np.int64)
    output[slot] = tables.output
    values = of_slot.reshape(n_groups, GROUP, tables.width, table_size).swapaxes(1, 2)
    if by_planes(depth):
        part_bytes = plane_bits(depth) // 8
        parts = np.ascontiguousarray(values).view(f"u{part_bytes}")
        parts = parts.reshape(*values.shape, dtype.itemsize // part_bytes)
        values = np.ascontiguousarray(parts.swapaxes(-1, -2)).view(dtype)
    n_places = GROUP * table_size
    return leaf_tables.LeafTables(
        constant(values.ravel()),
        constant(np.arange(n_groups, dtype=np.int64) * n_places * tables.width),
        constant(np.full(n_groups, n_places, np.int64)),
        constant(np.ascontiguousarray(output[::GROUP])),
        tables.width,
    )
