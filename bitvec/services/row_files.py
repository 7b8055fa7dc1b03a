"""Files of rows read and written in batches, in bounded memory where the format allows."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError, needs
from bitvec.files import atomic
from bitvec.files.sound import sound
from bitvec.runtime.predict import datafiles
from bitvec.runtime.predict.textfiles import SEPARATORS
from bitvec.services.input_files import ARROW, LINES, SUFFIXES
from bitvec.services.process_copies import is_copy

BATCH_ROWS: Final = 1 << 16
BLOCK: Final = 1 << 24
"""Bytes of NDJSON that are read at a time."""

Batch = Any
"""A pyarrow or polars table, or a matrix where a file has no names."""


def batches(
    path: Path, inputs: Inputs, *, header: bool | None = None, keep: Collection[str] = ()
) -> Iterator[Batch]:
    """Yield the rows of a file, in their order, some at a time.

    Memory does not grow with the rows. A text file is read twice, since what a column holds is
    known only at its end. Its columns to `keep`, if the forest does not read them, hold numbers
    only where these are written as in the file, for which it is read once more: 007 stays text.

    Raises
    ------
    InputError
        If the file is of another kind or damaged, or its schema changes half-way.
    OSError
        If it cannot be opened.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"a file of rows must end in one of {', '.join(SUFFIXES)}, got {path}.")
    if suffix in SEPARATORS:
        verbatim = sorted(set(keep) - set(inputs.feature_names or ()))
        parts = datafiles.text_parts(path, header=header, inputs=inputs, text=verbatim)
        for part in map(_with_kept(parts, verbatim), parts()):
            yield from (part[at : at + BATCH_ROWS] for at in range(0, len(part), BATCH_ROWS))
        return
    with sound(path, _MUST[suffix], error=InputError):
        yield from _READERS[suffix](path)


def _with_kept(
    parts: Callable[[], Iterator[Batch]], verbatim: Collection[str]
) -> Callable[[Batch], Batch]:
    """Return what makes columns of text numbers, null where empty, if no text is lost by that."""
    if not verbatim:
        return lambda part: part
    import polars

    fitting = {name: [polars.Int64, polars.Float64] for name in verbatim}
    for part in parts():
        if isinstance(part, np.ndarray):  # without names nothing is kept
            return lambda part: part
        for name in set(verbatim) & set(part.columns):
            fitting[name] = [one for one in fitting[name] if _holds(part[name], one)]
        if not any(fitting.values()):
            break
    dtypes = {name: found[0] for name, found in fitting.items() if found}
    return lambda part: part.with_columns(
        part[name].cast(dtype, strict=False)
        for name, dtype in dtypes.items()
        if name in part.columns
    )


def _holds(cells: Any, dtype: Any) -> bool:
    import polars

    found = cells.cast(dtype, strict=False)
    return bool((found.cast(polars.String).fill_null("") == cells.fill_null("")).all())


def _parquet(path: Path) -> Iterator[Batch]:
    pyarrow = require_pyarrow(f"Reading {path}")
    from pyarrow import parquet

    with parquet.ParquetFile(path, memory_map=True) as file:
        if not file.metadata.num_rows:
            yield file.schema_arrow.empty_table()
        for batch in file.iter_batches(BATCH_ROWS, use_threads=not is_copy()):
            yield pyarrow.Table.from_batches([batch])


def _arrow(path: Path) -> Iterator[Batch]:
    pyarrow = require_pyarrow(f"Reading {path}")
    with pyarrow.memory_map(str(path)) as source:
        if source.read(6) == b"ARROW1":
            file = pyarrow.ipc.open_file(source)
            yield from _tables(file.get_batch(at) for at in range(file.num_record_batches))
        else:
            source.seek(0)
            yield from _tables(pyarrow.ipc.open_stream(source))


def arrow_stream(stream: IO[bytes], name: str) -> Iterator[Batch]:
    """Yield the rows of an Arrow stream as they come, some at a time.

    Raises
    ------
    InputError
        If it is none, or damaged; `name` is what it is called.
    """
    pyarrow = require_pyarrow(f"Reading {name}")
    with sound(Path(name), _MUST[ARROW[-1]], error=InputError):
        yield from _tables(pyarrow.ipc.open_stream(stream))


def _tables(parts: Iterable[Any]) -> Iterator[Batch]:
    pyarrow = require_pyarrow("Reading Arrow batches")
    for batch in parts:
        table = pyarrow.Table.from_batches([batch])
        table.validate(full=True)  # else a damaged offset reads where there is nothing
        _ = table.column_names  # which are decoded only now
        for start in range(0, max(len(table), 1), BATCH_ROWS):
            yield table.slice(start, BATCH_ROWS)


def _ndjson(path: Path) -> Iterator[Batch]:
    """Yield a file's rows, each column of the one dtype that holds all its cells."""
    with needs("polars", "cli", f"Reading {path}"):
        import polars
    schema: dict[str, Any] = {}
    for block in _lines(path):
        for name, dtype in polars.read_ndjson(block, infer_schema_length=None).schema.items():
            schema[name] = _one_dtype(schema.get(name, dtype), dtype)
    for block in _lines(path):
        frame = polars.read_ndjson(block, schema=schema)
        for start in range(0, len(frame), BATCH_ROWS):
            yield frame[start : start + BATCH_ROWS]


def _lines(path: Path) -> Iterator[bytes]:
    """Yield whole lines of a file, as many as are read at once, unless all of them are blank."""
    with path.open("rb") as stream:
        while block := stream.read(BLOCK) + stream.readline():
            if block.strip():
                yield block


def _one_dtype(one: Any, other: Any) -> Any:
    """Return the polars dtype of a column that is of two in two parts of a file.

    Values of several kinds are texts, as in a file of text, and as polars reads them within a part.
    """
    import polars

    if one == other:
        return one
    parts = [polars.DataFrame(schema={"": dtype}) for dtype in (one, other)]
    try:
        return polars.concat(parts, how="vertical_relaxed").schema[""]
    except polars.exceptions.PolarsError:
        return polars.String()


def _npy(path: Path) -> Iterator[Batch]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.dtype.kind not in "biuf" or array.ndim != 2:
        raise InputError(
            f"{path} must hold a matrix of numbers, got shape {array.shape}, dtype {array.dtype}."
        )
    for start in range(0, len(array), BATCH_ROWS):
        yield np.array(array[start : start + BATCH_ROWS])


_READERS: dict[str, Callable[[Path], Iterator[Batch]]] = {
    ".parquet": _parquet,
    **dict.fromkeys(ARROW, _arrow),
    **dict.fromkeys(LINES, _ndjson),
    ".npy": _npy,
}
_MUST = {
    ".parquet": "be a parquet file",
    **dict.fromkeys(ARROW, "be an Arrow file or stream"),
    **dict.fromkeys(LINES, "hold one JSON object a line"),
    ".npy": "hold one array of numbers",
}


def require_pyarrow(purpose: str) -> Any:
    """Return pyarrow.

    Raises
    ------
    MissingLibraryError
    """
    with needs("pyarrow", "data", purpose):
        import pyarrow
    import pyarrow.ipc

    return pyarrow


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
