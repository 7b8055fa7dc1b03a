"""Read damaged files in watched child processes: what ends a child is charged to its file."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 20.0
"""Seconds that a file may take; the machine may be shared, so more than it needs."""
START = 300.0
"""Seconds until a child has read the sound files."""
OUTCOMES = ("read", "refused", "unclean", "memory", "hang", "crash")


@dataclass(slots=True)
class Report:
    """How many files had each outcome, and those that neither were read nor refused.

    Parameters
    ----------
    counts : Counter
        By the sound file's name and the outcome.
    failures : list of str
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def total(self, outcome: str) -> int:
        return sum(n for (_, kind), n in self.counts.items() if kind == outcome)

    def __str__(self) -> str:
        return ", ".join(f"{self.total(kind)} {kind}" for kind in OUTCOMES)


def fuzz(
    sound: Path,
    count: int,
    *,
    seed: int,
    kept: Path,
    processes: int = 1,
    patience: float = PATIENCE,
) -> Report:
    """Read `count` damaged copies of the files of a folder; those that fail are kept."""
    kept.mkdir(exist_ok=True)
    bounds = [count * part // processes for part in range(processes + 1)]
    with ThreadPoolExecutor(processes) as pool:
        reports = list(
            pool.map(
                lambda first, last: _watched(sound, first, last, seed, kept, patience),
                bounds[:-1],
                bounds[1:],
            )
        )
    whole = Report()
    for part in reports:
        whole.counts += part.counts
        whole.failures += part.failures
    return whole


def _watched(sound: Path, first: int, last: int, seed: int, kept: Path, patience: float) -> Report:
    names = sorted(path.name for path in sound.iterdir())
    report, index = Report(), first

    def note(kind: str, said: str, folder: str) -> None:
        name = names[index % len(names)]
        report.counts[name, kind] += 1
        if kind not in ("read", "refused"):
            report.failures.append(f"{index} {name}: {kind}: {said}")
            path = Path(folder, name.partition("-")[2])
            copy = kept / f"{index}-{name}"
            (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)

    while index < last:
        with tempfile.TemporaryDirectory() as folder:
            child = _start(sound, folder, index, last, seed)
            lines = _Lines(child)
            if lines.next(START) != ["ready"]:
                raise AssertionError("a child must read the sound files.")
            while index < last:
                line = lines.next(patience)
                if line is None:
                    hangs = child.poll() is None and not lines.ended
                    child.kill()
                    note("hang" if hangs else "crash", f"exit code {child.wait()}", folder)
                    index += 1
                    break
                index, kind, said = line
                note(kind, said, folder)
                index += 1
            child.kill()
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
    return report


class _Lines:
    """The lines of a child, each waited for so long."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        self.descriptor, self.pending, self.ended = child.stdout.fileno(), b"", False

    def next(self, patience: float) -> list | None:  # type: ignore[type-arg]
        while b"\n" not in self.pending:
            if not select.select([self.descriptor], [], [], patience)[0]:
                return None
            some = os.read(self.descriptor, 1 << 16)
            if not some:
                self.ended = True
                return None
            self.pending += some
        line, _, self.pending = self.pending.partition(b"\n")
        value: list = json.loads(line)  # type: ignore[type-arg]
        return value


def _start(sound: Path, folder: str, first: int, last: int, seed: int) -> subprocess.Popen[bytes]:
    one_thread = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "NUMEXPR_MAX_THREADS": "1"}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz.worker", str(sound), folder, *map(str, (first, last, seed))],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **one_thread, "PYTHONPATH": path},
    )
