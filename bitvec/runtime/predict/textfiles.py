"""Rows in text files: .csv and .tsv, with or without a header row.

A header row is one in which no cell is a number, or one that holds the names of all columns that
are wanted. Where names are numbers, so that they may as well be values, the caller has to say which
(`_is_header`). Cells that are empty or one of `MISSING` are missing, unless the column has a
category of just that text. Tables are read by the first library of
`bitvec.runtime.predict.text_parsers` that is installed, and without any of them by NumPy. What they
would pass over in silence (rows of unequal length, repeated names, a number that one of them takes
for text) is settled here, so that all of them read the same.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Set
from pathlib import Path
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError
from bitvec.runtime.predict.code_books import CodeBook, book_of
from bitvec.runtime.predict.text_parsers import LIBRARIES, MISSING, PARSERS, Source, installed

SEPARATORS = {".csv": ",", ".tsv": "\t"}

Rows: TypeAlias = tuple[Any, tuple[str, ...] | None]
"""A dataframe, or a float64 matrix; and the names of its columns, if it has names."""

_NO_TEXT = "must be text in UTF-8 with one row per line."


def first_line(error: BaseException) -> str:
    """Return an exception's first line as the end of a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".") + "."


def read_text(
    path: Path,
    header: bool | None,
    inputs: Inputs | None,
    text: Collection[str],
    target: str | None,
) -> Rows:
    """Return the rows of a .csv or .tsv file; see `bitvec.runtime.predict.datafiles.read`."""
    separator = SEPARATORS[path.suffix.lower()]
    first, n_lines, line_end = _survey(path, separator)
    if header is None:
        header = _is_header(path, first, None if inputs is None else inputs.feature_names)
    n_rows = n_lines - header
    if n_rows == 0:
        raise InputError(f"{path} must hold rows, got a header only.")
    if header and len(set(first)) < len(first):
        twice = next(name for name in first if first.count(name) > 1)
        raise InputError(f"{path}: column names must be distinct, got {twice!r} twice.")
    names = tuple(first) if header else None
    books = _books(inputs, None if names is None else tuple(n for n in names if n != target))
    numeric = frozenset(name for name, book in books.items() if book is None)
    holding = {name: frozenset(filter(book.holds, MISSING)) for name, book in books.items() if book}
    missing_labels = {name: known for name, known in holding.items() if known}
    labels = missing_labels.keys() | {
        name for name, book in books.items() if book and _needs_text(book)
    }
    library = installed(LIBRARIES)
    if library is None:
        return _read_with_numpy(path, separator, names, n_rows, labels)
    text = (frozenset(text) | labels) & frozenset(names or ())
    # A carriage return alone ends a line to some of the libraries only.
    source: Source = path.read_bytes().replace(b"\r", b"\n") if line_end == "\r" else path
    try:
        native = PARSERS[library](source, separator, header, text)
        frame = nw.from_native(native, eager_only=True)
    except Exception as error:  # each library raises its own
        raise InputError(f"{path} cannot be read as a table: {first_line(error)}") from None
    if len(frame) < n_rows or len(frame.columns) != len(first):
        raise InputError(f"{path}: all lines must end alike, in \\n, in \\r\\n or in \\r.")
    frame = frame.rename(dict(zip(frame.columns, first, strict=True))) if header else frame
    frame = frame.head(n_rows)
    frame = _with_missing_labels(path, separator, frame, missing_labels)
    return _settled(path, frame, names, text, numeric)


def _survey(path: Path, separator: str) -> tuple[list[str], int, Any]:
    """Return the first row, the number of rows, and what ends the lines (several: a tuple).

    Each row must have as many cells as the first.
    """
    first: list[str] = []
    n_lines = blank = 0
    try:
        # utf-8-sig: Excel puts a byte order mark in front.
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(_without_nul(path, stream), delimiter=separator)
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
            line_end = stream.newlines
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} {_NO_TEXT}") from None
    if not first:
        raise InputError(f"{path} must hold rows, got blank lines only.")
    if len(first) == 1 and ";" in first[0]:
        raise InputError(f"{path}: cells must be separated by {separator!r}, got ';'.")
    return first, n_lines, line_end


