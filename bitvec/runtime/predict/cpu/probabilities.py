"""The post-transforms that take exponentials, compiled, with the bits of `bitvec.core.transforms`.

The exponential is the C library's own, called by its address: what LLVM or a vector library would
put in its place differs in the last bits. Where scikit-learn's exponential is meant, in float64, it
is NumPy's; CatBoost's is made from a table. Rows with values for which the reference goes ways of
its own (NaN, infinities, beyond the range of the exponential) are left to it, with the rows around
them.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg"

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from bitvec.core import transforms
from bitvec.core.arrays import Array, copied
from bitvec.core.output import Output, PostTransform, SoftmaxSum
from bitvec.core.shape_annotations import Float
from bitvec.core.transforms import CUBE, LEAST_EXP, MOST_EXP, SQUARE, STEP, STEPS, TABLE_SIZE
from bitvec.runtime.predict.cpu import numpy_loops
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant, power_of_two
from bitvec.runtime.predict.cpu.numpy_loops import call_loop
from bitvec.runtime.predict.cpu.softmax_kernels import (
    PAIRWISE,
    ROWS,
    normalise,
    put_side_by_side,
    shift,
)
from bitvec.runtime.predict.threads import for_each_block

BLOCK = 1 << 14
"""Scores of a thread's turn."""
BY_C, BY_TABLE, BY_NUMPY = range(3)
"""Whose exponential a source takes."""
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


@inner
def _fill_by_c(x, out, functions):
    flat, to = x.reshape(-1), out.reshape(-1)
    for i in range(flat.size):
        value = flat[i]
        if not abs(value) < np.inf or value > LARGEST:
            return False
        to[i] = c_exp_of(value, functions[0], functions[1])
    return True


@inner
def _fill_by_table(x, out, ends, table, steps):
    """Fill `out` with `transforms.table_exp` of x, both float64; return whether no x is NaN.

    `steps` is scratch, int32 of the size of x.
    """
    flat, to = x.reshape(-1), out.reshape(-1)
    n_nan, n_least = 0, 0
    for i in range(flat.size):
        value = np.float64(flat[i])
        n_nan += int(value != value)
        n_least += int(value <= LEAST_EXP)
        steps[i], to[i] = steps_and_rest(value)
    if n_nan:
        return False
    for i in range(flat.size):
        k = steps[i]
        to[i] = table_exp_of(k, to[i], table[k & (TABLE_SIZE - 1)])
    if n_least:
        start = 0
        for group in range(ends.shape[0]):
            end = ends[group]
            for k in range(end - (end - start) % 4, end):
                for r in range(x.shape[1]):
                    if x[k, r] <= LEAST_EXP:
                        out[k, r] = 0
            start = end
    return True


@kernel
def exponentials(x, out, ends, softmax, wide, way, functions, table):
    """Fill `out` with exponentials of x as a source takes them, or of each group the softmax.

    `ends` are the columns at which groups end; `wide` is as in `normalise`; `way` is one of three,
    and `functions` are the addresses of `c_exponentials`, and of NumPy's loop and its data. Return
    whether all of x is in range.
    """
    n_rows, width = x.shape
    part, powers = np.empty((width, ROWS), x.dtype), np.empty((width, ROWS), x.dtype)
    steps, of_group = np.empty(part.size, np.int32), np.empty(ROWS, x.dtype)
    for start in range(0, n_rows, ROWS):
        n = min(ROWS, n_rows - start)
        put_side_by_side(x, start, n, part)
        if softmax:
            shift(part, ends, of_group)
        if way == BY_NUMPY:
            at, to = np.int64(part.ctypes.data), np.int64(powers.ctypes.data)
            call_loop(functions[2], functions[3], part.size, at, to, part[0, 0])
        elif way == BY_C:
            if not _fill_by_c(part, powers, functions):
                return False
        elif not _fill_by_table(part, powers, ends, table, steps):
            return False
        if softmax and not normalise(powers, ends, wide, of_group):
            return False
        for r in range(n):
            for k in range(width):
                out[start + r, k] = powers[k, r]
    return True


@kernel
def sigmoids(x, out, parameter, least, exp32, exp64):
    """Fill `out` with 1 / (exp(-max(x · parameter, least)) + 1); return whether x is in range."""
    one = x.dtype.type(1)
    for i in range(x.shape[0]):
        value = x[i] * parameter
        if not abs(value) < np.inf or -value > LARGEST:
            return False
        value = value if value > least else least
        out[i] = one / (c_exp_of(-value, exp32, exp64) + one)
    return True


