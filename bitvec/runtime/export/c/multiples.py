"""Numbers that are whole multiples of one power of two, as 1 or 2 bytes each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, UInt
from bitvec.runtime.export.c.header import Header
from bitvec.runtime.export.c.literals import narrow_floats, narrow_integers, number

LARGEST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True)
class Multiples:
    """Numbers (steps + first) · step; the product is exact, so that its rounding cannot matter.

    Parameters
    ----------
    steps : uint8 or uint16, (n,)
    first : int
    step : float
        A power of two.
    dtype : numpy dtype
        Of the numbers.
    """

    steps: UInt[Array, " n"]
    first: int
    step: float
    dtype: np.dtype

    def reading(self, entry: str, kind: str) -> str:
        """Return the expression of a number, in the type `kind`, from that of its entry."""
        whole = f"(int32_t){entry}"
        if self.first:
            whole = f"({whole} {'-' if self.first < 0 else '+'} {abs(self.first)})"
        return f"({kind}){whole} * ({kind}){number(self.step, self.dtype)}"


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table of numbers in the fewest bytes: as they are, or as multiples.

    Parameters
    ----------
    table : array, (n,)
    whole : Multiples, optional
        What the table holds the steps of.
    """

    table: Array
    whole: Multiples | None

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self.table.nbytes

    def add(self, header: Header, name: str, meaning: str) -> None:
        """Append the table."""
        steps = "" if self.whole is None else f", in steps of {self.whole.step:g}"
        header.table(name, self.table, meaning + steps)

    def reading(self, entry: str, kind: str) -> str:
        """Return the expression of a number, in the type `kind`, from that of its entry."""
        return f"({kind}){entry}" if self.whole is None else self.whole.reading(entry, kind)


def numbers(values: Float[Array, " n"] | UInt[Array, " n"]) -> Numbers:
    """Return the table of some numbers that takes the fewest bytes."""
    plain, whole = narrow_floats(values), multiples(values)
    if whole is not None and whole.steps.nbytes < plain.nbytes:
        return Numbers(whole.steps, whole)
    return Numbers(plain, None)


def multiples(values: Float[Array, " n"]) -> Multiples | None:
    """Return numbers as multiples of the largest power of two, None where 2 bytes do not hold them.

    Examples
    --------
    >>> found = multiples(np.array([0.5, -1.25, 3.0]))
    >>> found.steps.tolist(), found.first, found.step
    ([7, 0, 17], -5, 0.25)
    """
    if not values.size or values.dtype.kind != "f" or not np.all(np.isfinite(values)):
        return None
    if np.any((values == 0) & np.signbit(values)):
        return None
    used = np.unique(values[values != 0]).astype(np.float64)
    step = _step(used) if used.size else 1.0
    normal = np.finfo(values.dtype)
    if not normal.tiny <= step <= normal.max:
        return None
    with np.errstate(over="ignore"):  # what is infinite is too far from the rest
        whole = values.astype(np.float64) / step
    first, last = float(whole.min()), float(whole.max())
    if last - first > LARGEST or max(-first, last) > 2**23:
        return None
    steps = narrow_integers((whole - first).astype(np.int64))
    return Multiples(steps, int(first), step, values.dtype)


def _step(used: Float[Array, " n"]) -> float:
    """Return the largest power of two of which all numbers are whole multiples."""
    mantissa, exponent = np.frexp(used)
    digits = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = digits & -digits
    power = exponent - 53 + np.round(np.log2(lowest)).astype(np.int64)
    return float(np.ldexp(1.0, int(power.min())))
