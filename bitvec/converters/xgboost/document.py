"""xgboost's model document: parsed from any of its formats, and read member by member, strictly."""

from __future__ import annotations

import json
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from bitvec.converters import ubjson
from bitvec.converters.xgboost import legacy
from bitvec.converters.xgboost.format import is_xgboost_binary
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, UnsupportedModelError

Document: TypeAlias = dict[str, Any]
"""A JSON object; arrays of numbers are lists, or NumPy arrays where UBJSON types them."""

T = TypeVar("T")


def parse(data: bytes) -> Document:
    """Read a model document; its content tells JSON, UBJSON and the old binary format apart.

    Raises
    ------
    FileFormatError
        If it is none of them, truncated, or nested too deeply.
    UnsupportedModelError
        If the old binary format holds what cannot be converted.
    """
    head = data[:64].lstrip()
    if not head.startswith(b"{"):
        if is_xgboost_binary(data[:256]):
            return legacy.parse(data)
        raise FileFormatError(
            f"an xgboost model must be JSON, UBJSON or its old binary format, got a file that "
            f"begins with {data[:8]!r}."
        )
    second = head[1:].lstrip()[:1]
    try:
        # A UBJSON object goes on with the integer marker of its first key's length.
        value = json.loads(data) if second in (b'"', b"}", b"") else ubjson.parse(data)
    except RecursionError:
        raise FileFormatError("a JSON model must not be nested this deeply.") from None
    except FileFormatError:
        raise
    except ValueError as error:  # bad JSON, bad text encoding, or an integer of thousands of digits
        raise FileFormatError(f"a JSON model must be whole and valid, got: {error}.") from error
    return cast(Document, value)


def member(parent: Document, name: str, kind: type[T]) -> T:
    """Return a member that must be there and be of this kind."""
    if name not in parent:
        raise FileFormatError(f"an xgboost model must hold `{name}`, got {sorted(parent)[:8]}.")
    value = parent[name]
    if not isinstance(value, kind):
        raise FileFormatError(f"`{name}` must be a {kind.__name__}, got {type(value).__name__}.")
    return value


def integer(parent: Document, name: str, *, default: int | None = None) -> int:
    """Return an integer that xgboost writes as text."""
    if name not in parent and default is not None:
        return default
    text = member(parent, name, str)
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise FileFormatError(f"`{name}` must be the text of a whole number, got {text[:40]!r}.")
    return int(text)


def numbers(value: Any, name: str, size: int | None = None) -> Array:
    """Return a list of numbers or booleans as an array of its natural dtype.

    Parameters
    ----------
    value : list or 1-D array
    name : str
        For the message.
    size : int, optional
        The length that it must have.
    """
    if not isinstance(value, (list, np.ndarray)):
        raise FileFormatError(f"`{name}` must be a list, got {type(value).__name__}.")
    try:
        array = np.asarray(value) if len(value) else np.zeros(0, np.int64)
    except ValueError:  # lists of different lengths within
        array = np.zeros(0, object)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise FileFormatError(f"`{name}` must be a flat list of numbers, got other values.")
    if size is not None and array.size != size:
        raise FileFormatError(f"`{name}` must have {size} values, got {array.size}.")
    return array


def integers(value: Any, name: str, low: int, high: int, size: int | None = None) -> Array:
    """Return a list of integers in low ... high - 1 as int64."""
    array = numbers(value, name, size)
    if array.dtype.kind == "f" or (
        array.size and not (low <= int(array.min()) and int(array.max()) < high)
    ):
        raise FileFormatError(f"`{name}` must hold integers in {low} ... {high - 1}.")
    return array.astype(np.int64)


def require_known(parent: Document, names: frozenset[str], what: str) -> None:
    """Refuse a document with members that are not known: they may change what it predicts.

    Raises
    ------
    UnsupportedModelError
    """
    unknown = sorted(set(parent) - names)
    if unknown:
        raise UnsupportedModelError(
            f"{what} must hold only members that are known, got {unknown[0][:60]!r}: a newer "
            "xgboost may mean something by it."
        )


def float32s(value: Any, name: str, size: int | None = None) -> Array:
    """Return a list of numbers as float32.

    Raises
    ------
    FileFormatError
        If a number lies half way between two of float32: xgboost rounds its text, of which float64
        may have lost the side.
    """
    given = numbers(value, name, size)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = given.astype(np.float32)
        if given.dtype == np.float32:
            return rounded
        wide = given.astype(np.float64)
        # To the neighbour on the other side; beyond the largest number it would be 2**128.
        other = np.nextafter(rounded, np.where(wide > rounded, np.inf, -np.inf).astype(np.float32))
        ends = [x.astype(np.float64) for x in (rounded, other)]
        ends = [np.where(np.isinf(x), np.copysign(2.0**128, x), x) for x in ends]
        half_way = (wide != ends[0]) & np.isfinite(wide) & ((ends[0] + ends[1]) / 2 == wide)
    if np.any(half_way):
        raise FileFormatError(
            f"`{name}` must hold numbers that float32 tells apart, got {wide[half_way][0]!r}, half "
            "way between two: write it with at most 9 digits."
        )
    return rounded


def label_array(value: Any) -> Array:
    """Return a list of class labels, numbers or texts, as an array."""
    if isinstance(value, list) and value and all(isinstance(label, str) for label in value):
        return np.asarray(value)
    return numbers(value, "classes_")


def plain(value: Any) -> Any:
    """Return a JSON value with arrays turned into lists."""
    if isinstance(value, dict):
        return {name: plain(child) for name, child in value.items()}
    if isinstance(value, list):
        return [plain(child) for child in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
