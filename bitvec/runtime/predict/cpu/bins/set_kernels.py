"""Category codes of a block of rows, and the binned columns of sets that are looked up by them.

The code of each row is made once per column, as a slot: 0 where the value is missing, 1 + code, or
the last slot for anything else. A set is a table of one bit for each slot. The bits of up to 512
slots are 64 bytes, which AVX-512 looks up by one instruction; a row reads byte `slot >> 3` of the
table and keeps bit `slot & 7`, and what remains, not zero where the row goes right, is its byte in
the binned column.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.bins.windows import fill_line
from bitvec.runtime.predict.cpu.compiling import Kernel, inner, int64s, kernel, stack_array
from bitvec.runtime.predict.cpu.kernel_arrays import pointer
from bitvec.runtime.predict.cpu.keys import key_of_bits
from bitvec.runtime.predict.cpu.target import features, has_byte_shuffle, vectors
from bitvec.runtime.predict.cpu.vectors import (
    I8,
    I32,
    I64,
    address,
    count,
    intrinsic_function,
    load,
    number,
    same,
    shuffle,
    store,
    vector,
)

TABLE_SLOTS = 512
"""Slots of a table that is looked up by bytes."""
PART_SLOTS = 128
"""Slots of a table that one instruction looks up without AVX-512."""
INDEX_COLUMNS, CODE_COLUMNS = 2, 4
"""Binned columns of a column's codes: place and number of a slot's bit; slots of four bytes."""

LOOKUP = np.dtype(
    [
        ("table", np.int64),  # where its table begins, in bytes
        ("last", np.int32),  # the last slot of a long table
        ("code", np.uint16),  # the first binned column of the column's codes
        ("target", np.uint16),  # the binned column that is filled
        ("parts", np.uint8),  # the table's length in parts, 0 for a long table
        ("_", np.uint8, 7),
    ]
)

FIELDS = ("columns", "n_columns", "maps", "n_maps", "lookups", "n_shared", "tables")
"""Fields at the address that `fill_sets` is handed: numbers, and addresses of arrays."""
COLUMNS, N_COLUMNS, MAPS, N_MAPS, LOOKUPS, N_SHARED, TABLES = range(len(FIELDS))

COLUMN = np.dtype(
    [
        (name, np.int64)
        for name in (
            "column",
            "code",  # the first binned column of its codes
            "is_long",  # whether it has CODE_PLANES of them, and not INDEX_PLANES
            "is_exact",  # whether only whole numbers are codes
            "first",  # the keys of the values that are codes
            "beyond",
            "missing_first",  # the keys that count as missing, NaN apart
            "missing_beyond",
            "other",  # the slot of values that are no codes
            "map",  # where its map of slots begins, or -1
        )
    ]
)


@intrinsic
def look_up(typing_context, binned, room, lookups, first, last, tables):
    """Fill the binned columns that the lookups [first, last) name, in one block of binned columns.

    `binned`, `lookups` and `tables` are addresses.
    """

    def generate(context, builder, signature, arguments):
        binned, room, lookups, first, last, tables = arguments
        emit = _by_loads
        if has_byte_shuffle():
            emit = _by_registers
        elif vectors() != "none" and "avx2" in features():
            emit = _by_parts

        def body(j, _):
            lookup = lookup_fields(builder, binned, room, lookups, j, tables)
            target = builder.add(binned, builder.mul(lookup["target"], room))
            is_long = builder.icmp_unsigned("==", lookup["parts"], number(0))
            with builder.if_else(is_long) as (long, short):
                with long:
                    _by_words(
                        builder, lookup["code"], room, lookup["table"], lookup["last"], target
                    )
                with short:
                    emit(builder, lookup["code"], room, lookup["table"], lookup["parts"], target)

        count(builder, first, last, body)
        return context.get_dummy_value()

    return types.void(address, address, address, address, address, address), generate


def lookup_fields(builder, binned, room, lookups, j, tables):
    """Return the parts of lookup j as int64; `code` and `table` as addresses."""
    assert LOOKUP.fields is not None
    at = builder.add(lookups, builder.mul(j, number(LOOKUP.itemsize)))
    found = {}
    for name in ("table", "last", "code", "target", "parts"):
        dtype, offset = LOOKUP.fields[name][:2]
        value = load(builder, at, number(offset), ir.IntType(8 * dtype.itemsize))
        found[name] = value if dtype.itemsize == 8 else builder.zext(value, I64)
    found["code"] = builder.add(binned, builder.mul(found["code"], room))
    found["table"] = builder.add(tables, found["table"])
    return found


def permuted(builder, table, codes, bits, offset):
    """Return 64 bytes of a binned column, looked up in a table that stands in a register."""
    kind = vector(I8, 64)
    permute = intrinsic_function(builder, "llvm.x86.avx512.permvar.qi.512", kind, [kind, kind])
    byte = builder.call(permute, [table, load(builder, codes, offset, kind)])
    return builder.and_(byte, load(builder, bits, offset, kind))


def _by_registers(builder, codes, n, table, parts, target):
    held, bits = load(builder, table, number(0), vector(I8, 64)), builder.add(codes, n)

    def body(k, _):
        for offset in (k, builder.add(k, number(64))):
            store(builder, permuted(builder, held, codes, bits, offset), target, offset)

    count(builder, number(0), n, body, step=128)


def _by_parts(builder, codes, n, table, parts, target):
    """Look 16 bytes up at a time: a place outside a part has its high bit set, and reads 0."""
    kind, half = vector(I8, 32), vector(I8, 16)
    look = intrinsic_function(builder, "llvm.x86.avx2.pshuf.b", kind, [kind, kind])
    saturated = intrinsic_function(builder, "llvm.uadd.sat.v32i8", kind, [kind, kind])
    bits = builder.add(codes, n)
    most = TABLE_SLOTS // PART_SLOTS
    end = builder.append_basic_block("end")
    cases = [builder.append_basic_block(f"parts{k + 1}") for k in range(most)]
    switch = builder.switch(parts, cases[-1])
    for k, block in enumerate(cases[:-1]):
        switch.add_case(number(k + 1), block)
    for n_parts, block in enumerate(cases, 1):
        builder.position_at_end(block)
        held = []
        for part in range(n_parts):
            line = load(builder, table, number(16 * part), half)
            held.append(shuffle(builder, line, line, list(range(16)) * 2))

        def body(k, _, held=held):
            place = load(builder, codes, k, kind)
            byte = None
            for part, line in enumerate(held):
                within = builder.sub(place, same(I8, 32, 16 * part))
                # Places 0 to 15 become 0x70 to 0x7f, all others 0x80 and more.
                index = builder.call(saturated, [within, same(I8, 32, 0x70)])
                found = builder.call(look, [line, index])
                byte = found if byte is None else builder.or_(byte, found)
            store(builder, builder.and_(byte, load(builder, bits, k, kind)), target, k)

        count(builder, number(0), n, body, step=32)
        builder.branch(end)
    builder.position_at_end(end)


def _by_loads(builder, codes, n, table, parts, target):
    bits = builder.add(codes, n)

    def body(k, _):
        place = builder.zext(load(builder, codes, k, I8), I64)
        byte = load(builder, table, place, I8)
        store(builder, builder.and_(byte, load(builder, bits, k, I8)), target, k)

    count(builder, number(0), n, body)


def _by_words(builder, codes, n, table, last, target):
    """Look slots up in a table of any length, of which slots above `last` read the last bit."""
    mask = number(31)

    def body(k, _):
        slot = builder.zext(load(builder, codes, builder.mul(k, number(4)), I32), I64)
        slot = builder.select(builder.icmp_unsigned(">", slot, last), last, slot)
        offset = builder.mul(builder.lshr(slot, number(5)), number(4))
        word = builder.zext(load(builder, table, offset, I32), I64)
        bit = builder.and_(builder.lshr(word, builder.and_(slot, mask)), number(1))
        store(builder, builder.trunc(bit, I8), target, k)

    count(builder, number(0), n, body)


@inner
def _index_slots(slots, index, bits):
    """Fill `index` and `bits` with the byte and the bit of each slot."""
    for k in range(slots.size):
        index[k] = slots[k] >> np.int32(3)
    for k in range(slots.size):
        bits[k] = np.int32(1) << (slots[k] & np.int32(7))


@cache
def fill_sets(wide: bool, narrow: bool) -> Kernel:
    """Return the kernel that makes codes, and the binned columns of the first `n_shared` lookups.

    X is float64 if `wide`; its values are read as float32 if `narrow`. At `fields` stand those of
    `FIELDS`; columns are records `COLUMN`, with keys of the dtype that is read. The arguments from
    `x` on are those of `binners.Binner.fill`.
    """
    float_type, key_type = (np.float32, np.int32) if narrow else (np.float64, np.int64)
    sign = 31 if narrow else 63
    infinity = 0x7F800000 if narrow else 0x7FF0000000000000

    @kernel
    def fill_set_bins(fields, x, row_stride, column_stride, n_rows, room, n_binned, binned):
        at = int64s(fields, len(FIELDS))
        columns = numba.carray(pointer(at[COLUMNS]), (at[N_COLUMNS],), COLUMN)
        maps = numba.carray(pointer(at[MAPS]), (at[N_MAPS],), np.int32)
        magnitude = key_type((1 << sign) - 1)
        values = stack_array(room, float_type)
        bits = values.view(key_type)
        slots = stack_array(room, np.int32)
        slots[:] = 0
        for block in range((n_rows + room - 1) // room):
            n = min(room, n_rows - block * room)
            q = binned + block * n_binned * room
            x_block = x + block * room * row_stride
            for c in range(columns.shape[0]):
                column = columns[c]
                fill_line(x_block + column.column * column_stride, row_stride, 0, n, wide, values)
                is_exact, other = column.is_exact != 0, np.int32(column.other)
                first, beyond = key_type(column.first), key_type(column.beyond)
                missing_first = key_type(column.missing_first)
                missing_beyond = key_type(column.missing_beyond)
                for k in range(n):
                    b = bits[k]
                    key = key_type(key_of_bits(b, key_type(sign), magnitude))
                    inside = (key >= first) & (key < beyond)
                    code = np.int32(values[k] if inside else float_type(0))
                    # Whole numbers are told by their bits: in some modes of the processor 1e-40
                    # equals 0. The key of -0.0 is 0.
                    whole = (float_type(code).view(key_type) == b) | (key == key_type(0))
                    readable = inside & (whole | (not is_exact))
                    missing = (b & magnitude) > key_type(infinity)
                    missing |= (key >= missing_first) & (key < missing_beyond)
                    slot = np.int32(code + np.int32(1)) if readable else other
                    slots[k] = np.int32(0) if missing else slot
                if column.map >= 0:
                    part = maps[column.map :]
                    for k in range(n):
                        slots[k] = part[slots[k]]
                target = q + column.code * room
                if column.is_long:
                    numba.carray(pointer(target), (room,), np.int32)[:] = slots
                else:
                    _index_slots(
                        slots,
                        numba.carray(pointer(target), (room,), np.uint8),
                        numba.carray(pointer(target + room), (room,), np.uint8),
                    )
            look_up(q, room, at[LOOKUPS], 0, at[N_SHARED], at[TABLES])

    return fill_set_bins
