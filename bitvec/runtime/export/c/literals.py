"""Literals of C99: types, numbers and texts, and the narrowest type for an array."""

from __future__ import annotations

import math
import re

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int

C_TYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.uint8): "uint8_t",
    np.dtype(np.uint16): "uint16_t",
    np.dtype(np.uint32): "uint32_t",
}
UNSIGNED = (np.uint8, np.uint16, np.uint32)
_SHORT = 1 << 20
"""Whole numbers below this are written in decimals, all others in hexadecimals: both are exact."""


def number(value: float | np.generic, dtype: np.dtype) -> str:
    """Return a constant of this dtype, bit for bit.

    >>> number(0.1, np.dtype(np.float32)), number(-0.0, np.dtype(np.float64))
    ('0x1.99999ap-4f', '-0.0')
    """
    if dtype.kind == "u":
        return f"{int(value)}{'U' if int(value) > 0x7FFF else ''}"
    exact = float(dtype.type(value))
    suffix = "f" if dtype == np.float32 else ""
    if math.isnan(exact):
        return f"(0.0{suffix} / 0.0{suffix})"
    if math.isinf(exact):
        return f"({'-' if exact < 0 else ''}1.0{suffix} / 0.0{suffix})"
    if exact.is_integer() and abs(exact) < _SHORT:
        return f"{exact!r}{suffix}"
    return re.sub(r"\.?0*p", "p", exact.hex()) + suffix


def narrow_integers(values: Int[Array, " n"]) -> Array:
    """Return numbers that are not negative in the narrowest unsigned type that holds them."""
    values = np.asarray(values)
    return values.astype(unsigned(int(values.max(initial=0))))


def unsigned(largest: int) -> np.dtype:
    """Return the narrowest unsigned type that holds a number.

    >>> unsigned(255), unsigned(256)
    (dtype('uint8'), dtype('uint16'))
    """
    return np.dtype(next(kind for kind in UNSIGNED if largest <= np.iinfo(kind).max))


def narrow_floats(values: Array) -> Array:
    """Return values as float32 if that keeps each of them, else as they are; bins as bins."""
    if values.dtype.kind == "u":
        return narrow_integers(values)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        narrow = values.astype(np.float32)
    same = np.array_equal(narrow.astype(values.dtype), values, equal_nan=True)
    return narrow if same else values


def text(value: str) -> str:
    """Return a string constant, in ASCII: all that is not plain is an octal escape of UTF-8.

    A zero byte, at which C would end the text, becomes a backslash and the digit 0.

    >>> print(text('a"ü'))
    "a\\042\\303\\274"
    """
    plain = set(range(0x20, 0x7F)) - set(b'"\\?@$')
    content = value.replace("\0", "\\0").encode("utf-8", "surrogatepass")
    return '"' + "".join(chr(c) if c in plain else f"\\{c:03o}" for c in content) + '"'


def comment(value: str) -> str:
    """Return words that may stand in a comment: in ASCII, on one line, and never its end.

    >>> print(comment('width */ in m'))
    width * / in m
    """
    plain = value.encode("unicode_escape").decode("ascii")
    for pair in ("*/", "/*", "??"):
        while pair in plain:
            plain = plain.replace(pair, f"{pair[0]} {pair[1]}")
    return plain
