"""Files of rows: .csv, .tsv, .parquet and .npy read into what a predictor takes.

A file with names becomes a table whose columns are found by name; a file without becomes a matrix
whose columns stand in the training order. How text is read is said in
`bitvec.runtime.predict.textfiles`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError
from bitvec.files import atomic
from bitvec.files.sound import sound
from bitvec.runtime.predict.textfiles import (
    SEPARATORS,
    Rows,
    read_text,
    require_polars,
    text_tables,
)

SUFFIXES = (*SEPARATORS, ".parquet", ".npy")
LEAST_CELLS = 1 << 24
"""Cells that any file may unpack to; a larger one may unpack to 64 for each of its bytes."""
CELLS = "BITVEC_MAX_CELLS"
"""The environment variable that raises this limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows as a file holds them.

    Parameters
    ----------
    data : dataframe or array, (n_rows, n_columns)
        A polars table, or a matrix where the file has no names.
    names : tuple of str, optional
        The names of the columns; None where the file has none.
    """

    data: Any
    names: tuple[str, ...] | None

    def __len__(self) -> int:
        return int(self.data.shape[0])

    def split(self, column: str) -> tuple[Table, Array]:
        """Return the table without a column, and that column's values.

        Parameters
        ----------
        column : str
            Its name, or for a file without names its number counted from 0.

        Raises
        ------
        InputError
            If there is no such column, or a value of it is missing.
        """
        if self.names is None:
            at = _position(column, int(self.data.shape[1]))
            values, rest = self.data[:, at], Table(np.delete(self.data, at, axis=1), None)
        elif column not in self.names:
            known = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            raise InputError(f"the column {column!r} must be in the data, got {known}.")
        else:
            series = self.data[column]
            if series.null_count():
                raise InputError(f"each row must have a value of {column!r}, got missing ones.")
            values = series.to_numpy()
            if values.dtype == object:
                values = np.array(series.to_list())
            names = tuple(name for name in self.names if name != column)
            rest = Table(self.data.drop(column), names)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise InputError(f"each row must have a value of {column!r}, got missing ones.")
        return rest, np.ascontiguousarray(values)


def read(
    path: str | Path,
    *,
    header: bool | None = None,
    inputs: Inputs | None = None,
    text: Mapping[str, Collection[str]] = MappingProxyType({}),
    target: str | None = None,
) -> Table:
    """Read the rows of a .csv, .tsv, .parquet or .npy file.

    Parameters
    ----------
    path : path
    header : bool, optional
        Whether the first row of a text file holds the names of the columns. By default it does if
        no cell of it is a number, or if it holds the names of `inputs`.
    inputs : Inputs, optional
        What the forest reads for which the file is read: the names by which a header is known,
        and which columns hold numbers and which categories.
    text : mapping from names to texts
        Further columns of a text file whose cells stay text even if all are numbers, and those
        texts that stand for themselves there, even if they stand for a missing value elsewhere.
    target : str, optional
        The name of a column that is not among those of `inputs`, where these have no names.

    Raises
    ------
    InputError
        If the file is of another kind, damaged, empty, or has rows of unequal length, or if its
        first row may be names or values.
    OSError
        If it cannot be opened.
    """
    given, path = path, Path(path)
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        shown = path if str(given) else "an empty path"
        raise InputError(f"a file of rows must end in one of {', '.join(SUFFIXES)}, got {shown}.")
    _require_content(path, given)
    with sound(path, _MUST[suffix], error=InputError):
        table = Table(*_READERS[suffix](path, header, inputs, text, target))
    if len(table) == 0:
        raise InputError(f"{path} must hold rows, got none.")
    return table


def text_parts(
    path: Path, *, header: bool | None, inputs: Inputs, text: Collection[str]
) -> Callable[[], Iterator[Any]]:
    """Return what gives the rows of a .csv or .tsv file as `read` does, in parts, more than once.

    A column holds in all parts what it would hold in the whole, and those of `text` their cells as
    they are, null where empty. Memory does not grow with the rows.
    """
    _require_content(path, path)
    must = _MUST[path.suffix.lower()]
    with sound(path, must, error=InputError):
        tables, _ = text_tables(path, header, inputs, {}, None, verbatim=text, may_be_empty=True)

    def parts() -> Iterator[Any]:
        with sound(path, must, error=InputError):
            yield from tables()

    return parts


def _require_content(path: Path, given: str | Path) -> None:
    with atomic.one_sentence(given, "read"), path.open("rb") as stream:
        if not stream.read(1):
            raise InputError(f"{path} must hold rows, got an empty file.")


def _read_npy(
    path: Path,
    header: bool | None,
    inputs: Inputs | None,
    text: Mapping[str, Collection[str]],
    target: str | None,
) -> Rows:
    # Mapped first: a header that claims more than the file holds then allocates nothing.
    array = np.array(np.load(path, mmap_mode="r", allow_pickle=False))
    if array.dtype.kind not in "biuf" or array.ndim != 2:
        raise InputError(
            f"{path} must hold a matrix of numbers, got shape {array.shape}, dtype {array.dtype}."
        )
    return array, None


def _read_parquet(
    path: Path,
    header: bool | None,
    inputs: Inputs | None,
    text: Mapping[str, Collection[str]],
    target: str | None,
) -> Rows:
    polars = require_polars(f"Reading {path}")
    stated = polars.scan_parquet(path)  # which unpacks nothing
    names = tuple(stated.collect_schema().names())
    _require_size(path, int(stated.select(polars.len()).collect().item()), len(names))
    return polars.read_parquet(path), names


def _require_size(path: Path, n_rows: int, n_columns: int) -> None:
    """Refuse to unpack more than a file of this size, or the user, makes likely."""
    most = max(LEAST_CELLS, 64 * path.stat().st_size)
    raised = os.environ.get(CELLS, "")
    if raised.isdecimal():
        most = max(most, int(raised))
    if n_rows * n_columns > most:
        raise InputError(
            f"{path} must unpack to at most {most} cells, got {n_rows} rows of {n_columns}: set "
            f"the environment variable {CELLS} to a greater number if the file is yours."
        )


_READERS: dict[
    str,
    Callable[[Path, bool | None, Inputs | None, Mapping[str, Collection[str]], str | None], Rows],
] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}


_MUST = {
    **dict.fromkeys(SEPARATORS, "be text that can be read as a table"),
    ".parquet": "be a parquet file",
    ".npy": "hold one array of numbers",
}
"""Requirements on a file, by the suffix of its name, as an error states them."""


def _position(column: str, n_columns: int) -> int:
    if column.isascii() and column.isdigit() and int(column) < n_columns:
        return int(column)
    raise InputError(
        f"the data has no names, so a column must be a number from 0 to {n_columns - 1}, "
        f"got {column!r}."
    )
