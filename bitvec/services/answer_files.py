"""Files of rows written in batches of columns, in bounded memory where the format allows."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.errors import InputError, needs
from bitvec.files import atomic
from bitvec.runtime.predict.textfiles import SEPARATORS
from bitvec.services.input_files import ARROW, LINES, SUFFIXES
from bitvec.services.row_files import require_pyarrow


def save(path: Path, parts: Iterable[Any], *, suffix: str | None = None) -> int:
    """Write batches of columns to a file, whole or not at all, and return the number of rows.

    Parameters
    ----------
    path : path
    parts : iterable of tables or dicts of arrays
        All of the same columns; one at least.
    suffix : str, optional
        The format; by default as the path ends.

    Raises
    ------
    InputError
        If there is no batch, or no such format.
    OSError
        If the file cannot be written.
    """
    kind = suffix or path.suffix.lower()
    if kind not in SUFFIXES:
        raise InputError(f"a file of rows must end in one of {', '.join(SUFFIXES)}, got {path}.")
    told: list[int] = []
    atomic.write(path, lambda stream: told.append(write(stream, kind, parts)))
    return told[0]


def write(stream: IO[bytes], suffix: str, parts: Iterable[Any]) -> int:
    """Write batches of columns to a stream in a format of `SUFFIXES`; see `save`."""
    several = iter(parts)
    first = next(several, None)
    if first is None:
        raise InputError("a file must hold rows, got none.")
    n_rows = 0

    def counted() -> Iterator[Any]:
        nonlocal n_rows
        for part in itertools.chain([first], several):
            n_rows += _n_rows(part)
            yield part
            stream.flush()  # so that a reader has it while the next is predicted

    if suffix in SEPARATORS:
        for at, part in enumerate(counted()):
            _write_text(stream, _columns(part), SEPARATORS[suffix], head=at == 0)
    elif suffix == ".npy":
        _write_npy(stream, [_matrix(_columns(part)) for part in counted()])
    elif suffix in LINES:
        _write_lines(stream, counted())
    else:
        schema = _one_schema(arrow_table(first).schema, suffix)
        with _table_writer(stream, suffix, schema) as writer:
            for part in counted():
                table = arrow_table(part)
                writer.write_table(table if table.schema == schema else table.cast(schema))
    return n_rows


def _write_text(
    stream: IO[bytes], columns: Mapping[str, Array], separator: str, *, head: bool
) -> None:
    """Write columns as text in UTF-8, numbers as the shortest text that reads back the same."""
    block = 10_000  # rows held as text at a time
    n_rows = max((len(column) for column in columns.values()), default=0)
    for start in range(0, max(n_rows, 1), block):
        lines = _Lines()
        writer = csv.writer(lines, delimiter=separator, lineterminator="\n")
        if start == 0 and head:
            writer.writerow(columns)
        part = slice(start, start + block)
        writer.writerows(zip(*(_cells(c[part]) for c in columns.values()), strict=True))
        stream.write("".join(lines).encode())


def _cells(column: Array) -> Iterable[Any]:
    # csv writes a Python float as the shortest text of a float64; a float32 has shorter ones.
    return map(str, column) if column.dtype == np.float32 else column.tolist()


class _Lines(list[str]):
    """A list that csv.writer can write to."""

    write = list.append


def _write_npy(stream: IO[bytes], held: list[Array]) -> None:
    if any(part.dtype == object for part in held):
        raise InputError(
            "a .npy file must hold numbers, got a column of texts or of nulls: "
            "write another format."
        )
    # By way of memory: to a file NumPy writes by itself, and says of a full disk only how many
    # values it has written.
    buffer = io.BytesIO()
    np.save(buffer, np.concatenate(held), allow_pickle=False)
    stream.write(buffer.getbuffer())


def _write_lines(stream: IO[bytes], parts: Iterable[Any]) -> None:
    with needs("polars", "cli", "Writing NDJSON"):
        import polars
    for part in parts:
        frame = polars.from_arrow(part) if hasattr(part, "column_names") else part
        # By way of memory: of a full disk polars raises its own.
        buffer = io.BytesIO()
        polars.DataFrame(frame).write_ndjson(buffer)
        stream.write(buffer.getbuffer())


def _one_schema(schema: Any, suffix: str) -> Any:
    """Return the schema of a file: with values for dictionaries where all batches share these."""
    types = require_pyarrow(f"Writing {suffix} files").types
    if suffix in (".parquet", ARROW[-1]):
        return schema
    for at, column in enumerate(schema):
        if types.is_dictionary(column.type):
            schema = schema.set(at, column.with_type(column.type.value_type))
    return schema


@contextmanager
def _table_writer(stream: IO[bytes], suffix: str, schema: Any) -> Iterator[Any]:
    pyarrow = require_pyarrow(f"Writing {suffix} files")
    from pyarrow import parquet

    if suffix == ".parquet":
        # Numbers such as probabilities hardly repeat: a dictionary of them takes time and space.
        text = [column.name for column in schema if not _is_number(column.type)]
        with parquet.ParquetWriter(stream, schema, use_dictionary=text) as writer:
            yield writer
    else:
        new = pyarrow.ipc.new_stream if suffix == ARROW[-1] else pyarrow.ipc.new_file
        with new(stream, schema) as writer:
            yield writer


def _is_number(kind: Any) -> bool:
    types = require_pyarrow("Writing tables").types
    return types.is_floating(kind) or types.is_integer(kind)


def columns(parts: Iterable[Any]) -> dict[str, Array]:
    """Return batches of columns, joined, as arrays by name."""
    held = [_columns(part) for part in parts]
    if not held:
        raise InputError("a file must hold rows, got none.")
    return {name: np.concatenate([part[name] for part in held]) for name in held[0]}


def _n_rows(part: Any) -> int:
    return len(next(iter(part.values()))) if isinstance(part, dict) else len(part)


def _matrix(columns: dict[str, Array]) -> Array:
    values = list(columns.values())
    return values[0] if len(values) == 1 else np.stack(values, axis=1)


def _columns(part: Any) -> dict[str, Array]:
    """Return a batch as arrays by name."""
    if isinstance(part, dict):
        return part
    names = part.column_names if hasattr(part, "column_names") else part.columns
    return {name: _array(part[name]) for name in names}


def _array(column: Any) -> Array:
    """Return a column of pyarrow or polars: whole numbers with nulls as objects, not as floats."""
    import narwhals

    series = narwhals.from_native(column, series_only=True)
    if series.dtype.is_integer() and series.null_count():
        return np.array(series.to_list(), object)
    return column.to_numpy()


def arrow_table(part: Any) -> Any:
    """Return a batch of columns as a pyarrow table."""
    pyarrow = require_pyarrow("Writing tables")
    if isinstance(part, dict):
        return pyarrow.table({name: _arrow_column(value) for name, value in part.items()})
    return part.to_arrow() if hasattr(part, "to_arrow") else part


def _arrow_column(values: Any) -> Any:
    import pyarrow

    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind == "U":
        return pyarrow.array(values.tolist(), pyarrow.string())
    if values.dtype.kind == "O":
        return values.tolist()
    if values.dtype.kind not in "iuf":
        return pyarrow.array(values)
    # `pyarrow.array` imports pandas, only to see that an array is none of its columns.
    kind, memory = pyarrow.from_numpy_dtype(values.dtype), np.ascontiguousarray(values)
    return pyarrow.Array.from_buffers(kind, len(values), [None, pyarrow.py_buffer(memory)])
