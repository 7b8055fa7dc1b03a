"""Standard streams, open or not."""

from __future__ import annotations

import atexit
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

INTERRUPTED, HALTED = 130, "interrupted; nothing was left half-written."
"""The exit status of an interrupted command, and its last word on stderr."""
STDOUT = "stdout"
"""File name in an OSError of writing to stdout."""


def prepare() -> None:
    """Open what the caller has closed, and let stdout name itself in its errors.

    A closed descriptor would go to the first file that is opened, and what is printed into it.
    Where stdout was closed, printing is an error, as in the programs of the system.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is taken, and that is this one. One that was opened for
            # reading refuses to be written to.
            os.open(os.devnull, os.O_RDWR if descriptor == 2 else os.O_RDONLY)
    if os.name != "nt" or sys.stdout is None:  # a Windows console has a stream of its own kind
        sys.stdout = _text(_Stdout(1, "w", closefd=False), sys.stdout)
    if sys.stderr is None:
        sys.stderr = _text(io.FileIO(2, "w", closefd=False), None)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # another encoding must not end a command


@contextmanager
def left_at_once() -> Iterator[None]:
    """Let the process end without taking apart what is imported, once what is inside has ended.

    Python would free each object first, which takes as long as many a command. What was registered
    to run at exit still runs, and the streams are flushed.
    """
    status = 1  # of an exception that nobody caught
    left_by = os.getpid()

    def leave() -> None:
        if os.getpid() == left_by:  # and not a copy of it
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            sys.stdout.flush()  # which raises if it cannot: then Python ends as it does
            os._exit(status)

    atexit.register(leave)  # first, so it runs last
    try:
        yield
        status = 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            status = end.code or 0
        raise
    except KeyboardInterrupt:
        status = INTERRUPTED
        raise


def discard_stdout() -> None:
    """Let stdout go nowhere from here on: Python flushes it once more as it exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(raw: io.FileIO, like: TextIO | None) -> TextIO:
    encoding = "utf-8" if like is None else like.encoding
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, line_buffering=like is not None and like.isatty()
    )


class _Stdout(io.FileIO):
    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise OSError(error.errno, error.strerror, STDOUT) from None
