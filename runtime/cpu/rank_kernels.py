"""Columns of X into planes of bytes: how many of a column's thresholds each value reaches.

A block of rows is transposed 16 columns at a time, so that a column's values stand side by side,
and each is searched among the column's sorted thresholds: in registers where AVX-512 looks 16
values up at once, else from a table of buckets. Planes with other answers for missing values, and
planes of further thresholds, are derived from the ranks.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.cpu.arrays import load_float32, load_float64, load_int64, pointer
from bitvec.runtime.cpu.compiling import Kernel, inner, int64s, kernel, scratch
from bitvec.runtime.cpu.target import vectors
from bitvec.runtime.cpu.vectors import (
    F32,
    F64,
    I8,
    I16,
    I32,
    address,
    count,
    intrinsic_function,
    load,
    number,
    place,
    same,
    shuffle,
    splat,
    store,
    vector,
)

FIELDS = (
    "columns", "n_columns", "windows", "n_windows", "derived", "n_derived",
    "tree", "sorted32", "sorted64", "n_sorted", "scale", "lookup", "n_lookup",
)  # fmt: skip
"""What stands behind the address that the kernel is handed: numbers, and addresses of arrays."""
(
    COLUMNS, N_COLUMNS, WINDOWS, N_WINDOWS, DERIVED, N_DERIVED,
    TREE, SORTED32, SORTED64, N_SORTED, SCALE, LOOKUP, N_LOOKUP,
) = range(len(FIELDS))  # fmt: skip

WINDOW = 16
"""Columns that are transposed at a time."""
LEVELS = 8
"""Thresholds that fit the registers: less than 2 to this power."""
_STEP = 128
"""Values are searched so many at a time."""
_LOWEST = -(2**31)
_SIGNLESS, _INFINITY = 0x7FFFFFFF, 0x7F800000
# Constants of the compiled code, and so of its digest.
_IN_REGISTERS = vectors() == "avx512"
_EXPLICIT = vectors() != "none"


def _make_transpose(wide: bool, masked: bool):
    """Make a transposer of 16 rows x 16 columns into float32; `wide` rows are float64."""

    @intrinsic
    def transpose(typing_context, source, row_stride, columns, target, target_stride):
        def generate(context, builder, signature, arguments):
            source, row_stride, columns, target, target_stride = arguments
            element = F64 if wide else F32
            kind = vector(element, WINDOW)
            lanes = ir.Constant(vector(I32, WINDOW), list(range(WINDOW)))
            present = builder.icmp_signed(
                "<", lanes, splat(builder, builder.trunc(columns, I32), WINDOW)
            )
            rows = []
            for k in range(WINDOW):
                at = builder.mul(row_stride, number(k))
                if masked:
                    name = f"llvm.masked.load.v16f{64 if wide else 32}.p0"
                    read = intrinsic_function(
                        builder, name, kind, [kind.as_pointer(), I32, present.type, kind]
                    )
                    spot = place(builder, source, at, kind)
                    row = builder.call(
                        read, [spot, ir.Constant(I32, 1), present, same(element, WINDOW, 0.0)]
                    )
                else:
                    row = load(builder, source, at, kind)
                rows.append(builder.fptrunc(row, vector(F32, WINDOW)) if wide else row)
            for step in (1, 2, 4, 8):
                rows = _exchanged(builder, rows, step)
            for k, column in enumerate(rows):
                store(builder, column, target, builder.mul(target_stride, number(k)))
            return context.get_dummy_value()

        return types.void(address, address, address, address, address), generate

    return transpose


def _exchanged(builder, rows: list[object], step: int) -> list[object]:
    """Exchange the off-diagonal blocks of `step` x `step`: one stage of a transposition."""
    result = list(rows)
    for k in range(len(rows)):
        if k & step:
            continue
        a, b = rows[k], rows[k | step]
        keep = [lane if not lane & step else WINDOW + (lane ^ step) for lane in range(WINDOW)]
        swap = [lane | step if not lane & step else WINDOW + lane for lane in range(WINDOW)]
        result[k] = shuffle(builder, a, b, keep)
        result[k | step] = shuffle(builder, a, b, swap)
    return result


_transpose_float32 = _make_transpose(wide=False, masked=False)
_transpose_float64 = _make_transpose(wide=True, masked=False)
_transpose_few_float32 = _make_transpose(wide=False, masked=True)
_transpose_few_float64 = _make_transpose(wide=True, masked=True)


def _keys(builder, bits, lanes: int):
    """Return the keys of float32 bits; NaN has the lowest."""
    sign = builder.ashr(bits, same(I32, lanes, 31))
    key = builder.xor(bits, builder.and_(sign, same(I32, lanes, _SIGNLESS)))
    magnitude = builder.and_(bits, same(I32, lanes, _SIGNLESS))
    missing = builder.icmp_signed(">", magnitude, same(I32, lanes, _INFINITY))
    return builder.select(missing, same(I32, lanes, _LOWEST), key)


_IN_FLIGHT = {4: 8, 5: 8, 6: 8, 7: 4, 8: 4}
"""Vectors of 16 values searched in step, by levels: as many as the registers hold."""


def _make_search(ties: bool):
    """Make a search of n values among up to 255 thresholds that stand in registers (AVX-512).

    The thresholds form a search tree stored level by level: slot 1 is the root, 2i and 2i + 1 are
    the children of i. With `ties`, a bit per value says whether it equals a threshold.
    """

    @intrinsic
    def search(typing_context, values, n, table, levels, ranks, tied):
        def generate(context, builder, signature, arguments):
            values, n, table, levels, ranks, tied = arguments
            kind = vector(I32, 16)
            pair = intrinsic_function(
                builder, "llvm.x86.avx512.vpermi2var.d.512", kind, [kind, kind, kind]
            )
            single = intrinsic_function(
                builder, "llvm.x86.avx512.permvar.si.512", kind, [kind, kind]
            )

            def entry(registers, level, index):
                if level <= 3:
                    return builder.call(single, [registers[0], index])
                if level == 4:
                    return builder.call(single, [registers[1], index])
                first = (1 << level) // 16
                found = [
                    builder.call(pair, [registers[first + k], index, registers[first + k + 1]])
                    for k in range(0, first, 2)
                ]
                bit = 32
                while len(found) > 1:
                    upper = builder.icmp_unsigned(
                        "!=", builder.and_(index, same(I32, 16, bit)), same(I32, 16, 0)
                    )
                    found = [
                        builder.select(upper, found[k + 1], found[k])
                        for k in range(0, len(found), 2)
                    ]
                    bit *= 2
                return found[0]

            end = builder.append_basic_block("end")
            cases = {depth: builder.append_basic_block(f"levels{depth}") for depth in _IN_FLIGHT}
            switch = builder.switch(levels, cases[LEVELS])
            for depth, block in cases.items():
                if depth < LEVELS:
                    switch.add_case(number(depth), block)
            for depth, block in cases.items():
                builder.position_at_end(block)
                registers = [
                    load(builder, table, number(64 * k), kind) for k in range((1 << depth) // 16)
                ]
                flight = _IN_FLIGHT[depth]

                def body(k, _, depth=depth, registers=registers, flight=flight):
                    at = [builder.add(k, number(16 * u)) for u in range(flight)]
                    keys = [
                        _keys(
                            builder,
                            load(builder, values, builder.mul(place, number(4)), kind),
                            16,
                        )
                        for place in at
                    ]
                    index = [same(I32, 16, 1)] * flight
                    reached = [same(I32, 16, _LOWEST)] * flight
                    for level in range(depth):
                        pivot = [entry(registers, level, i) for i in index]
                        for u in range(flight):
                            right = builder.icmp_signed(">=", keys[u], pivot[u])
                            if ties:
                                reached[u] = builder.select(right, pivot[u], reached[u])
                            twice = builder.add(index[u], index[u])
                            index[u] = builder.add(twice, builder.zext(right, kind))
                    for u in range(flight):
                        rank = builder.sub(index[u], same(I32, 16, 1 << depth))
                        store(builder, builder.trunc(rank, vector(I8, 16)), ranks, at[u])
                        if ties:
                            equal = builder.icmp_signed("==", reached[u], keys[u])
                            offset = builder.udiv(at[u], number(8))
                            store(builder, builder.bitcast(equal, I16), tied, offset)

                count(builder, number(0), n, body, step=16 * flight)
                builder.branch(end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        return types.void(address, address, address, address, address, address), generate

    return search


_search = _make_search(ties=False)
_search_ties = _make_search(ties=True)


def _make_derive(bits: int):
    """Make a plane from ranks of 8 or 16 bits: see `planes.RankPlanes.derived`."""

    @intrinsic
    def derive(typing_context, ranks, n, record, target):
        def generate(context, builder, signature, arguments):
            ranks, n, record, target = arguments
            element, lanes = ir.IntType(bits), 512 // bits
            kind = vector(element, lanes)
            fields = [
                splat(
                    builder,
                    builder.trunc(load(builder, record, number(8 * k), ir.IntType(64)), element),
                    lanes,
                )
                for k in range(1, 8)
            ]
            offset, is_range, first, width, fill, missing_first, missing_width = fields
            zero, one = same(element, lanes, 0), same(element, lanes, 1)
            most = same(element, lanes, 255)
            tests_range = builder.icmp_unsigned("!=", is_range, zero)

            def body(k, _):
                rank = load(builder, ranks, builder.mul(k, number(bits // 8)), kind)
                above = builder.sub(rank, offset)
                below = builder.icmp_unsigned("<", rank, offset)
                value = builder.select(below, zero, above)
                if bits > 8:
                    value = builder.select(builder.icmp_unsigned(">", value, most), most, value)
                inside = builder.icmp_unsigned("<", builder.sub(rank, first), width)
                value = builder.select(tests_range, builder.select(inside, one, zero), value)
                missing = builder.icmp_unsigned(
                    "<", builder.sub(rank, missing_first), missing_width
                )
                value = builder.select(missing, fill, value)
                nothing = builder.icmp_unsigned("==", rank, zero)
                value = builder.select(nothing, fill, value)
                if bits > 8:
                    value = builder.trunc(value, vector(I8, lanes))
                store(builder, value, target, k)

            count(builder, number(0), n, body, step=lanes)
            return context.get_dummy_value()

        return types.void(address, address, address, address), generate

    return derive


_derive8, _derive16 = _make_derive(8), _make_derive(16)


@inner
def _derive_plain(ranks, n, record, target):
    offset, is_range, first, width = record[1], record[2], record[3], record[4]
    fill, missing_first, missing_width = record[5], record[6], record[7]
    for k in range(n):
        rank = np.int64(ranks[k])
        if rank == 0 or (rank >= missing_first and rank < missing_first + missing_width):
            target[k] = fill
        elif is_range:
            target[k] = rank >= first and rank < first + width
        else:
            target[k] = min(max(rank - offset, 0), 255)


@inner
def _derive(ranks, n, record, target):
    """Fill the plane at `target` from ranks of 8 or 16 bits."""
    if _EXPLICIT:
        if ranks.itemsize == 1:
            _derive8(np.int64(ranks.ctypes.data), n, np.int64(record.ctypes.data), target)
        else:
            _derive16(np.int64(ranks.ctypes.data), n, np.int64(record.ctypes.data), target)
    else:
        _derive_plain(ranks, n, record, numba.carray(pointer(target), (n,), np.uint8))


@inner
def _key32(bits):
    if (bits & np.int32(_SIGNLESS)) > np.int32(_INFINITY):
        return np.int32(_LOWEST)
    return np.int32(bits ^ np.int32(_SIGNLESS)) if bits < 0 else np.int32(bits)


@inner
def _key64(bits):
    if (bits & np.int64(0x7FFFFFFFFFFFFFFF)) > np.int64(0x7FF0000000000000):
        return np.int64(-0x8000000000000000)
    return bits ^ np.int64(0x7FFFFFFFFFFFFFFF) if bits < 0 else bits


@inner
def _search_buckets(values, n, scale, lookup, sorted_keys, buckets, ranks):
    """Fill `ranks` from a table of buckets: each bucket begins with the rank of those below it.

    A value's bucket is monotone in the value, so that thresholds of lower buckets are reached;
    those of its own bucket are compared one by one. `sorted_keys` ends with a key above all.
    """
    low, high, factor = scale[0], scale[1], scale[2]
    bits = values.view(np.int32)
    for k in range(n):
        x = values[k]
        x = x if x > low else low
        x = x if x < high else high
        buckets[k] = np.int32((x - low) * factor)
    for k in range(n):
        rank = np.int64(lookup[np.uint64(buckets[k])])
        key = _key32(bits[k])
        while key >= sorted_keys[np.uint64(rank)]:
            rank += 1
        ranks[k] = rank


@inner
def _settle(x, row_stride, values, n, sorted32, sorted64, ranks):
    """Correct the ranks of float64 values whose rounding to float32 equals that of a threshold."""
    bits = values.view(np.int32)
    for k in range(n):
        rank = np.int64(ranks[k])
        if rank > 0 and sorted32[rank - 1] == _key32(bits[k]):
            key = _key64(load_int64(x + k * row_stride))
            while rank > 0 and key < sorted64[rank - 1]:
                rank -= 1
            ranks[k] = rank


@inner
def _gather(x, row_stride, column_stride, first, n, width, wide, values, room):
    """Copy rows [first, n) of a window of columns into float32 lines of `room`: any strides."""
    for column in range(width):
        start = x + column * column_stride
        line = values[column * room : column * room + n]
        if wide:
            for k in range(first, n):
                line[k] = np.float32(load_float64(start + k * row_stride))
        else:
            for k in range(first, n):
                line[k] = load_float32(start + k * row_stride)


@inner
def _transpose_groups(x, row_stride, n, width, wide, values, room):
    """Transpose whole groups of 16 rows of a window of columns that lie side by side."""
    target = np.int64(values.ctypes.data)
    for first in range(0, n, 16):
        source, goal = x + first * row_stride, target + first * 4
        if wide:
            if width == 16:
                _transpose_float64(source, row_stride, width, goal, room * 4)
            else:
                _transpose_few_float64(source, row_stride, width, goal, room * 4)
        elif width == 16:
            _transpose_float32(source, row_stride, width, goal, room * 4)
        else:
            _transpose_few_float32(source, row_stride, width, goal, room * 4)


@inner
def _load_window(x, row_stride, column_stride, n, width, wide, values, room):
    """Fill `values` with a window of columns of n rows, one line of `room` for each column."""
    done = 0
    if _IN_REGISTERS:  # noqa: SIM102
        if column_stride == (8 if wide else 4):
            done = n - n % 16
            _transpose_groups(x, row_stride, done, width, wide, values, room)
    if done < n:
        _gather(x, row_stride, column_stride, done, n, width, wide, values, room)


@inner
def _settle_marked(x, row_stride, values, n, sorted32, sorted64, tied, ranks):
    """`_settle` for the groups of 16 rows in which a bit of `tied` is set."""
    for group in range((n + 15) // 16):
        if tied[group]:
            k = group * 16
            _settle(
                x + k * row_stride, row_stride, values[k:], min(16, n - k), sorted32, sorted64,
                ranks[k:],
            )  # fmt: skip


@cache
def fill_ranks(wide: bool, settle: bool) -> Kernel:
    """Return the kernel that makes the rank planes of blocks of rows of float32 or float64.

    With `settle`, float64 values are compared with thresholds in float64. The arguments are those
    of `planes.RankPlanes.fill`.
    """

    @kernel
    def fill_rank_planes(fields, x, row_stride, column_stride, n_rows, room, n_planes, planes):
        at = int64s(fields, len(FIELDS))
        columns = int64s(at[COLUMNS], at[N_COLUMNS] * 9).reshape(-1, 9)
        windows = int64s(at[WINDOWS], at[N_WINDOWS] * 4).reshape(-1, 4)
        derived = int64s(at[DERIVED], at[N_DERIVED] * 8).reshape(-1, 8)
        scales = numba.carray(pointer(at[SCALE]), (at[N_COLUMNS], 3), np.float32)
        lookup = numba.carray(pointer(at[LOOKUP]), (at[N_LOOKUP],), np.uint16)
        sorted32 = numba.carray(pointer(at[SORTED32]), (at[N_SORTED],), np.int32)
        sorted64 = int64s(at[SORTED64], at[N_SORTED])
        values = scratch(4 * WINDOW * room).view(np.float32)
        buckets = np.empty(room, np.int32)
        own_ranks = scratch(room)
        wide_ranks = scratch(2 * room).view(np.uint16)
        tied = np.zeros(room // 16 + 16, np.uint16)
        for block in range((n_rows + room - 1) // room):
            n = min(room, n_rows - block * room)
            searched = (n + _STEP - 1) // _STEP * _STEP
            x_block = x + block * room * row_stride
            q = planes + block * n_planes * room
            for window in range(windows.shape[0]):
                first, width = windows[window, 0], windows[window, 1]
                start = x_block + first * column_stride
                _load_window(start, row_stride, column_stride, n, width, wide, values, room)
                for c in range(windows[window, 2], windows[window, 3]):
                    column, own, n_thresholds = columns[c, 0], columns[c, 1], columns[c, 2]
                    line = values[(column - first) * room : (column - first) * room + room]
                    x_column = x_block + column * column_stride
                    low32 = sorted32[columns[c, 5] :]
                    low64 = sorted64[columns[c, 5] :] if settle else sorted64
                    if n_thresholds < 256:
                        ranks = own_ranks
                        if own >= 0:
                            ranks = numba.carray(pointer(q + own * room), (room,), np.uint8)
                        if _IN_REGISTERS:
                            table = at[TREE] + columns[c, 4] * 4
                            source, goal = np.int64(line.ctypes.data), np.int64(ranks.ctypes.data)
                            marks = np.int64(tied.ctypes.data)
                            if settle:
                                _search_ties(source, searched, table, columns[c, 3], goal, marks)
                                _settle_marked(
                                    x_column, row_stride, line, n, low32, low64, tied, ranks
                                )
                            else:
                                _search(source, searched, table, columns[c, 3], goal, marks)
                        else:
                            entries = lookup[columns[c, 6] :]
                            _search_buckets(line, n, scales[c], entries, low32, buckets, ranks)
                            if settle:
                                _settle(x_column, row_stride, line, n, low32, low64, ranks)
                        for d in range(columns[c, 7], columns[c, 8]):
                            _derive(ranks, searched, derived[d], q + derived[d, 0] * room)
                    else:
                        entries = lookup[columns[c, 6] :]
                        _search_buckets(line, n, scales[c], entries, low32, buckets, wide_ranks)
                        if settle:
                            _settle(x_column, row_stride, line, n, low32, low64, wide_ranks)
                        for d in range(columns[c, 7], columns[c, 8]):
                            _derive(wide_ranks, searched, derived[d], q + derived[d, 0] * room)

    return fill_rank_planes
