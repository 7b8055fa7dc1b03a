"""The fields of a record, arrays and JSON values: checked going out, distrusted coming in."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, UnsupportedModelError

Tensors = dict[str, Array]
Record = dict[str, Any]

MAX_DEPTH = 32
"""Deepest nesting of metadata."""
MAX_LABEL_BYTES = 1 << 26
"""Most memory of a forest's string class labels: one long label widens all of them."""

_LABEL_TYPES: dict[str, type] = {
    "bool": bool,
    **dict.fromkeys(("int8", "int16", "int32", "int64"), int),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), int),
    **dict.fromkeys(("float16", "float32", "float64"), float),
}
_CHARACTER = np.dtype("U1").itemsize


def put_arrays(tensors: Tensors, prefix: str, part: Any, names: tuple[str, ...]) -> None:
    """Add these fields of a part to the tensors; a field that is None is left out."""
    for name in names:
        value = getattr(part, name)
        if value is not None:
            tensors[prefix + name] = value


def take_arrays(
    tensors: Tensors, prefix: str, kind: type, names: tuple[str, ...]
) -> dict[str, Array]:
    """Take these fields of a dataclass out of the tensors; one without a default must be there."""
    taken = {}
    optional = {field.name for field in fields(kind) if field.default is not MISSING}
    for name in names:
        if prefix + name in tensors:
            taken[name] = tensors.pop(prefix + name)
        elif name not in optional:
            raise FileFormatError(f"the tensor `{prefix}{name}` must be there, got none.")
    return taken


class Reader:
    """The values of one JSON object, taken by name and type; `finish` refuses what is left over.

    Parameters
    ----------
    record : Any
        Must be a dict; it is emptied.
    where : str
        Its name in messages.
    """

    def __init__(self, record: Any, where: str) -> None:
        if type(record) is not dict:
            raise FileFormatError(f"`{where}` must be a JSON object, got {type(record).__name__}.")
        self._record = record
        self.where = where

    def take(self, name: str, *types: type | None) -> Any:
        """Take a value that has exactly one of these types; None allows null."""
        if name not in self._record:
            raise FileFormatError(f"`{self.where}` must have a value `{name}`, got none.")
        value = self._record.pop(name)
        if (None if value is None else type(value)) not in types:
            raise FileFormatError(
                f"`{self.where}.{name}` must be {_names(types)}, got {type(value).__name__}."
            )
        return value

    def take_count(self, name: str) -> int:
        """Take a whole number from 0 to 2**63 - 1."""
        value: int = self.take(name, int)
        if not 0 <= value < 2**63:
            raise FileFormatError(f"`{self.where}.{name}` must lie in 0 ... 2**63 - 1.")
        return value

    def take_counts(self, name: str) -> tuple[int, ...]:
        """Take a list of whole numbers from 0 to 2**31 - 1."""
        values = self.take_list(name, int)
        if not all(0 <= value < 2**31 for value in values):
            raise FileFormatError(f"`{self.where}.{name}` must hold numbers in 0 ... 2**31 - 1.")
        return values

    def take_list(self, name: str, *types: type | None) -> tuple[Any, ...]:
        """Take a list whose elements each have one of these types."""
        return elements(f"{self.where}.{name}", self.take(name, list), *types)

    def take_choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Take one of these strings."""
        value: str = self.take(name, str)
        if value not in choices:
            raise FileFormatError(
                f"`{self.where}.{name}` must be one of {', '.join(choices)}, got {value[:60]!r}."
            )
        return value

    def finish(self) -> None:
        """Refuse what nobody took: an ignored value could have changed the answers."""
        if self._record:
            name = next(iter(self._record))[:60]
            raise FileFormatError(f"`{self.where}` must not have the unknown value {name!r}.")


def _names(types: tuple[type | None, ...]) -> str:
    return " or ".join("null" if kind is None else kind.__name__ for kind in types)


def elements(where: str, values: Any, *types: type | None) -> tuple[Any, ...]:
    """Return a JSON list as a tuple, each of its elements of exactly one of these types."""
    if type(values) is not list:
        raise FileFormatError(f"`{where}` must be a list, got {type(values).__name__}.")
    for value in values:
        if (None if value is None else type(value)) not in types:
            raise FileFormatError(
                f"`{where}` must hold {_names(types)} only, got {type(value).__name__}."
            )
    return tuple(values)


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """Return a JSON value as itself: tuples become lists, NumPy scalars Python's.

    Raises
    ------
    UnsupportedModelError
        If it holds anything else, a key that is no string, or more than 32 levels.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, int, float)):  # bool is an int
        return value
    if depth >= MAX_DEPTH:
        raise UnsupportedModelError(f"`{where}` must have at most {MAX_DEPTH} levels, got more.")
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(part, where, depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part, where, depth + 1) for part in value]
    raise UnsupportedModelError(
        f"`{where}` must hold JSON values with string keys, got {_described(value)}: "
        "convert it or leave it out."
    )


def _described(value: Any) -> str:
    return "a key that is no string" if isinstance(value, dict) else f"a {type(value).__name__}"


def pack_labels(labels: Array) -> dict[str, Any]:
    """Return class labels as their dtype and their values.

    >>> pack_labels(np.array(["no", "yes"]))
    {'dtype': 'U3', 'labels': ['no', 'yes']}
    """
    is_text = labels.dtype.kind == "U"
    name = f"U{labels.dtype.itemsize // _CHARACTER}" if is_text else labels.dtype.name
    if not is_text and name not in _LABEL_TYPES:
        raise UnsupportedModelError(
            f"class labels must be strings, booleans or numbers of up to 64 bits, got {name}."
        )
    return {"dtype": name, "labels": labels.tolist()}


def require_label_memory(records: list[tuple[str, int]], error: type[Exception]) -> None:
    """Refuse string labels, given as (dtype, count), that would fill more than 64 MiB."""
    widths = ((int(name[1:]) * count) for name, count in records if name.startswith("U"))
    if sum(widths) * _CHARACTER > MAX_LABEL_BYTES:
        raise error(f"class labels must fit in {MAX_LABEL_BYTES} bytes: shorten the longest.")


def label_dtype(name: str, where: str) -> str:
    """Check the name of a label dtype from a file."""
    is_text = name[:1] == "U" and name[1:].isascii() and name[1:].isdigit() and len(name) < 12
    if not is_text and name not in _LABEL_TYPES:
        raise FileFormatError(f"`{where}.dtype` must be a dtype of labels, got {name[:60]!r}.")
    return name


def unpack_labels(name: str, values: Any, where: str) -> Array:
    """Build labels of a checked dtype; each value must be of that dtype's Python type and fit."""
    labels = elements(f"{where}.labels", values, _LABEL_TYPES.get(name, str))
    if name[0] == "U" and max(map(len, labels), default=0) > int(name[1:]):
        raise FileFormatError(f"`{where}.labels` must be at most {name[1:]} characters long.")
    try:
        return np.array(labels, np.dtype(name))
    except OverflowError:
        raise FileFormatError(f"`{where}.labels` must fit in {name}.") from None
