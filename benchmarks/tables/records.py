"""Units of work, done by processes, each kept when it is done so that a run goes on where it was.

A unit is a tuple of names and numbers; its record is a dictionary of numbers. Records lie in one
file of JSON lines. A line that was cut off by a kill is done again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Unit = tuple[Any, ...]
Record = dict[str, Any]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def kept(path: Path) -> dict[Unit, Record]:
    """Return the records of a file, by their units."""
    found: dict[Unit, Record] = {}
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[tuple(record["unit"])] = record
    return found


def done(
    units: Sequence[Unit], work: Callable[[Unit], Record], path: Path, *, processes: int
) -> list[Record]:
    """Do the units that the file does not hold yet, and return the records of all, in order."""
    found = kept(path)
    left = [unit for unit in units if unit not in found]
    for name in THREADS:
        os.environ[name] = "1"
    path.parent.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with (
        path.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(processes, mp_context=context) as pool,
    ):
        if path.stat().st_size:
            file.write("\n")  # ends a line that was cut off
        waiting = {pool.submit(work, unit): unit for unit in left}
        for number, future in enumerate(as_completed(waiting), 1):
            unit = waiting[future]
            record = {"unit": list(unit), **future.result()}
            file.write(json.dumps(record) + "\n")
            file.flush()
            found[unit] = record
            spent = time.perf_counter() - begin
            told = " ".join(str(part) for part in unit)
            print(f"{told}: {number} of {len(left)}, {spent:.0f} s", file=sys.stderr, flush=True)
    return [found[unit] for unit in units]
