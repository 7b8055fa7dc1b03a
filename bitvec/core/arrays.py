"""Checks that turn an array into a read-only field of a core type."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bitvec.errors import InvalidForestError

if TYPE_CHECKING:
    Array: TypeAlias = npt.NDArray[Any]
    ArrayLike: TypeAlias = npt.ArrayLike
else:
    Array = np.ndarray
    ArrayLike = Any  # the run-time checker knows no numeric tower: float is no `complex` to it
"""An array whose dtype and shape stand in the jaxtyping annotation around it."""

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def unique_integers(integers: Array) -> Array:
    """Return the distinct integers of an array, in their order.

    `np.unique` imports `numpy.ma` for it, which takes a tenth of the time until a first prediction.
    """
    found = np.sort(integers, axis=None)
    return found[np.append(True, found[1:] != found[:-1])[: found.size]]


def is_masked(array: Any) -> bool:
    """Return whether an array is a masked one, of a module that is imported if there are any."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, masked.MaskedArray)


def read_only(
    name: str, value: ArrayLike, dtype: npt.DTypeLike, shape: tuple[int | None, ...]
) -> Array:
    """Return `value` as a read-only contiguous view with exactly this dtype and shape.

    Lists and tuples are converted; an array of another dtype is refused, never cast.
    `None` in `shape` leaves that axis free.
    """
    want = np.dtype(dtype)
    array = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=want)
    if array.dtype != want:
        raise InvalidForestError(
            f"`{name}` must have dtype {want}, got {array.dtype}: cast it where it is made."
        )
    fits = array.ndim == len(shape) and all(
        n is None or n == m for n, m in zip(shape, array.shape, strict=True)
    )
    if not fits:
        expected = ", ".join("any" if n is None else str(n) for n in shape)
        raise InvalidForestError(f"`{name}` must have shape ({expected}), got {array.shape}.")
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def require(holds: Any, message: str) -> None:
    """Raise InvalidForestError with `message` unless `holds` is true."""
    if not holds:
        raise InvalidForestError(message)


def require_offsets(name: str, offsets: Array, total: int) -> None:
    """Check that `offsets` starts at 0, never falls and ends at `total`."""
    require(
        offsets.size > 0
        and offsets[0] == 0
        and offsets[-1] == total
        and bool(np.all(offsets[1:] >= offsets[:-1])),
        f"`{name}` must rise from 0 to {total}, got "
        f"{offsets[:4].tolist()} ... {offsets[-1:].tolist()}.",
    )


def require_codes(name: str, values: Array, allowed: int) -> None:
    """Check that every value is one of 0 ... allowed - 1."""
    require(
        values.size == 0 or (int(values.min()) >= 0 and int(values.max()) < allowed),
        f"`{name}` must lie in 0 ... {allowed - 1}, got values outside it.",
    )


def put(record: object, **fields: object) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in fields.items():
        object.__setattr__(record, name, value)


def put_array(
    record: object, name: str, dtype: np.dtype | type, shape: tuple[int | None, ...]
) -> None:
    """Make a field of a frozen dataclass read-only while it is made; None stays."""
    value = getattr(record, name)
    if value is not None:
        object.__setattr__(record, name, read_only(name, value, dtype, shape))


def ranges(starts: Array, counts: Array) -> Array:
    """Concatenate the integer ranges [start, start + count), in order.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)


def copied(answer: Array, out: Array | None) -> Array:
    """Return an answer, or `out` with a copy of it, if that is given."""
    if out is None:
        return answer
    out[...] = answer
    return out
