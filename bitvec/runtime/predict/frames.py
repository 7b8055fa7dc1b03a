"""Data frames as tables: pandas, polars and pyarrow, by way of narwhals."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError
from bitvec.runtime.predict.code_books import listed
from bitvec.runtime.predict.table_columns import Column, column, outside_stacklevel

_DISTINCT = "`X` must have distinct column names: rename them."


def require_distinct(names: Collection[str]) -> None:
    """Raise InputError if two columns have one name."""
    if len(set(names)) < len(names):
        raise InputError(_DISTINCT)


def as_frame(X: Any) -> Any:
    """Return X as a narwhals frame, or None if it is no data frame."""
    import narwhals

    try:
        return narwhals.from_native(X, eager_only=True)
    except TypeError as error:
        if hasattr(X, "collect"):
            raise InputError(
                f"`X` must be in memory, got {type(X).__name__}: pass X.collect()."
            ) from error
        if hasattr(X, "to_frame"):
            raise InputError(
                f"`X` must have two axes, got the column {type(X).__name__}: pass X.to_frame()."
            ) from error
        return None
    except narwhals.exceptions.DuplicateError as error:
        raise InputError(_DISTINCT) from error


def native_frame(X: Any, n_rows: int) -> Any:
    """Return the first rows of X in its own library, or None if it is no data frame."""
    if X is None or isinstance(X, np.ndarray | Sequence) or hasattr(X, "tocsr"):
        return None
    frame = as_frame(X)
    return None if frame is None else frame.head(n_rows).to_native()


def is_arrow(X: Any) -> bool:
    """Return whether X is a table of pyarrow, which need not be imported for that."""
    return type(X).__name__ == "Table" and type(X).__module__ == "pyarrow.lib"


def arrow_floats(
    table: Any, places: Sequence[int], columns: Sequence[Column], dtype: np.dtype
) -> ArrowFloats | None:
    """Return a table of pyarrow that holds floats without nulls where it is read, else None.

    narwhals, which reads all else, takes as long to import as the rows of a file to predict.
    """
    if not is_arrow(table):
        return None
    held = [table.column(place) for place in places]
    if (
        any(own.book is not None or own.domain is not None for own in columns)
        or not {str(one.type) for one in held} <= {"float", "double"}
        or any(one.null_count for one in held)
        or len({*table.column_names}) < table.num_columns  # which narwhals refuses
    ):
        return None
    return ArrowFloats(held, table.num_rows, dtype)


def column_places(labels: Iterable[Any], inputs: Inputs) -> Sequence[int]:
    """Return where the columns stand that the forest reads: by name, where it has names."""
    names = [_name(label) for label in labels]
    return (
        range(len(names)) if inputs.feature_names is None else _by_name(names, inputs.feature_names)
    )


def columns_at(labels: Sequence[Any], places: Sequence[int], inputs: Inputs) -> list[Column]:
    """Return the columns at these places, with the forest's code books."""
    names = [_name(labels[place]) for place in places]
    return [column(inputs, at, f"column {name!r}") for at, name in enumerate(names)]


@dataclass(frozen=True, slots=True)
class FrameTable:
    """A data frame as a table of `bitvec.runtime.predict.tables`.

    Parameters
    ----------
    frame : narwhals.DataFrame
    places : sequence of int
        Where each of the forest's columns stands in it.
    columns : list of Column
        These columns.
    dtype : numpy dtype
        What they are read as.
    """

    frame: Any
    places: Sequence[int]
    columns: list[Column]
    dtype: np.dtype

    is_converted = True

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    def read(self, part: slice) -> Array:
        """Return some rows, F-ordered."""
        frame = self.frame
        if part != slice(0, self.n_rows):
            frame = frame[part]
        # One row of the result per column: columns are written at once, and its transpose is
        # F-ordered.
        result = np.empty((len(self.places), len(frame)), self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            # By position: a label such as NaN cannot be looked up.
            held = [*frame.iter_columns()]
            for row, (at, own) in enumerate(zip(self.places, self.columns, strict=True)):
                result[row] = own.from_series(held[at])
        return result.T

    def memory(self) -> Iterator[Array]:
        """Yield the arrays of columns of numbers, views where NumPy can have them."""
        for at in self.places:
            series = self.frame[:, at]
            if series.dtype.is_numeric():
                yield np.asarray(series.to_numpy())

    def finish(self) -> None:
        """Warn of categories that were not known."""
        for own in self.columns:
            own.warn_of_unseen()


@dataclass(frozen=True, slots=True)
class ArrowFloats:
    """Columns of floats without nulls of a table of pyarrow; see `FrameTable`."""

    columns: list[Any]
    n_rows: int
    dtype: np.dtype

    is_converted = True

    def read(self, part: slice) -> Array:
        """Return some rows, F-ordered."""
        start, stop, _ = part.indices(self.n_rows)
        result = np.empty((len(self.columns), stop - start), self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for row, held in zip(result, self.columns, strict=True):
                at = 0
                for chunk in held.slice(start, stop - start).chunks:
                    row[at : at + len(chunk)] = np.from_dlpack(chunk)
                    at += len(chunk)
        return result.T

    def memory(self) -> Iterator[Array]:
        """Yield the arrays of the columns, views."""
        for held in self.columns:
            yield from map(np.from_dlpack, held.chunks)

    def finish(self) -> None:
        """Do nothing: there are no categories."""


def _name(label: Any) -> str:
    """Return a column's name as xgboost derives it from its label."""
    return " ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _by_name(names: list[str], wanted: tuple[str, ...]) -> Sequence[int]:
    """Return where the wanted columns stand."""
    require_distinct(names)
    place = {name: at for at, name in enumerate(names)}
    missing = [name for name in wanted if name not in place]
    if missing:
        raise InputError(
            f"`X` must have the forest's {len(wanted)} columns, got none named "
            f"{listed(missing)}: add or rename them, or pass an array in the training order."
        )
    needed = set(wanted)
    extra = [name for name in names if name not in needed]
    if extra:
        warnings.warn(
            f"`X` has columns that the forest does not read: {listed(extra)}.",
            UserWarning,
            stacklevel=outside_stacklevel(),
        )
    return [place[name] for name in wanted]
