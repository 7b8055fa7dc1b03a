"""Columns that the entries of S read: X after a node's missing rule, substitute and indicator.

A missing value becomes NaN, unless the entry has a substitute for it. NaN then goes through
products and sums up to z, and z is NaN in no other way than by infinities of both signs, which go
in the same direction: so a node asks whether z is NaN, and nothing else needs to know of missing
values.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import ZERO_THRESHOLD, MissingRule, NodeTests
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.kernel_arrays import constant, copy_bytes
from bitvec.runtime.predict.cpu.oblique.turning import PART, read, size_of, turn_part, turn_square

_MOST_COUNTED = 1 << 20
_ZERO, _SENTINEL = int(MissingRule.NAN_OR_ZERO), int(MissingRule.NAN_OR_SENTINEL)


@dataclass(frozen=True, slots=True, eq=False)
class ObliqueColumns:
    """The distinct things that entries read.

    Parameters
    ----------
    records : records, (n_reads,)
        The column of X, the missing rule, the sentinel, the substitute (NaN for none), the code of
        the indicator (-1 for none), and how many records from this one on read neighbouring columns
        as they are.
    read : int64, (n_entries,)
        What each entry reads.
    """

    records: Array
    read: Array


def oblique_columns(tests: NodeTests, sentinel: float | None) -> ObliqueColumns:
    """Return what the entries of tests read.

    Parameters
    ----------
    tests : NodeTests
    sentinel : float, optional
        The value that `MissingRule.NAN_OR_SENTINEL` counts as missing.
    """
    dtype = tests.dtype
    rule = np.repeat(tests.missing_rule.astype(np.int64), np.diff(tests.row_ptr[tests.node_ptr]))
    if sentinel is None:
        rule[rule == _SENTINEL] = MissingRule.NAN
    substitute = np.full(rule.size, np.nan, dtype)
    if tests.substitute is not None:
        substitute = tests.substitute
    indicator = np.full(rule.size, -1, np.int64)
    if tests.indicator is not None:
        indicator = tests.indicator.astype(np.int64)
    bits = np.where(np.isnan(substitute), dtype.type(np.nan), substitute).astype(dtype)
    code = tests.column.astype(np.int64)
    parts = [rule]
    if tests.substitute is not None or tests.indicator is not None:
        parts += [indicator, bits.view(f"i{dtype.itemsize}")]
    for part in parts:
        where, position = _numbered(part)
        code = code * where.size + position
    first, read = _numbered(code)
    records = np.zeros(first.size, record_of(dtype))
    records["column"] = tests.column[first]
    records["rule"] = rule[first]
    records["indicator"] = indicator[first]
    records["substitute"] = substitute[first]
    with np.errstate(over="ignore"):
        records["sentinel"] = np.nan if sentinel is None else sentinel
    return ObliqueColumns(with_runs(records), read.ravel())


def record_of(dtype: np.dtype) -> np.dtype:
    """Return the dtype of records beside weights of a dtype."""
    numbers = [(name, np.int64) for name in ("column", "rule", "indicator")]
    values = [(name, dtype) for name in ("substitute", "sentinel")]
    return np.dtype([*numbers, *values, ("run", np.int64)], align=True)


def _numbered(code: Array) -> tuple[Array, Array]:
    """Return where each distinct number stands, in rising order, and which of them each one is."""
    least, most = int(code.min(initial=0)), int(code.max(initial=0))
    if most - least > _MOST_COUNTED:
        _, where, which = np.unique(code, return_index=True, return_inverse=True)
        return where, which.ravel()
    place = np.full(most - least + 1, -1)
    place[code - least] = np.arange(code.size)
    present = place >= 0
    return place[present], (np.cumsum(present) - 1)[code - least]


def with_runs(records: Array) -> Array:
    """Return records with how many, from each one on, read neighbouring columns as they are."""
    as_it_is = (records["rule"] == MissingRule.NAN) & (records["indicator"] < 0)
    as_it_is &= np.isnan(records["substitute"])
    ends = np.ones(records.size, bool)
    ends[:-1] = np.diff(records["column"]) != 1
    ends[:-1] |= ~as_it_is[1:]
    end = np.flatnonzero(ends)
    records = records.copy()
    place = np.arange(records.size)
    records["run"] = np.where(as_it_is, end[np.searchsorted(end, place)] + 1 - place, 0)
    return constant(records)


@inner
def _as_read(x, record, number):
    """Return what an entry reads of x, in the dtype `number`."""
    missing = x != x
    if record.rule == _ZERO:
        missing |= abs(x) <= number(ZERO_THRESHOLD)
    elif record.rule == _SENTINEL:
        missing |= x == record.sentinel
    if missing and record.substitute == record.substitute:
        x = record.substitute
        missing = False
    if record.indicator >= 0:
        x = number(np.float64(x) == np.float64(record.indicator))
    return number(np.nan) if missing else x


@inner
def read_columns(source, records, n_rows, out, like, explicit):
    """Fill `out`, (n_reads, lanes), with what entries read of rows of X, columns side by side.

    `source` is the address of the first row and the bytes from row to row and from column to
    column; `like` is a number of the dtype of X. Values are cast to the dtype of `out` before
    anything else. Neighbouring columns are turned by vectors if these are `explicit`.
    """
    address, row_stride, column_stride = source
    number = out.dtype.type
    lanes = 64 // out.itemsize
    size = out.itemsize
    turns = explicit and column_stride == size_of(like)
    k = 0
    while k < records.shape[0]:
        record = records[np.uint64(k)]
        column = address + record.column * column_stride
        if record.run == 0:
            for row in range(n_rows):
                x = number(read(column + row * row_stride, like))
                out[k, row] = _as_read(x, record, number)
            k += 1
            continue
        n, done = record.run, 0
        for width in (lanes, PART):
            while turns and done + width <= n:
                for row in range(0, n_rows // lanes * lanes, lanes):
                    at = column + row * row_stride + done * column_stride
                    to = out.ctypes.data + ((k + done) * out.shape[1] + row) * size
                    if width == PART:
                        turn_part(at, row_stride, to, out.shape[1] * size, like, number(0))
                    else:
                        turn_square(at, row_stride, to, out.shape[1] * size, like, number(0))
                for row in range(n_rows // lanes * lanes, n_rows):
                    for j in range(done, done + width):
                        at = column + row * row_stride + j * column_stride
                        out[k + j, row] = number(read(at, like))
                done += width
        for j in range(done, n):
            for row in range(n_rows):
                at = column + row * row_stride + j * column_stride
                out[k + j, row] = number(read(at, like))
        k += n


@inner
def read_rows(source, records, n_rows, out, like):
    """Fill `out`, (rows, n_reads or more), with what entries read of rows of X, row by row.

    See `read_columns`.
    """
    address, row_stride, column_stride = source
    number = out.dtype.type
    k = 0
    while k < records.shape[0]:
        record = records[np.uint64(k)]
        column = address + record.column * column_stride
        if record.run == 0:
            for row in range(n_rows):
                x = number(read(column + row * row_stride, like))
                out[row, k] = _as_read(x, record, number)
            k += 1
            continue
        for row in range(n_rows):
            at = column + row * row_stride
            part = out[row]
            if column_stride == size_of(like) == out.itemsize:
                copy_bytes(at, part.ctypes.data + k * out.itemsize, record.run * out.itemsize)
            elif column_stride == size_of(like):
                for j in range(record.run):
                    part[np.uint64(k + j)] = number(read(at + j * size_of(like), like))
            else:
                for j in range(record.run):
                    part[np.uint64(k + j)] = number(read(at + j * column_stride, like))
        k += record.run
