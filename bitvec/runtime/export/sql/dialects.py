"""Dialects of SQL: names, types and literals that are read back equal."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bitvec.errors import InputError, UnsupportedModelError

SHIFT: Final = 60
"""Powers of two up to this one are written as whole numbers."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect of SQL.

    Parameters
    ----------
    name : str
    executed : bool
        Whether what is written is run in the tests.
    quotes : str
        The quotation mark of names.
    escapes : bool
        Whether a backslash escapes, as quotes do elsewhere by being doubled.
    double : str
        The type of 64 bits.
    single : str, optional
        The type of 32 bits.
    number : callable
        A finite float64 to its literal.
    is_nan : str, optional
        Of a value `{}`; None where NaN is stored as NULL.
    materialized : str
        What keeps a step from being copied into the next one.
    least, greatest : str
        Functions of two values and more.
    most_columns, most_letters : int, optional
        Columns of a step, and bytes of a name.
    infinity : str, optional
        The literal of an infinity, where an exponential that overflows or underflows is an error.
    """

    name: str
    executed: bool
    quotes: str
    escapes: bool
    double: str
    single: str | None
    number: Callable[[float], str]
    is_nan: str | None
    materialized: str
    least: str = "LEAST"
    greatest: str = "GREATEST"
    most_columns: int | None = None
    most_letters: int | None = None
    infinity: str | None = None

    def quoted(self, name: str) -> str:
        """Return a name of a table or column as an identifier."""
        if not name or "\0" in name:
            raise InputError(
                f"a name in SQL must have letters and no NUL, got {name!r}: rename the column."
            )
        if self.most_letters is not None and len(name.encode()) > self.most_letters:
            raise InputError(
                f"a name in {self.name} must have {self.most_letters} bytes at most, got {name!a}: "
                "rename the column."
            )
        mark = self.quotes
        if self.escapes and self.name == "bigquery":
            return mark + name.replace("\\", "\\\\").replace(mark, "\\" + mark) + mark
        return mark + name.replace(mark, mark * 2) + mark

    def literal(self, value: Any) -> str:
        """Return a category or a class as a literal."""
        if isinstance(value, bool | np.bool_):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int | np.integer):
            return str(int(value))
        if isinstance(value, float | np.floating):
            return self.number(float(value))
        text = str(value)
        if "\0" in text:
            raise InputError(f"a text in SQL must have no NUL, got {text!r}: rename the category.")
        if self.escapes:
            inner = text.replace("\\", "\\\\").replace("'", "\\'")
            return "'" + inner.replace("\n", "\\n").replace("\r", "\\r") + "'"
        return "'" + text.replace("'", "''") + "'"

    def cast(self, text: str, dtype: np.dtype) -> str:
        """Return a value cast to a dtype, to 64 bits where the dialect has no 32."""
        kind = self.single if dtype == np.float32 and self.single else self.double
        return f"CAST({text} AS {kind})"

    def holds(self, dtype: np.dtype) -> bool:
        """Return whether there is a type for a dtype."""
        return dtype == np.float64 or self.single is not None


def binary(value: float) -> str:
    """Return a finite float64 as a whole number times or over powers of two, all of them exact.

    SQLite reads about one decimal literal of 250 as a neighbour of the number that it names; whole
    numbers of up to 53 bits, and their products with powers of two, it reads exactly.

    >>> binary(0.5), binary(-3.0), binary(0.1)
    ('0.5', '-3.0', '(3602879701896397.0/36028797018963968.0)')
    """
    mantissa, exponent = float(value).as_integer_ratio()
    text = repr(float(value))
    if len(text) <= 12 and "e" not in text and exponent <= 1 << 10:
        return text  # a multiple of 2**-10 with few digits: its decimals are exact
    scale = exponent.bit_length() - 1
    if scale == 0:
        while mantissa and abs(mantissa) >= 1 << 53:
            mantissa, scale = mantissa // 2, scale - 1
    sign, left = ("/", scale) if scale > 0 else ("*", -scale)
    parts = [f"{mantissa}.0"]
    while left:
        step = min(left, SHIFT)
        parts.append(f"{1 << step}.0")
        left -= step
    return f"({sign.join(parts)})" if len(parts) > 1 else parts[0]


def _with_exponent(value: float) -> str:
    """Return the shortest decimals, as a literal that is no decimal type."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _of_postgres(value: float) -> str:
    return f"{value!r}::float8" if value >= 0 else f"({value!r}::float8)"


def _of_spark(value: float) -> str:
    return f"{value!r}D"


DIALECTS: Final = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            "duckdb", True, '"', False, "DOUBLE", "FLOAT", _with_exponent, "isnan({})",
            "MATERIALIZED ",
        ),
        Dialect(
            "sqlite", True, '"', False, "REAL", None, binary, None, "MATERIALIZED ",
            "MIN", "MAX", most_columns=2000,
        ),
        Dialect(
            "postgres", True, '"', False, "double precision", "real", _of_postgres,
            "{} = 'NaN'::float8", "MATERIALIZED ", most_columns=1600, most_letters=63,
            infinity="'Infinity'::float8",
        ),
        Dialect("spark", True, "`", True, "DOUBLE", "FLOAT", _of_spark, "isnan({})", ""),
        Dialect(
            "bigquery", False, "`", True, "FLOAT64", None, _with_exponent, "IS_NAN({})", ""
        ),
    )
}  # fmt: skip


def dialect_of(name: object) -> Dialect:
    """Return the dialect of a name.

    Raises
    ------
    InputError
    """
    if not isinstance(name, str) or name not in DIALECTS:
        raise InputError(f"`dialect` must be one of {', '.join(DIALECTS)}, got {name!r}.")
    return DIALECTS[name]


def require_columns(dialect: Dialect, count: int) -> None:
    """Refuse more columns than a step of a statement may have.

    Raises
    ------
    UnsupportedModelError
    """
    if dialect.most_columns is not None and count > dialect.most_columns:
        raise UnsupportedModelError(
            f"a statement for {dialect.name} must have {dialect.most_columns} columns at most, got "
            f"{count:,} of features, sums and leaves: leave out the output leaves, or choose "
            "another dialect."
        )


def comment(facts: dict[str, Any]) -> str:
    """Return facts as one line of SQL that is a comment, whatever the names are."""
    return f"{MARK}{json.dumps(facts)}"


MARK: Final = "-- bitvec: "
