"""Binned columns of 0 and 1 for nodes that read more than one column: the outcomes of their tests.

Every node is tested for every row, whether or not it is on the row's path, with rows in the lanes
of vectors: see `bitvec.runtime.predict.cpu.oblique.oblique_sums`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from functools import cache

import numba
import numpy as np

from bitvec.core.arrays import Array, ranges
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation
from bitvec.runtime.predict.cpu.bins.binners import MOST_BINNED
from bitvec.runtime.predict.cpu.compiling import Kernel, inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import address_of, pointer
from bitvec.runtime.predict.cpu.oblique import oblique_sums, polytopes
from bitvec.runtime.predict.cpu.oblique.oblique_columns import read_columns
from bitvec.runtime.predict.cpu.oblique.oblique_sums import CHUNK, TILE
from bitvec.runtime.predict.cpu.oblique.oblique_tests import ObliqueTests, oblique_tests
from bitvec.runtime.predict.cpu.target import vectors

_ROW, _ENTRY, _SOFTPLUS = 0.45, 0.068, 2.5
"""Cycles for each row of X, in float32: a row of S, an entry of it, a softplus.

These and those below were fitted to forests of 1 to 100 trees of depth 4 to 10 with 2 to 200
entries a row of S, on one core of a Zen 4 processor."""
_LEVEL = {"avx512": 1.0, "portable": 1.15, "none": 3.0}
"""Factors of all these cycles, by the level of vectors."""


class ObliqueBinner:
    """Makes the binned columns of oblique tests; see `cpu.bins.binners.Binner`.

    Parameters
    ----------
    tests : ObliqueTests
    first_column : int
        The binned column of the first of the tests; the others follow.
    """

    def __init__(self, tests: ObliqueTests, first_column: int) -> None:
        self._tests = tests
        self._first_column = first_column

    @property
    def packed_bytes(self) -> int:
        """Bytes of the arrays that it reads, X apart."""
        return self._tests.n_bytes

    def fill(self, X: Array, binned: int, n_binned: int, room: int) -> None:
        """Fill the binned columns: see `Binner.fill`."""
        tests = self._tests
        run = _fill_kernel(tests.weights.dtype.itemsize)
        source = address_of(X), X.strides[0], X.strides[1], len(X)
        records = tests.columns.records
        like = X.dtype.type(0)
        run(source, like, records, tests.arrays, self._first_column, binned, n_binned, room)


def bin_oblique(
    forest: Forest, node: Array, first_column: int
) -> tuple[Array, Array, int, ObliqueBinner]:
    """Return binned column and least byte of oblique nodes, the number of columns, their binner.

    Parameters
    ----------
    node : integers, (n,)
        Oblique nodes, of any rows of S.
    first_column : int
        The first of their binned columns; equal tests share one.
    """
    tests, which = oblique_tests(forest, np.asarray(node, np.int64))
    bin_column = (first_column + which).astype(np.int32)
    least = np.ones(bin_column.size, np.uint8)
    return bin_column, least, tests.n_tests, ObliqueBinner(tests, first_column)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why the oblique tests of a forest cannot be binned, in a few words, or None."""
    n_tests = int(np.count_nonzero(~forest.tests.is_one_hot))
    if n_tests >= MOST_BINNED:
        return f"{n_tests} nodes read several columns, more than {MOST_BINNED - 1}"
    return None


def cycles(forest: Forest) -> float:
    """Return about how many cycles a row takes to have all oblique tests decided."""
    tests = forest.tests
    row = ranges(tests.node_ptr[:-1], np.diff(tests.node_ptr) * ~tests.is_one_hot)
    n_entries = int(np.diff(tests.row_ptr)[row].sum())
    n_soft = int(np.count_nonzero(tests.activation[row] == Activation.SOFTPLUS))
    vector = forest.dtype.itemsize / 4 * _LEVEL[vectors()]
    return vector * (_ROW * row.size + _ENTRY * n_entries + _SOFTPLUS * n_soft)


