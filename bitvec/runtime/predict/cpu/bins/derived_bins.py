"""Binned columns derived from bins: other bytes for missing values, ranges, further thresholds."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.kernel_arrays import pointer
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
    """Make a binned column from bins of 8 or 16 bits: see `threshold_bins.ThresholdBinner`."""

    @intrinsic
    def derive(typing_context, bins, n, record, target):
        def generate(context, builder, signature, arguments):
            bins, n, record, target = arguments
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
                bin = load(builder, bins, builder.mul(k, number(bits // 8)), kind)
                above = builder.sub(bin, offset)
                below = builder.icmp_unsigned("<", bin, offset)
                value = builder.select(below, zero, above)
                if bits > 8:
                    value = builder.select(builder.icmp_unsigned(">", value, most), most, value)
                inside = builder.icmp_unsigned("<", builder.sub(bin, first), width)
                value = builder.select(tests_range, builder.select(inside, one, zero), value)
                missing = builder.icmp_unsigned("<", builder.sub(bin, missing_first), missing_width)
                value = builder.select(missing, fill, value)
                nothing = builder.icmp_unsigned("==", bin, zero)
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
def _derive_plain(bins, n, record, target):
    offset, is_range, first, width = record[1], record[2], record[3], record[4]
    fill, missing_first, missing_width = record[5], record[6], record[7]
    for k in range(n):
        bin = np.int64(bins[k])
        if bin == 0 or (bin >= missing_first and bin < missing_first + missing_width):
            target[k] = fill
        elif is_range:
            target[k] = bin >= first and bin < first + width
        else:
            target[k] = min(max(bin - offset, 0), 255)


@inner
def derive(bins, n, record, target):
    """Fill the binned column at `target` from bins of 8 or 16 bits."""
    if _EXPLICIT:
        if bins.itemsize == 1:
            _derive8(np.int64(bins.ctypes.data), n, np.int64(record.ctypes.data), target)
        else:
            _derive16(np.int64(bins.ctypes.data), n, np.int64(record.ctypes.data), target)
    else:
        _derive_plain(bins, n, record, numba.carray(pointer(target), (n,), np.uint8))
