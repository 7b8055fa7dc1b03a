"""CatBoost's JSON model document: parsed, and read member by member, strictly.

Every member that is read must be there and be of its kind, and an object may hold only members
whose meaning is known: what a newer CatBoost adds may change what a model predicts.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import numpy as np

from bitvec.converters.catboost.nested import Nested
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.errors import FileFormatError, UnsupportedModelError

Document: TypeAlias = dict[str, Any]
"""A JSON object."""

T = TypeVar("T")

MEMBERS: Final = frozenset(
    {"model_info", "features_info", "oblivious_trees", "trees", "scale_and_bias", "ctr_data"}
)


def parse(data: bytes) -> tuple[Document, Nested]:
    """Read a model document, and apart from it the nodes and leaves of nested trees.

    Raises
    ------
    FileFormatError
        If it is no JSON object, truncated, or nested too deeply.
    UnsupportedModelError
        If it holds members whose meaning is not known.
    """
    nested = Nested()
    try:
        document = json.loads(data, object_hook=nested.closed, parse_constant=_no_number)
    except RecursionError:
        raise FileFormatError("a JSON model must not be nested this deeply.") from None
    except ValueError as error:  # bad JSON, bad text encoding, or an integer of thousands of digits
        raise FileFormatError(f"a JSON model must be whole and valid, got: {error}.") from error
    document = as_object(document, "the model", MEMBERS)
    if ("oblivious_trees" in document) == ("trees" in document):
        raise FileFormatError(
            "a CatBoost model must hold either `oblivious_trees` or `trees`, got "
            f"{sorted(document)}: save it with save_model(path, format='json')."
        )
    return document, nested


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"the number {text}")


def as_object(value: Any, name: str, allowed: frozenset[str]) -> Document:
    """Return a JSON object none of whose members has an unknown meaning."""
    if not isinstance(value, dict):
        raise FileFormatError(f"{name} must be an object, got {type(value).__name__}.")
    unknown = value.keys() - allowed
    if unknown:
        raise UnsupportedModelError(
            f"{name} must hold members among {', '.join(sorted(allowed))}, got "
            f"{min(unknown)[:80]!r}, whose meaning is not known."
        )
    return value


def member(parent: Document, name: str, kind: type[T]) -> T:
    """Return a member that must be there and be of this kind; a boolean is no integer."""
    value = parent.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise FileFormatError(
            f"`{name}` must be there as a {kind.__name__}, got {type(value).__name__}."
        )
    return value


def items(parent: Document, name: str) -> list[Any]:
    """Return a list, empty where the member is null or not there, as CatBoost writes it."""
    return [] if parent.get(name) is None else member(parent, name, list)


def whole(parent: Document, name: str, high: int) -> int:
    """Return an integer in 0 ... high - 1."""
    value = member(parent, name, int)
    if not 0 <= value < high:
        raise FileFormatError(f"`{name}` must lie in 0 ... {high - 1}, got {str(value)[:40]}.")
    return value


def numbers(value: Any, name: str) -> Float64[Array, " n"]:
    """Return a list of finite numbers as float64, each the nearest to its decimals."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int, float}:
        raise FileFormatError(f"`{name}` must be a flat list of numbers, got other values.")
    try:
        array = np.array(value, np.float64)
    except OverflowError:
        array = np.array([np.inf])
    if not np.all(np.isfinite(array)):
        raise FileFormatError(f"`{name}` must hold numbers that float64 can hold.")
    return array
