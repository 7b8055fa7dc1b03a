"""Vectors of entries, one for each row, turned into vectors of rows, one for each entry."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    address,
    load,
    number,
    shuffle,
    store,
    vector,
)

VECTOR = 64
"""Bytes of a vector of rows."""
PART = 4
"""Entries that are turned at a time where there are too few for a square."""


def emitted(function):
    """Return a function that emits LLVM code as a numba intrinsic, which takes literals as such."""
    return intrinsic(prefer_literal=True)(function)


ELEMENT = {32: F32, 64: F64}
"""By the bits of a value."""


def turned(builder, rows: list[object], lanes: int) -> list[object]:
    """Return one vector of `lanes` rows for each entry, from a vector of entries for each row.

    Each round moves the highest bit of a row's number below the lanes that there are.
    """
    parts = [[row] for row in rows]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [
            _interleaved(builder, a, b, lanes)
            for a, b in zip(parts[:half], parts[half:], strict=True)
        ]
    return parts[0]


def _interleaved(builder, first: list[object], second: list[object], lanes: int) -> list[object]:
    result = []
    for a, b in zip(first, second, strict=True):
        n = a.type.count  # type: ignore[attr-defined]
        order = [k // 2 + n * (k % 2) for k in range(2 * n)]
        step = min(2 * n, lanes)
        result += [shuffle(builder, a, b, order[k : k + step]) for k in range(0, 2 * n, step)]
    return result


def _make_turn(whole: bool):
    """Make a transposer of as many rows as a vector holds, and as many columns or `PART`."""

    @intrinsic
    def turn(typing_context, source, row_stride, target, target_stride, like, out_like):
        read, write = ELEMENT[like.bitwidth], ELEMENT[out_like.bitwidth]
        lanes = VECTOR * 8 // out_like.bitwidth
        entries = lanes if whole else PART

        def generate(context, builder, signature, arguments):
            source, row_stride, target, target_stride = arguments[:4]
            rows = []
            for k in range(lanes):
                offset = builder.mul(row_stride, number(k))
                row = load(builder, source, offset, vector(read, entries))
                rows.append(_cast(builder, row, read, vector(write, entries)))
            for k, column in enumerate(turned(builder, rows, lanes)):
                store(builder, column, target, builder.mul(target_stride, number(k)))
            return context.get_dummy_value()

        return types.void(address, address, address, address, like, out_like), generate

    return turn


def _cast(builder, value, read, kind):
    if read is F64 and kind.element is F32:
        return builder.fptrunc(value, kind)
    return builder.fpext(value, kind) if read is not kind.element else value


turn_square, turn_part = _make_turn(whole=True), _make_turn(whole=False)
"""Write columns of rows that begin `row_stride` bytes apart, `target_stride` bytes apart.

The last two arguments are numbers of the dtypes that are read and written.
"""


@emitted
def read(typing_context, at, like):
    """Return the value at an address, of the dtype of the number `like`."""

    def generate(context, builder, signature, arguments):
        return load(builder, arguments[0], ir.Constant(ir.IntType(64), 0), ELEMENT[like.bitwidth])

    return like(types.int64, like), generate


@emitted
def size_of(typing_context, like):
    """Return the bytes of a number."""

    def generate(context, builder, signature, arguments):
        return number(like.bitwidth // 8)

    return types.int64(like), generate
