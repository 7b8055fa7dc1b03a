"""A written file is whole or not there, links and devices stay, and failures are one sentence."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

import bitvec
from bitvec.core.forest import Forest
from bitvec.files import atomic


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_bytes_and_what_a_callable_writes_are_the_files_contents(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert atomic.write(path, b"old") == path
    assert path.read_bytes() == b"old"
    assert atomic.write(str(path), lambda stream: stream.writelines([b"n", b"ew"])) == path
    assert path.read_bytes() == b"new"
    assert entries(tmp_path) == ["a"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    path = atomic.write(tmp_path / "a", b"old")

    def fails(stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise failure

    with pytest.raises(failure):
        atomic.write(path, fails)
    assert path.read_bytes() == b"old"
    assert entries(tmp_path) == ["a"]


def test_writers_of_one_name_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    path, meet, errors = tmp_path / "a", threading.Barrier(4), []

    def write(letter: bytes) -> None:
        def together(stream: IO[bytes]) -> None:
            stream.write(letter * 5000)
            meet.wait(timeout=10)  # until each has its file open
            stream.write(letter * 5000)

        try:
            atomic.write(path, together)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c", b"d")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(path.read_bytes()) == 10_000
    assert len(set(path.read_bytes())) == 1
    assert entries(tmp_path) == ["a"]


@pytest.mark.skipif(os.name == "nt", reason="POSIX links")
def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/a")
    (tmp_path / "link to link").symlink_to("link")
    atomic.write(tmp_path / "link to link", b"new")
    assert (tmp_path / "folder" / "a").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "link to link").is_symlink()
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="must be a file that can be written"):
        atomic.write(tmp_path / "circle", b"")
    assert (tmp_path / "circle").is_symlink()


def export(path: Path) -> None:
    bitvec.export(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]), path)


def certify(path: Path) -> None:
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    bitvec.export(forest, onnx := path.with_name("a.onnx"))
    bitvec.certify(forest, onnx).save(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX pipes")
@pytest.mark.parametrize(
    ("write", "suffix"),
    [(lambda path: atomic.write(path, b""), ""), (export, ".onnx"), (certify, ".json")],
    ids=["bytes", "export", "certificate"],
)
def test_pipes_and_links_stay_what_they_are(
    tmp_path: Path, write: Callable[[Path], object], suffix: str
) -> None:
    path = tmp_path / f"pipe{suffix}"
    os.mkfifo(path)  # as a device: not a regular file
    with pytest.raises(OSError, match="a directory or a device"):
        write(path)
    assert stat.S_ISFIFO(path.stat().st_mode)
    link = tmp_path / f"link{suffix}"
    link.symlink_to(tmp_path / "target")
    write(link)
    assert link.is_symlink()
    assert (tmp_path / "target").is_file()


@pytest.mark.parametrize(
    ("path", "kind", "says"),
    [
        ("", FileNotFoundError, "an empty path"),
        ("a\0b", OSError, "a null character"),
        ("\ud800", OSError, "a character that no file name can have"),
        ("no/a", FileNotFoundError, "No such file"),
        ("x" * 300, OSError, "name too long"),
    ],
)
def test_a_path_that_cannot_be_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: type[OSError], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    forest = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    uses = {
        "written": (lambda: atomic.write(path, b""), lambda: bitvec.save(forest, path)),
        "read": (lambda: bitvec.load(path),),
    }
    for purpose, calls in uses.items():
        for call in calls:
            with pytest.raises(kind, match=f"must be a file that can be {purpose}") as caught:
                call()
            assert says in str(caught.value)
            assert str(caught.value).isprintable()
            assert caught.value.errno is not None
    assert entries(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_folder_that_cannot_be_flushed_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, flags: int, *more: int, **options: int) -> int:
        if Path(path) == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", refuse)
    atomic.write(tmp_path / "a", b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"


def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write as on a system whose files have names from the start."""
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
@pytest.mark.parametrize("system", [lambda monkeypatch: None, named], ids=["unnamed", "named"])
def test_permissions_are_those_of_an_ordinary_file_or_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: Callable[[pytest.MonkeyPatch], None]
) -> None:
    system(monkeypatch)
    for umask, mode in ((0o022, 0o644), (0o077, 0o600), (0, 0o666)):
        path = tmp_path / oct(mode)
        before = os.umask(umask)
        try:
            atomic.write(path, b"")
            assert stat.S_IMODE(path.stat().st_mode) == mode
            path.chmod(0o640)
            atomic.write(path, b"again")
            assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"again", 0o640)
        finally:
            os.umask(before)
    assert len(entries(tmp_path)) == 3


KILLED = """
import os, signal, sys
from bitvec.files import atomic

if sys.argv[2] == "named":
    del os.O_TMPFILE

def half(stream):
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)

atomic.write(sys.argv[1], half)
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="Linux: files without names")
@pytest.mark.parametrize("system", ["unnamed", "named"])
def test_a_writer_that_is_killed_leaves_the_old_file_and_nothing_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    path = atomic.write(tmp_path / "a", b"old")
    child = subprocess.run([sys.executable, "-c", KILLED, str(path), system], check=False)
    assert child.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(entries(tmp_path)) == (1 if system == "unnamed" else 2)
    if system == "named":
        named(monkeypatch)

    def while_another_writes(stream: IO[bytes]) -> None:
        during = entries(tmp_path)
        atomic.write(tmp_path / "b", b"other")
        assert set(during) <= set(entries(tmp_path))  # what is being written is not removed
        stream.write(b"new")

    atomic.write(path, while_another_writes)
    assert path.read_bytes() == b"new"
    assert entries(tmp_path) == ["a", "b"]


def test_files_of_other_names_stay(tmp_path: Path) -> None:
    others = [".bitvec-x.tmp", ".bitvec-0123456789abcdef.tmp.old"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".bitvec-0123456789abcdef.tmp").mkdir()
    atomic.write(tmp_path / "a", b"")
    assert entries(tmp_path) == sorted([*others, ".bitvec-0123456789abcdef.tmp", "a"])
