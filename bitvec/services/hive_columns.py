"""Columns that stand in the names of folders, as Hive writes them: `year=2024/month=1/`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Final
from urllib.parse import unquote

from bitvec.core.inputs import Inputs
from bitvec.runtime.predict.code_books import book_of
from bitvec.services.row_files import Batch, require_pyarrow

MISSING: Final = "__HIVE_DEFAULT_PARTITION__"
Columns = dict[str, str | int | None]
"""Values of all rows of a file, by column."""


def of_targets(targets: Sequence[str], inputs: Inputs, keep: Collection[str]) -> list[Columns]:
    """Return the columns of files that lie at these paths of a folder, as far as they are read.

    A column of whole numbers alone holds numbers, unless the forest has categories for it.
    """
    read = {*(inputs.feature_names or ()), *keep}
    found = [{name: value for name, value in _pairs(target) if name in read} for target in targets]
    books = {name: book_of(inputs, at) for at, name in enumerate(inputs.feature_names or ())}
    whole = {
        name
        for name in read
        if books.get(name) is None and all(_is_whole(columns.get(name)) for columns in found)
    }
    return [
        {
            name: value if value is None or name not in whole else int(value)
            for name, value in columns.items()
        }
        for columns in found
    ]


def _pairs(target: str) -> list[tuple[str, str | None]]:
    parts = [part.partition("=") for part in PurePath(target).parent.parts if "=" in part]
    return [
        (unquote(name), None if value == MISSING else unquote(value)) for name, _, value in parts
    ]


def _is_whole(value: str | None) -> bool:
    return value is None or (
        value.isascii() and value.removeprefix("-").isdigit() and str(int(value)) == value
    )


def added(batch: Batch, columns: Mapping[str, str | int | None]) -> Batch:
    """Return a batch with the columns that it lacks."""
    if not columns or not hasattr(batch, "columns"):  # a matrix has no names
        return batch
    if hasattr(batch, "column_names"):
        pyarrow = require_pyarrow("Reading Arrow batches")
        for name, value in columns.items():
            if name not in batch.column_names:
                kind = pyarrow.int64() if isinstance(value, int) else pyarrow.string()
                batch = batch.append_column(
                    name, pyarrow.repeat(pyarrow.scalar(value, kind), len(batch))
                )
        return batch
    import polars

    return batch.with_columns(
        polars.lit(value, polars.Int64 if isinstance(value, int) else polars.String).alias(name)
        for name, value in columns.items()
        if name not in batch.columns
    )
