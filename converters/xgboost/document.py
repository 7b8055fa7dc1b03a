"""xgboost's model document: parsed from any of its formats, and read member by member, strictly."""

from __future__ import annotations

import json
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from bitvec.arrays import Array
from bitvec.converters import ubjson
from bitvec.converters.xgboost import legacy
from bitvec.errors import FileFormatError

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
        If the old binary format holds what cannot be lifted.
    """
    head = data[:64].lstrip()
    if not head.startswith(b"{"):
        if legacy.recognises(data[:256]):
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


def float32s(value: Any, name: str, size: int | None = None) -> Array:
    """Return a list of numbers as float32, by way of float64 as in xgboost's JSON reader."""
    with np.errstate(over="ignore"):
        return numbers(value, name, size).astype(np.float32)


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
