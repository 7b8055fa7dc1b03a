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
* An entry that a sparse matrix does not hold is 0, or missing if `inputs.absent_is_missing`.
* Values are rounded to the forest's dtype to nearest, to infinity where they overflow.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.inputs import Inputs
from bitvec.runtime.code_books import CodeBook, book_of, listed

UNSEEN = -1.0
"""The code of a category that the code book does not hold."""

DENSE_BYTES = 1 << 27
"""`blocks` cuts a sparse matrix into parts that are about this large as float64 arrays."""

_NUMBERS = "biuf"


def rows(X: Any, inputs: Inputs, dtype: np.dtype) -> Array:
    """Return X as a C- or F-contiguous array in this dtype, without a copy where it is one.

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
    # A value beyond the dtype's range is infinite, as in the source libraries.
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(X, np.ndarray):
            return _from_array(X, inputs, dtype)
        if hasattr(X, "tocsr"):
            return _from_sparse(X, inputs, dtype)
        if X is None or isinstance(X, str | bytes | numbers.Number | dict):
            raise InputError(
                f"`X` must be a table of rows, got {type(X).__name__}: pass an array or a frame."
            )
        if not isinstance(X, Sequence) and not hasattr(X, "__array_interface__"):
            frame = _as_frame(X)
            if frame is not None:
                return _from_frame(frame, inputs, dtype)
        return _from_array(_as_array(X), inputs, dtype)


def blocks(X: Any) -> Iterator[Any]:
    """Yield a large sparse matrix in parts of some rows each, and anything else whole."""
    if not hasattr(X, "tocsr") or len(X.shape) != 2:
        yield X
        return
    size = max(1, DENSE_BYTES // (8 * max(X.shape[1], 1)))
    X = X.tocsr() if X.shape[0] > size else X
    for start in range(0, max(X.shape[0], 1), size):
        yield X[start : start + size] if X.shape[0] > size else X


def _as_array(X: Any) -> Array:
    try:
        array = np.asarray(X)
        # A list of numbers and strings would become an array of strings.
        return np.asarray(X, object) if array.dtype.kind in "US" else array
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"`X` must be readable as an array, got {type(X).__name__}: "
            "pass rows of equal length, or a NumPy array."
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


def _from_array(X: Array, inputs: Inputs, dtype: np.dtype) -> Array:
    _require_shape(X.shape, inputs)
    if X.dtype.kind in "OUS":
        return _from_objects(X, inputs, dtype)
    _require_numbers(X.dtype)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(dtype), np.nan)
    X = np.asarray(X).astype(dtype, copy=False)
    if not (X.flags.c_contiguous or X.flags.f_contiguous):
        X = np.ascontiguousarray(X)
    return np.require(X, requirements=["ALIGNED"])


def _from_objects(X: Array, inputs: Inputs, dtype: np.dtype) -> Array:
    result = np.empty((inputs.n_features, len(X)), dtype)
    for column in range(inputs.n_features):
        values = X[:, column].tolist()
        result[column] = _from_values(values, book_of(inputs, column), f"column {column}")
    return result.T


def _from_sparse(X: Any, inputs: Inputs, dtype: np.dtype) -> Array:
    _require_shape(X.shape, inputs)
    _require_numbers(X.dtype)
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    result = np.full(X.shape, np.nan if inputs.absent_is_missing else 0.0, dtype)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    result[row, X.indices] = X.data.astype(dtype)
    return result


def _as_frame(X: Any) -> Any:
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
        raise InputError("`X` must have distinct column names: rename them.") from error


def _from_frame(frame: Any, inputs: Inputs, dtype: np.dtype) -> Array:
    names = [_name(label) for label in frame.columns]
    order: Sequence[int] = range(len(names))
    if inputs.feature_names is not None:
        order = _by_name(names, inputs.feature_names)
    _require_shape((len(frame), len(order)), inputs)
    # One row of the result per column: columns are written at once, and its transpose is F-ordered.
    result = np.empty((inputs.n_features, len(frame)), dtype)
    for column, at in enumerate(order):
        series = frame[:, at]  # by position: a label such as NaN cannot be looked up
        result[column] = _from_series(series, book_of(inputs, column), f"column {names[at]!r}")
    return result.T


def _name(label: Any) -> str:
    """Return a column's name as xgboost derives it from its label."""
    return " ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _by_name(names: list[str], wanted: tuple[str, ...]) -> Sequence[int]:
    """Return where the wanted columns stand."""
    place = {name: at for at, name in enumerate(names)}
    if len(place) < len(names):
        raise InputError("`X` must have distinct column names: rename them.")
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


def outside_stacklevel() -> int:
    """Return the level of the first caller outside this package, whose line the warning names."""
    import sys

    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("bitvec."):
        frame, level = frame.f_back, level + 1
    return level


def _from_series(series: Any, book: CodeBook | None, name: str) -> Array:
    import narwhals

    if series.dtype.is_numeric() and series.dtype != narwhals.Decimal:
        if book is not None:
            book.refuse_numbers(name)
        return np.asarray(series.to_numpy())
    if series.dtype == narwhals.Boolean and book is None and series.null_count() == 0:
        return np.asarray(series.to_numpy())
    if series.dtype.is_temporal():
        raise InputError(f"`X` must hold real numbers, got {series.dtype} in {name}: convert it.")
    native = series.to_native()
    if hasattr(native, "to_pylist"):  # narwhals loses the nulls of pyarrow's dictionary columns
        values = native.to_pylist()
    else:
        objects = series.to_numpy().astype(object)
        objects[series.is_null().to_numpy()] = None
        values = objects.tolist()
    is_category = series.dtype in (narwhals.Categorical, narwhals.Enum)
    return _from_values(values, book, name, null_is_nan=True, is_category=is_category)


def _from_values(
    values: list[Any],
    book: CodeBook | None,
    name: str,
    *,
    null_is_nan: bool = False,
    is_category: bool = False,
) -> Array:
    """Return one column of Python values as float64: numbers as they are, the others by code."""
    null_is_nan |= book is not None
    is_ambiguous = book is not None and book.is_ambiguous
    result = np.empty(len(values))
    unseen: list[Any] = []
    for at, value in enumerate(values):
        is_null = value is None or type(value).__name__ in ("NAType", "NaTType")
        if (is_null and null_is_nan) or (isinstance(value, float) and value != value):
            result[at] = np.nan
        elif book is not None and (is_category or isinstance(value, str | bool | np.bool_)):
            code = book.code(value, name)
            result[at] = UNSEEN if code is None else code
            if code is None:
                unseen.append(value)
        elif _is_number(value) and not is_category:
            if book is not None and is_ambiguous:
                book.refuse_numbers(name)
            result[at] = _as_float(value)
        else:
            remedy = "pass NaN for a missing value" if is_null else "encode it as a number"
            raise InputError(
                f"`X` must hold real numbers in {name}, which has no categories in this forest, "
                f"got {value!r}: {remedy}."
            )
    if unseen:
        warnings.warn(
            f"`X` holds {len(unseen)} values in {name} that the forest has no category for, for "
            f"example {unseen[0]!r}: they go where each node sends an unknown category.",
            UserWarning,
            stacklevel=outside_stacklevel(),
        )
    return result


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of float64
        return math.inf if value > 0 else -math.inf


def _is_number(value: Any) -> bool:
    from decimal import Decimal

    return isinstance(value, numbers.Real | Decimal | np.bool_)
