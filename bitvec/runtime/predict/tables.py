"""Rows from whatever holds them: NumPy, lists, scipy sparse, pandas, polars, pyarrow.

The rules, for every container:

* A table with column labels is read by name where the forest has names: another order is fine, a
  missing column is an error, a further column is passed over with a warning. A label that is no
  string has the name that xgboost gives it. Otherwise columns are read by position and their number
  must fit.
* A null is NaN. A string, category or, where the column has a code book, boolean is replaced by its
  position in `inputs.categories`: -1, which no set holds, if it is not there. A string is refused
  where all categories are numbers. A number is read as it is, and so as a code that the book has
  given already; where it may be the category itself, only an array of numbers holds codes, and
  other numbers are refused.
* An entry that a sparse matrix does not hold is 0, or missing if `inputs.absent_is_missing`. One
  that it holds twice is refused.
* Where X holds hashes of categories, a float64 array holds them; other arrays and lists hold the
  categories themselves, texts or whole numbers.
* Values are rounded to the forest's dtype to nearest, to infinity where they overflow.
* Where `inputs.domains` says what the source computes with, nothing of another dtype is read.

An array of floats is handed over as it is, whatever its strides. Everything else is converted part
by part, so that no more than a part of it is held twice.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bitvec.core.arrays import FLOATS, Array, is_masked
from bitvec.core.inputs import Inputs
from bitvec.errors import InputError
from bitvec.runtime.predict.declared_dtypes import require_array, require_dense
from bitvec.runtime.predict.frames import FrameTable, columns_of, open_frame
from bitvec.runtime.predict.table_columns import Column, columns, outside_stacklevel

LEAST_HASH = 1 << 16
"""One hash of 32 bits in 33,000 is below."""
PART_BYTES = 1 << 24
"""Bytes, about, of a part of a converted table as a float64 array: it is read part by part."""

_NUMBERS = "biuf"


class Table(Protocol):
    """Rows that fit a forest, not yet read."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def is_converted(self) -> bool:
        """Return whether `read` makes new arrays, so that it should be asked for parts."""
        ...

    def read(self, part: slice) -> Array:
        """Return some rows as an aligned float32 or float64 array, of any strides.

        Rows of a sparse matrix stand there until the next are read.
        """
        ...

    def memory(self) -> Iterator[Array]:
        """Yield arrays in whose memory the rows lie, as far as NumPy can see it."""
        ...

    def finish(self) -> None:
        """Warn of what was found while reading."""
        ...


def open_table(X: Any, inputs: Inputs, dtype: np.dtype) -> Table:
    """Return X as rows that can be read, its shape, names and kind checked.

    Parameters
    ----------
    X : array, sequence of rows, scipy sparse matrix, or data frame; (batch, n_features)
    inputs : Inputs
    dtype : numpy dtype
        float32 or float64: what all but native floats are converted to.

    Raises
    ------
    InputError
        If the shape, the names or the kind of values do not fit.
    """
    if isinstance(X, np.ndarray):
        return _array(X, inputs, dtype)
    if hasattr(X, "tocsr"):
        absent = np.nan if inputs.absent_is_missing else 0.0
        return _Sparse(open_sparse(X, inputs), absent, dtype)
    if X is None or isinstance(X, str | bytes | numbers.Number | dict):
        raise InputError(
            f"`X` must be a table of rows, got {type(X).__name__}: pass an array or a frame."
        )
    if not isinstance(X, Sequence) and not hasattr(X, "__array_interface__"):
        opened = open_frame(X)
        if opened is not None:
            frame, labels = opened
            named = columns_of(labels, inputs)
            _require_shape((len(frame), len(named.places)), inputs)
            return FrameTable(frame, named.places, columns(inputs, named.names), dtype)
    if isinstance(X, Sequence) and (inputs.category_hashes or inputs.has_truths):
        X = _array_of_objects(X)
    return _array(as_array(X), inputs, dtype)


