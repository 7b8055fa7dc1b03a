"""Files written whole: aside, flushed to the disk, and renamed to the name that was asked for.

A reader of the name sees the old file or the new one, never half of either, and a writer that
fails or is interrupted leaves the old file and nothing else. A link stays a link: what it leads to
is replaced. Devices, pipes and directories are refused, since renaming would put a file there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

StrPath = str | os.PathLike[str]


def write(path: StrPath, content: bytes | Callable[[IO[bytes]], object]) -> Path:
    """Write a file that appears under its name only when it is whole, and return the path.

    Parameters
    ----------
    path : path
        A file that is there is replaced; of a link, what it leads to.
    content : bytes or callable
        The bytes, or what writes them to the stream that it is called with.

    Raises
    ------
    OSError
        If the path cannot be written, in one sentence; a file that was there is then still whole.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/a.txt", b"whole").read_text()
    'whole'
    """
    with one_sentence(path, "written"):
        target = Path(os.path.realpath(path))
        if target.is_symlink():  # `realpath` follows all links but those that lead in a circle
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.exists() and not target.is_file():
            raise OSError("it is a directory or a device")
        # A name of its own for each writer, threads too; beside the target, so that renaming stays
        # within one file system.
        aside = target.with_name(f".bitvec-{secrets.token_hex(8)}.tmp")
        try:
            with aside.open("xb") as stream:
                if callable(content):
                    content(stream)
                else:
                    stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            aside.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):  # what went wrong first is what is told
                aside.unlink()
            raise
        _flush_directory(target.parent)
    return Path(path)


@contextlib.contextmanager
def one_sentence(path: StrPath, purpose: str, *, kind: str = "file") -> Iterator[None]:
    """Raise an OSError again as one sentence on the path, keeping its class and errno.

    A path that no system can have (empty, with a null character) is an OSError as well.

    Parameters
    ----------
    path : path
    purpose : str
        What was to be done with it: "read", "written".
    kind : str
        What it must be.
    """
    try:
        _require_name(path)
        yield
    except OSError as error:
        name = os.fspath(path)
        shown = name if name.isprintable() and name else repr(name)
        reason = error.strerror or str(error)
        again = type(error)(f"{shown} must be a {kind} that can be {purpose}, got: {reason}.")
        again.errno = error.errno
        raise again from None


def _require_name(path: StrPath) -> None:
    name = os.fspath(path)
    if not name:
        raise FileNotFoundError(errno.ENOENT, "an empty path")
    if "\0" in name:
        raise OSError(errno.EINVAL, "a path with a null character")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise OSError(errno.EINVAL, "a path with a character that no file name can have") from None


def _flush_directory(folder: Path) -> None:
    """Make the new name itself survive a power cut, where the system knows how and allows it."""
    if os.name == "nt":
        return
    # The file is there and whole by now, so that a folder which cannot be read is no failure.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
