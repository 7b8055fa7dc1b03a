"""The exponentials of the sources, compiled, with the bits of `bitvec.core.transforms`.

The C library's own is called by its address: what LLVM or a vector library would put in its place
differs in the last bits. CatBoost's is made from a table. NumPy's is in `numpy_loops`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg"

from __future__ import annotations

import ctypes
import os
from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from bitvec.core import transforms
from bitvec.core.output import Output, SoftmaxSum
from bitvec.core.transforms import CUBE, LEAST_EXP, MOST_EXP, SQUARE, STEP, STEPS, TABLE_SIZE
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.kernel_arrays import constant, power_of_two

EXP_TABLE = constant(transforms.EXP_TABLE)
TABLE_BITS = TABLE_SIZE.bit_length() - 1
LARGEST = 709.0
"""Above this the reference's exponential of float64 is a product of two."""


@intrinsic
def _called(typing_context, address, x):
    """Return f(x) for the C function at an address, from and to the type of x."""

    def generate(context, builder, signature, arguments):
        real = {32: ir.FloatType(), 64: ir.DoubleType()}[signature.args[1].bitwidth]
        function = ir.FunctionType(real, [real]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), [arguments[1]])

    return x(types.int64, x), generate


def c_exp_of(x, exp32, exp64):
    """Return exp(x) as `transforms.c_exp` does, for finite x that is not beyond `LARGEST`."""
    return transforms.c_exp(x)


@overload(c_exp_of)
def _exp_of(x, exp32, exp64):
    if x == types.float32:

        def narrow(x, exp32, exp64):
            if x > np.float32(88):
                return np.float32(_called(exp64, np.float64(x)))
            return _called(exp32, x)

        return narrow

    def wide(x, exp32, exp64):
        return _called(exp64, x)

    return wide


@inner
def steps_and_rest(x):
    """Return k and the cubic of `transforms.table_exp` for a float64 that is not NaN."""
    held = min(max(x, LEAST_EXP), MOST_EXP)
    nearest = np.rint(held * STEPS)
    t = nearest * STEP - held
    return np.int32(nearest), (SQUARE - t) * (t * t) * CUBE - t + 1.0


@inner
def table_exp_of(k, rest, entry):
    """Return exp(x) of what `steps_and_rest` gives and the k-th entry of the table."""
    return rest * (entry * power_of_two(np.int64(k) >> TABLE_BITS))


def takes_c_exp(output: Output, dtype: np.dtype) -> bool:
    """Return whether `Operations.exponential` of the reference is the C library's."""
    kind = output.softmax_sum
    return kind is SoftmaxSum.IN_ORDER_C or (
        dtype == np.float32 and kind is not SoftmaxSum.IN_ORDER_TABLE
    )


@cache
def c_exponentials() -> tuple[int, int]:
    """Return where the C library's expf and exp are, 0 if they are not found."""
    found = []
    for name in ("expf", "exp"):
        try:
            function = getattr(_library(), name)
            found.append(int(ctypes.cast(function, ctypes.c_void_p).value or 0))
        except (OSError, AttributeError):
            found.append(0)
    return found[0], found[1]


@cache
def _library() -> ctypes.CDLL:
    # On Windows NumPy's comes from the universal C runtime; elsewhere it is loaded already.
    return ctypes.CDLL("ucrtbase" if os.name == "nt" else None)


@cache
def has_exponentials(dtype: np.dtype) -> bool:
    """Return whether the C library's exponentials have the reference's bits here, on a sample.

    They do wherever NumPy's complex exponential is the C library's.
    """
    if 0 in c_exponentials():
        return False
    # Called one by one from here: to load a kernel takes longer.
    x = np.concatenate([np.linspace(-110, 88.7, 2000), np.geomspace(1e-12, 1, 200)]).astype(dtype)
    with np.errstate(under="ignore"):
        expected = transforms.c_exp(x)
    word, function = (
        (ctypes.c_float, _library().expf)
        if dtype == np.float32
        else (ctypes.c_double, _library().exp)
    )
    exp = ctypes.CFUNCTYPE(word, word)(ctypes.cast(function, ctypes.c_void_p).value or 0)
    # float32 above 88 is taken from float64: see `c_exp_of`.
    least = x <= 88
    return [exp(value) for value in x[least].tolist()] == expected[least].tolist()
