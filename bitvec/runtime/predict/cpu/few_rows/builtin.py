"""Calls of few rows without Python between them: a builtin function that is made at run time.

What Python does around one row, from the check of X to the array for the answer, takes .6 µs, which
is half of all that a small forest takes. A function of C's calling convention reads the fields of X
itself, has NumPy make the array for the answers, and runs the compiled kernel. All that is not a
plain array of few rows it hands to the Python function that it stands for.

Fields stand where NumPy's public C structures have them (`PyArrayObject_fields`, `PyArray_Descr`,
numpy/ndarraytypes.h). They are compared with what Python says of some arrays before any is trusted.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import FLOATS, Array
from bitvec.runtime.predict.cpu.compiling import by_address, inner
from bitvec.runtime.predict.cpu.few_rows.waiting_threads import rows_answered
from bitvec.runtime.predict.cpu.kernel_arrays import (
    c_call,
    load_int32,
    load_int64,
    room_on_stack,
    store,
)

DATA, N_AXES, SHAPE, DTYPE, FLAGS = 16, 24, 32, 56, 64
"""Bytes into an array at which its fields stand; at 8 its type."""
KIND, NUMBER = 24, 28
"""Bytes into a dtype at which its letters stand, the third its byte order, and its number."""
PLAIN: Final = 0x101
"""Flags of an array that is contiguous and aligned."""
NATIVE: Final = ord("=")
NEW: Final = 93
"""Place of `PyArray_New` in NumPy's table of functions."""

FIELDS = ("array_type", "call", "python", "make", "free", "number", "size", "width", "step")
ARRAY_TYPE, CALL, PYTHON, MAKE, FREE, OUT_NUMBER, SIZE, WIDTH, STEP = range(len(FIELDS))
"""Numbers that a builtin is made with; `width` is 0 for answers of one axis, and `step` the bytes
of what the kernel takes for an element: 1 of a text."""
WAY_FIELDS = ("number", "itemsize", "least", "most", "header", "kernel")
WAY_NUMBER, ITEMSIZE, LEAST, MOST, HEADER, KERNEL = range(len(WAY_FIELDS))
"""Numbers of each way behind these: X's dtype, how many rows are more than what other ways answer
and up to how many there may be, and what runs them."""
N_CALLS: Final = 3
"""Calls that follow each other: for few rows, a smaller and a larger batch."""
N_WAYS: Final = N_CALLS * len(FLOATS)

LEFT: Final = 1
"""No address: Python is to answer."""


@inner
def _int64(place, at):
    return load_int64(place + 8 * at)


@by_address
def _answer(self, X):
    """Return a new array, or what Python answers: a `PyCFunction`."""
    state = load_int64(self + DATA)
    made = LEFT
    if load_int64(X + 8) == _int64(state, ARRAY_TYPE) and load_int32(X + N_AXES) == 2:
        dtype, n = load_int64(X + DTYPE), _int64(load_int64(X + SHAPE), 0)
        if (load_int32(dtype + KIND) >> 16) & 0xFF == NATIVE and load_int32(
            X + FLAGS
        ) & PLAIN == PLAIN:
            way = state + 8 * len(FIELDS)
            for _ in range(N_WAYS):
                if _int64(way, WAY_NUMBER) == load_int32(dtype + NUMBER) and _int64(
                    way, LEAST
                ) < n <= _int64(way, MOST):
                    made = _run(state, way, X)
                    break
                way += 8 * len(WAY_FIELDS)
    return c_call(_int64(state, CALL), (_int64(state, PYTHON), X)) if made == LEFT else made


@inner
def _run(state, way, X):
    """Return the answers in a new array, 0 without memory, LEFT if rows are left to Python."""
    shape, itemsize = load_int64(X + SHAPE), _int64(way, ITEMSIZE)
    n, columns, width = _int64(shape, 0), _int64(shape, 1), _int64(state, WIDTH)
    size, step, no = _int64(state, SIZE), _int64(state, STEP), np.int64(0)
    shape = room_on_stack(16)
    store(shape, n)
    store(shape + 8, width)
    kind = (_int64(state, ARRAY_TYPE), np.int64(1 + (width > 0)), shape, _int64(state, OUT_NUMBER))
    made = c_call(_int64(state, MAKE), (*kind, no, no, size, no, no))
    if made == 0:
        return no
    x, out, row_bytes = load_int64(X + DATA), load_int64(made + DATA), max(width, 1) * size
    kernel, header = _int64(way, KERNEL), _int64(way, HEADER)
    strides = columns * itemsize, itemsize
    served = rows_answered(kernel, header, x, n, columns, *strides, out, width, row_bytes, step)
    if served == n:
        return made
    c_call(_int64(state, FREE), (made,))
    return np.int64(LEFT)