@kernel
def logistics(x, out, exp32, exp64):
    """Fill `out` with 1 / (1 + exp(-|x|)), or 1 minus it where x < 0, in float32."""
    one = np.float32(1)
    for i in range(x.shape[0]):
        value = np.float32(x[i])
        if not abs(value) < np.inf:
            return False
        above = one / (one + c_exp_of(-abs(value), exp32, exp64))
        out[i] = one - above if x[i] < 0 else above
    return True


def transform(
    output: Output,
    raw: Float[Array, "batch n_outputs"],
    *,
    n_threads: int = 1,
    out: Float[Array, "batch n_outputs"] | None = None,
) -> Float[Array, "batch n_outputs"]:
    """Apply the post-transform to raw scores: what `bitvec.core.transforms.transform` returns.

    Parameters
    ----------
    n_threads : int
        At most so many work on it.
    out : F, (batch, n_outputs), optional
        Filled and returned.
    """
    work = _TABLE.get(output.post_transform)
    if work is None or not raw.flags.c_contiguous or not _is_served(output, raw.dtype):
        return transforms.transform(output, raw, out)
    if out is not None and not out.flags.c_contiguous:
        return copied(transform(output, raw, n_threads=n_threads), out)
    result = np.empty_like(raw) if out is None else out

    def fill(part: slice) -> None:
        if not work(output, constant(raw[part]), result[part]):
            result[part] = transforms.transform(output, raw[part])

    block = max(1, BLOCK // max(raw.shape[1], 1))
    for_each_block(fill, len(raw), block=block, n_threads=n_threads)
    return result


def _is_served(output: Output, dtype: np.dtype) -> bool:
    if output.post_transform is PostTransform.SOFTMAX:
        if output.softmax_sum is SoftmaxSum.WIDE and max(output.groups) > PAIRWISE:
            return False
    elif output.post_transform is not PostTransform.EXPONENTIAL:
        return has_exponentials(dtype)
    if output.softmax_sum is SoftmaxSum.IN_ORDER_TABLE:
        return dtype == np.float64
    if takes_c_exp(output, dtype):
        return has_exponentials(dtype)
    return numpy_loops.loop(np.exp, dtype) is not None


def takes_c_exp(output: Output, dtype: np.dtype) -> bool:
    """Return whether `Operations.exponential` of the reference is the C library's."""
    kind = output.softmax_sum
    return kind is SoftmaxSum.IN_ORDER_C or (
        dtype == np.float32 and kind is not SoftmaxSum.IN_ORDER_TABLE
    )


def _way(output: Output, dtype: np.dtype) -> tuple[int, tuple[int, ...], Array]:
    """Return what `exponentials` takes beside numbers, for the exponentials of the source."""
    way = BY_NUMPY
    if takes_c_exp(output, dtype):
        way = BY_C
    elif output.softmax_sum is SoftmaxSum.IN_ORDER_TABLE:
        way = BY_TABLE
    found = numpy_loops.loop(np.exp, dtype) if way == BY_NUMPY else None
    return way, (*c_exponentials(), *(found or (0, 0))), EXP_TABLE


def _exponential(output: Output, raw: Array, out: Array) -> bool:
    ends = constant(np.array([raw.shape[1]]))
    return bool(exponentials(raw, out, ends, False, False, *_way(output, raw.dtype)))


def _sigmoid(output: Output, raw: Array, out: Array) -> bool:
    kind = raw.dtype.type
    least = kind(-88.7 if raw.dtype == np.float32 else -np.inf)
    flat, to = raw.reshape(-1), out.reshape(-1)
    return bool(sigmoids(flat, to, kind(output.parameter), least, *c_exponentials()))


def _logistic(output: Output, raw: Array, out: Array) -> bool:
    return bool(logistics(raw.reshape(-1), out.reshape(-1), *c_exponentials()))


def _softmax(output: Output, raw: Array, out: Array) -> bool:
    ends = constant(np.cumsum(output.groups))
    if output.parameter != 1:
        with np.errstate(over="ignore"):  # to infinity, which the reference takes
            raw = constant(raw / raw.dtype.type(output.parameter))
    is_wide = output.softmax_sum is SoftmaxSum.WIDE
    return bool(exponentials(raw, out, ends, True, is_wide, *_way(output, raw.dtype)))


_TABLE: dict[PostTransform, Callable[[Output, Array, Array], bool]] = {
    PostTransform.SIGMOID: _sigmoid,
    PostTransform.LOGISTIC: _logistic,
    PostTransform.SOFTMAX: _softmax,
    PostTransform.EXPONENTIAL: _exponential,
}


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
