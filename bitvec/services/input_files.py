"""Files of rows: their kinds, what names them, and their digests, without NumPy."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from bitvec.errors import InputError

ARROW: Final = (".arrow", ".feather", ".ipc", ".arrows")
"""Arrow files, and last a stream; either is read under each of these names."""
LINES: Final = (".ndjson", ".jsonl")
SUFFIXES: Final = (".csv", ".tsv", ".parquet", *ARROW, *LINES, ".npy")


class State(NamedTuple):
    """Facts of a file that change when it is written."""

    inode: int
    size: int
    modified_ns: int


def state(path: str | Path) -> State:
    """Return the state of a file."""
    found = Path(path).stat()
    return State(found.st_ino, found.st_size, found.st_mtime_ns)


def digest(path: str) -> str:
    """Return the SHA-256 of a file, or of all files of a directory with their names."""
    folder = Path(path)
    if not folder.is_dir():
        with folder.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    found = hashlib.sha256()
    for part in sorted(folder.rglob("*")):
        if part.is_file():
            found.update(f"{part.relative_to(folder)}\0{digest(str(part))}\0".encode())
    return found.hexdigest()


def state_and_digest(path: str) -> tuple[State, str]:
    """Return the state of a file and then its digest."""
    before = state(path)
    return before, digest(path)


def find(patterns: Iterable[str], folder: Path | None = None) -> list[tuple[Path, Path]]:
    """Return the files that paths, folders and patterns name, and their names in the output.

    A folder stands for all files of rows below it, with their subfolders (Hive partitions too), but
    for names that begin with a dot or an underscore, which engines give to files of their own.
    Folders and patterns leave out what lies in `folder`, the output.

    Raises
    ------
    InputError
        If a pattern names none.
    """
    found: list[tuple[Path, Path]] = []
    for pattern in patterns:
        if Path(pattern).is_dir():
            root = Path(pattern)
            paths = sorted(p for p in root.rglob("*") if _is_row_file(p.relative_to(root)))
            named = [(path, path.relative_to(root)) for path in _files(paths, folder)]
        elif Path(pattern).exists():
            named = [(Path(pattern), Path(Path(pattern).name))]
        else:
            paths = [Path(path) for path in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207
            named = [(path, Path(path.name)) for path in _files(paths, folder)]
        if not named:
            apart = "" if folder is None else f" outside {folder}"
            raise InputError(
                f"{pattern} does not exist, nor names files of rows{apart} as a pattern or folder."
            )
        found += named
    return found


def _is_row_file(path: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.parts)
    return path.suffix.lower() in SUFFIXES and not hidden


def _files(paths: Iterable[Path], folder: Path | None) -> list[Path]:
    return [p for p in paths if p.is_file() and not (folder is not None and lies_in(p, folder))]


def lies_in(path: Path, folder: Path) -> bool:
    """Return whether a path lies in a folder, or in one below it, links followed."""
    return folder.resolve() in path.resolve().parents
