"""Files of rows: read .csv, .tsv, .parquet and .npy into what a predictor takes, and write them.

A text file may have a header row or none: a header row is one in which no cell is a number. Cells
that are empty or one of `MISSING` are missing. A file with names becomes a table whose columns are
selected by name; a file without becomes a matrix whose columns stand in the training order.

Tables are read by the first of polars, pandas and pyarrow that is installed, and without any of
them by NumPy. What they would pass over in silence (rows of unequal length, repeated names, a
number that one of them takes for text) is settled here, so that all of them read the same.
"""

from __future__ import annotations

import csv
import math
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import narwhals as nw
import numpy as np

from bitvec.arrays import Array
from bitvec.errors import InputError

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Cells of a text file that stand for a missing value."""

LIBRARIES = ("polars", "pandas", "pyarrow")
SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".parquet", ".npy")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows as a file holds them.

    Parameters
    ----------
    data : dataframe or array, (n_rows, n_columns)
        A polars, pandas or pyarrow table, or a float64 matrix.
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
        elif isinstance(self.data, np.ndarray):
            at = self.names.index(column)
            names = self.names[:at] + self.names[at + 1 :]
            values, rest = self.data[:, at], Table(np.delete(self.data, at, axis=1), names)
        else:
            frame = nw.from_native(self.data, eager_only=True)
            series = frame[column]
            if series.is_null().any():
                raise InputError(f"each row must have a value of {column!r}, got missing ones.")
            values = series.to_numpy()
            if values.dtype == object:
                values = np.array(series.to_list())
            names = tuple(name for name in self.names if name != column)
            rest = Table(frame.drop(column).to_native(), names)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise InputError(f"each row must have a value of {column!r}, got missing ones.")
        return rest, np.ascontiguousarray(values)

    def features(self, names: tuple[str, ...] | None) -> Any:
        """Return what a predictor takes: the table, or the matrix in the order of `names`.

        Raises
        ------
        InputError
            If a column of `names` is missing from a matrix that has names.
        """
        if self.names is None or names is None or not isinstance(self.data, np.ndarray):
            return self.data
        absent = [name for name in names if name not in self.names]
        if absent:
            raise InputError(
                f"the data must have the column {absent[0]!r}, which the forest was trained with "
                f"({len(absent)} of {len(names)} are missing)."
            )
        return self.data[:, [self.names.index(name) for name in names]]


def read(path: str | Path, *, header: bool | None = None, text: Collection[str] = ()) -> Table:
    """Read the rows of a .csv, .tsv, .parquet or .npy file.

    Parameters
    ----------
    path : path
    header : bool, optional
        Whether the first row of a text file holds the names of the columns. By default it does if
        no cell of it is a number.
    text : names
        Columns of a text file whose cells stay text even if all are numbers: categories.

    Raises
    ------
    InputError
        If the file is of another kind, damaged, empty, or has rows of unequal length.
    OSError
        If it cannot be opened.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise InputError(f"a file of rows must end in one of {', '.join(SUFFIXES)}, got {path}.")
    with path.open("rb") as stream:  # a directory, or no permission: the sentence of OSError
        if not stream.read(1):
            raise InputError(f"{path} must hold rows, got an empty file.")
    table = _READERS[suffix](path, header, frozenset(text))
    if len(table) == 0:
        raise InputError(f"{path} must hold rows, got none.")
    return table


def _read_npy(path: Path, header: bool | None, text: frozenset[str]) -> Table:
    try:
        # Mapped first: a header that claims more than the file holds then allocates nothing.
        array = np.array(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, OverflowError) as error:
        raise InputError(f"{path} must hold one array of numbers: {_line(error)}") from None
    if array.dtype.kind not in "biuf" or array.ndim != 2:
        raise InputError(
            f"{path} must hold a matrix of numbers, got shape {array.shape}, dtype {array.dtype}."
        )
    return Table(array, None)


def _read_parquet(path: Path, header: bool | None, text: frozenset[str]) -> Table:
    # pandas reads parquet through pyarrow, so it is asked last.
    library = next((name for name in ("polars", "pyarrow", "pandas") if find_spec(name)), None)
    if library is None:
        raise InputError(f"reading {path} needs polars or pyarrow: run `pip install polars`.")
    try:
        frame = nw.read_parquet(str(path), backend=library)  # type: ignore[arg-type]
    except OSError:
        raise
    except Exception as error:  # each library raises its own
        raise InputError(f"{path} must be a parquet file: {_line(error)}") from None
    return Table(frame.to_native(), tuple(frame.columns))