class _State(np.ndarray):
    """Numbers of a builtin, which hold the Python function too."""

    python: Callable[[Any], Any]


class _Definition(ctypes.Structure):
    """PyMethodDef (methodobject.h)."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


METH_O: Final = 0x8
"""One argument, which Python sees to."""


@cache
def _definition() -> _Definition:
    return _Definition(b"answer", _answer.address(), METH_O, None)


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@cache
def _make() -> int:
    """Return the address of `PyArray_New`; 0 where fields are not where they are read."""
    has_lock = not sysconfig.get_config_var("Py_GIL_DISABLED")
    if sys.implementation.name != "cpython" or not has_lock or object.__basicsize__ != DATA:
        return 0
    table = getattr(np._core._multiarray_umath, "_ARRAY_API", None)
    if table is None or not all(map(_is_read_right, _samples())):
        return 0
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    functions = pointer(table, None)
    return ctypes.c_void_p.from_address(functions + 8 * NEW).value or 0


def _samples() -> list[Array]:
    X = np.arange(12.0).reshape(3, 4)
    read_only = X.astype(np.float32)
    read_only.flags.writeable = False
    return [X, X.T, X[:, ::2], X.astype(">f8"), read_only, np.zeros(5, np.int64)]


def _is_read_right(array: Array) -> bool:
    place = id(array)
    word, number = ctypes.c_int64.from_address, ctypes.c_int32.from_address
    dtype = word(place + DTYPE).value
    is_plain = array.flags.c_contiguous and array.flags.aligned
    order = ctypes.c_char.from_address(dtype + KIND + 2).value.decode()
    return (
        word(place + 8).value == id(np.ndarray)
        and word(place + DATA).value == array.__array_interface__["data"][0]
        and number(place + N_AXES).value == array.ndim
        and word(word(place + SHAPE).value).value == array.shape[0]
        and dtype == id(array.dtype)
        and number(dtype + NUMBER).value == array.dtype.num
        and order == array.dtype.byteorder
        and (number(place + FLAGS).value & PLAIN == PLAIN) == is_plain
    )


def builtin(python: Callable[[Any], Any], width: int, dtype: np.dtype, step: int) -> Any:
    """Return a builtin that stands for a function of X alone, None where there can be none.

    Parameters
    ----------
    python : callable
        Answers what is no array of few rows.
    width : int
        Of the answer to a row; 0 if it has one axis.
    dtype : numpy dtype
        Of the answer.
    step : int
        Bytes of an element of the array that the kernel fills.
    """
    if not _make():
        return None
    named = {
        "array_type": id(np.ndarray),
        "call": _address("PyObject_CallOneArg"),
        "python": id(python),
        "make": _make(),
        "free": _address("Py_DecRef"),
        "number": dtype.num,
        "size": dtype.itemsize,
        "width": width,
        "step": step,
    }
    ways = np.zeros((N_WAYS, len(WAY_FIELDS)), np.int64)
    state = np.array([*(named[name] for name in FIELDS), *ways.ravel()], np.int64).view(_State)
    state.python = python
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p],
    )
    return new(ctypes.addressof(_definition()), state, None)


def add_way(
    made: Any, turn: int, dtype: np.dtype, rows: tuple[int, int], header: int, kernel: int
) -> None:
    """Have a builtin answer more than `rows[0]` and up to `rows[1]` rows of a dtype by a kernel.

    `turn` is the place among the calls that follow each other.
    """
    ways = made.__self__[len(FIELDS) :].reshape(N_CALLS, len(FLOATS), len(WAY_FIELDS))
    row = ways[turn, [d.itemsize for d in FLOATS].index(dtype.itemsize)]
    least, most = rows
    row[:] = dtype.num, dtype.itemsize, least, 0, header, kernel
    row[MOST] = most
