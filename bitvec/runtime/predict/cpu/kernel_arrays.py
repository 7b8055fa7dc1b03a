"""Arrays as kernels take them: contiguous, read-only, or as addresses into memory that is held."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.callconv import RETCODE_NONE, RETCODE_OK
from numba.extending import intrinsic

from bitvec.core.arrays import Array
from bitvec.runtime.predict.cpu import vectors

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


def on_lines(array: Array) -> Array:
    """Return `constant(array)` from a cache line on: a register's load of it then takes one."""
    array = np.ascontiguousarray(array)
    if address_of(array) % CACHE_LINE:
        moved = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
        moved[...] = array
        array = moved
    return constant(array)


@intrinsic
def pointer(typing_context, address):
    """Return an address as a pointer, for `numba.carray`."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@intrinsic
def copy_bytes(typing_context, source, to, n_bytes):
    """Copy bytes, a multiple of 4: 32 at a time, and the rest by words."""

    def generate(context, builder, signature, arguments):
        source, to, n_bytes = arguments

        def step(kind):
            def body(at, _):
                vectors.store(builder, vectors.load(builder, source, at, kind), to, at)

            return body

        whole = builder.and_(n_bytes, vectors.number(-32))
        even = builder.and_(n_bytes, vectors.number(-8))
        vectors.count(builder, vectors.number(0), whole, step(vectors.vector(vectors.I64, 4)), 32)
        vectors.count(builder, whole, even, step(vectors.I64), 8)
        vectors.count(builder, even, n_bytes, step(vectors.I32), 4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


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


@intrinsic
def load_like(typing_context, address, like):
    """Return the number at an address, of the type of another."""

    def generate(context, builder, signature, arguments):
        kind = context.get_data_type(signature.return_type)
        return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=1)

    return like(types.int64, like), generate


@intrinsic
def power_of_two(typing_context, exponent):
    """Return 2 to an int64 from -1022 to 1024, which gives infinity."""

    def generate(context, builder, signature, arguments):
        word = ir.IntType(64)
        biased = builder.add(arguments[0], ir.Constant(word, 1023))
        return builder.bitcast(builder.shl(biased, ir.Constant(word, 52)), ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def size_of(typing_context, like):
    """Return the bytes of a number."""

    def generate(context, builder, signature, arguments):
        return ir.Constant(ir.IntType(64), context.get_abi_sizeof(arguments[0].type))

    return types.int64(like), generate


@intrinsic
def place_of(typing_context, typed):
    """Return a typed address as a number."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(arguments[0], ir.IntType(64))

    return types.int64(typed), generate


@intrinsic
def zero_of(typing_context, typed):
    """Return 0 in the type of the numbers at a typed address."""

    def generate(context, builder, signature, arguments):
        return ir.Constant(context.get_value_type(signature.return_type), 0)

    return typed.dtype(typed), generate


@intrinsic
def store(typing_context, address, value):
    """Store a number at an address."""

    def generate(context, builder, signature, arguments):
        at = builder.inttoptr(arguments[0], arguments[1].type.as_pointer())
        builder.store(arguments[1], at, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, value), generate


@intrinsic
def room_on_stack(typing_context, n_bytes):
    """Return the address of bytes that begin at a cache line and go when the function returns."""

    def generate(context, builder, signature, arguments):
        room = builder.alloca(ir.IntType(8), size=arguments[0])
        room.align = CACHE_LINE
        return builder.ptrtoint(room, ir.IntType(64))

    return types.int64(types.int64), generate


def _run_kernel(builder, function, numbers):
    """Emit the call of a `compiling.Kernel` on int64: what it returns, and whether none is raised.

    Numba's convention is followed: places for a result and an exception, then the arguments.
    """
    word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    with builder.goto_entry_block():
        result, raised = builder.alloca(word), builder.alloca(pointer)
    kinds = [word.as_pointer(), pointer.as_pointer(), *[word] * len(numbers)]
    kind = ir.FunctionType(ir.IntType(32), kinds).as_pointer()
    status = builder.call(builder.inttoptr(function, kind), [result, raised, *numbers])
    good = (builder.icmp_unsigned("==", status, code) for code in (RETCODE_OK, RETCODE_NONE))
    return builder.load(result), builder.or_(*good)


@intrinsic
def ran(typing_context, function, arguments):
    """Run the `compiling.Kernel` at an address on a tuple of int64; return if none was raised."""

    def generate(context, builder, signature, given):
        _, is_good = _run_kernel(builder, given[0], cgutils.unpack_tuple(builder, given[1]))
        return is_good

    return types.boolean(types.int64, arguments), generate


@intrinsic
def result_of(typing_context, function, arguments):
    """Run it as `ran` does; return the int64 that it returns, -1 if it raised."""

    def generate(context, builder, signature, given):
        numbers = cgutils.unpack_tuple(builder, given[1])
        result, is_good = _run_kernel(builder, given[0], numbers)
        return builder.select(is_good, result, ir.Constant(ir.IntType(64), -1))

    return types.int64(types.int64, arguments), generate


@intrinsic
def c_call(typing_context, function, arguments):
    """Return what the C function at an address makes of a tuple of int64."""

    def generate(context, builder, signature, given):
        numbers, word = cgutils.unpack_tuple(builder, given[1]), ir.IntType(64)
        kind = ir.FunctionType(word, [word] * len(numbers)).as_pointer()
        return builder.call(builder.inttoptr(given[0], kind), numbers)

    return types.int64(types.int64, arguments), generate


@intrinsic
def added(typing_context, address, n):
    """Add to the int64 at an address that other threads write too; return what stood there."""

    def generate(context, builder, signature, arguments):
        return _exchange(builder, "add", arguments)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def exchanged(typing_context, address, n):
    """Put a number there in the same way."""

    def generate(context, builder, signature, arguments):
        return _exchange(builder, "xchg", arguments)

    return types.int64(types.int64, types.int64), generate


def _exchange(builder, operation, arguments):
    place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
    return builder.atomic_rmw(operation, place, arguments[1], "seq_cst")


@intrinsic
def watched(typing_context, address):
    """Return the int64 at an address that other threads write."""

    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(types.int64), generate


_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", []), "aarch64": ("llvm.aarch64.hint", [1])}


@intrinsic
def pause(typing_context):
    """Tell the processor that a number is looked at until another thread writes it."""

    def generate(context, builder, signature, arguments):
        name, numbers = _PAUSES.get(_processor(), ("llvm.donothing", []))
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [word] * len(numbers))
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [ir.Constant(word, value) for value in numbers])
        return context.get_dummy_value()

    return types.void(), generate


def _processor() -> str:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name := platform.machine().lower(), name)


def _without_owner(context, builder, kind, value):
    if isinstance(kind, types.Array):
        view = context.make_array(kind)(context, builder, value)
        view.meminfo, view.parent = view.meminfo.type(None), view.parent.type(None)
        return view._getvalue()
    if isinstance(kind, types.BaseTuple):
        each = []
        for number, own in enumerate(kind.types):  # type: ignore[attr-defined]
            part = builder.extract_value(value, number)
            each.append(_without_owner(context, builder, own, part))
        return context.make_tuple(builder, kind, each)
    return value


def _borrow(typing_context, value):
    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        return _without_owner(context, builder, kind, arguments[0])

    return value(value), generate


borrowed: Any = intrinsic(_borrow)
"""An argument of a kernel, a tuple of arrays for one, as views that do not own memory.

The caller holds the arrays. Counting references to each of them wherever a tuple is used would take
longer than what small loops do.
"""
