"""Lines of text files to cells of text, a block at a time.

A block of lines is one long series of cells, row after row, so that time grows with the cells,
however many columns they make; every cell stays text until whole columns are known to be numbers.
polars makes the series and the numbers, and columns of numbers at once from a block of which every
character may belong to a number. It would fill a row that is cut short and pass over blank lines in
silence, and it reads quotes in a way of its own: a block whose separators and line ends do not
alternate as they must, or with quotes, is read by the csv module from there on, row by row, which
says what is wrong and where (`rows_of`). Quotes around names, in one line, are no matter.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bitvec.errors import InputError

if TYPE_CHECKING:
    import polars

BLOCK = 1 << 22
"""Bytes of text that are split at a time."""
_OF_NUMBERS = b"0123456789.+-eE\n"
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


@dataclass(frozen=True, slots=True)
class Block:
    """Some whole rows of a text file.

    Parameters
    ----------
    cells : polars.Series
        Cells as text, row after row.
    """

    cells: polars.Series

    def columns(self, kinds: Mapping[int, Any], *, strict: bool = True) -> polars.DataFrame | None:
        """Return columns read as polars dtypes, null where empty; None where they are not."""
        return None


@dataclass(frozen=True, slots=True)
class NumberBlock:
    """A block of numbers, or of what is made of their characters, and of empty cells.

    Parameters
    ----------
    text : bytes
        Lines of as many cells each.
    separator : str
    width : int
        Cells of a line.
    """

    text: bytes
    separator: str
    width: int

    @property
    def cells(self) -> polars.Series:
        """Cells as text, row after row."""
        cells = _cells(self.text, self.separator)
        assert cells is not None
        return cells

    def columns(self, kinds: Mapping[int, Any], *, strict: bool = True) -> polars.DataFrame | None:
        """Return columns read as polars dtypes, null where empty; None where one cannot be.

        Not `strict`, a cell that is none of its dtype is null.
        """
        import polars

        try:
            return polars.read_csv(
                self.text,
                has_header=False,
                separator=self.separator,
                quote_char=None,
                schema={str(at): kinds.get(at, polars.String) for at in range(self.width)},
                columns=list(kinds),
                ignore_errors=not strict,
            )
        except polars.exceptions.PolarsError:
            return None


def blocks(path: Path, separator: str, width: int, header: bool) -> Iterator[Block | NumberBlock]:
    """Yield rows in blocks of whole rows."""
    import polars

    with path.open("rb") as stream:
        n_lines = 0
        if header and _is_one_row(stream.readline(), separator, width):  # names often have quotes
            n_lines, header = 1, False
        else:
            stream.seek(0)
        while block := stream.read(BLOCK) + stream.readline():
            is_first = n_lines == 0
            lines = _lines(block, separator, width, is_first=is_first)
            if lines is None:
                break
            body = lines[lines.index(b"\n") + 1 :] if header and is_first else lines
            found: Block | NumberBlock = NumberBlock(body, separator, width)
            if body.translate(None, _OF_NUMBERS + separator.encode()):
                cells = _cells(body, separator)
                if cells is None:
                    break
                found = Block(cells)
            n_lines += lines.count(b"\n")
            if body:
                yield found
        if not block:
            return
        stream.seek(-len(block), io.SEEK_CUR)
        rows = rows_of(path, stream, separator, n_lines, width)
        if header and n_lines == 0:
            next(rows)
        while part := list(islice(rows, 1 + CELLS // width)):
            yield Block(polars.Series(list(chain.from_iterable(part)), dtype=polars.String))


def _is_one_row(line: bytes, separator: str, width: int) -> bool:
    """Return whether a line is a whole row, no cell of which goes on in the next line."""
    try:
        text = line.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
        rows = list(csv.reader([text], delimiter=separator, strict=True))
    except (UnicodeDecodeError, csv.Error):
        return False
    return "\r" not in text and [len(cells) for cells in rows] == [width]


def _lines(block: bytes, separator: str, width: int, *, is_first: bool) -> bytes | None:
    """Return lines of as many cells each; None where they might be read in another way."""
    if is_first:  # Excel puts a byte order mark in front
        block = block.removeprefix(codecs.BOM_UTF8)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not block.endswith(b"\n"):
        block += b"\n"
    if b'"' in block or b"\0" in block or (width == 1 and b"\n\n" in block):
        return None
    if block.startswith((b"\n", codecs.BOM_UTF8)):
        return None
    row = separator.encode() * (width - 1) + b"\n"
    marks = block.translate(None, bytes({*range(256)} - {*row, ord(separator)}))
    return block if marks == row * (len(marks) // width) else None


def _cells(lines: bytes, separator: str) -> polars.Series | None:
    """Return the cells of lines, row after row; None where they are no text."""
    import polars

    try:
        frame = polars.read_csv(
            lines.replace(b"\n", separator.encode()),
            has_header=False,
            separator="\n",
            eol_char=separator,
            quote_char=None,
            schema={"cells": polars.String},
        )
    except polars.exceptions.PolarsError:  # no UTF-8
        return None
    n_cells = lines.count(b"\n") + lines.count(separator.encode())
    return frame["cells"].fill_null("") if len(frame) == n_cells else None


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
