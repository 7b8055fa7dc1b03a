"""Columns of pandas, polars and pyarrow read directly where they hold plain numbers or texts.

narwhals, which reads all else, takes longer for one column than a forest for a row. Each reader
fills the rows of `out`, one for each column, and returns those that it filled; the others are left
to `Column.from_series`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.runtime.predict.table_columns import FEW, Column, Texts

Columns = Sequence[tuple[int, Column]]
"""Columns, and where each stands in the data frame."""


def is_arrow(X: Any) -> bool:
    """Return whether X is a table of pyarrow, which need not be imported for that."""
    return type(X).__name__ == "Table" and type(X).__module__ == "pyarrow.lib"


def labels_of(X: Any) -> list[Any] | None:
    """Return the labels of the columns of a data frame that is read here, else None."""
    if is_arrow(X):
        return list(X.column_names)
    if type(X).__name__ != "DataFrame":
        return None
    library = type(X).__module__.partition(".")[0]
    if library == "pandas":
        return list(X.columns.tolist())
    return list(X.columns) if library == "polars" else None


def rows_of(X: Any, part: slice) -> Any:
    """Return some rows of a data frame, or of narwhals' frame."""
    if is_arrow(X):
        return X.slice(part.start, part.stop - part.start)
    return X.iloc[part] if hasattr(X, "iloc") else X[part]


def fill_columns(X: Any, columns: Columns, out: Array) -> set[int]:
    """Fill the rows of `out` (n_columns, batch) with columns of X; return which are filled."""
    if labels_of(X) is None:
        return set()
    read = _of_pandas if hasattr(X, "iloc") else _of_arrow if is_arrow(X) else _of_polars
    return {row for row, is_filled in enumerate(read(X, columns, out)) if is_filled}


def _of_pandas(X: Any, columns: Columns, out: Array) -> list[bool]:
    if 2 * len(columns) < X.shape[1]:
        held = [X.iloc[:, at] for at, _ in columns]
    else:  # which takes half as long for each
        every = [series for _, series in X.items()]
        held = [every[at] for at, _ in columns]
    categories, found = sys.modules["pandas"].CategoricalDtype, []
    for series, (_, own), to in zip(held, columns, out, strict=True):
        dtype, is_filled = series.dtype, False
        if isinstance(dtype, np.dtype):
            if is_filled := dtype.kind in "iuf" and own.reads_numbers:
                to[...] = series.to_numpy()
        elif isinstance(dtype, categories) and own.reads_texts:
            cells, texts = series.array, series.array.categories
            held_texts = Texts(len(texts), texts.__getitem__, texts.tolist)
            is_filled = own.fill_codes(cells.codes, held_texts, to)
        found.append(is_filled)
    return found


def _of_arrow(X: Any, columns: Columns, out: Array) -> list[bool]:
    types = sys.modules["pyarrow"].types
    found = []
    for (at, own), to in zip(columns, out, strict=True):
        column = X.column(at)
        kind, read = column.type, None
        if own.reads_numbers and _is_plain(column):
            read = _fill_numbers
        elif own.reads_texts and types.is_dictionary(kind):
            read = _fill_codes
        elif own.reads_texts and (types.is_string(kind) or types.is_large_string(kind)):
            read, column = _fill_codes, column.dictionary_encode()
        found.append(read is not None and _by_chunks(read, column.chunks, own, to))
    return found


def _is_plain(column: Any) -> bool:
    """Return whether a column of pyarrow holds numbers and no null."""
    types, kind = sys.modules["pyarrow"].types, column.type
    return not column.null_count and (types.is_floating(kind) or types.is_integer(kind))


def numbers_of(column: Any) -> Iterator[Array]:
    """Yield the chunks of a column of pyarrow as views, if they are numbers."""
    if _is_plain(column):
        yield from map(np.from_dlpack, column.chunks)


def _by_chunks(read: Callable[..., bool], chunks: list[Any], own: Column, to: Array) -> bool:
    at, is_filled = 0, True
    for chunk in chunks:
        is_filled = is_filled and read(chunk, own, to[at : at + len(chunk)])
        at += len(chunk)
    return is_filled


def _fill_numbers(chunk: Any, own: Column, to: Array) -> bool:
    to[...] = np.from_dlpack(chunk)
    return True


def _fill_codes(chunk: Any, own: Column, to: Array) -> bool:
    index = chunk.indices
    if index.null_count:
        index = index.cast("int64").fill_null(-1)
    values = chunk.dictionary
    texts = Texts(len(values), lambda at: values[at].as_py(), values.to_pylist)
    return own.fill_codes(np.from_dlpack(index), texts, to)


def _of_polars(X: Any, columns: Columns, out: Array) -> list[bool]:
    polars, held = sys.modules["polars"], X.get_columns()
    kinds = polars.String, polars.Categorical, polars.Enum
    found, asked = [False] * len(columns), {}
    for row, (at, own) in enumerate(columns):
        series = held[at]
        if own.reads_numbers:
            dtype = series.dtype
            if (dtype.is_float() or dtype.is_integer()) and not series.null_count():
                values = series.to_numpy()
                if values.dtype.kind in "iuf":
                    out[row], found[row] = values, True
        elif own.reads_texts and isinstance(series.dtype, kinds):
            if len(series) <= FEW:
                found[row] = own.fill_texts(series.to_list(), out[row])
            elif (held_as := _texts_of(series, own, at, polars)) is not None:
                asked[row] = series.null_count(), *held_as
    if asked:  # all at once: to ask takes longer than to answer
        answers = X.select([column for _, column, _ in asked.values()]).get_columns()
        for (row, (n_null, _, texts)), answer in zip(asked.items(), answers, strict=True):
            place = answer.to_numpy()
            # Of nulls alone: a text that the book does not hold has no place either.
            if place.dtype.kind == "u" or np.count_nonzero(place == -1) == n_null:
                found[row] = columns[row][1].fill_codes(place, texts, out[row])
    return found


def _texts_of(series: Any, own: Column, at: int, polars: Any) -> tuple[Any, Texts] | None:
    """Return the expression for a column's places, and the texts that stand there."""
    column, dtype = polars.nth(at), series.dtype
    if isinstance(dtype, polars.String):
        held = own.texts()
        column = column.cast(polars.Enum(held), strict=False).to_physical()
        texts = Texts(len(held), held.__getitem__, lambda: held)
    else:
        values = getattr(dtype, "categories", None)  # not of a Categorical before polars 1.32
        if values is None:
            return None
        size = len(values) if hasattr(values, "__len__") else 0
        column = column.to_physical()
        texts = Texts(size, values.__getitem__, lambda: values.to_list())
    if isinstance(dtype, polars.String) or series.null_count():
        column = column.cast(polars.Int64).fill_null(-1)
    return column, texts
