"""Budget of a compressed model: bytes of flash, microseconds a row, or leaves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bitvec.core import options
from bitvec.errors import InputError

UNITS = {"b": 1, "bytes": 1, "kb": 1024, "kib": 1024, "mb": 1024**2, "mib": 1024**2}
"""Bytes of each unit; a KB of flash has 1,024."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The one thing that a model may not exceed.

    Parameters
    ----------
    bytes : int, optional
        Of the tables that a prediction reads, in the smallest exact header of C99; code is extra.
    microseconds : float, optional
        For a row, of one thread of this machine.
    leaves : int, optional
        Of all trees.

    Raises
    ------
    InputError
        If not exactly one is given, or it is not positive.

    Examples
    --------
    >>> Budget.of("16 KB"), Budget.of(4096), Budget.of("500 leaves"), str(Budget(microseconds=5.0))
    (Budget(bytes=16384), Budget(bytes=4096), Budget(leaves=500), '5 us')
    """

    bytes: int | None = None
    microseconds: float | None = None
    leaves: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("bytes", "microseconds", "leaves") if getattr(self, name)]
        if len(given) != 1:
            raise InputError(
                "`budget` must be one of bytes, microseconds and leaves, above 0, got "
                f"{', '.join(given) or 'none'}: pass for example Budget(bytes=16384)."
            )
        if self.microseconds is None:
            options.whole("budget", self.limit)
        else:
            options.positive("budget", self.microseconds)

    @property
    def kind(self) -> str:
        """Name of what is limited."""
        return next(n for n in ("bytes", "microseconds", "leaves") if getattr(self, n) is not None)

    @property
    def limit(self) -> float:
        """The number that must not be exceeded."""
        limit: float = getattr(self, self.kind)
        return limit

    @classmethod
    def of(cls, given: Any) -> Budget:
        """Return a budget from itself, bytes as an int, or a text like "16 KB" or "20 us".

        Raises
        ------
        InputError
            If it is none of these.
        """
        if isinstance(given, Budget):
            return given
        if not isinstance(given, str):
            return cls(bytes=options.whole("budget", given))
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([a-zA-Z]*)\s*", given)
        number, unit = (float(found[1]), found[2].lower()) if found else (0.0, "?")
        if number > 0 and unit in ("", *UNITS):
            return cls(bytes=int(number * UNITS.get(unit, 1)))
        if number > 0 and unit in ("us", "microseconds"):
            return cls(microseconds=number)
        if number >= 1 and unit in ("leaf", "leaves"):
            return cls(leaves=int(number))
        raise InputError(
            '`budget` must be a number of bytes, or a text such as "16 KB", "20 us" or '
            f'"500 leaves", got {given!r}.'
        )

    def __repr__(self) -> str:
        return f"Budget({self.kind}={self.limit:g})" if self.microseconds else (
            f"Budget({self.kind}={int(self.limit)})"
        )  # fmt: skip

    def __str__(self) -> str:
        if self.microseconds is not None:
            return f"{self.microseconds:g} us"
        return f"{int(self.limit):,} {self.kind}"
