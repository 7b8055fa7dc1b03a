"""Distinct values of a column of text or categories, each read once instead of cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int

Distinct = tuple[Int[Array, " batch"], list[Any]]
"""The position of each cell's value, -1 where it is null; and the values."""


def distinct(series: Any) -> Distinct | None:
    """Return the distinct values of a narwhals series of texts or categories.

    None where the library would take different Python values for one, such as True and 1 among
    objects, or where the kind of column is another.
    """
    import narwhals

    is_category = series.dtype in (narwhals.Categorical, narwhals.Enum)
    native, library = series.to_native(), series.implementation
    if not is_category and series.dtype not in (narwhals.String, narwhals.Object):
        return None
    if library.is_pyarrow():
        return _of_pyarrow(native)
    if library.is_polars():
        return None if series.dtype == narwhals.Object else _of_polars(native)
    if library.is_pandas():
        return _of_pandas(native, is_category=is_category)
    return None


def _of_pyarrow(native: Any) -> Distinct:
    import pyarrow

    parts = native.chunks if isinstance(native, pyarrow.ChunkedArray) else [native]
    codes: list[Array] = [np.zeros(0, np.int64)]
    place: dict[Any, int] = {}
    for part in parts:
        encoded = part if pyarrow.types.is_dictionary(part.type) else part.dictionary_encode()
        known = [place.setdefault(value, len(place)) for value in encoded.dictionary.to_pylist()]
        index = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
        codes.append(np.array([*known, -1])[index])
    return np.concatenate(codes), list(place)


def _of_polars(native: Any) -> Distinct:
    import polars

    texts = native.cast(polars.String)
    values = texts.drop_nulls().unique(maintain_order=True)
    places = polars.int_range(len(values), dtype=polars.Int64, eager=True)
    codes = texts.replace_strict(values, places, default=-1, return_dtype=polars.Int64)
    return codes.to_numpy(), values.to_list()


def _of_pandas(native: Any, *, is_category: bool) -> Distinct | None:
    import pandas as pd

    if is_category:
        if not isinstance(native.dtype, pd.CategoricalDtype):  # a dictionary of pyarrow
            return None
        categories = native.cat.categories
        if categories.dtype.kind in "mM":
            return None
        return native.cat.codes.to_numpy().astype(np.int64), categories.tolist()
    if native.dtype == object and pd.api.types.infer_dtype(native, skipna=True) != "string":
        return None
    codes, values = pd.factorize(native)
    return codes, values.tolist()
