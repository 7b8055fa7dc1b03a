"""Data frames as tables: pandas, polars and pyarrow, by way of narwhals."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bitvec.core.arrays import FLOATS, Array
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError
from bitvec.runtime.predict.code_books import listed
from bitvec.runtime.predict.native_columns import (
    fill_columns,
    is_arrow,
    labels_of,
    numbers_of,
    rows_of,
    values_of,
)
from bitvec.runtime.predict.table_columns import KEPT, Column, Same, outside_stacklevel

_BLANK = re.compile(r"\s")
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


def open_frame(X: Any) -> tuple[Any, list[Any]] | None:
    """Return what `FrameTable` reads X from, and the labels of its columns; None of what is none.

    narwhals takes as long to import as the rows of a file to predict.
    """
    labels = labels_of(X)
    if labels is not None:
        require_distinct(labels)
        return X, labels
    frame = as_frame(X)
    # narwhals asks for its columns anew at each call.
    return None if frame is None else (frame, frame.columns)


class NamedColumns(NamedTuple):
    """The columns of a data frame that a forest reads.

    Parameters
    ----------
    places : sequence of int
        Where each of the forest's columns stands: by name, where it has names. One that the source
        drops need not be there.
    names : list of str
        What messages call them.
    extra : list of str
        Columns that the forest does not read.
    """

    places: Sequence[int]
    names: list[str]
    extra: list[str]


def columns_of(labels: Sequence[Any], inputs: Inputs) -> NamedColumns:
    """Return the columns that a forest reads among those of some labels; warn of others.

    Raises
    ------
    InputError
        If one is missing, or names are not distinct.
    """
    find = _found_before if {*map(type, labels)} <= {str} else _find  # True == 1
    found = find(tuple(labels), Same(inputs))
    if found.extra:
        warnings.warn(
            f"`X` has columns that the forest does not read: {listed(found.extra)}.",
            UserWarning,
            stacklevel=outside_stacklevel(),
        )
    return found


def _find(labels: tuple[Any, ...], of: Same) -> NamedColumns:
    names, wanted = [*map(_name, labels)], of.inputs.feature_names
    places: Sequence[int] = range(len(names))
    extra: list[str] = []
    if wanted is not None:
        places, extra = by_name(names, of.inputs)
    return NamedColumns(places, [f"column {name!r}" for name in wanted or names], extra)


_found_before = lru_cache(maxsize=KEPT)(_find)


@dataclass(frozen=True, slots=True)
class FrameTable:
    """A data frame as a table of `bitvec.runtime.predict.tables`.

    Parameters
    ----------
    X : data frame
        One that `native_columns` knows, or that of narwhals.
    places : sequence of int
        Where each of the forest's columns stands in it.
    columns : list of Column
        These columns.
    dtype : numpy dtype
        What they are read as.
    """

    X: Any
    places: Sequence[int]
    columns: list[Column]
    dtype: np.dtype

    is_converted = True

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X)

    def read(self, part: slice) -> Array:
        """Return some rows: F-ordered, or as its library holds them where all are numbers."""
        X = self.X if part == slice(0, self.n_rows) else rows_of(self.X, part)
        if all(own.reads_numbers for own in self.columns):
            values = values_of(X, self.places)
            if values is not None:
                for own, column in zip(self.columns, values.T, strict=True):
                    own.require_numbers(column)
                with np.errstate(over="ignore", invalid="ignore"):
                    return values if values.dtype in FLOATS else values.astype(self.dtype)
        # One row of the result per column: columns are written at once, and its transpose is
        # F-ordered.
        result = np.empty((len(self.places), len(X)), self.dtype)
        held: list[Any] = []
        with np.errstate(over="ignore", invalid="ignore"):
            read = []
            for at, own, to in zip(self.places, self.columns, result, strict=True):
                if own.is_dropped:
                    to[...] = 0
                else:
                    read.append((at, own, to))
            filled = fill_columns(X, [(at, own) for at, own, _ in read], [to for *_, to in read])
            for number, (at, own, to) in enumerate(read):
                if number not in filled:
                    # By position: a label such as NaN cannot be looked up.
                    held = held or [*as_frame(X).iter_columns()]
                    to[...] = own.from_series(held[at])
        return result.T

    def memory(self) -> Iterator[Array]:
        """Yield the arrays of columns of numbers, views where NumPy can have them."""
        if is_arrow(self.X):
            for at in self._read_places():
                yield from numbers_of(self.X.column(at))
            return
        frame = as_frame(self.X)
        for at in self._read_places():
            series = frame[:, at]
            if series.dtype.is_numeric():
                yield np.asarray(series.to_numpy())

    def _read_places(self) -> list[int]:
        own = zip(self.places, self.columns, strict=True)
        return [at for at, column in own if not column.is_dropped]

    def finish(self) -> None:
        """Warn of categories that were not known."""
        for own in self.columns:
            own.warn_of_unseen()


def _name(label: Any) -> str:
    """Return a column's name as xgboost derives it from its label."""
    return " ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def by_name(names: list[str], inputs: Inputs) -> tuple[list[int], list[str]]:
    """Return where the forest's columns stand, -1 for one that need not, and what else is there."""
    require_distinct(names)
    wanted = inputs.feature_names or ()
    place = {name: at for at, name in enumerate(names)}
    if not place.keys() >= {*wanted} and not any(map(_BLANK.search, wanted)):
        joined = [_BLANK.sub("_", name) for name in names]  # as LightGBM names them
        once = {name: at for at, name in enumerate(joined) if joined.count(name) == 1}
        place = once | place
    missing = [
        name for at, name in enumerate(wanted) if name not in place and not inputs.is_dropped(at)
    ]
    if missing:
        raise InputError(
            f"`X` must have the forest's {len(wanted)} columns, got none named "
            f"{listed(missing)}: add or rename them, or pass an array in the training order."
        )
    places = [place.get(name, -1) for name in wanted]
    used = set(places)
    return places, [name for at, name in enumerate(names) if at not in used]
