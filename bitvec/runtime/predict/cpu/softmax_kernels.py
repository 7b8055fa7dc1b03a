"""Softmaxes, compiled: maxima and sums of groups of scores, with the bits of NumPy's sums."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg"

from __future__ import annotations

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel, unordered

PAIRWISE = 128
"""Above this many terms NumPy's sum goes in halves; such sums are left to it."""


@inner
def four_rows(at, n_rows, width):
    """Return the first of the rows that are worked on together, and the numbers between them.

    The last four of all may have been worked on before; of fewer than four each stands for four.
    """
    return (at, 0) if n_rows < 4 else (min(4 * at, n_rows - 4), width)


@inner
def fours(n_rows):
    """Return how many times `four_rows` is asked."""
    return n_rows if n_rows < 4 else (n_rows + 3) // 4


@unordered
def spread_largest(flat, to, first, stride, n):
    """Fill n numbers from `first` on with the largest of them, in four rows, `stride` apart.

    In one row each maximum would wait for the last. Where NaN is among them, any is taken.
    """
    a, b = flat[first], flat[first + stride]
    c, d = flat[first + 2 * stride], flat[first + 3 * stride]
    for j in range(first + 1, first + n):
        a = flat[j] if flat[j] > a else a
        b = flat[j + stride] if flat[j + stride] > b else b
        c = flat[j + 2 * stride] if flat[j + 2 * stride] > c else c
        d = flat[j + 3 * stride] if flat[j + 3 * stride] > d else d
    spread(to, first, stride, n, (a, b, c, d))


@inner
def spread_sum(flat, to, first, stride, n):
    """Fill them with their sum in order; return whether all sums are numbers."""
    a, b = flat[first], flat[first + stride]
    c, d = flat[first + 2 * stride], flat[first + 3 * stride]
    for j in range(first + 1, first + n):
        a += flat[j]
        b += flat[j + stride]
        c += flat[j + 2 * stride]
        d += flat[j + 3 * stride]
    spread(to, first, stride, n, (a, b, c, d))
    return a == a and b == b and c == c and d == d


@inner
def spread_pairwise_sum(flat, to, first, stride, n):
    """Fill them with their sum by `pairwise`; return whether all sums are numbers."""
    kind = flat.dtype.type
    a = kind(pairwise(flat, first, n))
    b = kind(pairwise(flat, first + stride, n))
    c = kind(pairwise(flat, first + 2 * stride, n))
    d = kind(pairwise(flat, first + 3 * stride, n))
    spread(to, first, stride, n, (a, b, c, d))
    return a == a and b == b and c == c and d == d


@inner
def spread(to, first, stride, n, values):
    """Fill n numbers from `first` on, in four rows, with a value each."""
    a, b, c, d = values
    for j in range(first, first + n):
        to[j] = a
        to[j + stride] = b
        to[j + 2 * stride] = c
        to[j + 3 * stride] = d


@kernel
def shifted(x, out, ends):
    """Fill `out` with x less its maximum in each group; `ends` are the columns at which they end.

    NaN and infinity lead to NaN, but for minus infinity beside a number.
    """
    # Parts of arrays would be counted as references, row after row.
    flat, to, width = x.reshape(-1), out.reshape(-1), x.shape[1]
    for at in range(fours(x.shape[0])):
        row, stride = four_rows(at, x.shape[0], width)
        start = 0
        for group in range(ends.shape[0]):
            spread_largest(flat, to, row * width + start, stride, ends[group] - start)
            start = ends[group]
    for i in range(flat.size):
        to[i] = flat[i] - to[i]


@inner
def pairwise(flat, first, n):
    """Return the sum of n numbers from `first` on in float64 in the order of NumPy's.

    Eight sums side by side from 8 terms on, for up to `PAIRWISE` of them.
    """
    if n < 8:
        total = 0.0
        for j in range(n):
            total += np.float64(flat[first + j])
        return total
    r0, r1 = np.float64(flat[first]), np.float64(flat[first + 1])
    r2, r3 = np.float64(flat[first + 2]), np.float64(flat[first + 3])
    r4, r5 = np.float64(flat[first + 4]), np.float64(flat[first + 5])
    r6, r7 = np.float64(flat[first + 6]), np.float64(flat[first + 7])
    whole = n - n % 8
    for j in range(first + 8, first + whole, 8):
        r0 += np.float64(flat[j])
        r1 += np.float64(flat[j + 1])
        r2 += np.float64(flat[j + 2])
        r3 += np.float64(flat[j + 3])
        r4 += np.float64(flat[j + 4])
        r5 += np.float64(flat[j + 5])
        r6 += np.float64(flat[j + 6])
        r7 += np.float64(flat[j + 7])
    total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    for j in range(first + whole, first + n):
        total += np.float64(flat[j])
    return total


@kernel
def normalised(x, out, ends, wide):
    """Fill `out` with x over its sum in each group: in order, or in float64 by pairs if `wide`.

    Return whether all sums are numbers.
    """
    flat, to, width = x.reshape(-1), out.reshape(-1), x.shape[1]
    for at in range(fours(x.shape[0])):
        row, stride = four_rows(at, x.shape[0], width)
        start = 0
        for group in range(ends.shape[0]):
            first, n = row * width + start, ends[group] - start
            if wide:
                are_numbers = spread_pairwise_sum(flat, to, first, stride, n)
            else:
                are_numbers = spread_sum(flat, to, first, stride, n)
            if not are_numbers:
                return False
            start = ends[group]
    for i in range(flat.size):
        to[i] = flat[i] / to[i]
    return True
