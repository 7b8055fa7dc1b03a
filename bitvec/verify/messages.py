"""Values as bytes and back, for a pipe to a process that is not trusted: JSON and raw arrays.

A message is two lengths, a JSON header and the arrays' bytes, one after the other. Numbers of
Python and texts stand in the header, arrays of numbers as their bytes, arrays of text as JSON. Only
the classes of `CLASSES` come back as objects, built by their own constructors, which check what
they are given; nothing is unpickled, and no length is believed before that many bytes are there.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Concatenate, Identity, KeyTable, KeyTables
from bitvec.core.leaves import LinearTerms
from bitvec.core.node_tests import NodeTests
from bitvec.core.output import Aggregate, PostTransform, SoftmaxSum
from bitvec.errors import FileFormatError
from bitvec.verify.oracle import LeafValues, Oracle
from bitvec.verify.source_trees import SourceTrees

Value = Any
LENGTHS: Final = struct.Struct("<QQ")
"""Lengths of the header and of the arrays, in bytes."""
MOST_HEADER: Final = 1 << 28
CLASSES: Final[dict[str, Any]] = {
    cls.__name__: cls
    for cls in (
        Aggregate,
        Concatenate,
        Identity,
        KeyTable,
        KeyTables,
        LeafValues,
        LinearTerms,
        NodeTests,
        PostTransform,
        SoftmaxSum,
        SourceTrees,
        Oracle,
    )
}
"""Types that a message may hold beside plain values and arrays."""


class Writer:
    """Values on their way into a message.

    Parameters
    ----------
    number_of : callable, optional
        Gives a function the number by which the other side may call it.
    """

    def __init__(self, number_of: Callable[[Any], int] | None = None) -> None:
        self.number_of = number_of
        self.arrays: list[Array] = []

    def packed(self, value: Value) -> Any:
        """Return what stands for a value in the header: itself, or a list of its kind and parts."""
        if isinstance(value, Enum):
            return ["enum", _known(value), value.value]
        if isinstance(value, np.generic):
            return ["scalar", self.packed(np.asarray(value))]
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else ["float", str(value)]
        if isinstance(value, bytes | bytearray):
            return ["bytes", self.packed(np.frombuffer(value, np.uint8))]
        if isinstance(value, np.dtype):
            return ["dtype", value.str]
        if isinstance(value, np.ndarray):
            return self._array(value)
        if type(value).__name__ in CLASSES and type(value) is CLASSES[type(value).__name__]:
            parts = [self.packed(getattr(value, name)) for name in names(type(value))]
            return ["object", _known(value), parts]
        if isinstance(value, tuple | list):
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, [self.packed(one) for one in value]]
        if isinstance(value, Mapping):
            return ["dict", [[str(key), self.packed(part)] for key, part in value.items()]]
        if callable(value) and self.number_of is not None:
            return ["function", self.number_of(value)]
        raise TypeError(f"a message must hold plain values and arrays, got a {type(value)}.")

    def _array(self, array: Array) -> Any:
        if array.dtype.kind in "OU":
            cells = [self.packed(cell) for cell in array.reshape(-1).tolist()]
            return ["texts", array.dtype.str, list(array.shape), cells]
        if array.dtype.kind not in "biufS":
            raise TypeError(f"a message must hold numbers and texts, got {array.dtype}.")
        self.arrays.append(np.ascontiguousarray(array))
        return ["array", array.dtype.str, list(array.shape)]


def _known(value: Any) -> str:
    name = type(value).__name__
    if CLASSES.get(name) is not type(value):
        raise TypeError(f"a message must hold known classes, got {type(value)}.")
    return name


def names(cls: Any) -> tuple[str, ...]:
    """Return the fields of a class, in the order in which a message holds them."""
    return cls._fields if hasattr(cls, "_fields") else tuple(f.name for f in fields(cls))


def written(value: Value, number_of: Callable[[Any], int] | None = None) -> list[bytes]:
    """Return a value as the parts of a message."""
    writer = Writer(number_of)
    header = json.dumps(writer.packed(value), allow_nan=False, separators=(",", ":")).encode()
    parts = [array.reshape(-1).view(np.uint8).tobytes() for array in writer.arrays]
    return [LENGTHS.pack(len(header), sum(map(len, parts))), header, *parts]


def send(stream: Any, part: bytes) -> None:
    """Write all of some bytes to an unbuffered stream."""
    view = memoryview(part)
    while view:
        view = view[stream.write(view) :]


def _received(stream: Any, size: int) -> bytearray:
    """Return so many bytes of a stream; memory grows only as they come."""
    data = bytearray()
    while len(data) < size:
        part = stream.read(min(size - len(data), 1 << 20))
        if not part:
            raise EOFError
        data += part
    return data


def read(stream: Any, most: int, function: Callable[[int], Any] | None = None) -> Value:
    """Read one message.

    Parameters
    ----------
    stream : binary stream, unbuffered
    most : int
        Bytes that its arrays may have.
    function : callable, optional
        Makes a function of the number that the other side gave it.

    Raises
    ------
    FileFormatError
        If it is no message.
    EOFError
        If the stream ends.
    """
    n_header, n_arrays = LENGTHS.unpack(_received(stream, LENGTHS.size))
    if n_header > MOST_HEADER or n_arrays > most:
        raise FileFormatError(f"a message must be of at most {most} bytes, got {n_arrays}.")
    header, data = _received(stream, n_header), _received(stream, n_arrays)
    reader = _Reader(memoryview(data), function)
    try:
        value = reader.value(json.loads(header))
    except Exception as error:  # constructors raise what they like of values that do not fit
        raise FileFormatError(f"a message must hold what it states ({error}).") from error
    if reader.at != len(data):
        raise FileFormatError("a message must hold its arrays and nothing else.")
    return value


class _Reader:
    """Values on their way out of a message, and how far its arrays are read."""

    def __init__(self, data: memoryview, function: Callable[[int], Any] | None) -> None:
        self.data, self.function, self.at = data, function, 0

    def value(self, packed: Any) -> Value:
        if not isinstance(packed, list):
            if isinstance(packed, dict):
                raise FileFormatError("a message must hold lists of kinds and parts, got another.")
            return packed
        kind, *parts = packed
        return _KINDS[kind](self, *parts)

    def _values(self, parts: list[Any]) -> list[Value]:
        return [self.value(part) for part in parts]

    def _dict(self, parts: list[Any]) -> dict[str, Value]:
        return {str(key): self.value(part) for key, part in parts}

    def _object(self, name: str, parts: list[Any]) -> Value:
        cls = CLASSES[name]
        return cls(**dict(zip(names(cls), self._values(parts), strict=True)))

    def _function(self, number: int) -> Any:
        if self.function is None:
            raise FileFormatError("a message must hold no functions here, got one.")
        return self.function(int(number))

    def _scalar(self, part: Any) -> Any:
        return self.value(part)[()]

    def _bytes(self, part: Any) -> bytes:
        array: Array = self.value(part)
        return array.tobytes()

    def _texts(self, dtype: str, shape: list[int], cells: list[Any]) -> Array:
        kind = np.dtype(dtype)
        if kind.kind not in "OU" or kind.itemsize * len(cells) > MOST_HEADER:
            raise FileFormatError(f"texts must be short texts or objects, got {dtype!r}.")
        array = np.empty(len(cells), kind)
        array[:] = self._values(cells)
        return array.reshape(_sizes(shape))

    def _array(self, text: str, shape: list[int]) -> Array:
        dtype = np.dtype(text)
        if dtype.kind not in "biufS" or not dtype.itemsize:
            raise FileFormatError(f"an array must hold numbers, got {text!r}.")
        n_bytes = dtype.itemsize * math.prod(_sizes(shape))
        if n_bytes > len(self.data) - self.at:
            raise FileFormatError(f"an array of {n_bytes} bytes must be there, got fewer.")
        content = np.frombuffer(self.data, np.uint8, n_bytes, self.at) if n_bytes else b""
        self.at += n_bytes
        array: Array = np.empty(shape, dtype)
        cells = array.reshape(-1).view(np.uint8)
        if n_bytes:
            cells[:] = content
        if dtype.kind == "b" and np.any(cells > 1):
            raise FileFormatError("truth values must be 0 and 1, got another.")
        return array


def _sizes(shape: list[Any]) -> list[int]:
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise FileFormatError(f"a shape must hold sizes, got {str(shape)[:80]}.")
    return shape


_KINDS: Final[dict[str, Callable[..., Value]]] = {
    "float": lambda _, text: float(text),
    "dtype": lambda _, text: np.dtype(text),
    "enum": lambda _, name, value: CLASSES[name](value),
    "list": _Reader._values,
    "tuple": lambda reader, parts: tuple(reader._values(parts)),
    "dict": _Reader._dict,
    "object": _Reader._object,
    "function": _Reader._function,
    "scalar": _Reader._scalar,
    "bytes": _Reader._bytes,
    "texts": _Reader._texts,
    "array": _Reader._array,
}
