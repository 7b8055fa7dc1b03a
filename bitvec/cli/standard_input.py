"""Rows of standard input: an Arrow stream, an Arrow file or text."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bitvec.errors import InputError


@contextmanager
def batches(read: Callable[[Path], Iterator[Any]]) -> Iterator[Iterator[Any]]:
    """Give the rows of standard input: an Arrow stream as it comes, others by way of a file.

    Parameters
    ----------
    read : callable
        Returns the rows of a file of rows, in batches.

    Raises
    ------
    InputError
        If there is nothing, or it does not fit into the folder of temporary files. What is wrong
        with the rows names standard input, not that file.
    """
    import shutil
    import tempfile

    from bitvec.services import row_files

    stream: Any = None if sys.stdin is None else sys.stdin.buffer  # None where it is closed
    head = b"" if stream is None else stream.read(6)
    if not head:
        raise InputError("standard input must hold rows, got nothing.")
    if head.startswith(b"\xff\xff\xff\xff"):
        whole: Any = io.BufferedReader(_Resumed(head, stream))
        yield row_files.arrow_stream(whole, "standard input")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("stdin.arrow" if head == b"ARROW1" else "stdin.csv")
        try:
            with path.open("wb") as held:
                held.write(head)
                shutil.copyfileobj(stream, held)
        except OSError as error:
            raise InputError(
                f"standard input must fit into {folder}, got {error.strerror}: set TMPDIR to a "
                "folder with room."
            ) from error
        try:
            yield read(path)
        except InputError as error:
            raise InputError(str(error).replace(str(path), "standard input")) from error


class _Resumed(io.RawIOBase):
    """A stream of which some bytes have been read."""

    def __init__(self, head: bytes, rest: io.BufferedReader) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # `read1` waits for no more than there is.
        got = self._head[: len(buffer)] or self._rest.read1(len(buffer))
        self._head = self._head[len(got) :]
        buffer[: len(got)] = got
        return len(got)
