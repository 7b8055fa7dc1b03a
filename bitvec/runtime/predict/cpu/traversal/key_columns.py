"""Key columns filled: values in memory, of any strides, become the integers that nodes compare."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import WORD_BITS as _WORD_BITS
from bitvec.core.node_tests import CodeRule
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.kernel_arrays import (
    address_of,
    load_float64,
    load_int32,
    load_int64,
)
from bitvec.runtime.predict.cpu.keys import bits_of_key, rank_of_bits
from bitvec.runtime.predict.cpu.traversal.keyed import COMPARED, SET

_EXACT, _FLOOR = int(CodeRule.EXACT), int(CodeRule.FLOOR)
_INFINITY_32, _INFINITY_64 = 0x7F800000, 0x7FF0000000000000
_REST_32, _REST_64 = 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF

SINGLE, ROUNDED, DOUBLE = 0, 1, 2
"""Readings of a value: a float32; a float64 rounded to float32; a float64."""

Rows = tuple[int, int, int, int]
"""The address of the first value, the bytes from row to row and from column to column, and how
values are read."""


def rows_of(X: Array, dtype: np.dtype) -> Rows:
    """Return where and how the kernels read X, for a forest of a dtype."""
    return address_of(X), X.strides[0], X.strides[1], reading_of(X.dtype, dtype)


def reading_of(dtype: np.dtype, forest_dtype: np.dtype) -> int:
    """Return how values of `dtype` are read for a forest."""
    if dtype.itemsize == 4:
        return SINGLE
    return ROUNDED if forest_dtype.itemsize == 4 else DOUBLE


@inner
def read_rank(address, reading):
    """Return the rank of the value at an address, as `keys.rank_of_bits` has it."""
    if reading == DOUBLE:
        return rank_of_bits(load_int64(address), 63, _REST_64)
    if reading == SINGLE:
        bits = np.int64(load_int32(address))
    else:
        bits = np.int64(np.float32(load_float64(address)).view(np.int32))
    return rank_of_bits(bits, 63, _REST_32)


@inner
def read_key(address, reading):
    """Return the key of the value at an address."""
    rank = read_rank(address, reading)
    return rank - (rank >> 63)


@inner
def infinity_key(reading):
    """Return the key of infinity: NaN has a key above it, or below that of -infinity."""
    return np.int64(_INFINITY_64 if reading == DOUBLE else _INFINITY_32)


@inner
def is_missing(key, key_column, infinity):
    """Return whether the value with this key is missing, by the rule of a key column."""
    outside = (key > infinity) | (key < -infinity)
    return outside | ((key >= key_column.missing_first) & (key <= key_column.missing_last))


@inner
def _value(key, reading):
    if reading == DOUBLE:
        return np.int64(bits_of_key(key, 63, _REST_64)).view(np.float64)
    return np.float64(np.int32(bits_of_key(key, 63, _REST_32)).view(np.float32))


@inner
def code_of_key(key, key_column, reading):
    """Return the code of the value with this key, or -1 if it is none in a set's range."""
    if key < key_column.first or key > key_column.last:
        return -1
    value = _value(key, reading)
    code = np.int64(value)
    if key_column.rule == _FLOOR and key < 0:
        return -1
    # By bits: where subnormal numbers count as zero, they would be whole.
    whole = np.float64(code).view(np.int64) == np.float64(value).view(np.int64)
    if key_column.rule == _EXACT and not whole:
        return -1
    return code


@inner
def _in_set(key, key_column, words, reading):
    """Return 1 if the code of the value with this key goes right at a set."""
    code = code_of_key(key, key_column, reading)
    if code < 0:
        return key_column.other
    word = np.int64(words[np.uint64(key_column.word + code // _WORD_BITS)])
    return (word >> (code % _WORD_BITS)) & 1


@inner
def plain_value(key, key_column, reading):
    """Return what a key column that is no set's holds for a value with this key."""
    if is_missing(key, key_column, infinity_key(reading)):
        return key_column.missing
    if key_column.content == COMPARED:
        return key
    return np.int64((key >= key_column.first) & (key <= key_column.last))


@inner
def key_column_value(key, key_column, words, reading):
    """Return what a key column holds for a value with this key."""
    if key_column.content != SET or is_missing(key, key_column, infinity_key(reading)):
        return plain_value(key, key_column, reading)
    return _in_set(key, key_column, words, reading)


@inner
def _column_keys(address, stride, reading, n_rows, keys):
    """Fill `keys` with those of one column; places beyond the rows repeat the last of them."""
    n_keys = keys.shape[0]
    if reading == SINGLE:
        for i in range(n_rows):
            keys[np.uint64(i)] = read_key(address + i * stride, SINGLE)
    elif reading == DOUBLE:
        for i in range(n_rows):
            keys[np.uint64(i)] = read_key(address + i * stride, DOUBLE)
    else:
        for i in range(n_rows):
            keys[np.uint64(i)] = read_key(address + i * stride, ROUNDED)
    for i in range(n_rows, n_keys):
        keys[np.uint64(i)] = keys[np.uint64(n_rows - 1)]


@inner
def fill_group(rows, n_rows, key_columns, words, keys, out, start):
    """Fill `out` from `start` on with a group of rows: column after column, one value for each key.

    `keys` is scratch, int64, of the length of a group. A group of fewer rows repeats its last.
    """
    address, row_stride, column_stride, reading = rows
    infinity = infinity_key(reading)
    lanes = keys.shape[0]
    held = -1
    for p in range(key_columns.shape[0]):
        key_column = key_columns[np.uint64(p)]
        at = np.uint64(start + p * lanes)
        missing = key_column.missing
        if key_column.column < 0:
            for lane in range(lanes):
                out[at + np.uint64(lane)] = missing
            continue
        if key_column.column != held:
            held = key_column.column
            _column_keys(address + held * column_stride, row_stride, reading, n_rows, keys)
        first, last = key_column.missing_first, key_column.missing_last
        if key_column.content != COMPARED:
            for lane in range(lanes):
                key = keys[np.uint64(lane)]
                out[at + np.uint64(lane)] = key_column_value(key, key_column, words, reading)
        elif first > last:
            for lane in range(lanes):
                key = keys[np.uint64(lane)]
                outside = (key > infinity) | (key < -infinity)
                out[at + np.uint64(lane)] = missing if outside else key
        else:
            for lane in range(lanes):
                key = keys[np.uint64(lane)]
                outside = (key > infinity) | (key < -infinity) | ((key >= first) & (key <= last))
                out[at + np.uint64(lane)] = missing if outside else key
