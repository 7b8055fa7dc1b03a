"""Arrays of what callers pass: lists and integers are converted, floats keep their dtype."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import FLOATS, Array, ArrayLike, read_only, require
from bitvec.errors import InvalidForestError


def floats(name: str, value: ArrayLike, dtype: np.dtype | None = None) -> Array:
    """Return `value` as float32 or float64.

    An array of floats keeps its dtype, which must be `dtype` if given. Lists, and arrays of
    integers or booleans, become `dtype`, float64 if not given.

    Raises
    ------
    InvalidForestError
        If the values are no numbers, or floats of another dtype.
    """
    array = _array(name, value)
    is_float = isinstance(value, np.ndarray) and array.dtype.kind not in "biu"
    wanted = FLOATS if dtype is None else (dtype,)
    if is_float and array.dtype not in wanted:
        names = " or ".join(str(one) for one in wanted)
        raise InvalidForestError(
            f"`{name}` must have dtype {names}, got {array.dtype}: cast it where it is made."
        )
    if array.dtype.kind not in "biuf":
        raise InvalidForestError(f"`{name}` must hold numbers, got {array.dtype}.")
    with np.errstate(over="ignore"):  # what overflows is refused as infinite
        return array if is_float else array.astype(wanted[-1])


def integers(name: str, value: ArrayLike) -> Array:
    """Return `value` as int64; an empty list is an empty array.

    Raises
    ------
    InvalidForestError
        If the values are not one axis of integers.
    """
    array = _array(name, value)
    require(array.ndim == 1, f"`{name}` must have one axis, got shape {array.shape}.")
    require(
        array.dtype.kind in "iu" or array.size == 0,
        f"`{name}` must hold integers, got {array.dtype}.",
    )
    require(
        array.dtype != np.uint64 or array.size == 0 or int(array.max()) < 2**63,
        f"`{name}` must fit in int64, got {array.max() if array.size else 0}.",
    )
    return array.astype(np.int64)


def _array(name: str, value: ArrayLike) -> Array:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidForestError(f"`{name}` must be an array of numbers, got {error}.") from error


def finite(name: str, value: ArrayLike, dtype: np.dtype, shape: tuple[int | None, ...]) -> Array:
    """Return `value` as a read-only array of this dtype and shape whose values are all finite."""
    array = read_only(name, value, dtype, shape)
    bad = np.argwhere(~np.isfinite(array))
    require(
        bad.size == 0,
        f"`{name}` must be finite, got {array[tuple(bad[0])] if bad.size else 0} at index "
        f"{bad[0].tolist() if bad.size else []}.",
    )
    return array


def float_dtype(name: str, value: ArrayLike) -> np.dtype:
    """Return the dtype of an array, which must be float32 or float64; float64 for a list."""
    dtype = value.dtype if isinstance(value, np.ndarray) else np.dtype(np.float64)
    require(dtype in FLOATS, f"`{name}` must have dtype float32 or float64, got {dtype}.")
    return dtype
