"""Parts of both message formats: JSON, and data frames of named columns."""

from __future__ import annotations

import json
from typing import Any

from bitvec.core.plain_text import plain
from bitvec.errors import InputError, needs
from bitvec.runtime.predict.code_books import listed


def json_value(body: bytes) -> Any:
    """Return what some bytes say in JSON, where NaN may be written so.

    Raises
    ------
    InputError
        If they are not JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        said = plain(str(error))[:100] if isinstance(error, ValueError) else "nested too deeply"
        raise InputError(f"the body must be JSON, got: {said}.") from None


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON.

    Raises
    ------
    InputError
        If it holds NaN or an infinity, which JSON does not.
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise InputError(
            "the answers hold NaN or an infinity, which JSON does not: ask for binary tensors, or "
            "for Arrow."
        ) from None


def frame_of(columns: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, int]:
    """Return a data frame of a forest's columns, and the number of its rows.

    Raises
    ------
    InputError
        If a column is missing, of another length, holds values of several kinds, or one that is
        no number of float64 or no text of Unicode.
    """
    for name in names:
        if name not in columns:
            raise InputError(f"the column {name!r} must be there, got {listed(columns)}.")
    lengths = {name: len(values) for name, values in columns.items()}
    n_rows = lengths[names[0]] if names else 0
    for name, length in lengths.items():
        if length != n_rows:
            raise InputError(f"columns must be of one length, got {n_rows} and {name!r} {length}.")
    with needs("polars", "cli", "A request of named columns"):
        import polars
    try:
        held = {name: _of_one_kind(columns[name]) for name in names}
        frame = polars.DataFrame(held, strict=True)
    except OverflowError:
        raise InputError("whole numbers must fit into float64, got a larger one.") from None
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise InputError(f"texts must be Unicode, got half of a pair, {half!a}.") from None
    except (TypeError, polars.exceptions.PolarsError) as error:
        said = plain(str(error)).split(". ")[0][:120]
        raise InputError(f"each column must hold values of one kind, got: {said}.") from None
    # Whole numbers beyond 64 bits are numbers as others: JSON has one kind.
    return frame.with_columns(polars.col(polars.Int128).cast(polars.Float64)), n_rows


def _of_one_kind(values: Any) -> Any:
    """Return a column whose whole numbers stand beside others as floats: JSON has one kind."""
    if not isinstance(values, list) or not {int, float} <= {*map(type, values)}:
        return values
    return [float(value) if type(value) is int else value for value in values]
