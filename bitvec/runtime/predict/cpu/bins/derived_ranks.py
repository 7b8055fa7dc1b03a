"""Planes derived from ranks: other bytes where values are missing, ranges, further thresholds."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.arrays import pointer
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    I8,
    address,
    count,
    load,
    number,
    same,
    splat,
    store,
    vector,
)

# A constant of the compiled code, and so of its digest.
_EXPLICIT = vectors() != "none"


def _make_derive(bits: int):
    """Make a plane from ranks of 8 or 16 bits: see `rank_planes.RankPlanes`."""

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
def derive(ranks, n, record, target):
    """Fill the plane at `target` from ranks of 8 or 16 bits."""
    if _EXPLICIT:
        if ranks.itemsize == 1:
            _derive8(np.int64(ranks.ctypes.data), n, np.int64(record.ctypes.data), target)
        else:
            _derive16(np.int64(ranks.ctypes.data), n, np.int64(record.ctypes.data), target)
    else:
        _derive_plain(ranks, n, record, numba.carray(pointer(target), (n,), np.uint8))
