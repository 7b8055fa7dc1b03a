"""CityHash64 of categories that are known by their hashes alone, and texts of a given hash.

A model may keep of a category only the lower 32 bits of CityHash64 (version 1.0) of its UTF-8
text, signed; a whole number is hashed as its decimals. Two texts of one hash are one category.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import UInt64

_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
_K3: Final = 0xC949D7C7509E6557
_MUL: Final = 0x9DDFEA08EB382D69
_MASK: Final = 2**64 - 1

WHOLE_NUMBERS: Final = 2**16
"""Hashes of the numbers below this, and of their negatives down to -1000, are looked for."""


def category_hash(category: str | int) -> int:
    """Return the signed 32-bit number that is kept of a category.

    Examples
    --------
    >>> category_hash("x"), category_hash(3), category_hash("")
    (-784473192, 593172586, 797982799)
    """
    if isinstance(category, bool | np.bool_):
        category = int(category)
    low = city_hash64(str(category).encode("utf-8", "surrogatepass")) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


def city_hash64(data: bytes) -> int:
    """Return CityHash64 of version 1.0."""
    n = len(data)
    if n <= 16:
        return _hash_to_16(data)
    if n <= 32:
        a, b = _word(data, 0) * _K1, _word(data, 8)
        c, d = _word(data, n - 8) * _K2, _word(data, n - 16) * _K0
        return _hash_16(_rotate(a - b, 43) + _rotate(c, 30) + d, a + _rotate(b ^ _K3, 20) - c + n)
    if n <= 64:
        return _hash_to_64(data)
    x, y = _word(data, 0), _word(data, n - 16) ^ _K1
    z = _word(data, n - 56) ^ _K0
    v = _weak_hash(data, n - 64, n, y)
    w = _weak_hash(data, n - 32, n * _K1, _K0)
    z = (z + _mix(v[1]) * _K1) & _MASK
    x = _rotate(z + x, 39) * _K1 & _MASK
    y = _rotate(y, 33) * _K1 & _MASK
    for at in range(0, (n - 1) // 64 * 64, 64):
        x = _rotate(x + y + v[0] + _word(data, at + 16), 37) * _K1 & _MASK
        y = _rotate(y + v[1] + _word(data, at + 48), 42) * _K1 & _MASK
        x ^= w[1]
        y ^= v[0]
        z = _rotate(z ^ w[0], 33)
        v = _weak_hash(data, at, v[1] * _K1, x + w[0])
        w = _weak_hash(data, at + 32, z + w[1], y)
        z, x = x, z
    return _hash_16(_hash_16(v[0], w[0]) + _mix(y) * _K1 + z, _hash_16(v[1], w[1]) + x)


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotate(value: int, by: int) -> int:
    value &= _MASK
    return (value >> by | value << (64 - by)) & _MASK


def _mix(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _hash_16(u: int, v: int) -> int:
    v &= _MASK
    a = _mix((u ^ v) * _MUL)
    return _mix((v ^ a) * _MUL) * _MUL & _MASK


def _hash_to_16(data: bytes) -> int:
    n = len(data)
    if n > 8:
        b = _word(data, n - 8)
        return _hash_16(_word(data, 0), _rotate(b + n, n)) ^ b
    if n >= 4:
        return _hash_16(n + (_word(data, 0, 4) << 3), _word(data, n - 4, 4))
    if n:
        y, z = data[0] + (data[n >> 1] << 8), n + (data[-1] << 2)
        return _mix(y * _K2 ^ z * _K3) * _K2 & _MASK
    return _K2


def _hash_to_64(data: bytes) -> int:
    n = len(data)
    z = _word(data, 24)
    a = _word(data, 0) + (n + _word(data, n - 16)) * _K0
    b, c = _rotate(a + z, 52), _rotate(a, 37)
    a += _word(data, 8)
    c += _rotate(a, 7)
    a += _word(data, 16)
    vf, vs = a + z, b + _rotate(a, 31) + c
    a = _word(data, 16) + _word(data, n - 32)
    z = _word(data, n - 8)
    b, c = _rotate(a + z, 52), _rotate(a, 37)
    a += _word(data, n - 24)
    c += _rotate(a, 7)
    a += _word(data, n - 16)
    wf, ws = a + z, b + _rotate(a, 31) + c
    r = _mix((vf + ws) * _K2 + (wf + vs) * _K0)
    return _mix(r * _K0 + vs) * _K2 & _MASK


def _weak_hash(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(data, at + 8 * k) for k in range(4))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    b += _rotate(a, 44)
    return (a + z) & _MASK, (b + c) & _MASK


@cache
def whole_numbers() -> dict[int, int]:
    """Return the common whole numbers by their hashes; no two of them share one."""
    return {category_hash(number): number for number in range(-1000, WHOLE_NUMBERS)}


@lru_cache(1 << 16)
def text_with_hash(wanted: int) -> str:
    """Return some printable text of 16 letters that has this hash.

    The hash of 16 bytes is undone for a fixed second half, with upper 32 bits tried until the
    first half can be printed too.
    """
    upper = np.arange(1 << 14, dtype=np.uint64) << np.uint64(32)
    for second in (f"{number:08d}".encode() for number in range(10**8)):
        b = int.from_bytes(second, "little")
        v = np.uint64(_rotate(b + 16, 16))
        halves = _first_halves(upper | np.uint64(wanted & 0xFFFFFFFF), np.uint64(b), v)
        letters = halves.astype("<u8").view(np.uint8).reshape(-1, 8)
        printable = np.flatnonzero(np.all((letters > 32) & (letters < 127), axis=1))
        if printable.size:
            return (letters[printable[0]].tobytes() + second).decode("ascii")
    raise AssertionError("one half in three thousand can be printed")


def _first_halves(hashes: UInt64[Array, " n"], b: np.uint64, v: np.uint64) -> UInt64[Array, " n"]:
    """Return the first 8 bytes of 16 with these hashes."""
    inverse, shift = np.uint64(pow(_MUL, -1, 2**64)), np.uint64(47)
    x = (hashes ^ b) * inverse
    x = (x ^ x >> shift) * inverse ^ v
    return (x ^ x >> shift) * inverse ^ v


def whole_number(text: str) -> int | None:
    """Return the number whose decimals a text is, if any.

    >>> whole_number("-3"), whole_number("03"), whole_number("3.0")
    (-3, None, None)
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        return None
    return int(text) if str(int(text)) == text else None