@inner
def _plain_sums(x, offsets, weights, n_rows, z, lanes):
    """The same as `oblique_sums.sums` as loops, for where vectors are not asked for."""
    for k in range(n_rows):
        part = z[k * lanes : (k + 1) * lanes]
        part[:] = -0.0
        for j in range(offsets.shape[0]):
            weight = weights[j * n_rows + k]
            at = offsets[j] // part.itemsize
            column = x[at : at + lanes]
            for lane in range(lanes):
                part[lane] += weight * column[lane]


@inner
def _plain_compare(z, terms, way, out):
    """The same as `oblique_sums.compare` as loops."""
    offset, r, b = terms[0], terms[1], terms[2]
    for lane in range(out.shape[0]):
        value = r * (z[lane] - offset)
        right = (value > b) | ((way & 1 != 0) & (value == b)) | ((way & 2 != 0) & (value != value))
        out[lane] = right


@inner
def _scratch(n, values):
    """Return room for n values that begins at a cache line, for loads of whole lines."""
    room = np.empty(n + 64 // values.itemsize, values.dtype)
    start = -np.int64(room.ctypes.data) % 64 // values.itemsize
    return room[start : start + n]


@cache
def _fill_kernel(size: int) -> Kernel:
    explicit = vectors() != "none"
    lanes = CHUNK // size

    @kernel
    def fill_oblique_bins(source, like, records, tests, first_column, place, n_binned, room):
        binned = numba.carray(pointer(place), (1 << 40,), np.uint8)
        address, row_stride, column_stride, n_rows = source
        tiles, offsets, weights, terms, single, several, activation = tests
        n_columns, n_slots = records.shape[0] * lanes, TILE
        for k in range(several.shape[0]):
            n_slots = max(n_slots, several[k, 2] - several[k, 1])
        held = _scratch(n_columns + (n_slots + 2) * lanes, weights)
        x = held[:n_columns].reshape(records.shape[0], lanes)
        z = held[n_columns : n_columns + n_slots * lanes]
        bounds = held[n_columns + n_slots * lanes :]
        x[:] = 0
        for first in range(0, n_rows, lanes):
            part = (address + first * row_stride, row_stride, column_stride)
            read_columns(part, records, min(lanes, n_rows - first), x, like, explicit)
            start = (first // room * n_binned + first_column) * room + first % room
            row = test = 0
            for tile in range(tiles.shape[0]):
                width, first_offset, n_entries, first_weight = tiles[tile]
                slot = 0 if row < single.shape[0] else row - several[test, 1]
                if not explicit:
                    _plain_sums(
                        held,
                        offsets[first_offset : first_offset + n_entries],
                        weights[first_weight:],
                        width,
                        z[slot * lanes :],
                        lanes,
                    )
                else:
                    o = offsets.ctypes.data + first_offset * 8
                    w = weights.ctypes.data + first_weight * size
                    to = z.ctypes.data + slot * CHUNK
                    if width == TILE:
                        oblique_sums.sums(x.ctypes.data, o, w, n_entries, to, TILE, size)
                    else:
                        oblique_sums.sums(x.ctypes.data, o, w, n_entries, to, 1, size)
                if row < single.shape[0]:
                    for k in range(width):
                        way = single[row]
                        at = start + row * room
                        if not explicit:
                            out = binned[at : at + lanes]
                            _plain_compare(z[k * lanes :], terms[row], way, out)
                        else:
                            to = binned.ctypes.data + at
                            value = z.ctypes.data + k * CHUNK
                            term = terms.ctypes.data + row * 3 * size
                            if way == 0:
                                oblique_sums.compare(value, term, to, 0, 0, size)
                            elif way == 1:
                                oblique_sums.compare(value, term, to, 1, 0, size)
                            elif way == 2:
                                oblique_sums.compare(value, term, to, 0, 1, size)
                            else:
                                oblique_sums.compare(value, term, to, 1, 1, size)
                        row += 1
                    continue
                row += 1
                if row == several[test, 2]:
                    way, first_row, last_row = several[test]
                    at = start + (single.shape[0] + test) * room
                    out = binned[at : at + lanes]
                    part_terms = terms[first_row:last_row]
                    part_activation = activation[first_row:last_row]
                    polytopes.decide(z, part_terms, part_activation, way, bounds, out)
                    test += 1

    return fill_oblique_bins
