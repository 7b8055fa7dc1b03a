"""Files of every format, damaged: read or refused in one sentence, within time and memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.harness import PATIENCE, fuzz
from fuzz.seeds import write_all, write_run

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits of memory are those of POSIX")


def check(
    folder: Path,
    count: int,
    *,
    seed: int,
    write: Callable[[Path], list[Path]] = write_all,
    processes: int = 1,
    patience: float = PATIENCE,
) -> None:
    (sound := folder / "sound").mkdir()
    names = {path.name for path in write(sound)}
    kept = folder / "failures"
    report = fuzz(sound, count, seed=seed, kept=kept, processes=processes, patience=patience)
    print(report)
    assert report.failures == [], f"{report}; the files are in {kept}"
    assert report.total("read") + report.total("refused") == count
    for outcome in ("read", "refused"):  # some damage is harmless, and some is seen
        seen = {name for name, kind in report.counts if kind == outcome}
        assert len(seen) > len(names) / 2


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    check(tmp_path, 400, seed=0)


@pytest.mark.full
def test_sixty_thousand_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    check(tmp_path, 60_000, seed=1, processes=2)


@pytest.mark.full
def test_libraries_that_open_damaged_files_harm_nobody(tmp_path: Path) -> None:
    # Each file has a child process, and the child its own limit of 60 seconds a question.
    check(tmp_path, 500, seed=2, write=write_run, processes=2, patience=200)
