"""The wire format of protocol buffers, for many messages at once.

A model has a message per node, so the fields of all messages are read in step: the first field of
each, then the second, with one array operation for all. The few messages with many fields are left
to a plain loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int64, UInt8, UInt64
from bitvec.errors import FileFormatError

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

PADDING: Final = 16
"""Zero bytes after the data, so that a number that is cut off can be gathered and refused."""

_IN_STEP: Final = 24
"""Fewer messages than this are read one by one."""
_VARINT_BYTES: Final = 10
_COMMON: Final = 64
"""Numbers of fields are below this, unless a file is damaged."""


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The fields of messages, message by message, in the order of the file.

    Parameters
    ----------
    owner : int64, (n_fields,)
        The message that holds the field.
    number, kind : int64, (n_fields,)
    value : uint64, (n_fields,)
        The bits of a number; 0 for bytes.
    start, end : int64, (n_fields,)
        Where the contents of bytes lie.
    """

    owner: Int64[Array, " n_fields"]
    number: Int64[Array, " n_fields"]
    kind: Int64[Array, " n_fields"]
    value: UInt64[Array, " n_fields"]
    start: Int64[Array, " n_fields"]
    end: Int64[Array, " n_fields"]

    @property
    def numbers(self) -> list[int]:
        """The numbers that occur."""
        if self.number.size and int(self.number.max()) < _COMMON:
            return np.flatnonzero(np.bincount(self.number)).tolist()
        return np.unique(self.number).tolist()


def padded(data: bytes) -> UInt8[Array, " n_bytes"]:
    """Return bytes as an array that `read_fields` may read."""
    return np.frombuffer(data + bytes(PADDING), np.uint8)


def numbers_at(data: UInt8[Array, " n_bytes"], at: Int64[Array, " n"], dtype: Any) -> Array:
    """Return the little-endian numbers that begin at some places, which need not be aligned."""
    layout = np.dtype(dtype)
    everywhere: Array = np.ndarray(
        data.size - layout.itemsize + 1, layout.newbyteorder("<"), data, strides=(1,)
    )
    return everywhere[at].astype(layout, copy=False)


def read_fields(
    data: UInt8[Array, " n_bytes"],
    start: Int64[Array, " n_messages"],
    end: Int64[Array, " n_messages"],
) -> Fields:
    """Read the fields of the messages that lie at [start, end) of `data`.

    Raises
    ------
    FileFormatError
        If a field is cut off or of a kind that is not in use.
    """
    parts: list[tuple[Array, ...]] = []
    at = start.copy()
    live = np.flatnonzero(at < end)
    while live.size >= _IN_STEP:
        tag, place = _varints(data, at[live])
        number, kind = (tag >> np.uint64(3)).astype(np.int64), (tag & np.uint64(7)).astype(np.int64)
        value, first, place = _contents(data, kind, place, end[live])
        parts.append((live, number, kind, value, first, place))
        at[live] = place
        live = live[place < end[live]]
    parts += [_one_by_one(data, int(m), int(at[m]), int(end[m])) for m in live]
    if not parts:
        none = np.zeros(0, np.int64)
        return Fields(none, none, none, none.astype(np.uint64), none, none)
    owner, number, kind, value, first, last = (np.concatenate(p) for p in zip(*parts, strict=True))
    if np.any(number == 0):
        raise FileFormatError("a field must have a number, got 0: the file is damaged.")
    if len(parts) == 1:  # a field a message
        return Fields(owner, number, kind, value, first, last)
    order = np.argsort(owner, kind="stable")
    return Fields(*(a[order] for a in (owner, number, kind, value, first, last)))


def varints(data: UInt8[Array, " n_bytes"], start: int, end: int) -> UInt64[Array, " n_numbers"]:
    """Return the numbers that are packed at [start, end)."""
    part = data[start:end]
    last = np.flatnonzero(part < 128)
    if part.size and (not last.size or last[-1] != part.size - 1):
        raise FileFormatError("a packed number must be whole, got one that is cut off.")
    return _varints(data, start + np.concatenate([[0], last[:-1] + 1])[: last.size])[0]