def _read_text(path: Path, header: bool | None, text: frozenset[str]) -> Table:
    separator = SEPARATORS[path.suffix.lower()]
    first, n_lines = _survey(path, separator)
    if header is None:
        header = _is_header(path, first)
    n_rows = n_lines - header
    if n_rows == 0:
        raise InputError(f"{path} must hold rows, got a header only.")
    if header:
        repeated = {name for name in first if first.count(name) > 1}
        if repeated:
            raise InputError(f"{path}: column names must be distinct, got {min(repeated)!r} twice.")
    library = next((name for name in LIBRARIES if find_spec(name)), None)
    if library is None:
        return _read_with_numpy(path, separator, tuple(first) if header else None, n_rows)
    text &= frozenset(first) if header else frozenset()
    try:
        native = _PARSERS[library](path, separator, header, text)
        frame = nw.from_native(native, eager_only=True)
    except Exception as error:  # each library raises its own
        raise InputError(f"{path} cannot be read as a table: {_line(error)}") from None
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

_READERS: dict[str, Callable[[Path, bool | None, frozenset[str]], Table]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}


def _settled(
    path: Path,
    frame: nw.DataFrame[Any],
    names: tuple[str, ...] | None,
    text: frozenset[str],
) -> Table:
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
        return Table(frame.to_native(), names)
    for position, (name, dtype) in enumerate(frame.schema.items()):
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            cells = map(str, frame[name].drop_nulls().to_list())
            cell = next((cell for cell in cells if not is_number(cell)), "")
            raise InputError(
                f"{path}: column {position} must hold numbers, got {cell[:40]!r}: a file with text "
                "needs a first row of names, none of which is a number."
            )
    columns = [frame[name].cast(nw.Float64).to_numpy() for name in frame.columns]
    return Table(np.stack(columns, axis=1).astype(np.float64), None)


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
) -> Table:
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
    return Table(matrix, names)


def _position(column: str, n_columns: int) -> int:
    if column.isascii() and column.isdigit() and int(column) < n_columns:
        return int(column)
    raise InputError(
        f"the data has no names, so a column must be a number from 0 to {n_columns - 1}, "
        f"got {column!r}."
    )


def write(path: str | Path, columns: Mapping[str, Array]) -> Path:
    """Write columns of equal length as .csv, .tsv, .npy or .parquet, aside and then renamed.

    Numbers in text are the shortest that read back the same. An .npy file holds the one column, or
    the columns side by side as a matrix.

    Raises
    ------
    InputError
        If the path ends in something else, or cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"a file of rows must end in one of {', '.join(SUFFIXES)}, got {path}.")
    with aside(path) as stream:
        if suffix == ".npy":
            values = list(columns.values())
            matrix = values[0] if len(values) == 1 else np.stack(values, axis=1)
            np.save(stream, matrix, allow_pickle=False)
        elif suffix == ".parquet":
            library = next((name for name in LIBRARIES if find_spec(name)), None)
            if library is None:
                raise InputError(f"writing {path} needs polars: run `pip install polars`.")
            nw.from_dict(dict(columns), backend=library).write_parquet(stream)  # type: ignore[arg-type]
        else:
            write_text(stream, columns, separator=SEPARATORS[suffix])
    return path


def write_text(stream: IO[bytes], columns: Mapping[str, Array], *, separator: str = ",") -> None:
    """Write columns with a header row as text in UTF-8."""
    block = 10_000  # rows held as text at a time
    n_rows = max((len(column) for column in columns.values()), default=0)
    for start in range(0, max(n_rows, 1), block):
        lines = _Lines()
        writer = csv.writer(lines, delimiter=separator, lineterminator="\n")
        if start == 0:
            writer.writerow(columns)
        part = slice(start, start + block)
        writer.writerows(zip(*(map(str, c[part]) for c in columns.values()), strict=True))
        stream.write("".join(lines).encode())


class _Lines(list[str]):
    """A list that csv.writer can write to."""

    write = list.append


@contextmanager
def aside(path: Path) -> Iterator[IO[bytes]]:
    """Open a file beside `path` for writing, renamed to `path` if all went well, else removed.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    beside = target.with_name(f".bitvec-{secrets.token_hex(8)}.tmp")
    try:
        with beside.open("xb") as stream:
            yield stream
        beside.replace(target)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        beside.unlink(missing_ok=True)


def _line(error: BaseException) -> str:
    """Return an exception's first line as the end of a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".") + "."
