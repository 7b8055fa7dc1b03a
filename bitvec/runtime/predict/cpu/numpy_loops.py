"""Loops of NumPy's functions by their addresses, and its sum: compiled code has NumPy's own bits.

A ufunc's loops stand in its public C structure (`PyUFuncObject`, numpy/ufuncobject.h): what NumPy
chose for this processor when it was imported.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bitvec.runtime.predict.cpu.compiling import inner


class _Ufunc(ctypes.Structure):
    _fields_ = [
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    ]


_Loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)


@cache
def loop(ufunc: np.ufunc, dtype: np.dtype) -> tuple[int, int] | None:
    """Return a ufunc's loop for a dtype: its address and that of its data; None if it is not found.

    What is found must agree with the ufunc on a sample.
    """
    counted = _Ufunc.from_address(id(ufunc))
    if (counted.nin, counted.nout, counted.ntypes) != (ufunc.nin, ufunc.nout, ufunc.ntypes):
        return None
    letters = f"{dtype.char * ufunc.nin}->{dtype.char}"
    if letters not in ufunc.types:
        return None
    at = ufunc.types.index(letters)
    address, data = counted.functions[at] or 0, counted.data[at] or 0
    return (address, data) if address and _agrees(ufunc, dtype, address, data) else None


def _agrees(ufunc: np.ufunc, dtype: np.dtype, address: int, data: int) -> bool:
    x = np.linspace(0.01, 30.0, 64).astype(dtype)
    two, out = np.full(1, 2, dtype), np.empty_like(x)
    operands = [two] * (ufunc.nin - 1) + [x]
    for k in range(x.size):
        arrays = [two.ctypes.data] * (ufunc.nin - 1)
        arrays += [array.ctypes.data + k * dtype.itemsize for array in (x, out)]
        steps = [0] * (ufunc.nin - 1) + [dtype.itemsize] * 2
        word = ctypes.c_ssize_t * len(arrays)
        _Loop(address)(word(*arrays), word(1), word(*steps), data)
    return np.array_equal(out, ufunc(*operands))


@intrinsic
def call_loop(typing_context, function, data, n, x, out, like):
    """Run a loop of one operand over n numbers at the address x, of the type of `like`."""

    def generate(context, builder, signature, arguments):
        function, data, n, x, out, like = arguments
        size = ir.Constant(ir.IntType(64), context.get_abi_sizeof(like.type))
        _run(builder, function, data, n, [(x, size), (out, size)])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5, like), generate


@intrinsic
def call_loop_of_two(typing_context, function, data, n, first, x, out, like):
    """Run a loop of two operands, of which the first is one number at an address."""

    def generate(context, builder, signature, arguments):
        function, data, n, first, x, out, like = arguments
        size = ir.Constant(ir.IntType(64), context.get_abi_sizeof(like.type))
        none = ir.Constant(ir.IntType(64), 0)
        _run(builder, function, data, n, [(first, none), (x, size), (out, size)])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6, like), generate


def _run(builder, function, data, n, operands):
    """Emit the call void f(char **operands, npy_intp *n, npy_intp *steps, void *data)."""
    word = ir.IntType(64)
    with builder.goto_entry_block():  # once, not in each turn of a loop
        places, steps, sizes = (
            builder.alloca(word, size=ir.Constant(word, count))
            for count in (len(operands), len(operands), 1)
        )
    for k, (place, step) in enumerate(operands):
        at = ir.Constant(word, k)
        builder.store(place, builder.gep(places, [at]))
        builder.store(step, builder.gep(steps, [at]))
    builder.store(n, sizes)
    pointers = [builder.ptrtoint(each, word) for each in (places, sizes, steps)]
    kind = ir.FunctionType(ir.VoidType(), [word] * 4).as_pointer()
    builder.call(builder.inttoptr(function, kind), [*pointers, data])


PAIRWISE = 128
"""Above this many terms NumPy's sum goes in halves; such sums are left to it."""


@inner
def pairwise(x, n):
    """Return the sum of n numbers in float64 in the order of NumPy's.

    Eight sums side by side from 8 terms on, for up to `PAIRWISE` of them.
    """
    if n < 8:
        total = 0.0
        for j in range(n):
            total += np.float64(x[j])
        return total
    r0, r1 = np.float64(x[0]), np.float64(x[1])
    r2, r3 = np.float64(x[2]), np.float64(x[3])
    r4, r5 = np.float64(x[4]), np.float64(x[5])
    r6, r7 = np.float64(x[6]), np.float64(x[7])
    whole = n - n % 8
    for j in range(8, whole, 8):
        r0 += np.float64(x[j])
        r1 += np.float64(x[j + 1])
        r2 += np.float64(x[j + 2])
        r3 += np.float64(x[j + 3])
        r4 += np.float64(x[j + 4])
        r5 += np.float64(x[j + 5])
        r6 += np.float64(x[j + 6])
        r7 += np.float64(x[j + 7])
    total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    for j in range(whole, n):
        total += np.float64(x[j])
    return total
