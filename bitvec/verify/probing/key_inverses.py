"""Whole numbers of which keys are made: the sums of key tables undone.

A key is Σ c · part modulo 2**64 with odd coefficients c. One unknown part follows by the inverse of
its coefficient. Two are a point of a lattice of determinant 2**64, moved by the key, in a square of
2**32 by 2**32: about one such point a key, and a reduced basis lists all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Int64, UInt64

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import KeyTable
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST

WIDEST: Final = 4
"""Steps along each vector of a basis, at most; a basis of short vectors needs 2."""
POINTS_PER_KEY: Final = 25
"""Points that are tried for a key of two unknown numbers, as a rule."""
MODULUS: Final = 2**64


class Solutions(NamedTuple):
    """Whole numbers of 32 bits, one row each, for the key at position `at`.

    `complete` tells whether these are all that there are.
    """

    at: Int64[Array, " n"]
    values: Int64[Array, "n n_unknown"]
    complete: bool


def coefficients(table: KeyTable, multiplier: int) -> list[int]:
    """Return what the parts of a table's keys are multiplied by before they are added."""
    n = table.column.size
    return [pow(multiplier, n - part + 1, MODULUS) for part in range(n)]


def solutions(unknown: Sequence[int], rest: UInt64[Array, " n"]) -> Solutions:
    """Return the whole numbers that one or two odd coefficients bring to each rest of a key.

    Examples
    --------
    >>> c = 0x4906BA494954CB65
    >>> rest = np.array([(5 * c * c - 7 * c) % 2**64], np.uint64)
    >>> solutions([c * c % 2**64, c], rest).values.tolist()
    [[5, -7]]
    """
    inverse = np.uint64(pow(unknown[0], -1, MODULUS))
    x = rest * inverse
    if len(unknown) == 1:
        value = x.astype(np.int64)
        at = np.flatnonzero(_fits(value))
        return Solutions(at, value[at, None], True)
    first, second = _basis(*unknown)
    (px, py), (qx, qy) = first, second
    # The point moves by i·p + j·q; of the square's centre follow i and j, of its size their range.
    determinant = float(px * qy - py * qx)
    across, up = -0.5 - x.astype(np.int64).astype(np.float64), -0.5
    i = np.rint((across * float(qy) - up * float(qx)) / determinant).astype(np.int64)
    j = np.rint((up * float(px) - across * float(py)) / determinant).astype(np.int64)
    steps, complete = [], True
    for other in (second, first):
        most = int((abs(other[0]) + abs(other[1])) * 2.0**31 / abs(determinant) + 0.51)
        complete &= most <= WIDEST
        steps.append(np.arange(-min(most, WIDEST), min(most, WIDEST) + 1))
    i = (i[:, None, None] + steps[0][:, None]).astype(np.uint64)
    j = (j[:, None, None] + steps[1]).astype(np.uint64)
    points = (
        (start + i * np.uint64(p % MODULUS) + j * np.uint64(q % MODULUS)).astype(np.int64)
        for start, p, q in ((x[:, None, None], px, qx), (np.uint64(0), py, qy))
    )
    first_value, second_value = points
    place = np.nonzero(_fits(first_value) & _fits(second_value))
    values = np.stack([first_value[place], second_value[place]], axis=1)
    return Solutions(place[0], values, complete)


def _fits(value: Int64[Array, "..."]) -> Array:
    return (value >= LOWEST) & (value <= HIGHEST)


@lru_cache(1 << 12)
def _basis(a: int, b: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return short vectors of the pairs (x, y) with a·x + b·y = 0 modulo 2**64.

    By the reduction of Lagrange and Gauss.
    """
    p, q = (MODULUS, 0), (-b * pow(a, -1, MODULUS) % MODULUS, 1)
    while True:
        length = q[0] ** 2 + q[1] ** 2
        times = (2 * (p[0] * q[0] + p[1] * q[1]) + length) // (2 * length)  # the nearest
        p = p[0] - times * q[0], p[1] - times * q[1]
        if p[0] ** 2 + p[1] ** 2 >= length:
            return p, q
        p, q = q, p
