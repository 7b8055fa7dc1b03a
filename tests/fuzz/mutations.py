"""Damage to files: bytes cut, repeated and overwritten; and members of what they are made of.

An edit that keeps a file's structure (JSON, a zip archive, protobuf fields, a safetensors header)
gets past the parser to the code that reads what it says.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Edit = Callable[[bytes, np.random.Generator], bytes]

WHOLE = [0, 1, 2, 3, 7, 64, 255, 2**15, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**62, -1, -2, -(2**31)]
REAL = [0.0, -0.0, 0.5, -1.0, 5e-324, 1e-45, 3e38, 1e300, np.inf, -np.inf, np.nan]
TEXT = ["", "-1", "1e999", "nan", "NaN", "-Infinity", "9" * 400, "4294967296", "0x10", "\x00", "é"]
VALUES = [*WHOLE, *REAL, *TEXT, None, True, [], {}, [[]], 2**70, "x" * 70_000]
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def pick(values: Any, rng: np.random.Generator) -> Any:
    return values[int(rng.integers(len(values)))]


def bytewise(data: bytes, rng: np.random.Generator) -> bytes:
    """Cut, drop, repeat, exchange or overwrite bytes, among them numbers of 4 and 8 bytes."""
    if not data:
        return bytes([int(rng.integers(256))])
    at, span = int(rng.integers(len(data))), int(rng.integers(1, 48))
    kind = int(rng.integers(9))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at + span :]
    if kind == 2:
        return data[:at] + data[max(0, at - span) :]
    if kind == 3:
        return data[:at] + bytes(rng.integers(0, 256, span, np.uint8)) + data[at + span :]
    if kind == 4:
        other = int(rng.integers(len(data)))
        return data[:at] + data[other : other + span] + data[at + span :]
    edited = bytearray(data)
    if kind == 5:
        for _ in range(int(rng.integers(1, 4))):
            edited[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    elif kind == 6:
        code = pick(["<i", "<I", ">i", ">I", "<q", ">q", "<h", ">h"], rng)
        width = 8 * struct.calcsize(code)
        whole = int(pick(WHOLE, rng)) & ((1 << width) - 1)
        edited[at : at + width // 8] = whole.to_bytes(
            width // 8, "little" if "<" in code else "big"
        )
    elif kind == 7:
        code = pick(("<f", ">f", "<d", ">d"), rng)
        with np.errstate(over="ignore"):
            real = np.array(pick(REAL, rng), code.replace("f", "f4").replace("d", "f8"))
        edited[at : at + real.nbytes] = real.tobytes()
    else:
        edited[at : at + span] = bytes([int(pick([0, 255, 0x7F, 0x80], rng))]) * span
    return bytes(edited)


def numbers(data: bytes, rng: np.random.Generator) -> bytes:
    """Put other numbers, or no numbers, in place of one to three of a text's."""
    for _ in range(int(rng.integers(1, 4))):
        found = list(NUMBER.finditer(data))
        if not found:
            return bytewise(data, rng)
        match = pick(found, rng)
        new = str(pick([*WHOLE, *REAL, *TEXT], rng)).encode()
        data = data[: match.start()] + new + data[match.end() :]
    return data


def lines(data: bytes, rng: np.random.Generator) -> bytes:
    """Drop, repeat, exchange or empty lines of a text."""
    parts = data.split(b"\n")
    at, other = int(rng.integers(len(parts))), int(rng.integers(len(parts)))
    kind = int(rng.integers(4))
    if kind == 0:
        del parts[at]
    elif kind == 1:
        parts.insert(other, parts[at])
    elif kind == 2:
        parts[at], parts[other] = parts[other], parts[at]
    else:
        parts[at] = parts[at].partition(b"=")[0]
    return b"\n".join(parts)