def parts(table: Table, n_features: int) -> Iterator[Array]:
    """Yield the rows of a table, part by part where they are converted."""
    size = max(table.n_rows, 1)
    if table.is_converted:
        size = max(1, PART_BYTES // (8 * max(n_features, 1)))
    for start in range(0, table.n_rows, size):
        yield table.read(slice(start, min(start + size, table.n_rows)))
    table.finish()


def rows(X: Any, inputs: Inputs, dtype: np.dtype) -> Array:
    """Return the whole of X as a C- or F-contiguous array in a dtype, not copied where it is one.

    Parameters
    ----------
    X : array, sequence of rows, scipy sparse matrix, or data frame; (batch, n_features)
    inputs : Inputs
    dtype : numpy dtype
        float32 or float64.

    Returns
    -------
    ndarray, (batch, n_features)

    Raises
    ------
    InputError
        If the shape, the names or the kind of values do not fit.

    Examples
    --------
    >>> rows([[1, 2], [3, 4]], Inputs(2), np.dtype(np.float32))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    table = open_table(X, inputs, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        result = table.read(slice(0, table.n_rows)).astype(dtype, copy=False)
    table.finish()
    if not (result.flags.c_contiguous or result.flags.f_contiguous):
        result = np.ascontiguousarray(result)
    return result


@dataclass(frozen=True, slots=True)
class _Floats:
    """Native floats, handed over as they are."""

    X: Array

    is_converted = False

    @property
    def n_rows(self) -> int:
        return len(self.X)

    def read(self, part: slice) -> Array:
        return self.X[part]

    def memory(self) -> Iterator[Array]:
        yield self.X

    def finish(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Numbers(_Floats):
    """Numbers of another kind: cast once, so that a large integer is rounded once."""

    dtype: np.dtype

    is_converted = True

    def read(self, part: slice) -> Array:
        values = self.X[part]
        # A value beyond the dtype's range is infinite, as in the source libraries.
        with np.errstate(over="ignore", invalid="ignore"):
            if is_masked(values):
                return np.asarray(np.ma.filled(values.astype(self.dtype), np.nan))
            return values.astype(self.dtype)


@dataclass(frozen=True, slots=True)
class _Objects(_Floats):
    """Python objects: numbers, and categories by their code books."""

    columns: list[Column]
    dtype: np.dtype

    is_converted = True

    def read(self, part: slice) -> Array:
        values = self.X[part]
        result = np.empty((len(self.columns), len(values)), self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for at, own in enumerate(self.columns):
                result[at] = own.from_values(values[:, at].tolist())
        return result.T

    def finish(self) -> None:
        for own in self.columns:
            own.warn_of_unseen()


@dataclass(slots=True)
class _Sparse:
    """A scipy matrix, by rows, made dense part by part."""

    X: Any
    absent: float
    dtype: np.dtype
    _dense: Array | None = None
    _filled: tuple[Array, Array] | None = None

    is_converted = True

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    def read(self, part: slice) -> Array:
        """Return some rows, until the next are read: only what they filled is then emptied."""
        first, last, _ = part.indices(self.n_rows)
        row_ptr = self.X.indptr[first : last + 1].astype(np.int64)
        held = slice(int(row_ptr[0]), int(row_ptr[-1]))
        row = np.repeat(np.arange(last - first), np.diff(row_ptr))
        if self._dense is None or len(self._dense) < last - first:
            self._dense = np.full((last - first, self.X.shape[1]), self.absent, self.dtype)
        elif self._filled is not None:
            self._dense[self._filled] = self.absent
        self._filled = row, self.X.indices[held]
        with np.errstate(over="ignore", invalid="ignore"):
            self._dense[self._filled] = self.X.data[held].astype(self.dtype)
        return self._dense[: last - first]

    def memory(self) -> Iterator[Array]:
        yield from (self.X.data, self.X.indices, self.X.indptr)

    def finish(self) -> None:
        pass


def as_array(X: Any) -> Array:
    """Return a sequence of rows as an array, of objects where it holds texts."""
    try:
        array = np.asarray(X)
        # A list of numbers and strings would become an array of strings.
        return np.asarray(X, object) if array.dtype.kind in "US" else array
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"`X` must be readable as an array, got {type(X).__name__}: "
            "pass rows of equal length, or a NumPy array."
        ) from error


def _array_of_objects(X: Sequence[Any]) -> Array:
    # A list of whole numbers and floats would become an array of floats.
    try:
        return np.asarray([list(row) for row in X] or [[]], object)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"`X` must be readable as an array, got {type(X).__name__}: pass rows of equal length."
        ) from error


def _require_shape(shape: tuple[int, ...], inputs: Inputs) -> None:
    if len(shape) != 2:
        hint = "pass a table of rows"
        if len(shape) == 1:
            hint = "pass X.reshape(1, -1) if it is one row, X.reshape(-1, 1) if it is one column"
        raise InputError(f"`X` must have two axes (rows, features), got shape {shape}: {hint}.")
    if shape[1] != inputs.n_features:
        raise InputError(
            f"`X` must have {inputs.n_features} features, got shape {shape}: "
            "pass the training columns."
        )


def _require_numbers(dtype: np.dtype) -> None:
    if dtype.kind not in _NUMBERS:
        raise InputError(
            f"`X` must hold real numbers, got dtype {dtype}: encode or convert its columns."
        )


def _array(X: Array, inputs: Inputs, dtype: np.dtype) -> Table:
    _require_shape(X.shape, inputs)
    if inputs.category_hashes and X.dtype == np.float64:
        _warn_of_codes(X, inputs)
    elif inputs.category_hashes:
        if X.dtype.kind == "f":
            raise InputError(
                f"`X` must be float64 where it holds hashes of categories, got {X.dtype}, which "
                "rounds them: pass a frame, or a float64 array."
            )
        X = X.astype(object)
    require_array(X, inputs)
    if X.dtype.kind in "OUS":
        names = [f"column {at}" for at in range(inputs.n_features)]
        return _Objects(X, columns(inputs, names), dtype)
    _require_numbers(X.dtype)
    if is_masked(X):
        return _Numbers(X, dtype)
    X = np.asarray(X)  # not a subclass, such as a matrix or a file mapped into memory
    # Equal dtypes are native ones, whatever metadata they carry.
    return _Floats(X) if X.dtype in FLOATS and X.flags.aligned else _Numbers(X, dtype)


def _warn_of_codes(X: Array, inputs: Inputs) -> None:
    """Warn of columns that hold codes, it seems, where hashes are asked for."""
    columns = [*inputs.category_hashes]
    cells = X[:, columns]
    with np.errstate(invalid="ignore"):
        seem = np.mean(np.abs(cells) < LEAST_HASH, axis=0) > 0.5 if len(X) else []
    found = [column for column, seems in zip(columns, seem, strict=False) if seems]
    if found:
        warnings.warn(
            f"`X` holds mostly numbers below {LEAST_HASH} in columns {found}, which must hold the "
            "hashes of categories in a float64 array: they are categories that the forest does not "
            "know. Pass the categories themselves, in a frame, a list, or an array of objects.",
            UserWarning,
            stacklevel=outside_stacklevel(),
        )


def open_sparse(X: Any, inputs: Inputs) -> Any:
    """Return a scipy matrix by rows, its entries in order, checked as `open_table` does."""
    _require_shape(X.shape, inputs)
    if inputs.category_hashes:
        raise InputError(
            "`X` must not be a sparse matrix where the forest reads categories, which absent "
            "entries do not have: pass a frame."
        )
    require_dense(inputs)
    _require_numbers(X.dtype)
    X = X.tocsr()
    if not X.has_canonical_format:
        n_entries, X = X.nnz, X.copy()
        X.sum_duplicates()
        if X.nnz < n_entries:
            raise InputError(
                "a sparse `X` must hold each entry once, got some twice, of which scipy means the "
                "sum and other libraries read the last: call X.sum_duplicates()."
            )
    return X
