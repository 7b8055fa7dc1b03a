"""Windows of columns, transposed into lines: a column's values stand side by side then."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.kernel_arrays import load_float32, load_float64
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I32,
    address,
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

WINDOW = 16
"""Columns that are transposed at a time."""
SPARSE = 3
"""Columns of a window up to which each is copied by itself."""
# A constant of the compiled code, and so of its digest.
_SQUARE = {"avx512": 16, "portable": 8, "none": 0}[vectors()]
"""Rows and columns that are transposed in registers, 0 where values are copied one by one."""


def _make_transpose(wide: bool, masked: bool):
    """Make a transposer of a square into float32; `wide` rows are float64.

    A `masked` one reads so many columns, of which all lie within the rows.
    """

    @intrinsic
    def transpose(typing_context, source, row_stride, columns, target, target_stride):
        def generate(context, builder, signature, arguments):
            source, row_stride, columns, target, target_stride = arguments
            element = F64 if wide else F32
            kind = vector(element, _SQUARE)
            lanes = ir.Constant(vector(I32, _SQUARE), list(range(_SQUARE)))
            present = builder.icmp_signed(
                "<", lanes, splat(builder, builder.trunc(columns, I32), _SQUARE)
            )
            rows = []
            for k in range(_SQUARE):
                at = builder.mul(row_stride, number(k))
                if masked:
                    name = f"llvm.masked.load.v{_SQUARE}f{64 if wide else 32}.p0"
                    read = intrinsic_function(
                        builder, name, kind, [kind.as_pointer(), I32, present.type, kind]
                    )
                    spot = place(builder, source, at, kind)
                    row = builder.call(
                        read, [spot, ir.Constant(I32, 1), present, same(element, _SQUARE, 0.0)]
                    )
                else:
                    row = load(builder, source, at, kind)
                rows.append(builder.fptrunc(row, vector(F32, _SQUARE)) if wide else row)
            step = 1
            while step < _SQUARE:
                rows, step = _exchanged(builder, rows, step), 2 * step
            for k, column in enumerate(rows):
                store(builder, column, target, builder.mul(target_stride, number(k)))
            return context.get_dummy_value()

        return types.void(address, address, address, address, address), generate

    return transpose


def _exchanged(builder, rows: list[object], step: int) -> list[object]:
    """Exchange the off-diagonal blocks of `step` x `step`: one stage of a transposition."""
    result = list(rows)
    for k in range(_SQUARE):
        if k & step:
            continue
        a, b = rows[k], rows[k | step]
        keep = [lane if not lane & step else _SQUARE + (lane ^ step) for lane in range(_SQUARE)]
        swap = [lane | step if not lane & step else _SQUARE + lane for lane in range(_SQUARE)]
        result[k] = shuffle(builder, a, b, keep)
        result[k | step] = shuffle(builder, a, b, swap)
    return result


_transpose_float32 = _make_transpose(wide=False, masked=False)
_transpose_float64 = _make_transpose(wide=True, masked=False)
_transpose_few_float32 = _make_transpose(wide=False, masked=True)
_transpose_few_float64 = _make_transpose(wide=True, masked=True)


@inner
def fill_line(x, stride, first, n, wide, line):
    """Copy values [first, n) of a column: by vectors where they lie side by side."""
    kind = type(line[0])
    if wide:
        if stride == 8:
            for k in range(first, n):
                line[k] = kind(load_float64(x + k * 8))
        else:
            for k in range(first, n):
                line[k] = kind(load_float64(x + k * stride))
    elif stride == 4:
        for k in range(first, n):
            line[k] = load_float32(x + k * 4)
    else:
        for k in range(first, n):
            line[k] = load_float32(x + k * stride)


@inner
def _gather(x, row_stride, column_stride, first, n, width, wide, values, room):
    """Copy rows [first, n) of a window of columns into float32 lines of `room`: any strides."""
    for column in range(width):
        start = x + column * column_stride
        line = values[column * room : column * room + n]
        fill_line(start, row_stride, first, n, wide, line)


@inner
def _transpose_squares(x, row_stride, n, width, wide, values, room):
    """Transpose n rows, whole squares, of a window of columns that lie side by side."""
    start = np.int64(values.ctypes.data)
    for column in range(0, width, _SQUARE):
        here = min(_SQUARE, width - column)
        for first in range(0, n, _SQUARE):
            source = x + first * row_stride + column * (8 if wide else 4)
            goal = start + (column * room + first) * 4
            if wide:
                if here == _SQUARE:
                    _transpose_float64(source, row_stride, here, goal, room * 4)
                else:
                    _transpose_few_float64(source, row_stride, here, goal, room * 4)
            elif here == _SQUARE:
                _transpose_float32(source, row_stride, here, goal, room * 4)
            else:
                _transpose_few_float32(source, row_stride, here, goal, room * 4)


@inner
def load_window(x, row_stride, column_stride, n, width, wide, values, room):
    """Fill `values` with a window of columns of n rows, one line of `room` for each column."""
    done = 0
    if _SQUARE:  # noqa: SIM102
        if column_stride == (8 if wide else 4):
            done = n - n % _SQUARE
            _transpose_squares(x, row_stride, done, width, wide, values, room)
    if done < n:
        _gather(x, row_stride, column_stride, done, n, width, wide, values, room)