def places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return each member of a document as its container and its key there."""
    for key, item in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        found.append((value, key))
        if isinstance(item, dict | list):
            places(item, found)
    return found


def edit_members(document: Any, rng: np.random.Generator) -> Any:
    """Replace, remove, repeat, exchange, wrap or scale members of a JSON document."""
    for _ in range(int(rng.integers(1, 3))):
        found = places(document, []) if isinstance(document, dict | list) else []
        if not found:
            return pick(VALUES, rng)
        container, key = pick(found, rng)
        other, name = pick(found, rng)
        kind = int(rng.integers(7))
        if kind == 0:
            del container[key]
        elif kind == 1:
            container[key] = json.loads(json.dumps(other[name]))
        elif kind == 2 and isinstance(container, list):
            container.extend(json.loads(json.dumps(container))[: 1 << int(rng.integers(12))])
        elif kind == 3:
            container[key] = [container[key]]
        elif kind == 4 and isinstance(container[key], str):
            container[key] = numbers(container[key].encode(), rng).decode("utf-8", "replace")
        else:
            container[key] = pick(VALUES, rng)
    return document


def in_json(data: bytes, rng: np.random.Generator) -> bytes:
    document = edit_members(json.loads(data), rng)
    text = json.dumps(document)
    if rng.random() < 0.02:  # depth that recursion cannot follow
        text = text.replace("[", "[" * 3000, 1)
    return text.encode()


def in_safetensors(data: bytes, rng: np.random.Generator) -> bytes:
    """Edit the header, or the record that stands as text in it, and state its new length."""
    length = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    if rng.random() < 0.7:
        record = edit_members(json.loads(header["__metadata__"]["forest"]), rng)
        header["__metadata__"]["forest"] = json.dumps(record)
    elif rng.random() < 0.5:
        edit_members(header, rng)
    else:
        at = int(rng.integers(len(rest)))
        rest = rest[:at] + bytewise(rest[at : at + 32], rng)[:32].ljust(32, b"\0") + rest[at + 32 :]
        rest = rest[: len(data) - 8 - length]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + rest


def elements(data: bytes, rng: np.random.Generator) -> bytes:
    """Change elements, the length, the order or the type of an array."""
    array = np.load(io.BytesIO(data)).copy()
    kind, flat = int(rng.integers(5)), array.reshape(-1)
    if kind == 0:
        array = array[rng.permutation(len(array))] if array.ndim else array
    elif kind == 1:
        array = array[: rng.integers(len(array) + 1)] if array.ndim else array[None]
    elif kind == 2 and array.dtype.kind in "fiu":
        array = array.astype(pick(["f4", "f8", "i4", "i8", "u1"], rng))
    elif flat.size:
        names = flat.dtype.names
        column = flat if names is None else flat[pick(names, rng)]
        with np.errstate(all="ignore"):
            value = np.array(float(pick([*WHOLE, *REAL], rng)))
            column[rng.integers(flat.size, size=int(rng.integers(1, 3)))] = value.astype(
                column.dtype
            )
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def in_npy(data: bytes, rng: np.random.Generator) -> bytes:
    """Edit an array, or its header, which is the text of a Python dict."""
    if rng.random() < 0.4:
        return pick((bytewise, elements), rng)(data, rng)
    length = int.from_bytes(data[8:10], "little")
    head = pick((bytewise, numbers, numbers), rng)(data[10 : 10 + length], rng)[: 2**16 - 1]
    stated = len(head) if rng.random() < 0.8 else int(pick(WHOLE, rng)) % 2**16
    return data[:8] + stated.to_bytes(2, "little") + head + data[10 + length :]


def in_zip(data: bytes, rng: np.random.Generator) -> bytes:
    """Edit, exchange, drop or rename parts of an archive, or numbers of its directory."""
    if rng.random() < 0.25:
        first = data.rindex(b"PK\x01\x02") if rng.random() < 0.5 else 0
        return data[:first] + bytewise(data[first:], rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name, other = pick(list(parts), rng), pick(list(parts), rng)
    kind = int(rng.integers(8))
    if kind < 3 and "schema.json" in parts:
        parts["schema.json"] = in_json(parts["schema.json"], rng)
    elif kind < 6:
        parts[name] = (
            in_npy(parts[name], rng) if name.endswith(".npy") else bytewise(parts[name], rng)
        )
    elif kind == 6:
        parts[name], parts[other] = parts[other], parts[name]
    else:
        del parts[name]
    file = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


Field = tuple[int, int, Any]
"""A field of a protobuf message: its number, its wire type, and what it holds."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError


def fields(data: bytes) -> list[Field]:
    """Return the fields of a message; ValueError or IndexError if it is none."""
    at, found = 0, []
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value: Any
            value, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind, 0)
            if kind == 2:
                size, at = _varint(data, at)
            if kind not in (1, 2, 5) or number == 0 or at + size > len(data):
                raise ValueError
            value, at = data[at : at + size], at + size
        found.append((number, kind, value))
    return found


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def message(found: list[Field]) -> bytes:
    out = b""
    for number, kind, value in found:
        out += _number(number << 3 | kind)
        out += _number(value) if kind == 0 else _number(len(value)) * (kind == 2) + value
    return out


def in_protobuf(data: bytes, rng: np.random.Generator) -> bytes:
    """Edit one field somewhere in a message, and state the new lengths of those around it."""
    try:
        found = fields(data)
    except (ValueError, IndexError):
        return bytewise(data, rng)
    if not found:
        return bytewise(data, rng)
    at = int(rng.integers(len(found)))
    number, kind, value = found[at]
    if kind == 2 and len(value) > 1 and rng.random() < 0.75:
        found[at] = number, kind, in_protobuf(value, rng)
        return message(found)
    action = int(rng.integers(6))
    if action == 0:
        del found[at]
    elif action == 1:
        found.insert(at, found[at])
    elif action == 2:
        other = int(rng.integers(len(found)))
        found[at], found[other] = found[other], found[at]
    elif action == 3:
        found[at] = int(rng.integers(1, 40)), kind, value
    elif kind == 0:
        found[at] = number, kind, int(pick(WHOLE, rng))
    elif kind == 2:
        found[at] = number, kind, bytewise(value, rng)
    else:
        code = "<f8" if kind == 1 else "<f4"
        with np.errstate(over="ignore"):
            found[at] = number, kind, np.array(pick(REAL, rng), code).tobytes()
    return message(found)


