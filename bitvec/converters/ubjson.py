"""Universal Binary JSON (Draft 12) in the dialect of xgboost: a strict reader, and a writer."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from bitvec.errors import FileFormatError

Json: TypeAlias = Any
"""None, bool, int, float, str, list, dict, or a 1-D array where the file holds a typed array."""

MAX_DEPTH: Final = 64
"""Deepest nesting that is read; an xgboost model nests about ten levels deep."""

_INTEGER: Final = {
    b"i": struct.Struct(">b"),
    b"U": struct.Struct(">B"),
    b"I": struct.Struct(">h"),
    b"l": struct.Struct(">i"),
    b"L": struct.Struct(">q"),
}
_NUMBER: Final = _INTEGER | {b"d": struct.Struct(">f"), b"D": struct.Struct(">d")}
_CONSTANT: Final[dict[bytes, bool | None]] = {b"Z": None, b"T": True, b"F": False}
_TYPED: Final = {marker: np.dtype(layout.format) for marker, layout in _NUMBER.items()}
_MARKER: Final = {dtype: marker for marker, dtype in _TYPED.items()}


def parse(data: bytes | bytearray) -> Json:
    """Read one document.

    Parameters
    ----------
    data : bytes
        The whole document; nothing may follow its value.

    Returns
    -------
    JSON value
        A typed array (`[$`) of numbers becomes a NumPy array of that dtype, in native byte order;
        every other array becomes a list.

    Raises
    ------
    FileFormatError
        If the document is truncated, nested deeper than 64 levels, followed by other bytes, or uses
        a marker that this dialect lacks (high-precision numbers, no-ops, sized objects, typed
        arrays of anything but numbers). Counts are checked against the bytes that are left before
        anything is allocated.

    Examples
    --------
    >>> parse(b"{U\\x01aSU\\x02hiU\\x01b[$U#U\\x03\\x01\\x02\\x03}")
    {'a': 'hi', 'b': array([1, 2, 3], dtype=uint8)}
    """
    reader = _Reader(bytes(data))
    value = reader.value(reader.take(1), 0)
    if reader.at != len(reader.data):
        raise FileFormatError(
            f"a UBJSON document must end with its value, got {len(reader.data) - reader.at} "
            f"more bytes at byte {reader.at}."
        )
    return value


def encode(value: Json) -> bytes:
    """Write one document; `parse` reads it back.

    Parameters
    ----------
    value : JSON value
        Integers must fit int64. A 1-D array becomes a typed array of its own dtype (int8, uint8,
        int16, int32, int64, float32 or float64); a float takes 4 bytes where these hold it.

    Examples
    --------
    >>> parse(encode({"a": "hi", "b": np.arange(3, dtype=np.int32)}))
    {'a': 'hi', 'b': array([0, 1, 2], dtype=int32)}
    """
    return b"".join(_pieces(value))


def _pieces(value: Json) -> Iterator[bytes]:
    if isinstance(value, dict):
        yield b"{"
        for name, child in value.items():
            yield _sized(name.encode())
            yield from _pieces(child)
        yield b"}"
    elif isinstance(value, list):
        yield b"[#" + _length(len(value))
        for child in value:
            yield from _pieces(child)
    elif isinstance(value, np.ndarray):
        layout = value.dtype.newbyteorder(">")
        yield b"[$" + _MARKER[layout] + b"#" + _length(value.size)
        yield value.astype(layout).tobytes()
    elif isinstance(value, str):
        yield b"S" + _sized(value.encode())
    elif value is None or isinstance(value, bool):
        yield {None: b"Z", True: b"T", False: b"F"}[value]
    else:
        yield _number(value)


def _number(value: Any) -> bytes:
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            narrow = np.array_equal(np.float32(value), value, equal_nan=True)
        marker = b"d" if narrow else b"D"
    else:
        marker = next(m for m in _INTEGER if _fits(value, _TYPED[m]))
    return marker + _NUMBER[marker].pack(value)


def _fits(value: int, dtype: np.dtype) -> bool:
    info = np.iinfo(dtype)
    return int(info.min) <= value <= int(info.max)


def _length(count: int) -> bytes:
    return b"L" + _INTEGER[b"L"].pack(count)


def _sized(text: bytes) -> bytes:
    return _length(len(text)) + text


class _Reader:
    """A position in the bytes; each method reads one thing and moves past it."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise FileFormatError(
                f"a UBJSON document must be whole, got {len(self.data) - self.at} bytes where "
                f"{count} must follow at byte {self.at}: the file is truncated or damaged."
            )
        part = self.data[self.at : end]
        self.at = end
        return part

    def peek(self) -> bytes:
        return self.data[self.at : self.at + 1]

    def count(self, size: int) -> int:
        """Read a length and check that so many items of `size` bytes can follow."""
        start = self.at
        marker = self.take(1)
        if marker not in _INTEGER:
            raise FileFormatError(
                f"a UBJSON length must be an integer, got marker {marker!r} at byte {start}."
            )
        layout = _INTEGER[marker]
        (count,) = layout.unpack(self.take(layout.size))
        left = len(self.data) - self.at
        if not 0 <= count <= left // size:
            raise FileFormatError(
                f"a UBJSON length must fit the bytes that follow, got {count} at byte {start} "
                f"with {left} bytes left: the file is truncated or damaged."
            )
        return int(count)

    def text(self) -> str:
        start = self.at
        try:
            return self.take(self.count(1)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileFormatError(
                f"UBJSON text must be UTF-8, got other bytes at {start}."
            ) from error

    def value(self, marker: bytes, depth: int) -> Json:
        if marker in _NUMBER:
            layout = _NUMBER[marker]
            return layout.unpack(self.take(layout.size))[0]
        if marker in _CONSTANT:
            return _CONSTANT[marker]
        if marker == b"S":
            return self.text()
        if marker == b"C":
            return self.take(1).decode("latin-1")
        if marker not in (b"[", b"{"):
            raise FileFormatError(
                f"a UBJSON value must start with a marker of xgboost's dialect, got {marker!r} "
                f"at byte {self.at - 1}."
            )
        if depth == MAX_DEPTH:
            raise FileFormatError(
                f"a UBJSON document must be nested at most {MAX_DEPTH} levels deep, got more at "
                f"byte {self.at - 1}."
            )
        return self.array(depth + 1) if marker == b"[" else self.object(depth + 1)

    def array(self, depth: int) -> Json:
        if self.peek() == b"$":
            return self.typed_array()
        if self.peek() == b"#":
            self.take(1)
            return [self.value(self.take(1), depth) for _ in range(self.count(1))]
        items = []
        while (marker := self.take(1)) != b"]":
            items.append(self.value(marker, depth))
        return items

    def typed_array(self) -> np.ndarray[Any, Any]:
        start = self.at
        self.take(1)
        marker = self.take(1)
        if marker not in _TYPED or self.take(1) != b"#":
            raise FileFormatError(
                f"a typed UBJSON array must hold numbers and state their count, got type "
                f"{marker!r} at byte {start}."
            )
        dtype = _TYPED[marker]
        raw = self.take(self.count(dtype.itemsize) * dtype.itemsize)
        return np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))

    def object(self, depth: int) -> dict[str, Json]:
        members: dict[str, Json] = {}
        while self.peek() != b"}":
            name = self.text()
            members[name] = self.value(self.take(1), depth)
        self.take(1)
        return members
