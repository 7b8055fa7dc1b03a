"""Files of every format, damaged: read or refused in one sentence, within time and memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fuzz.harness import fuzz
from fuzz.seeds import write_all

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits of memory are those of POSIX")


def check(folder: Path, count: int, *, seed: int, processes: int) -> None:
    (folder / "sound").mkdir()
    names = {path.name for path in write_all(folder / "sound")}
    kept = folder / "failures"
    report = fuzz(folder / "sound", count, seed=seed, kept=kept, processes=processes)
    print(report)
    assert report.failures == [], f"{report}; the files are in {kept}"
    assert report.total("read") + report.total("refused") == count
    for outcome in ("read", "refused"):  # some damage is harmless, and some is seen
        seen = {name for name, kind in report.counts if kind == outcome}
        assert len(seen) > len(names) / 2


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    check(tmp_path, 400, seed=0, processes=1)


@pytest.mark.full
def test_sixty_thousand_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    check(tmp_path, 60_000, seed=1, processes=2)
