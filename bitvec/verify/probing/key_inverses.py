"""Whole numbers of which keys are made: the sums of key tables undone.

A key is Σ c · part modulo 2**64 with odd coefficients c. The whole numbers that bring one or
several tables to given keys are the points of a lattice, moved by the keys, within a cube of edge
2**32. With twice as many numbers as keys its cells are about as large as that cube: then about one
point lies in it, and a basis of short vectors lists all of them.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import KeyTable
from bitvec.core.feature_maps.key_tables import HIGHEST, LOWEST
from bitvec.core.shape_annotations import Bool, Float, Int64, UInt64

MODULUS: Final = 2**64
MOST_POINTS: Final = 1 << 10
"""Points that are tried for each tuple of keys, at most."""
FEW: Final = 5
"""Steps tried along each vector where there are too many points."""

Vector: TypeAlias = list[int]


class Solutions(NamedTuple):
    """Whole numbers of 32 bits, one row each, for the tuple of keys at position `at`.

    `complete` tells whether these are all that there are.
    """

    at: Int64[Array, " n"]
    values: Int64[Array, "n n_unknown"]
    complete: bool


class Lattice(NamedTuple):
    """The whole numbers x with C x = 0 modulo 2**64, one row of C for each table.

    Parameters
    ----------
    C : uint64, (n_keys, n_unknown)
    step : uint64, (n_keys, n_unknown)
        Steps that change one row of C x by 1, and none before it.
    basis : uint64, (n_unknown, n_unknown)
    inverse : float64, (n_unknown, n_unknown)
        Of the basis, whose numbers are signed.
    reach : float64, (n_unknown,)
        How far coordinates of points in the cube lie from those of its centre, rounding included.
    """

    C: UInt64[Array, "n_keys n_unknown"]
    step: UInt64[Array, "n_keys n_unknown"]
    basis: UInt64[Array, "n_unknown n_unknown"]
    inverse: Float[Array, "n_unknown n_unknown"]
    reach: Float[Array, " n_unknown"]

    @property
    def settles_one(self) -> bool:
        """True if the keys leave too many points, but only one value of some coordinate."""
        return self.points > MOST_POINTS and float(self.reach.min()) < 0.25

    @property
    def points(self) -> int:
        """Points that are tried for each tuple of keys."""
        return int(min(np.prod(np.floor(2 * self.reach) + 1), 2.0**62))


def coefficients(table: KeyTable, multiplier: int) -> list[int]:
    """Return what the parts of a table's keys are multiplied by before they are added."""
    n = table.column.size
    return [pow(multiplier, n - part + 1, MODULUS) for part in range(n)]


@lru_cache(1 << 12)
def lattice(C: tuple[tuple[int, ...], ...]) -> Lattice | None:
    """Return the lattice of some keys' coefficients, None where these depend on each other.

    The points of each key are sought among those of the keys before it.
    """
    n = len(C[0])
    basis = [[int(row == column) for column in range(n)] for row in range(n)]
    steps = []
    for c in C:
        image = [_dot(vector, c) % MODULUS for vector in basis]
        at = next((at for at, value in enumerate(image) if value % 2), None)
        if at is None:
            return None
        inverse, odd = pow(image[at], -1, MODULUS), basis[at]
        steps.append([inverse * x % MODULUS for x in odd])
        basis = [
            [MODULUS * x for x in odd]
            if row == at
            else [x - value * inverse % MODULUS * y for x, y in zip(vector, odd, strict=True)]
            for row, (vector, value) in enumerate(zip(basis, image, strict=True))
        ]
        basis = _shortened(basis)
    inverse_basis = _inverse(basis)
    # Coordinates are sums of n products of magnitude up to 2**63, each rounded.
    reach = 2.0**31 * np.abs(inverse_basis).sum(axis=0) * (1 + 2.0**-16) + 2.0**-20
    held = [[x % MODULUS for x in vector] for vector in basis]
    return Lattice(
        np.array(C, np.uint64),
        np.array(steps, np.uint64),
        np.array(held, np.uint64),
        inverse_basis,
        reach,
    )


