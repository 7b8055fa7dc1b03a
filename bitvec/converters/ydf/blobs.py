"""Files that hold the nodes of a YDF model, one record a node: blob sequences and TFRecords."""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from bitvec.converters.ydf.wire import PADDING
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int64, UInt8
from bitvec.errors import FileFormatError, UnsupportedModelError

FORMATS: Final = ("BLOB_SEQUENCE", "BLOB_SEQUENCE_GZIP", "TFE_RECORDIO")
"""The last, TFRecords in one gzip stream, is what a header without a format means."""

_HEADER: Final = 8
"""`BS`, a version of two bytes, a byte for the compression, three bytes that must be 0."""
_RECORD: Final = 16
"""Bytes of a TFRecord besides its own."""
_LARGEST: Final = 1 << 31
"""Bytes that a compressed file may hold."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file of a model directory.

    Raises
    ------
    FileFormatError
        If there is none.
    """
    if not path.is_file():  # a pipe would wait for ever, and a device has no end
        raise FileFormatError(
            f"a YDF model directory must hold the file {path.name}, got none: pass the directory "
            "that `model.save` wrote."
        )
    with path.open("rb") as file:
        yield file


def records(
    paths: list[Path], kind: str
) -> tuple[UInt8[Array, " n_bytes"], Int64[Array, " n_records"], Int64[Array, " n_records"]]:
    """Return the bytes of all files, and where each record begins and ends.

    Parameters
    ----------
    paths : list of Path
    kind : str
        Of `FORMATS`.

    Raises
    ------
    FileFormatError
        If a file is missing, cut off, damaged or no blob sequence.
    UnsupportedModelError
        If it is of a version that is not known, or larger than 2 GiB.
    """
    if kind == FORMATS[-1]:
        return _tf_records(paths)
    contents = [_content(path) for path in paths]
    sizes = [content if isinstance(content, int) else len(content) for content in contents]
    data: Array = np.zeros(sum(sizes) + PADDING, np.uint8)
    first = array("q")  # of 8 bytes each, where a list would hold integers
    base = 0
    for path, content, size in zip(paths, contents, sizes, strict=True):
        part = data[base : base + size].data
        if isinstance(content, int):
            _read_into(part, path)
        else:
            part[:] = content
        _append_places(first, part, base)
        base += size
    start = np.array(first, np.int64)
    return data, start + 4, np.append(start[1:], base)[: start.size]


def _tf_records(
    paths: list[Path],
) -> tuple[UInt8[Array, " n_bytes"], Int64[Array, " n_records"], Int64[Array, " n_records"]]:
    """Read records of a length of 8 bytes, its checksum, the bytes, and theirs, 4 bytes each.

    The checksum of the gzip stream covers all of them.
    """
    contents = []
    for path in paths:
        with opened(path) as file:
            contents.append(_decompressed(file.read()))
    start, end = array("q"), array("q")
    base = 0
    length_at = struct.Struct("<Q").unpack_from
    for content in contents:
        at, size = 0, len(content)
        while size - at >= _RECORD:
            length = length_at(content, at)[0]
            start.append(base + at + 12)
            at += _RECORD + length
            end.append(base + at - 4)
        if at != size:
            raise FileFormatError("the nodes must be whole records, got one that is cut off.")
        base += size
    data = np.frombuffer(b"".join([*contents, bytes(PADDING)]), np.uint8)
    return data, np.array(start, np.int64), np.array(end, np.int64)


def _read_into(part: memoryview, path: Path) -> None:
    with opened(path) as file:
        file.seek(_HEADER)
        if file.readinto(part) != len(part):  # type: ignore[attr-defined]
            raise FileFormatError("the nodes must be whole records, got a file that shrank.")


def _append_places(first: array[int], content: memoryview, base: int) -> None:
    """Append where each record begins; only its length leads to the next, so it takes a loop."""
    size, at = len(content), 0
    append, length_at = first.append, struct.Struct("<I").unpack_from
    try:
        while at < size:
            append(base + at)
            at += 4 + length_at(content, at)[0]
    except struct.error:  # fewer than 4 bytes are left
        at = -1
    if at != size:
        raise FileFormatError("the nodes must be whole records, got one that is cut off.")


def _content(path: Path) -> int | bytes:
    """Return how many bytes of records follow the header, or the bytes if they are compressed."""
    with opened(path) as file:
        header = file.read(_HEADER)
        if len(header) < _HEADER or header[:2] != b"BS":
            raise FileFormatError("a file of nodes must begin with `BS`, got another kind of file.")
        version, compression = struct.unpack_from("<HB", header, 2)
        if (version, compression) not in ((0, 0), (1, 0), (1, 1)) or any(header[5:]):
            raise UnsupportedModelError(
                f"a file of nodes must be a blob sequence of version 0 or 1, plain or gzip, got "
                f"version {version} with compression {compression}."
            )
        if not compression:
            return file.seek(0, SEEK_END) - _HEADER
        return _decompressed(file.read())


def _decompressed(content: bytes) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    try:
        plain = reader.decompress(content, _LARGEST)
    except zlib.error as error:
        raise FileFormatError(f"the compressed nodes are damaged: {error}.") from error
    if not reader.eof or reader.unused_data:
        if reader.unconsumed_tail:
            raise UnsupportedModelError("compressed nodes must take at most 2 GiB, got more.")
        raise FileFormatError("the compressed nodes must be one whole gzip stream.")
    return plain
