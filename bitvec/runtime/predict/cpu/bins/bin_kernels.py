"""Columns of X into binned columns of bytes: how many of a column's thresholds each value reaches.

A block of rows is transposed 16 columns at a time, so that a column's values stand side by side,
and each is searched among the column's sorted thresholds. Binned columns with other answers for
missing values, and binned columns of further thresholds, are derived from the bins.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from functools import cache

import numba
import numpy as np

from bitvec.runtime.predict.cpu.bins.bin_search import (
    STEP,
    correct,
    correct_marked,
    search,
    search_buckets,
    search_ties,
)
from bitvec.runtime.predict.cpu.bins.derived_bins import derive
from bitvec.runtime.predict.cpu.bins.windows import SPARSE, WINDOW, fill_line, load_window
from bitvec.runtime.predict.cpu.compiling import Kernel, int64s, kernel, stack_array
from bitvec.runtime.predict.cpu.kernel_arrays import pointer
from bitvec.runtime.predict.cpu.target import permuted_words

FIELDS = (
    "columns", "n_columns", "windows", "n_windows", "derived", "n_derived",
    "tree", "sorted32", "sorted64", "n_sorted", "scale", "lookup", "n_lookup",
)  # fmt: skip
"""Fields at the address that the kernel is handed: numbers, and addresses of arrays."""
(
    COLUMNS, N_COLUMNS, WINDOWS, N_WINDOWS, DERIVED, N_DERIVED,
    TREE, SORTED32, SORTED64, N_SORTED, SCALE, LOOKUP, N_LOOKUP,
) = range(len(FIELDS))  # fmt: skip

# A constant of the compiled code, and so of its digest.
_IN_REGISTERS = permuted_words() > 0


@cache
def fill_bins(wide: bool, settle: bool) -> Kernel:
    """Return the kernel that bins one-hot tests' columns, in blocks of rows of float32 or float64.

    With `settle`, float64 values are compared with thresholds in float64. The arguments are those
    of `threshold_bins.ThresholdBinner.fill`.
    """

    @kernel
    def fill_threshold_bins(fields, x, row_stride, column_stride, n_rows, room, n_binned, binned):
        at = int64s(fields, len(FIELDS))
        columns = int64s(at[COLUMNS], at[N_COLUMNS] * 9).reshape(-1, 9)
        windows = int64s(at[WINDOWS], at[N_WINDOWS] * 4).reshape(-1, 4)
        derived = int64s(at[DERIVED], at[N_DERIVED] * 8).reshape(-1, 8)
        scales = numba.carray(pointer(at[SCALE]), (at[N_COLUMNS], 3), np.float32)
        lookup = numba.carray(pointer(at[LOOKUP]), (at[N_LOOKUP],), np.uint16)
        sorted32 = numba.carray(pointer(at[SORTED32]), (at[N_SORTED],), np.int32)
        sorted64 = int64s(at[SORTED64], at[N_SORTED])
        values = stack_array(WINDOW * room, np.float32)
        buckets = stack_array(room, np.int32)
        own_bins = stack_array(room, np.uint8)
        wide_bins = stack_array(room, np.uint16)
        tied = stack_array(room // 16 + 16, np.uint16)
        tied[:] = 0
        for block in range((n_rows + room - 1) // room):
            n = min(room, n_rows - block * room)
            searched = (n + STEP - 1) // STEP * STEP
            x_block = x + block * room * row_stride
            q = binned + block * n_binned * room
            for window in range(windows.shape[0]):
                first, width = windows[window, 0], windows[window, 1]
                start = x_block + first * column_stride
                is_sparse = windows[window, 3] - windows[window, 2] <= SPARSE
                if not is_sparse:
                    load_window(start, row_stride, column_stride, n, width, wide, values, room)
                for c in range(windows[window, 2], windows[window, 3]):
                    column, own, n_thresholds = columns[c, 0], columns[c, 1], columns[c, 2]
                    line = values[(column - first) * room : (column - first) * room + room]
                    x_column = x_block + column * column_stride
                    if is_sparse:
                        fill_line(x_column, row_stride, 0, n, wide, line)
                    low32 = sorted32[columns[c, 5] :]
                    low64 = sorted64[columns[c, 5] :] if settle else sorted64
                    if n_thresholds < 256:
                        bins = own_bins
                        if own >= 0:
                            bins = numba.carray(pointer(q + own * room), (room,), np.uint8)
                        if _IN_REGISTERS:
                            table = at[TREE] + columns[c, 4] * 4
                            source, goal = np.int64(line.ctypes.data), np.int64(bins.ctypes.data)
                            marks = np.int64(tied.ctypes.data)
                            if settle:
                                search_ties(source, searched, table, columns[c, 3], goal, marks)
                                correct_marked(
                                    x_column, row_stride, line, n, low32, low64, tied, bins
                                )
                            else:
                                search(source, searched, table, columns[c, 3], goal, marks)
                        else:
                            entries = lookup[columns[c, 6] :]
                            search_buckets(line, n, scales[c], entries, low32, buckets, bins)
                            if settle:
                                correct(x_column, row_stride, line, n, low32, low64, bins)
                        for d in range(columns[c, 7], columns[c, 8]):
                            derive(bins, searched, derived[d], q + derived[d, 0] * room)
                    else:
                        entries = lookup[columns[c, 6] :]
                        search_buckets(line, n, scales[c], entries, low32, buckets, wide_bins)
                        if settle:
                            correct(x_column, row_stride, line, n, low32, low64, wide_bins)
                        for d in range(columns[c, 7], columns[c, 8]):
                            derive(wide_bins, searched, derived[d], q + derived[d, 0] * room)

    return fill_threshold_bins
