"""Columns of pandas, polars and pyarrow read directly where they hold plain numbers or texts.

narwhals, which reads all else, takes longer for one column than a forest for a row. Each reader
fills the rows of `out`, one for each column, and returns those that it filled; the others are left
to `Column.from_series`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

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


def values_of(X: Any, places: Sequence[int]) -> Array | None:
    """Return columns of a data frame as an array, None where they are not of one plain dtype.

    It is a view where the library has one: pandas holds what is made of an array as that array.
    """
    if not hasattr(X, "iloc") or len(places) < X.shape[1]:
        return None
    dtypes = {*X.dtypes.tolist()}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iuf":
        return None
    values = X.to_numpy()
    return values if [*places] == [*range(len(places))] else values[:, places]


def fill_columns(X: Any, columns: Columns, out: Sequence[Array]) -> set[int]:
    """Fill an array for each of the columns of X; return which are filled."""
    if labels_of(X) is None:
        return set()
    read = _of_pandas if hasattr(X, "iloc") else _of_arrow if is_arrow(X) else _of_polars
    return {row for row, is_filled in enumerate(read(X, columns, out)) if is_filled}


def _of_pandas(X: Any, columns: Columns, out: Sequence[Array]) -> list[bool]:
    pandas, found = sys.modules["pandas"], []
    held = _arrays_of(X, [at for at, _ in columns])
    for values, (_, own), to in zip(held, columns, out, strict=True):
        is_plain, is_filled = isinstance(values, np.ndarray), False
        if is_plain and values.dtype.kind in "iuf" and own.reads_numbers:
            to[...], is_filled = own.require_numbers(values), True
        elif is_plain and values.dtype.kind == "b" and own.reads_numbers and own.domain is None:
            to[...], is_filled = values, True
        elif isinstance(values, pandas.Categorical) and own.reads_texts:
            is_filled = own.fill_codes(values.codes, _texts_of_index(values.categories), to)
        elif len(values) <= FEW and isinstance(
            values.dtype, (pandas.StringDtype, np.dtypes.ObjectDType)
        ):
            to[...], is_filled = own.from_cells(values.tolist()), True
        found.append(is_filled)
    return found


def _texts_of_index(index: Any) -> Texts:
    """Return the texts of an index of pandas, which lists those that Arrow holds one by one."""
    held = index.array
    if "pyarrow" in sys.modules and hasattr(held, "__arrow_array__"):
        return Texts(len(index), index.__getitem__, lambda: held.__arrow_array__().to_pylist())
    return Texts(len(index), index.__getitem__, index.tolist)


def _arrays_of(X: Any, places: Sequence[int]) -> list[Any]:
    """Return what columns of pandas hold: of the others no Series is made, which takes 6 µs."""
    if 2 * len(places) >= X.shape[1]:
        every = getattr(X, "_iter_column_arrays", None)
        arrays = [] if every is None else [*every()]
        if len(arrays) == X.shape[1]:
            return [arrays[at] for at in places]
    held = [X.iloc[:, at] for at in places]
    return [s.to_numpy() if isinstance(s.dtype, np.dtype) else s.array for s in held]


def _of_arrow(X: Any, columns: Columns, out: Sequence[Array]) -> list[bool]:
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
    to[...] = own.require_numbers(np.from_dlpack(chunk))
    return True


def _fill_codes(chunk: Any, own: Column, to: Array) -> bool:
    index = chunk.indices
    if index.null_count:
        is_signed = sys.modules["pyarrow"].types.is_signed_integer(index.type)
        index = (index if is_signed else index.cast("int64")).fill_null(-1)
    values = chunk.dictionary
    texts = Texts(len(values), lambda at: values[at].as_py(), values.to_pylist)
    return own.fill_codes(np.from_dlpack(index), texts, to)


def _of_polars(X: Any, columns: Columns, out: Sequence[Array]) -> list[bool]:
    polars, held = sys.modules["polars"], X.get_columns()
    kinds = polars.String, polars.Categorical, polars.Enum
    # NumPy has none of them, and older versions of polars have not either.
    wide = [getattr(polars, name) for name in ("Int128", "UInt128") if hasattr(polars, name)]
    found, asked = [False] * len(columns), []
    for row, (at, own) in enumerate(columns):
        series = held[at]
        dtype = series.dtype
        if own.reads_numbers:
            is_plain = dtype.is_float() or (dtype.is_integer() and dtype not in wide)
            if is_plain and not series.null_count():
                values = series.to_numpy()
                if values.dtype.kind in "iuf":
                    out[row][...], found[row] = own.require_numbers(values), True
        elif own.reads_texts and isinstance(dtype, kinds):
            if len(series) <= FEW:
                found[row] = own.fill_texts(series.to_list(), out[row])
            elif (texts := _texts_of(dtype, own, polars)) is not None:
                cast = polars.Enum(own.texts()) if isinstance(dtype, polars.String) else None
                asked.append(_Asked(row, at, series.null_count(), texts, cast))
    for (row, _, n_null, texts, _), place in _places(X, asked, polars):
        # Of nulls alone: a text that the book does not hold has no place either.
        if place.dtype.kind == "u" or np.count_nonzero(place == -1) == n_null:
            found[row] = columns[row][1].fill_codes(place, texts, out[row])
    return found


class _Asked(NamedTuple):
    """A column of polars whose texts' places are asked for; texts are cast to categories first."""

    row: int
    at: int
    n_null: int
    texts: Texts
    cast: Any


def _texts_of(dtype: Any, own: Column, polars: Any) -> Texts | None:
    """Return the texts of a column, None if they are not told."""
    if isinstance(dtype, polars.String):
        held = own.texts()
        return Texts(len(held), held.__getitem__, lambda: held)
    values = getattr(dtype, "categories", None)  # not of a Categorical before polars 1.32
    if values is None:
        return None
    size = len(values) if hasattr(values, "__len__") else 0
    return Texts(size, values.__getitem__, lambda: values.to_list())


def _places(X: Any, asked: list[_Asked], polars: Any) -> Iterator[tuple[_Asked, Array]]:
    """Yield columns and the places of their texts, -1 where there is none.

    To ask polars takes longer than the answer, and for several columns as long as for one.
    """
    texts = [each for each in asked if each.cast is not None]
    others = [each for each in asked if each.cast is None]
    whole = [each for each in others if not each.n_null]
    partial = [each for each in others if each.n_null]
    wanted = [polars.nth([each.at for each in whole]).to_physical()] if whole else []
    filled = [polars.nth([each.at for each in partial])] if partial else []
    filled += [polars.nth(each.at).cast(each.cast, strict=False) for each in texts]
    wanted += [each.to_physical().cast(polars.Int64).fill_null(-1) for each in filled]
    if wanted:
        answers = X.select(wanted).get_columns()
        for each, answer in zip((*whole, *partial, *texts), answers, strict=True):
            yield each, answer.to_numpy()
