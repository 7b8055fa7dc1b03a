"""Directories written whole: aside, and renamed to the name that was asked for.

Only a directory that is empty, or holds nothing but what was written here earlier, is replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from bitvec.errors import InputError
from bitvec.files import atomic

RECORD = "files.json"
"""Lists the files of a directory, which says that it is ours to replace."""


def write(
    directory: str | os.PathLike[str], files: Mapping[str, bytes], kind: str = "page"
) -> Path:
    """Write a directory that appears under its name only when it is whole, and return the path.

    Parameters
    ----------
    directory : path
        Made anew, in a folder that is there. Of a link, what it leads to is replaced.
    files : dict
        Contents by name; names may lie in folders, with `/` between.
    kind : str
        The word for such a directory: one of another kind is not replaced.

    Raises
    ------
    InputError
        If the path is there and is neither an empty directory nor one that this function wrote.
    OSError
        If it cannot be written; what was there is then still whole.
    """
    target = require_ours(directory, kind)
    with atomic.one_sentence(directory, "written", kind="directory"):
        aside = target.with_name(f".bitvec-{secrets.token_hex(8)}.tmp")
        try:
            _fill(aside, files, kind)
            _swap(aside, target)
        finally:
            with contextlib.suppress(OSError):
                shutil.rmtree(aside)
    return Path(directory)


def require_ours(directory: str | os.PathLike[str], kind: str = "page") -> Path:
    """Return the path that is to be written, links followed, if nothing else is lost by that.

    Raises
    ------
    InputError
        If it is there and is neither empty nor a directory of the kind that was written here.
    OSError
        If no directory can have this path.
    """
    with atomic.one_sentence(directory, "written", kind="directory"):
        target = Path(os.path.realpath(directory))
        return target if not target.exists() else _require_ours(target, kind)


def _require_ours(target: Path, kind: str) -> Path:
    if not target.is_dir():
        raise InputError(f"{target} must be a directory, got a file: choose another path.")
    found = {path.relative_to(target).as_posix() for path in target.rglob("*") if not _is_dir(path)}
    foreign = found - _recorded(target, kind)
    if foreign:
        raise InputError(
            f"{target} must be empty or hold an earlier {kind} and nothing else, got "
            f"{min(foreign)}: choose another directory."
        )
    return target


def _is_dir(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _recorded(target: Path, kind: str) -> set[str]:
    try:
        record = json.loads((target / RECORD).read_text(encoding="utf-8"))
        if record["kind"] != f"bitvec {kind}":
            return set()
        return {RECORD, *record["files"]}
    except (OSError, ValueError, LookupError, TypeError):
        return set()


def _fill(folder: Path, files: Mapping[str, bytes], kind: str) -> None:
    folder.mkdir()
    for name, content in {**files, RECORD: _record(files, kind)}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())


def _record(names: Iterable[str], kind: str) -> bytes:
    return json.dumps({"kind": f"bitvec {kind}", "files": sorted(names)}, indent=1).encode()


def _swap(aside: Path, target: Path) -> None:
    """Give `aside` the name of `target`; what was there takes the name of `aside`."""
    if not target.exists():
        aside.rename(target)
        return
    # No system call of Python's exchanges two names, so that for a moment there is neither.
    before = target.with_name(f".bitvec-{secrets.token_hex(8)}.old")
    target.rename(before)
    try:
        aside.rename(target)
    except BaseException:
        before.rename(target)
        raise
    shutil.rmtree(before, ignore_errors=True)
