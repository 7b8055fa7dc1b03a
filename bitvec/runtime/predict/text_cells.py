"""Lines of text files to cells of text, a block at a time.

A block of lines is one long series of cells, row after row, so that time grows with the cells,
however many columns they make; every cell stays text until whole columns are known to be numbers.
polars makes the series and the numbers. It would fill a row that is cut short and pass over blank
lines in silence, and it reads quotes in a way of its own: a block whose separators and line ends do
not alternate as they must, or with quotes, is read by the csv module from there on, row by row,
which says what is wrong and where (`rows_of`). Quotes around names, in one line, are no matter.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from bitvec.errors import InputError

if TYPE_CHECKING:
    import polars

BLOCK = 1 << 22
"""Bytes of text that are split at a time."""
CELLS = 1 << 20
"""Cells that the csv module reads at a time."""


def first_row(path: Path, separator: str) -> list[str]:
    """Return the cells of the first row."""
    with path.open("rb") as stream:
        first = next(rows_of(path, stream, separator), None)
    if first is None:
        raise InputError(f"{path} must hold rows, got blank lines only.")
    if len(first) == 1 and ";" in first[0]:
        raise InputError(f"{path}: cells must be separated by {separator!r}, got ';'.")
    return first


def blocks(path: Path, separator: str, width: int, header: bool) -> Iterator[polars.Series]:
    """Yield the cells of rows as text, row after row, in blocks of whole rows."""
    import polars

    with path.open("rb") as stream:
        n_lines = 0
        if header and _is_one_row(stream.readline(), separator, width):  # names often have quotes
            n_lines, header = 1, False
        else:
            stream.seek(0)
        while block := stream.read(BLOCK) + stream.readline():
            cells = _split(block, separator, width, is_first=n_lines == 0)
            if cells is None:
                break
            body = cells[width:] if header and n_lines == 0 else cells
            n_lines += len(cells) // width
            if len(body):
                yield body
        if not block:
            return
        stream.seek(-len(block), io.SEEK_CUR)
        rows = rows_of(path, stream, separator, n_lines, width)
        if header and n_lines == 0:
            next(rows)
        while part := list(islice(rows, 1 + CELLS // width)):
            yield polars.Series(list(chain.from_iterable(part)), dtype=polars.String)


def _is_one_row(line: bytes, separator: str, width: int) -> bool:
    """Return whether a line is a whole row, no cell of which goes on in the next line."""
    try:
        text = line.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
        rows = list(csv.reader([text], delimiter=separator, strict=True))
    except (UnicodeDecodeError, csv.Error):
        return False
    return "\r" not in text and [len(cells) for cells in rows] == [width]


def _split(block: bytes, separator: str, width: int, *, is_first: bool) -> polars.Series | None:
    """Return the cells of some lines; None where they might be read in another way."""
    import polars

    if is_first:  # Excel puts a byte order mark in front
        block = block.removeprefix(codecs.BOM_UTF8)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not block.endswith(b"\n"):
        block += b"\n"
    if any(mark in block for mark in (b'"', b"\0", b"\n\n")):
        return None
    if block.startswith((b"\n", codecs.BOM_UTF8)):
        return None
    marks = np.frombuffer(block, np.uint8)
    is_end = marks[(marks == ord(separator)) | (marks == ord("\n"))] == ord("\n")
    if is_end.size % width or not np.array_equal(
        np.flatnonzero(is_end), np.arange(width - 1, is_end.size, width)
    ):
        return None
    try:
        frame = polars.read_csv(
            block.replace(b"\n", separator.encode()),
            has_header=False,
            separator="\n",
            eol_char=separator,
            quote_char=None,
            schema={"cells": polars.String},
        )
    except polars.exceptions.PolarsError:  # no UTF-8
        return None
    return frame["cells"].fill_null("") if len(frame) == is_end.size else None


def rows_of(
    path: Path, stream: IO[bytes], separator: str, n_lines: int = 0, width: int | None = None
) -> Iterator[list[str]]:
    """Yield the cells of each row from here on, before which there are so many lines.

    Each row must have as many cells as the first.
    """
    blank = 0
    try:
        lines = io.TextIOWrapper(stream, "utf-8" if n_lines else "utf-8-sig", newline="")
        reader = csv.reader(_without_nul(path, lines, n_lines), delimiter=separator, strict=True)
        for cells in reader:
            line = n_lines + reader.line_num
            if not cells:
                blank = blank or line
                continue
            width = width or len(cells)
            if blank:
                raise InputError(f"{path}: line {blank} is blank; write nan for a missing value.")
            if len(cells) != width:
                raise InputError(
                    f"{path}: each row must have {width} cells as the first one does, "
                    f"got {len(cells)} in line {line}."
                )
            yield cells
    except UnicodeDecodeError:
        raise InputError(f"{path} {_NO_TEXT}.") from None
    except csv.Error as error:
        at = n_lines + reader.line_num
        raise InputError(f"{path} {_NO_TEXT}, got in line {at}: {error}.") from None


_NO_TEXT = "must be text in UTF-8 with one row per line"


def _without_nul(path: Path, lines: Iterable[str], n_lines: int) -> Iterator[str]:
    for number, line in enumerate(lines, n_lines + 1):
        if "\0" in line:
            raise InputError(f"{path} {_NO_TEXT}, got a null character in line {number}.")
        yield line
