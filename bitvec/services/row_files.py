"""Files of rows read in batches, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from bitvec.core.inputs import Inputs
from bitvec.errors import InputError, needs
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

    Memory does not grow with the rows. Text files and NDJSON are read twice, since what a column
    holds is known only at its end. A text file's columns to `keep`, if the forest does not read
    them, hold numbers only where these are written as in the file, for which it is read once more:
    007 stays text.

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
            starts = range(0, max(len(part), 1), BATCH_ROWS)  # a part of no rows has columns
            yield from (part[at : at + BATCH_ROWS] for at in starts)
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
