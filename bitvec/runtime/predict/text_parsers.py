"""Text to tables by the first of polars, pandas and pyarrow that is installed.

Each parser returns its library's table with columns of numbers, booleans or text. What the
libraries read differently is given as text, or given up, so that `bitvec.runtime.predict.textfiles`
settles it alike for all.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Cells of a text file that stand for a missing value."""

LIBRARIES = ("polars", "pandas", "pyarrow")

Source: TypeAlias = Path | bytes
"""A file, or what it holds."""


def installed(libraries: tuple[str, ...]) -> str | None:
    """Return the first of some libraries that is installed."""
    return next((name for name in libraries if find_spec(name) is not None), None)


def _opened(source: Source) -> Any:
    return io.BytesIO(source) if isinstance(source, bytes) else source


def _parse_polars(source: Source, separator: str, header: bool, text: frozenset[str]) -> Any:
    import polars

    def parse(**kinds: Any) -> Any:
        return polars.read_csv(
            _opened(source),
            separator=separator,
            has_header=header,
            null_values=list(MISSING),
            schema_overrides=dict.fromkeys(text, polars.String),
            **kinds,
        )

    try:
        return parse(infer_schema_length=None)
    except polars.exceptions.ComputeError:  # whole numbers of more than 128 bits
        return parse(infer_schema=False)


def _parse_pandas(source: Source, separator: str, header: bool, text: frozenset[str]) -> Any:
    import pandas

    # Before 3.1 the default parser is off by an ulp now and then; from then on it is exact.
    version = tuple(int(part) for part in pandas.__version__.split(".")[:2])
    exact = {"float_precision": "round_trip"} if version < (3, 1) else {}
    frame = pandas.read_csv(
        _opened(source),
        sep=separator,
        header=0 if header else None,
        index_col=False,
        na_values=list(MISSING),
        keep_default_na=False,
        **exact,
        low_memory=False,
        dtype=dict.fromkeys(text, "str"),
        encoding="utf-8-sig",
    )
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def _parse_pyarrow(source: Source, separator: str, header: bool, text: frozenset[str]) -> Any:
    import pyarrow
    from pyarrow import csv as arrow_csv

    def parse(text: frozenset[str]) -> Any:
        return arrow_csv.read_csv(
            _opened(source),
            read_options=arrow_csv.ReadOptions(autogenerate_column_names=not header),
            parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                null_values=list(MISSING),
                strings_can_be_null=True,
                column_types=dict.fromkeys(text, pyarrow.string()),
            ),
        )

    table = parse(text)
    content = source if isinstance(source, bytes) else source.read_bytes()
    hexadecimal = b"0x" in content or b"0X" in content  # to the others 0x10 is text
    # Dates and times are text to the others as well.
    known = [pyarrow.float64(), pyarrow.string(), pyarrow.bool_(), pyarrow.null()]
    if not hexadecimal:
        known.append(pyarrow.int64())
    doubtful = frozenset(field.name for field in table.schema if field.type not in known)
    return parse(text | doubtful) if doubtful else table


PARSERS: dict[str, Callable[[Source, str, bool, frozenset[str]], Any]] = {
    "polars": _parse_polars,
    "pandas": _parse_pandas,
    "pyarrow": _parse_pyarrow,
}
