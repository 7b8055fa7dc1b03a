"""A strict reader of Universal Binary JSON (Draft 12), in the dialect that xgboost writes."""

from __future__ import annotations

import struct
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
