"""The kernels of `bitvec.runtime.predict.cpu.few_rows.masks`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.compiling import Function, by_address, inner
from bitvec.runtime.predict.cpu.few_rows.call_header import field, field_of
from bitvec.runtime.predict.cpu.few_rows.ranked_keys import fill_ranks
from bitvec.runtime.predict.cpu.few_rows.set_masks import fill_addresses
from bitvec.runtime.predict.cpu.kernel_arrays import load_int32, load_int64, pointer, store
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.traversal.key_columns import (
    DOUBLE,
    ROUNDED,
    SINGLE,
    plain_value,
    read_key,
)
from bitvec.runtime.predict.cpu.traversal.keyed import KEY_COLUMN
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    address,
    count,
    intrinsic_function,
    load,
    number,
    same,
    splat,
    vector,
)
from bitvec.runtime.predict.cpu.vectors import store as store_vector

UNROLLED = 2
"""Slots of one turn of the innermost loop."""


def lanes(bits: int) -> int:
    """Return how many keys of so many bits stand side by side."""
    return (512 if vectors() == "avx512" else 256) // bits


def window(bits: int) -> int:
    """Return from how many keys one instruction takes as many as there are lanes."""
    return lanes(bits) * (2 if vectors() == "avx512" else 1)


def place_bytes(bits: int) -> int:
    """Return how many bytes name the keys that one instruction takes."""
    return lanes(bits) if vectors() == "avx512" else 8


def _taken(builder, registers, index, bits: int):
    """Return the keys at some places, bytes, of the registers."""
    kind = registers[0].type
    if vectors() == "avx512":
        index = builder.zext(index, kind)
    else:
        index = builder.zext(index, vector(I32, 8))
    if len(registers) == 2:
        name = f"llvm.x86.avx512.vpermi2var.{'d' if bits == 32 else 'q'}.512"
        pair = intrinsic_function(builder, name, kind, [kind, kind, kind])
        return builder.call(pair, [registers[0], index, registers[1]])
    halves = vector(I32, 8)
    one = intrinsic_function(builder, "llvm.x86.avx2.permd", halves, [halves, halves])
    words = builder.bitcast(registers[0], halves)
    return builder.bitcast(builder.call(one, [words, index]), kind)


@intrinsic(prefer_literal=True)
def _find(typing_context, header, keys, bits):
    """Fill the forest's numbers of exit leaves behind the keys, of so many bits: a literal."""
    n_bits = bits.literal_value
    n_lanes, size = lanes(n_bits), n_bits // 8
    kind = vector(ir.IntType(n_bits), n_lanes)
    step = n_lanes * size

    def generate(context, builder, signature, arguments):
        header, keys = arguments[:2]
        names = ("places", "slots", "counts", "n_words", "first_leaf", "n_groups", "n_windows")
        places, slots, counts, n_words, first_leaf, n_groups, n_windows = (
            field_of(builder, header, name) for name in names
        )
        is_sorted = builder.icmp_signed("!=", field_of(builder, header, "turn_of_tree"), number(0))
        found_at, leaves_at = (field_of(builder, header, f"{n}_at") for n in ("found", "leaves"))
        out = builder.add(keys, builder.select(is_sorted, found_at, leaves_at))
        addresses = builder.add(keys, field_of(builder, header, "addresses_at"))
        n_sets = field_of(builder, header, "n_sets")
        ctz = intrinsic_function(builder, f"llvm.cttz.v{n_lanes}i{n_bits}", kind, [kind, I1])
        nothing = same(kind.element, n_lanes, 0)

        def of_group(group, held):
            place, slot, counted, vector_at = held
            words = load(builder, n_words, builder.mul(group, number(8)), I64)
            is_oblivious = builder.icmp_signed("==", words, number(0))
            words = builder.select(is_oblivious, number(1), words)

            def of_word(turn, held):
                place, slot, counted, vector_at, leaf = held

                def of_set(k, held):
                    start = load(builder, addresses, builder.mul(k, number(8)), I64)
                    return (builder.or_(held[0], load(builder, start, vector_at, kind)),)

                (dead,) = count(builder, number(0), n_sets, of_set, carried=(nothing,))
                vector_at = builder.add(vector_at, number(step))

                def of_window(k, held):
                    place, slot, counted, dead = held
                    start = builder.mul(k, number(window(n_bits) * size))
                    registers = [
                        load(builder, builder.add(keys, start), number(step * r), kind)
                        for r in range(window(n_bits) // n_lanes)
                    ]

                    def of_slots(_, held):
                        place, slot, dead = held
                        for each in range(UNROLLED):
                            at = number(place_bytes(n_bits) * each)
                            index = load(builder, place, at, vector(I8, place_bytes(n_bits)))
                            below, zeros = (
                                load(builder, slot, number(step * (2 * each + part)), kind)
                                for part in range(2)
                            )
                            key = _taken(builder, registers, index, n_bits)
                            right = builder.icmp_signed(">", key, below)
                            if vectors() == "avx512":
                                dead = builder.select(right, builder.or_(dead, zeros), dead)
                            else:
                                left_behind = builder.and_(builder.sext(right, kind), zeros)
                                dead = builder.or_(dead, left_behind)
                        place = builder.add(place, number(place_bytes(n_bits) * UNROLLED))
                        return place, builder.add(slot, number(2 * step * UNROLLED)), dead

                    n = load(builder, counted, number(0), I64)
                    place, slot, dead = count(
                        builder, number(0), n, of_slots, UNROLLED, carried=(place, slot, dead)
                    )
                    return place, slot, builder.add(counted, number(8)), dead

                held = (place, slot, counted, dead)
                place, slot, counted, dead = count(
                    builder, number(0), n_windows, of_window, carried=held
                )
                alive = builder.not_(dead)
                before = builder.mul(
                    builder.sub(builder.sub(words, number(1)), turn), number(n_bits)
                )
                before = before if n_bits == 64 else builder.trunc(before, I32)
                first = builder.call(ctz, [alive, ir.Constant(I1, 0)])
                first = builder.add(first, splat(builder, before, n_lanes))
                survives = builder.icmp_unsigned("!=", alive, nothing)
                leaf = builder.select(survives, first, leaf)
                leaf = builder.select(is_oblivious, dead, leaf)
                return place, slot, counted, vector_at, leaf

            held = (place, slot, counted, vector_at, nothing)
            place, slot, counted, vector_at, leaf = count(
                builder, number(0), words, of_word, carried=held
            )
            at = builder.mul(group, number(4 * n_lanes))
            numbers = vector(I32, n_lanes)
            leaf = leaf if n_bits == 32 else builder.trunc(leaf, numbers)
            leaf = builder.add(leaf, load(builder, first_leaf, at, numbers))
            store_vector(builder, leaf, out, at)
            return place, slot, counted, vector_at

        held = (places, slots, counts, number(0))
        count(builder, number(0), n_groups, of_group, carried=held)
        return context.get_dummy_value()

    return types.void(address, address, bits), generate


@intrinsic(prefer_literal=True)
def _fill_compared(typing_context, row, header, out, reading):
    """Fill `out` with the keys of the columns of a row; `reading` is a literal."""
    way = reading.literal_value
    n_bits = 64 if way == DOUBLE else 32
    read = F32 if way == SINGLE else F64
    n_lanes, size = lanes(n_bits), n_bits // 8
    element = ir.IntType(n_bits)
    kind = vector(element, n_lanes)
    magnitude, infinity = {
        32: (0x7FFFFFFF, 0x7F800000),
        64: (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000),
    }[n_bits]

    def generate(context, builder, signature, arguments):
        row, header, out = arguments[:3]
        names = ("columns", "missing", "missing_first", "missing_last", "n_compared")
        columns, missing, missing_first, missing_last, n = (
            field_of(builder, header, name) for name in names
        )

        def body(first, _):
            start = builder.mul(first, number(size))
            values = ir.Constant(vector(read, n_lanes), ir.Undefined)
            for lane in range(n_lanes):
                at = builder.add(columns, start)
                column = load(builder, at, number(lane * size), element)
                column = column if n_bits == 64 else builder.zext(column, I64)
                width = number(4 if way == SINGLE else 8)
                value = load(builder, row, builder.mul(column, width), read)
                values = builder.insert_element(values, value, ir.Constant(I32, lane))
            if way == ROUNDED:
                values = builder.fptrunc(values, vector(F32, n_lanes))
            bits = builder.bitcast(values, kind)
            sign = builder.ashr(bits, same(element, n_lanes, n_bits - 1))
            masked = builder.and_(bits, same(element, n_lanes, magnitude))
            key = builder.sub(
                builder.xor(bits, builder.and_(sign, same(element, n_lanes, magnitude))), sign
            )
            low, high, instead = (
                load(builder, part, start, kind) for part in (missing_first, missing_last, missing)
            )
            within = builder.and_(
                builder.icmp_signed(">=", key, low), builder.icmp_signed("<=", key, high)
            )
            is_nan = builder.icmp_signed(">", masked, same(element, n_lanes, infinity))
            key = builder.select(builder.or_(within, is_nan), instead, key)
            store_vector(builder, key, out, start)

        count(builder, number(0), n, body, step=n_lanes)
        return context.get_dummy_value()

    return types.void(address, address, address, reading), generate


@inner
def _fill_equal(row, header, out, reading, bits):
    """Fill the outcomes of tests for equality, which stand behind the keys of columns."""
    n_columns, first = field(header, "n_columns"), field(header, "n_compared")
    if first == n_columns:
        return
    key_columns = carray(pointer(field(header, "key_columns")), (n_columns,), KEY_COLUMN)
    size = 4 if reading == SINGLE else 8
    for k in range(first, n_columns):
        key_column = key_columns[k]
        key = read_key(row + key_column.column * size, reading)
        value = plain_value(key, key_column, reading)
        if bits == 64:
            store(out + 8 * k, np.int64(value))
        else:
            store(out + 4 * k, np.int32(value))


@inner
def _fill_leaves(header, room):
    """Put leaves that were found in the order of the groups into that of the trees."""
    turns = field(header, "turn_of_tree")
    if turns == 0:
        return
    found, leaves = room + field(header, "found_at"), room + field(header, "leaves_at")
    for tree in range(field(header, "n_trees")):
        store(leaves + 4 * tree, load_int32(found + 4 * load_int64(turns + 8 * tree)))


def _finder(reading: int, bits: int) -> Function:
    """Return the function that finds the exit leaves of a row whose values are read so."""
    is_ranked = reading == DOUBLE and bits == 32

    @by_address
    def find_by_masks(row, header, room):
        if is_ranked:
            values = room + field(header, "values_at")
            _fill_compared(row, header, values, reading)
            fill_ranks(header, values, room)
        else:
            _fill_compared(row, header, room, reading)
        _fill_equal(row, header, room, reading, bits)
        fill_addresses(row, header, room + field(header, "addresses_at"), reading)
        _find(header, room, bits)
        _fill_leaves(header, room)
        return 0

    return find_by_masks


FIND = {way: _finder(*way) for way in ((SINGLE, 32), (ROUNDED, 32), (DOUBLE, 64), (DOUBLE, 32))}
"""The function of each way to read values and bits of a key: float64 in 32 bits by their ranks."""