def at_the_end(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage the last part of a file, where parquet keeps its schema and sizes."""
    start = max(0, len(data) - 700)
    end = bytewise(data[start:-8], rng)
    if rng.random() < 0.5:
        end = bytewise(end, rng)
    length = len(end) if rng.random() < 0.3 else len(data) - 8 - start
    stated = int.from_bytes(data[-8:-4], "little") + length - (len(data) - 8 - start)
    return data[:start] + end + max(stated, 0).to_bytes(4, "little") + data[-4:]


def digits(data: bytes, rng: np.random.Generator) -> bytes:
    """Overwrite one to three digits of a text, by digits mostly."""
    edited = bytearray(data)
    found = [at for at, byte in enumerate(data) if 48 <= byte < 58]
    for at in rng.choice(found, int(rng.integers(1, 4))):
        edited[at] = pick(b"0123456789012345678901234567890123456789-. e", rng)
    return bytes(edited)


def cells(data: bytes, rng: np.random.Generator) -> bytes:
    """Overwrite one to three numbers of 4 or 8 bytes, or flip bits."""
    edited = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(data))), int(rng.integers(4))
        if kind == 0:
            edited[at] ^= 1 << int(rng.integers(8))
            continue
        code = pick(("<u4", ">u4", "<i8") if kind == 1 else ("<f4", ">f4", "<f8"), rng)
        value = int(pick(WHOLE[:11], rng)) if kind == 1 else pick(REAL, rng)
        with np.errstate(over="ignore"):
            number = np.array(value).astype(code).tobytes()
        at -= at % 4 * int(rng.integers(2))
        edited[at : at + len(number)] = number[: len(data) - at]
    return bytes(edited)


ARRAY = re.compile(rb"\[\$[dlLU]#L(.{8})", re.DOTALL)
"""The head of an array of numbers in UBJSON, with its length."""


def in_ubjson(data: bytes, rng: np.random.Generator) -> bytes:
    """Overwrite a number of an array, most of which have numbers of four bytes."""
    array = ARRAY.search(data, int(rng.integers(len(data))))
    if array is None:
        return cells(data, rng)
    at = min(
        array.end() + 4 * int(rng.integers(int.from_bytes(array[1], "big") + 1)), len(data) - 4
    )
    whole = np.array(abs(int(pick(WHOLE[:11], rng)))).astype(">u4").tobytes()
    with np.errstate(over="ignore"):
        number = np.array(pick(REAL, rng)).astype(">f4").tobytes()
    return data[:at] + pick((whole, number), rng) + data[at + 4 :]


GENTLE: dict[str, tuple[Edit, ...]] = {
    ".json": (digits, digits, digits, bytewise),
    ".txt": (digits, digits, bytewise),
    ".ubj": (in_ubjson, in_ubjson, bytewise),
    ".skops": (in_zip,),
    ".onnx": (in_protobuf, cells, bytewise),
}
"""Edits that leave most readable, by what names end in; of other ends numbers and bytes."""


def gently_damaged(data: bytes, suffix: str, rng: np.random.Generator) -> bytes:
    """Return a file's bytes with one edit that a reader may not notice."""
    return pick(GENTLE.get(suffix, (cells, cells, bytewise)), rng)(data, rng)


EDITS: dict[str, tuple[Edit, ...]] = {
    ".json": (in_json, in_json, numbers, bytewise),
    ".ubj": (bytewise,),
    ".bin": (bytewise,),
    ".txt": (numbers, numbers, lines, bytewise),
    ".tl": (bytewise,),
    ".onnx": (in_protobuf, in_protobuf, in_protobuf, bytewise),
    ".pb": (in_protobuf, in_protobuf, bytewise),
    ".skops": (in_zip,),
    ".safetensors": (in_safetensors, in_safetensors, bytewise),
    ".npy": (in_npy,),
    ".csv": (numbers, lines, bytewise),
    ".tsv": (numbers, lines, bytewise),
    ".parquet": (at_the_end, at_the_end, bytewise),
    ".ort": (bytewise,),
    ".cbm": (bytewise,),
}
"""How files are damaged, by what their names end in; of other ends byte by byte."""


def damaged(data: bytes, suffix: str, rng: np.random.Generator) -> bytes:
    """Return a file's bytes with one or two edits."""
    edits = EDITS.get(suffix, (in_protobuf, bytewise))
    edited = pick(edits, rng)(data, rng)
    return bytewise(edited, rng) if rng.random() < 0.15 else edited
