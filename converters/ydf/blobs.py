"""Blob sequences: the files that hold the nodes of a YDF model, one record a node."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np
from jaxtyping import Int64, UInt8

from bitvec.arrays import Array
from bitvec.converters.ydf.wire import padded
from bitvec.errors import FileFormatError, UnsupportedModelError

FORMATS: Final = ("BLOB_SEQUENCE", "BLOB_SEQUENCE_GZIP")

_HEADER: Final = 8
"""`BS`, a version of two bytes, a byte for the compression, three bytes that must be 0."""
_LARGEST: Final = 1 << 31
"""Bytes that a compressed file may hold."""


def records(
    files: list[bytes],
) -> tuple[UInt8[Array, " n_bytes"], Int64[Array, " n_records"], Int64[Array, " n_records"]]:
    """Return the bytes of all files, and where each record begins and ends.

    Raises
    ------
    FileFormatError
        If a file is cut off, damaged or no blob sequence.
    UnsupportedModelError
        If it is of a version that is not known, or larger than 2 GiB.
    """
    starts, ends, base = [], [], 0
    contents = [_content(file) for file in files]
    for content in contents:
        size, at = len(content), 0
        read = struct.Struct("<I").unpack_from
        while at < size:
            if at + 4 > size or at + 4 + (length := read(content, at)[0]) > size:
                raise FileFormatError("the nodes must be whole records, got one that is cut off.")
            starts.append(base + at + 4)
            at += 4 + length
            ends.append(base + at)
        base += size
    return padded(b"".join(contents)), np.array(starts, np.int64), np.array(ends, np.int64)


def _content(file: bytes) -> bytes:
    if len(file) < _HEADER or file[:2] != b"BS":
        raise FileFormatError("a file of nodes must begin with `BS`, got another kind of file.")
    version, compression = struct.unpack_from("<HB", file, 2)
    if (version, compression) not in ((0, 0), (1, 0), (1, 1)) or any(file[5:_HEADER]):
        raise UnsupportedModelError(
            f"a file of nodes must be a blob sequence of version 0 or 1, plain or gzip, got "
            f"version {version} with compression {compression}."
        )
    if not compression:
        return file[_HEADER:]
    reader = zlib.decompressobj(wbits=31)
    try:
        content = reader.decompress(file[_HEADER:], _LARGEST)
    except zlib.error as error:
        raise FileFormatError(f"the compressed nodes are damaged: {error}.") from error
    if not reader.eof or reader.unused_data:
        if reader.unconsumed_tail:
            raise UnsupportedModelError("compressed nodes must take at most 2 GiB, got more.")
        raise FileFormatError("the compressed nodes must be one whole gzip stream.")
    return content