def solutions(of: Lattice, rest: UInt64[Array, "n n_keys"]) -> Solutions:
    """Return the whole numbers whose sums are these rests of keys.

    Examples
    --------
    >>> c = 0x4906BA494954CB65
    >>> rest = np.array([[(5 * c * c - 7 * c) % 2**64]], np.uint64)
    >>> solutions(lattice(((c * c % 2**64, c),)), rest).values.tolist()
    [[5, -7]]
    """
    start, centre = _centre(of, rest)
    alive = np.flatnonzero(_meets(of, centre))
    start, centre = start[alive], centre[alive]
    first = np.ceil(centre - of.reach)
    sizes, complete = np.floor(2 * of.reach).astype(np.int64) + 1, True
    if of.points > MOST_POINTS:
        complete = not alive.size
        sizes = np.minimum(sizes, FEW)
        first = np.maximum(first, np.rint(centre) - FEW // 2)
    grid = np.array([*product(*map(range, sizes.tolist()))], np.int64)
    moves = (first.astype(np.int64)[:, None] + grid).astype(np.uint64)
    x = (start[:, None] + moves @ of.basis).astype(np.int64)
    at, place = np.nonzero(np.all((x >= LOWEST) & (x <= HIGHEST), axis=2))
    return Solutions(alive[at], x[at, place], complete)


def possible(of: Lattice, rest: UInt64[Array, "n n_keys"]) -> Bool[Array, " n"]:
    """Return false where no whole numbers have these rests as sums, though not wherever that is so.

    One number may follow from the keys of two tables that the same other numbers go into.
    """
    return _meets(of, _centre(of, rest)[1])


def _centre(
    of: Lattice, rest: UInt64[Array, "n n_keys"]
) -> tuple[UInt64[Array, "n n_unknown"], Float[Array, "n n_unknown"]]:
    """Return whole numbers of any size that have these sums, and coordinates of the cube's centre
    from there."""
    start = np.zeros((len(rest), of.C.shape[1]), np.uint64)
    for key, (c, step) in enumerate(zip(of.C, of.step, strict=True)):
        start += (rest[:, key] - start @ c)[:, None] * step
    return start, (-0.5 - start.astype(np.int64).astype(np.float64)) @ of.inverse


def _meets(of: Lattice, centre: Float[Array, "n n_unknown"]) -> Bool[Array, " n"]:
    """Return whether each coordinate may be a whole number within the cube."""
    met: Array = np.all(np.ceil(centre - of.reach) <= np.floor(centre + of.reach), axis=1)
    return met


def _dot(a: Vector, b: Vector | tuple[int, ...]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _shortened(basis: list[Vector]) -> list[Vector]:
    """Return vectors of the same lattice, none of which gets shorter by multiples of another."""
    changed = True
    while changed:
        changed = False
        for row, vector in enumerate(basis):
            for other in basis:
                length = _dot(other, other)
                times = 0 if other is vector else (2 * _dot(vector, other) + length) // (2 * length)
                shorter = [x - times * y for x, y in zip(vector, other, strict=True)]
                if _dot(shorter, shorter) < _dot(vector, vector):
                    basis[row] = vector = shorter
                    changed = True
    return basis


def _inverse(basis: list[Vector]) -> Float[Array, "n n"]:
    """Return the inverse of a matrix of whole numbers, each number rounded once."""
    n = len(basis)
    rows = [
        [*map(Fraction, v), *(Fraction(at == k) for k in range(n))] for at, v in enumerate(basis)
    ]
    for at in range(n):
        pivot = next(k for k in range(at, n) if rows[k][at])
        rows[at], rows[pivot] = rows[pivot], rows[at]
        rows[at] = [x / rows[at][at] for x in rows[at]]
        for k in range(n):
            if k != at and rows[k][at]:
                rows[k] = [x - rows[k][at] * y for x, y in zip(rows[k], rows[at], strict=True)]
    return np.array([[float(x) for x in row[n:]] for row in rows])
