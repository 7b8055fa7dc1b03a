"""Messages of one type as columns, read by a table of the fields that they may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from bitvec.converters.ydf.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Fields,
    numbers_at,
    read_fields,
    varints,
)
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float32, Float64, Int64, UInt8
from bitvec.errors import FileFormatError, UnsupportedModelError

INT, BOOL, FLOAT, DOUBLE, BLOB, UNREAD = "int", "bool", "float", "double", "blob", "unread"
_KINDS: Final = {INT: VARINT, BOOL: VARINT, FLOAT: FIXED32, DOUBLE: FIXED64, BLOB: BYTES}
_PACKABLE: Final = (INT, FLOAT, DOUBLE)


class Entry(NamedTuple):
    """A field of a message: its name, its type, and whether it may stand more than once."""

    name: str
    type: str = UNREAD
    repeated: bool = False


class Schema(NamedTuple):
    """A message type: its name and its fields by number."""

    name: str
    entries: Mapping[int, Entry]

    def number(self, name: str) -> int:
        """Return the number of a field."""
        return next(number for number, entry in self.entries.items() if entry.name == name)


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """`size` messages of one type, and their fields.

    A field that a schema does not name is refused, since its meaning is not known; a field that
    must stand once is refused where it stands twice.
    """

    schema: Schema
    data: UInt8[Array, " n_bytes"]
    size: int
    fields: Fields

    @classmethod
    def read(cls, schema: Schema, data: Array, start: Array, end: Array) -> Messages:
        """Read the messages that lie at [start, end) of `data`."""
        try:
            fields = read_fields(data, start, end)
        except FileFormatError as error:
            raise FileFormatError(f"{schema.name}: {error}") from error
        for number in fields.numbers:
            entry = schema.entries.get(number)
            if entry is None:
                raise UnsupportedModelError(
                    f"{schema.name} must have fields that are known, got field {number}: the model "
                    "is of a newer version, or damaged."
                )
            if entry.type == UNREAD:
                continue
            at = fields.number == number
            packed = entry.repeated and entry.type in _PACKABLE
            kind = fields.kind[at]
            if not np.all((kind == _KINDS[entry.type]) | (packed & (kind == BYTES))):
                raise FileFormatError(
                    f"`{entry.name}` of {schema.name} must be {entry.type}, got another kind."
                )
            if not entry.repeated and np.any(np.diff(fields.owner[at]) == 0):
                raise FileFormatError(f"`{entry.name}` of {schema.name} must stand once, got more.")
        return cls(schema, data, start.size, fields)

    def _at(self, name: str) -> Int64[Array, " n_found"]:
        return np.flatnonzero(self.fields.number == self.schema.number(name))

    def has(self, name: str) -> Bool[Array, " size"]:
        """Return which messages hold a field."""
        held = np.zeros(self.size, np.bool_)
        held[self.fields.owner[self._at(name)]] = True
        return held

    def ints(self, name: str, default: int = 0) -> Int64[Array, " size"]:
        """Return a whole number of each message."""
        at = self._at(name)
        result = np.full(self.size, default, np.int64)
        result[self.fields.owner[at]] = self.fields.value[at].view(np.int64)
        return result

    def bools(self, name: str, *, default: bool = False) -> Bool[Array, " size"]:
        """Return a truth value of each message."""
        return self.ints(name, int(default)) != 0

    def floats(self, name: str, default: float = 0.0) -> Float32[Array, " size"]:
        """Return a float32 of each message."""
        at = self._at(name)
        result = np.full(self.size, default, np.float32)
        result[self.fields.owner[at]] = self.fields.value[at].astype(np.uint32).view(np.float32)
        return result

    def doubles(self, name: str, default: float = 0.0) -> Float64[Array, " size"]:
        """Return a float64 of each message."""
        at = self._at(name)
        result = np.full(self.size, default, np.float64)
        result[self.fields.owner[at]] = self.fields.value[at].view(np.float64)
        return result

    def texts(self, name: str) -> list[bytes]:
        """Return the bytes of each message, empty where it has none."""
        at = self._at(name)
        result = [b""] * self.size
        places = zip(
            self.fields.owner[at].tolist(),
            self.fields.start[at].tolist(),
            self.fields.end[at].tolist(),
            strict=True,
        )
        for owner, start, end in places:
            result[owner] = self.data[start:end].tobytes()
        return result

    def nested(self, name: str, schema: Schema) -> tuple[Messages, Int64[Array, " n_found"]]:
        """Return the messages that a field holds, and which message holds each."""
        at = self._at(name)
        inner = Messages.read(schema, self.data, self.fields.start[at], self.fields.end[at])
        return inner, self.fields.owner[at]

    def repeated(self, name: str) -> tuple[Array, Int64[Array, " n_numbers"]]:
        """Return the numbers of a repeated field, packed or not, and which message holds each."""
        at = self._at(name)
        type_ = self.schema.entries[self.schema.number(name)].type
        packed = self.fields.kind[at] == BYTES
        if not np.any(packed):
            return _decode(self.fields.value[at], type_), self.fields.owner[at]
        if np.any(~packed):
            raise FileFormatError(f"`{name}` of {self.schema.name} must be packed, or not packed.")
        start, end, owner = (a[at] for a in (self.fields.start, self.fields.end, self.fields.owner))
        if np.any(np.diff(owner) == 0):
            raise FileFormatError(f"`{name}` of {self.schema.name} must stand once, got more.")
        if type_ == INT:
            parts = [
                varints(self.data, a, b) for a, b in zip(start.tolist(), end.tolist(), strict=True)
            ]
            numbers = np.concatenate([np.zeros(0, np.uint64), *parts])
            return numbers.view(np.int64), np.repeat(owner, [part.size for part in parts])
        width = 4 if type_ == FLOAT else 8
        if np.any((end - start) % width):
            raise FileFormatError(
                f"`{name}` of {self.schema.name} must hold whole numbers of bytes."
            )
        count = (end - start) // width
        place = np.repeat(start - width * (np.cumsum(count) - count), count)
        place += width * np.arange(place.size)
        dtype = np.float32 if type_ == FLOAT else np.float64
        return numbers_at(self.data, place, dtype), np.repeat(owner, count)


def _decode(value: Array, type_: str) -> Array:
    if type_ == FLOAT:
        return value.astype(np.uint32).view(np.float32)
    return value.view(np.float64 if type_ == DOUBLE else np.int64)
