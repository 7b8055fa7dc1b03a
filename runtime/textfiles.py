"""Rows in text files: .csv and .tsv, with or without a header row.

A header row is one in which no cell is a number. Cells that are empty or one of `MISSING` are
missing. Tables are read by the first of polars, pandas and pyarrow that is installed, and without
any of them by NumPy. What they would pass over in silence (rows of unequal length, repeated names,
a number that one of them takes for text) is settled here, so that all of them read the same.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np

from bitvec.arrays import Array
from bitvec.errors import InputError

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Cells of a text file that stand for a missing value."""

LIBRARIES = ("polars", "pandas", "pyarrow")
SEPARATORS = {".csv": ",", ".tsv": "\t"}

Rows: TypeAlias = tuple[Any, tuple[str, ...] | None]
"""A dataframe, or a float64 matrix; and the names of its columns, if it has names."""


def installed(libraries: tuple[str, ...]) -> str | None:
    """Return the first of some libraries that is installed."""
    return next((name for name in libraries if find_spec(name) is not None), None)


def first_line(error: BaseException) -> str:
    """Return an exception's first line as the end of a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".") + "."


def read_text(path: Path, header: bool | None, text: frozenset[str]) -> Rows:
    """Return the rows of a .csv or .tsv file; see `bitvec.runtime.datafiles.read`."""
    separator = SEPARATORS[path.suffix.lower()]
    first, n_lines = _survey(path, separator)
    if header is None:
        header = _is_header(path, first)
    n_rows = n_lines - header
    if n_rows == 0:
        raise InputError(f"{path} must hold rows, got a header only.")
    if header and len(set(first)) < len(first):
        twice = next(name for name in first if first.count(name) > 1)
        raise InputError(f"{path}: column names must be distinct, got {twice!r} twice.")
    library = installed(LIBRARIES)
    if library is None:
        return _read_with_numpy(path, separator, tuple(first) if header else None, n_rows)
    text &= frozenset(first) if header else frozenset()
    try:
        native = _PARSERS[library](path, separator, header, text)
        frame = nw.from_native(native, eager_only=True)
    except Exception as error:  # each library raises its own
        raise InputError(f"{path} cannot be read as a table: {first_line(error)}") from None
    frame = frame.rename(dict(zip(frame.columns, first, strict=True))) if header else frame
    return _settled(path, frame.head(n_rows), tuple(first) if header else None, text)


def _survey(path: Path, separator: str) -> tuple[list[str], int]:
    """Return the first row and the number of rows; each must have as many cells as the first."""
    first: list[str] = []
    n_lines = blank = 0
    try:
        # utf-8-sig: Excel puts a byte order mark in front.
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, delimiter=separator)
            for cells in reader:
                if not cells:
                    blank = blank or reader.line_num
                    continue
                first = first or cells
                if blank:
                    raise InputError(
                        f"{path}: line {blank} is blank; write nan for a missing value."
                    )
                if len(cells) != len(first):
                    raise InputError(
                        f"{path}: each row must have {len(first)} cells as the first one does, "
                        f"got {len(cells)} in line {reader.line_num}."
                    )
                n_lines += 1
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} must be text in UTF-8 with one row per line.") from None
    if not first:
        raise InputError(f"{path} must hold rows, got blank lines only.")
    if any("\0" in cell for cell in first):
        raise InputError(f"{path} must be text in UTF-8 with one row per line.")
    if len(first) == 1 and ";" in first[0]:
        raise InputError(f"{path}: cells must be separated by {separator!r}, got ';'.")
    return first, n_lines


def _is_header(path: Path, first: list[str]) -> bool:
    if len(first) > 2 and first in ([str(i + k) for i in range(len(first))] for k in (0, 1)):
        raise InputError(
            f"{path}: the first row {', '.join(first[:3])}, ... may be names or values: "
            "say which with header (on the command line --header or --no-header)."
        )
    return not any(is_number(cell) for cell in first)


def is_number(cell: str) -> bool:
    """Return whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parse_polars(path: Path, separator: str, header: bool, text: frozenset[str]) -> Any:
    import polars

    return polars.read_csv(
        path,
        separator=separator,
        has_header=header,
        null_values=list(MISSING),
        infer_schema_length=None,
        schema_overrides=dict.fromkeys(text, polars.String),
    )


def _parse_pandas(path: Path, separator: str, header: bool, text: frozenset[str]) -> Any:
    import pandas

    # Before 3.1 the default parser is off by an ulp now and then; from then on it is exact.
    version = tuple(int(part) for part in pandas.__version__.split(".")[:2])
    exact = {"float_precision": "round_trip"} if version < (3, 1) else {}
    frame = pandas.read_csv(
        path,
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


def _parse_pyarrow(path: Path, separator: str, header: bool, text: frozenset[str]) -> Any:
    import pyarrow
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        path,
        read_options=arrow_csv.ReadOptions(autogenerate_column_names=not header),
        parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            null_values=list(MISSING),
            strings_can_be_null=True,
            column_types=dict.fromkeys(text, pyarrow.string()),
        ),
    )


_PARSERS: dict[str, Callable[[Path, str, bool, frozenset[str]], Any]] = {
    "polars": _parse_polars,
    "pandas": _parse_pandas,
    "pyarrow": _parse_pyarrow,
}


def _settled(
    path: Path,
    frame: nw.DataFrame[Any],
    names: tuple[str, ...] | None,
    text: frozenset[str],
) -> Rows:
    """Make columns of numbers that a library took for text numeric; without names, all must be."""
    numeric = {}
    for name in set(frame.columns) - text:
        series = frame[name]
        if series.dtype.is_numeric() or series.dtype == nw.Boolean:
            continue
        values = _as_numbers(series.to_list())
        if values is not None:
            numeric[name] = values
    frame = frame.with_columns(
        nw.new_series(name, values, nw.Float64, backend=frame.implementation)
        for name, values in numeric.items()
    )
    if names is not None:
        return (frame.to_native(), names)
    for position, (name, dtype) in enumerate(frame.schema.items()):
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            cells = map(str, frame[name].drop_nulls().to_list())
            cell = next((cell for cell in cells if not is_number(cell)), "")
            raise InputError(
                f"{path}: column {position} must hold numbers, got {cell[:40]!r}: a file with text "
                "needs a first row of names, none of which is a number."
            )
    columns = [frame[name].cast(nw.Float64).to_numpy() for name in frame.columns]
    return (np.stack(columns, axis=1).astype(np.float64), None)


def _as_numbers(cells: list[Any]) -> list[float] | None:
    """Return the cells as numbers, or None if one of them is none."""
    numbers = []
    for cell in cells:
        if cell is None or (isinstance(cell, str) and cell.strip() in MISSING):
            numbers.append(math.nan)
        elif isinstance(cell, str) and is_number(cell):
            numbers.append(float(cell))
        else:
            return None
    return numbers


def _read_with_numpy(
    path: Path, separator: str, names: tuple[str, ...] | None, n_rows: int
) -> Rows:
    matrix: Array | None = None
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream, delimiter=separator)
        if names is not None:
            next(reader)
        row = 0
        for cells in reader:
            if not cells:
                continue
            if matrix is None:
                matrix = np.empty((n_rows, len(cells)))
            for position, cell in enumerate(cells):
                try:
                    matrix[row, position] = math.nan if cell.strip() in MISSING else float(cell)
                except ValueError:
                    where = repr(names[position]) if names is not None else position
                    raise InputError(
                        f"{path}: column {where} must hold numbers, got {cell[:40]!r}; for columns "
                        "of text run `pip install polars`."
                    ) from None
            row += 1
    return (matrix, names)
