"""Softmaxes, compiled: maxima and sums of groups of scores, with the bits of NumPy's sums.

Scores stand as (columns, `ROWS`): rows side by side are worked on together.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg"

from __future__ import annotations

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner

ROWS = 32
"""Rows side by side."""
PAIRWISE = 128
"""Above this many terms NumPy's sum goes in halves; such sums are left to it."""


@inner
def put_side_by_side(x, start, n, columns):
    """Fill columns with n rows of x from `start` on; the last stands for those that are missing."""
    for r in range(ROWS):
        row = start + min(r, n - 1)
        for k in range(x.shape[1]):
            columns[k, r] = x[row, k]


@inner
def shift(columns, ends, largest):
    """Take the maximum of each group from its scores. NaN and infinity lead to NaN."""
    start, rows = 0, columns.shape[1]
    for group in range(ends.shape[0]):
        for r in range(rows):
            largest[r] = columns[start, r]
        for k in range(start + 1, ends[group]):
            for r in range(rows):
                largest[r] = columns[k, r] if columns[k, r] > largest[r] else largest[r]
        for k in range(start, ends[group]):
            for r in range(rows):
                columns[k, r] -= largest[r]
        start = ends[group]


@inner
def pairwise(flat, first, n, step=1):
    """Return the sum of n numbers, `step` apart, in float64 in the order of NumPy's.

    Eight sums side by side from 8 terms on, for up to `PAIRWISE` of them.
    """
    if n < 8:
        total = 0.0
        for j in range(n):
            total += np.float64(flat[first + j * step])
        return total
    r0, r1 = np.float64(flat[first]), np.float64(flat[first + 1 * step])
    r2, r3 = np.float64(flat[first + 2 * step]), np.float64(flat[first + 3 * step])
    r4, r5 = np.float64(flat[first + 4 * step]), np.float64(flat[first + 5 * step])
    r6, r7 = np.float64(flat[first + 6 * step]), np.float64(flat[first + 7 * step])
    whole = n - n % 8
    for j in range(8, whole, 8):
        r0 += np.float64(flat[first + j * step])
        r1 += np.float64(flat[first + (j + 1) * step])
        r2 += np.float64(flat[first + (j + 2) * step])
        r3 += np.float64(flat[first + (j + 3) * step])
        r4 += np.float64(flat[first + (j + 4) * step])
        r5 += np.float64(flat[first + (j + 5) * step])
        r6 += np.float64(flat[first + (j + 6) * step])
        r7 += np.float64(flat[first + (j + 7) * step])
    total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    for j in range(whole, n):
        total += np.float64(flat[first + j * step])
    return total


@inner
def normalise(columns, ends, wide, total):
    """Divide each group by its sum: in order, or in float64 by pairs if `wide`.

    Return whether all sums are numbers.
    """
    start, n_nan, rows = 0, 0, columns.shape[1]
    for group in range(ends.shape[0]):
        if wide:
            flat, n = columns.reshape(-1), ends[group] - start
            for r in range(rows):
                total[r] = pairwise(flat, start * rows + r, n, rows)
        else:
            for r in range(rows):
                total[r] = columns[start, r]
            for k in range(start + 1, ends[group]):
                for r in range(rows):
                    total[r] += columns[k, r]
        for r in range(rows):
            n_nan += int(total[r] != total[r])
        for k in range(start, ends[group]):
            for r in range(rows):
                columns[k, r] /= total[r]
        start = ends[group]
    return n_nan == 0
