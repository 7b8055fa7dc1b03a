"""Rows as JSON records, lists of numbers or an Arrow stream, and answers in the same form."""

from __future__ import annotations

import struct
from types import NoneType
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.composition import Converted
from bitvec.errors import InputError
from bitvec.services.answer_columns import Columns
from bitvec.services.answer_files import arrow_table
from bitvec.services.row_files import require_pyarrow
from bitvec.services.serving.message_parts import frame_of, json_bytes, json_value

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
FORMATS: Final = (JSON, ARROW)
_DICTIONARY, _ROWS = 2, 3
"""Kinds of Arrow messages, as their `header_type` says."""


def decode(body: bytes, kind: str, forest: Converted) -> tuple[Any, int]:
    """Return a matrix or a data frame of the rows of a body, and their number.

    Parameters
    ----------
    kind : "application/json" or "application/vnd.apache.arrow.stream"
        JSON is a list of objects, one for each row and each with all columns that the forest knows
        by name, where null is a missing value; or a list of lists of numbers, in the training
        order.

    Raises
    ------
    InputError
        If the body is not that.
    """
    if kind == ARROW:
        return _of_arrow(body)
    rows = json_value(body)
    if isinstance(rows, dict):
        rows = [rows]
    if not isinstance(rows, list):
        raise InputError(f"the body must be a list of rows, got {type(rows).__name__}.")
    if all(isinstance(row, dict) for row in rows):
        return _of_objects(rows, forest)
    if not all(isinstance(row, list) for row in rows):
        raise InputError("rows must all be objects, or all lists of numbers.")
    return _matrix(rows, forest), len(rows)


def encode(columns: Columns, n_rows: int, kind: str) -> bytes:
    """Return the columns of answers as JSON, an object for each row, or as an Arrow stream."""
    if kind == ARROW:
        pyarrow, table = require_pyarrow("An answer in Arrow"), arrow_table(columns)
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())
    names = list(columns)
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return json_bytes([dict(zip(names, row, strict=True)) for row in values] if n_rows else [])


def _of_arrow(body: bytes) -> tuple[Any, int]:
    pyarrow = require_pyarrow("A body in Arrow")
    try:
        for message in pyarrow.ipc.MessageReader.open_stream(body):
            if is_compressed(message.metadata.to_pybytes()):
                raise InputError("an Arrow stream must not be compressed: write it as it is.")
        table = pyarrow.ipc.open_stream(body).read_all()
        table.validate(full=True)
        _ = table.column_names  # which are decoded only now
    except (pyarrow.ArrowException, OSError, struct.error, IndexError, UnicodeError) as error:
        said = str(error).split(". ")[0].splitlines()[0][:120]
        raise InputError(f"the body must be an Arrow stream, got: {said}.") from None
    return table, table.num_rows


def is_compressed(metadata: bytes) -> bool:
    """Tell whether an Arrow message of rows or of a dictionary has compressed buffers.

    A few bytes may unpack to any size, and pyarrow unpacks them before it can be asked. So the
    FlatBuffer is read here: an offset to a table, which begins with the distance back to the
    offsets of its fields.

    Notes
    -----
    Apache Arrow, format/Message.fbs: the fields of Message are version, header_type, header, ...;
    of RecordBatch length, nodes, buffers, compression; of DictionaryBatch id and data, a
    RecordBatch.
    """

    def number(code: str, at: int) -> int:
        found: int = struct.unpack_from(code, metadata, at)[0]
        return found

    def field(table: int, nth: int) -> int:
        offsets = table - number("<i", table)
        place = 4 + 2 * nth
        offset = number("<H", offsets + place) if place < number("<H", offsets) else 0
        return table + offset if offset else 0

    def table_at(place: int) -> int:
        return place + number("<I", place)

    message = table_at(0)
    kind = metadata[field(message, 1)]
    if kind not in (_DICTIONARY, _ROWS):
        return False
    header = table_at(field(message, 2))
    return field(table_at(field(header, 1)) if kind == _DICTIONARY else header, 3) != 0


def _of_objects(rows: list[dict[str, Any]], forest: Converted) -> tuple[Any, int]:
    names = forest.inputs.feature_names
    if names is None:
        if rows:
            raise InputError(
                f"this forest does not know its columns by name: hand over lists of its "
                f"{forest.n_features} numbers."
            )
        return np.zeros((0, forest.n_features), forest.dtype), 0
    for at, row in enumerate(rows):
        for name in names:
            if name not in row:
                raise InputError(
                    f"each row must have the column {name!r}, null where it is missing: row {at} "
                    "has none."
                )
    values = [[row[name] for name in names] for row in rows]
    if _are_numbers(values) and forest.inputs.reads_numbers_alone:
        return _matrix(values, forest), len(rows)
    return frame_of({name: [row[at] for row in values] for at, name in enumerate(names)}, names)


def _are_numbers(rows: list[list[Any]]) -> bool:
    return {type(value) for row in rows for value in row} <= {int, float, NoneType}


def _matrix(rows: list[list[Any]], forest: Converted) -> Array:
    for at, row in enumerate(rows):
        if len(row) != forest.n_features:
            raise InputError(
                f"each row must have {forest.n_features} numbers, got {len(row)} in row {at}."
            )
    if not _are_numbers(rows):
        raise InputError("rows that are lists must hold numbers, or null where one is missing.")
    kinds = {type(value) for row in rows for value in row}
    is_whole = kinds == {int} and all(abs(value) < 1 << 63 for row in rows for value in row)
    try:
        dtype = np.int64 if is_whole else np.float64  # which may name other categories
        return np.array(rows, dtype).reshape(len(rows), forest.n_features)
    except OverflowError:
        raise InputError("whole numbers must fit into float64, got a larger one.") from None