def _varints(data: Array, at: Array) -> tuple[Array, Array]:
    """Return the number at each place, and the places after them."""
    byte = data[at]
    value = (byte & 127).astype(np.uint64)
    place = at + 1
    going = np.flatnonzero(byte >= 128)  # most numbers take one byte
    for step in range(1, _VARINT_BYTES):
        if not going.size:
            break
        byte = data[place[going]]
        value[going] |= (byte & 127).astype(np.uint64) << np.uint64(7 * step)
        place[going] += 1
        going = going[byte >= 128]
    if going.size:
        raise FileFormatError("a number must take at most 10 bytes, got more: the file is damaged.")
    return value, place


def _contents(data: Array, kind: Array, place: Array, end: Array) -> tuple[Array, Array, Array]:
    """Return the value, the first place and the place after each field's contents."""
    _require_inside(np.all(place <= end))
    count = np.bincount(kind, minlength=8)
    if int(count[[VARINT, BYTES, FIXED32, FIXED64]].sum()) < kind.size:
        raise FileFormatError("a field must be a number or bytes, got a kind that is not in use.")
    value = np.zeros(kind.size, np.uint64)
    first, after = place.copy(), place.copy()
    for which, size in ((FIXED64, 8), (FIXED32, 4)):
        if not count[which]:
            continue
        at = np.flatnonzero(kind == which)
        after[at] += size
        _require_inside(np.all(after[at] <= end[at]))
        value[at] = numbers_at(data, place[at], np.uint64 if size == 8 else np.uint32)
    if not count[VARINT] + count[BYTES]:
        return value, first, after
    numbered = np.flatnonzero((kind == VARINT) | (kind == BYTES))
    value[numbered], after[numbered] = _varints(data, place[numbered])
    _require_inside(np.all(after <= end))
    if not count[BYTES]:
        return value, first, after
    at = np.flatnonzero(kind == BYTES)
    _require_inside(np.all(value[at] <= (end[at] - after[at]).astype(np.uint64)))
    first[at] = after[at]
    after[at] += value[at].astype(np.int64)
    value[at] = 0
    return value, first, after


def _require_inside(holds: object) -> None:
    if not holds:
        raise FileFormatError(
            "a field must end inside its message: the file is cut off or damaged."
        )


def _one_by_one(data: Array, owner: int, at: int, end: int) -> tuple[Array, ...]:
    content = data[at : end + PADDING].tobytes()
    size, place = end - at, 0
    found: list[tuple[int, int, int, int, int]] = []
    while place < size:
        tag, place = _varint(content, place)
        kind, value = tag & 7, 0
        first = place
        if kind == VARINT:
            value, place = _varint(content, place)
        elif kind == BYTES:
            length, first = _varint(content, place)
            place = first + length
        elif kind in (FIXED32, FIXED64):
            place += 4 if kind == FIXED32 else 8
            value = int.from_bytes(content[first:place], "little")
        else:
            raise FileFormatError(
                "a field must be a number or bytes, got a kind that is not in use."
            )
        _require_inside(place <= size)
        found.append((tag >> 3, kind, value, first + at, place + at))
    number, kinds, values, firsts, lasts = zip(*found, strict=True)
    return (
        np.full(len(found), owner, np.int64),
        np.array(number, np.int64),
        np.array(kinds, np.int64),
        np.array(values, np.uint64),
        np.array(firsts, np.int64),
        np.array(lasts, np.int64),
    )


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for step in range(_VARINT_BYTES):
        if place >= len(content):
            break
        byte = content[place]
        place += 1
        value |= (byte & 127) << (7 * step)
        if byte < 128:
            return value & (2**64 - 1), place
    raise FileFormatError("a number must take at most 10 bytes, got more: the file is damaged.")
