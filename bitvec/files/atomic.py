"""Files written whole: aside, flushed to the disk, and renamed to the name that was asked for.

A reader of the name sees the old file or the new one, never half of either, and a writer that
fails or is interrupted leaves the old file and nothing else. So does one that is killed, where the
system has files without names (Linux): the file is given one when it is whole. Elsewhere a killed
writer leaves a `.bitvec-*.tmp`, which the next write to the folder removes; a lock tells it from
the file of a writer that is still at work. A link stays a link: what it leads to is replaced.
Devices, pipes and directories are refused, since renaming would put a file there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

StrPath = str | os.PathLike[str]


def write(path: StrPath, content: bytes | Callable[[IO[bytes]], object]) -> Path:
    """Write a file that appears under its name only when it is whole, and return the path.

    Parameters
    ----------
    path : path
        A file that is there is replaced, and lends its permissions; of a link, what it leads to.
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
        target = _target(path)
        _remove_abandoned(target.parent)
        with _aside(target.parent) as (stream, name):
            if callable(content):
                content(stream)
            else:
                stream.write(content)
            stream.flush()
            if target.exists() and hasattr(os, "fchmod"):  # who may read it stays as it was
                os.fchmod(stream.fileno(), stat.S_IMODE(target.stat().st_mode))
            os.fsync(stream.fileno())
            name().replace(target)
        _flush_directory(target.parent)
    return Path(path)


def require_writable(path: StrPath) -> None:
    """Raise an OSError as `write` does where nothing could be written now, and leave nothing."""
    with one_sentence(path, "written"):
        stream, name = _opened(_target(path).parent)
        stream.close()
        if name is not None:
            name.unlink()


def _target(path: StrPath) -> Path:
    target = Path(os.path.realpath(path))
    if target.is_symlink():  # `realpath` follows all links but those that lead in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.exists() and not target.is_file():
        raise OSError("it is a directory or a device")
    return target


_ABANDONED = re.compile(r"\.bitvec-[0-9a-f]{16}\.tmp")


def _new_name(folder: Path) -> Path:
    """Return a name of its own for each writer, threads too.

    It stands in the folder of the target, so that renaming stays within one file system.
    """
    return folder / f".bitvec-{os.urandom(8).hex()}.tmp"


@contextlib.contextmanager
def _aside(folder: Path) -> Iterator[tuple[IO[bytes], Callable[[], Path]]]:
    """Open a file that is gone at the end, and give what closes it and returns its name."""
    stream, path = _opened(folder)

    def name() -> Path:
        nonlocal path
        if path is None:
            new = _new_name(folder)
            # Only with a directory's descriptor does Python follow the link to the open file.
            at = os.open(folder, os.O_RDONLY)
            try:
                os.link(f"/proc/self/fd/{stream.fileno()}", new.name, dst_dir_fd=at)
            finally:
                os.close(at)
            path = new
        if sys.platform == "win32":
            stream.close()  # which renames no file that is open
        return path

    try:
        with stream:
            yield stream, name
    except BaseException:
        if path is not None:
            with contextlib.suppress(OSError):  # what went wrong first is what is told
                path.unlink()
        raise


def _opened(folder: Path) -> tuple[IO[bytes], Path | None]:
    """Return a new file, locked, and its name; None where it has none yet."""
    if hasattr(os, "O_TMPFILE") and os.access("/proc/self/fd", os.X_OK):
        # Some file systems and old kernels have no such files; what else is wrong shows below.
        with contextlib.suppress(OSError):
            unnamed = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            stream = os.fdopen(unnamed, "wb")
            _lock(stream, wait=True)
            return stream, None
    while True:
        path = _new_name(folder)
        stream = path.open("xb")
        _lock(stream, wait=True)
        if os.fstat(stream.fileno()).st_nlink:
            return stream, path
        stream.close()  # another writer took it for abandoned before it was locked


def _lock(stream: IO[bytes], *, wait: bool) -> bool:
    """Lock an open file until it is closed, by whatever end; return whether it is locked."""
    if sys.platform == "win32":  # which removes no file that is open
        return True
    import fcntl

    try:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # it is locked, or the file system has no locks
        return False
    return True


def _remove_abandoned(folder: Path) -> None:
    """Remove the files of writers that were killed: nobody holds their locks."""
    with contextlib.suppress(OSError):
        for path in [path for path in folder.iterdir() if _ABANDONED.fullmatch(path.name)]:
            with contextlib.suppress(OSError):
                if path.is_symlink() or not path.is_file():
                    continue
                with path.open("r+b") as stream:
                    if sys.platform != "win32" and _lock(stream, wait=False):
                        path.unlink()
                if sys.platform == "win32":
                    path.unlink()


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
