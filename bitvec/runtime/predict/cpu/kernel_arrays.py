"""Arrays as kernels take them: contiguous, read-only, or as addresses into memory that is held."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.core.arrays import Array

CACHE_LINE = 64


def constant(array: Array) -> Array:
    """Return a contiguous read-only view: one array type, and so one compiled kernel, for all."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def address_of(array: Array) -> int:
    """Return where an array begins; the array must be held as long as the address is used."""
    return int(array.__array_interface__["data"][0])


def aligned(n_bytes: int) -> Array:
    """Return bytes, not set to anything, that begin at a cache line."""
    room = np.empty(n_bytes + CACHE_LINE, np.uint8)
    start = -address_of(room) % CACHE_LINE
    return room[start : start + n_bytes]


@intrinsic
def pointer(typing_context, address):
    """Return an address as a pointer, for `numba.carray`."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


def _loader(numba_type, bits: int, is_float: bool):
    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            llvm = {32: ir.FloatType(), 64: ir.DoubleType()}[bits] if is_float else ir.IntType(bits)
            return builder.load(builder.inttoptr(arguments[0], llvm.as_pointer()), align=1)

        return numba_type(types.int64), generate

    return load


load_float32 = _loader(types.float32, 32, True)
load_float64 = _loader(types.float64, 64, True)
load_int32 = _loader(types.int32, 32, False)
load_int64 = _loader(types.int64, 64, False)


def _without_owner(context, builder, kind, value):
    if isinstance(kind, types.Array):
        view = context.make_array(kind)(context, builder, value)
        view.meminfo, view.parent = view.meminfo.type(None), view.parent.type(None)
        return view._getvalue()
    if isinstance(kind, types.BaseTuple):
        each = []
        for number, own in enumerate(kind.types):  # type: ignore[attr-defined]
            part = builder.extract_value(value, number)
            each.append(_without_owner(context, builder, own, part))  # type: ignore[no-untyped-call]
        return context.make_tuple(builder, kind, each)
    return value


def _borrow(typing_context, value):
    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        return _without_owner(context, builder, kind, arguments[0])  # type: ignore[no-untyped-call]

    return value(value), generate


borrowed: Any = intrinsic(_borrow)
"""An argument of a kernel, a tuple of arrays for one, as views that do not own memory.

The caller holds the arrays. Counting references to each of them wherever a tuple is used would take
longer than what small loops do.
"""