def _without_nul(path: Path, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise InputError(f"{path} {_NO_TEXT[:-1]}, got a null character in line {number}.")
        yield line


def _is_header(path: Path, first: list[str], wanted: tuple[str, ...] | None) -> bool:
    """Return whether the first row holds names, where it can be told.

    A row without a number does, and so does one with each of the `wanted` names. Numbers may be
    names or values, and taking the one for the other would exchange columns in silence. So what is
    refused is: a row of the numbers from 0 or 1 up, in their order, or in any order if the wanted
    names are such numbers (they may be ranks, codes or counts); and, where wanted names are
    numbers, a row of distinct whole numbers that lacks one of those names.
    """
    if not any(map(is_number, first)):
        return True
    has_text = any(not is_number(cell) and cell not in MISSING for cell in first)
    counted = [{str(k + i) for i in range(len(first))} for k in (0, 1)]
    if wanted and set(wanted) <= set(first):
        if has_text or not any(set(wanted) <= numbers for numbers in counted):
            return True
        is_doubtful = True
    elif wanted and any(map(is_number, wanted)):
        is_doubtful = len(set(first)) == len(first) and all(map(_is_whole, first))
    else:
        in_order = [[str(k + i) for i in range(len(first))] for k in (0, 1)]
        is_doubtful = len(first) > 2 and first in in_order
    if is_doubtful:
        shown = ", ".join(first[:3]) + (", ..." if len(first) > 3 else "")
        raise InputError(
            f"{path}: the first row {shown} may be names or values: "
            "say which with header (on the command line --header or --no-header)."
        )
    return False


def _is_whole(cell: str) -> bool:
    return cell.isascii() and cell.strip().removeprefix("-").isdigit()


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, in decimal digits; 1_000 and 0x10 are text."""
    if "_" in cell:  # which Python alone allows
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _books(inputs: Inputs | None, names: tuple[str, ...] | None) -> dict[str, CodeBook | None]:
    """Return the code books of the columns that a forest reads, as far as they have names.

    A column without a code book holds numbers. A forest without names reads a table by position.
    """
    if inputs is None or names is None:
        return {}
    wanted = inputs.feature_names
    if wanted is None:
        wanted = names if len(names) == inputs.n_features else ()
    return {name: book_of(inputs, column) for column, name in enumerate(wanted)}


def _needs_text(book: CodeBook) -> bool:
    """Return whether there may be a category such as "1" or "true", which a reader would change."""
    return (
        book.hashed
        or book.decimals
        or any(
            isinstance(label, str) and (is_number(label) or label.lower() in ("true", "false"))
            for label in book.labels
        )
    )


def _with_missing_labels(
    path: Path, separator: str, frame: nw.DataFrame[Any], columns: dict[str, frozenset[str]]
) -> nw.DataFrame[Any]:
    """Read columns again whose categories include texts that are missing elsewhere.

    The libraries cannot be told what is missing for each column apart.
    """
    cells: dict[str, list[str | None]] = {name: [] for name in frame.columns if name in columns}
    if not cells:
        return frame
    with path.open(newline="", encoding="utf-8-sig") as stream:
        lines = filter(None, csv.reader(stream, delimiter=separator))
        header = next(lines)
        read = [(header.index(name), values, columns[name]) for name, values in cells.items()]
        for line in lines:
            for at, values, known in read:
                cell = line[at]
                values.append(None if cell in MISSING and cell not in known else cell)
    return frame.with_columns(
        nw.new_series(name, values, nw.String, backend=frame.implementation)
        for name, values in cells.items()
    )


def _settled(
    path: Path,
    frame: nw.DataFrame[Any],
    names: tuple[str, ...] | None,
    text: frozenset[str],
    numeric: frozenset[str],
) -> Rows:
    """Make columns of numbers that a library took for text numeric; without names, all must be."""
    settled = {}
    for position, series in enumerate(frame.iter_columns()):
        name = series.name
        # NumPy has no whole numbers of 128 bits, and older narwhals no name for them.
        is_wide = str(series.dtype) in ("Int128", "UInt128")
        is_numeric = series.dtype.is_numeric() or series.dtype == nw.Boolean
        if name in text or (is_numeric and not is_wide):
            continue
        cells = series.to_list()
        values = _as_numbers(cells)
        if values is not None:
            settled[name] = values
        elif names is None or name in numeric:
            cell = next(cell for cell in cells if _as_numbers([cell]) is None)
            raise InputError(
                f"{path}: column {position if names is None else repr(name)} must hold numbers, "
                f"got {str(cell)[:40]!r}: "
                + (
                    "a file with text needs a first row of names, none of which is a number."
                    if names is None
                    else "the forest has no categories for it."
                )
            )
    frame = frame.with_columns(
        nw.new_series(name, values, nw.Float64, backend=frame.implementation)
        for name, values in settled.items()
    )
    if names is not None:
        return (frame.to_native(), names)
    columns = [series.cast(nw.Float64).to_numpy() for series in frame.iter_columns()]
    return (np.stack(columns, axis=1).astype(np.float64), None)


def _as_numbers(cells: list[Any]) -> list[float] | None:
    """Return the cells as numbers, or None if one of them is none."""
    numbers = []
    for cell in cells:
        if cell is None or (isinstance(cell, str) and cell.strip() in MISSING):
            numbers.append(math.nan)
        elif not isinstance(cell, str | int | float) or (
            isinstance(cell, str) and not is_number(cell)
        ):
            return None
        else:
            # By its text, since a whole number beyond the range of float64 is infinite.
            numbers.append(float(str(cell) if isinstance(cell, int) else cell))
    return numbers


def _read_with_numpy(
    path: Path,
    separator: str,
    names: tuple[str, ...] | None,
    n_rows: int,
    labels: Set[str],
) -> Rows:
    """Read a matrix; the columns `labels` hold categories, which it cannot."""
    is_label = [name in labels for name in names or ()]
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
            values = None if any(is_label) else _as_numbers(cells)
            if values is None:
                at = next(
                    at
                    for at, cell in enumerate(cells)
                    if (names and is_label[at]) or _as_numbers([cell]) is None
                )
                raise InputError(
                    f"{path}: column {at if names is None else repr(names[at])} must hold numbers, "
                    f"got {cells[at][:40]!r}; for columns of text run `pip install polars`."
                )
            matrix[row] = values
            row += 1
    return (matrix, names)
