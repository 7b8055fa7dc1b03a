"""Reproduce a paper's table: `python -m benchmarks.tables kddt --data FOLDER`."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from benchmarks.old_report import RESULTS, Row, Target
from benchmarks.old_runner import DATA, ONLY, Options, UsageError, run, say
from benchmarks.tables.records import done, kept

RECORDS: Final = RESULTS / "records"
"""Where each unit of work is kept when it is done, so that a run goes on where it was."""
OPTIONS: Final[Options] = {
    "table": {"choices": ("cpt", "e2edt", "kddt", "tao")},
    **DATA,
    **ONLY,
    "--work": {
        "type": Path,
        "help": "folder of what is done, to go on from; empty it to measure anew",
    },
    "--done": {
        "action": "store_true",
        "help": "do nothing more: what is done already, as it is",
    },
    "--processes": {"type": int, "default": 2, "help": "how many at once"},
}


def _summary(options: Namespace) -> Any:
    return import_module(f"benchmarks.tables.{options.table}_summary")


def measured(options: Namespace) -> tuple[list[Row], list[Target]]:
    """Return the rows of the table that the first argument names."""
    if options.data is None:
        raise UsageError("--data must name the folder of the data sets")
    table, summary = import_module(f"benchmarks.tables.{options.table}"), _summary(options)
    units = table.units(quick=options.quick, only=options.only)
    if not units:
        raise UsageError(f"--only must be part of the name of a data set, got {options.only!r}")
    folder = Path(tempfile.mkdtemp()) if options.quick else RECORDS
    path = (options.work or folder) / f"{options.table}{'-quick' if options.quick else ''}.jsonl"
    whole = options.whole
    if options.done:
        found = kept(path)
        records = [found[unit] for unit in units if unit in found]
        whole &= len(records) == len(units)
        say(f"{len(records)} of {len(units)} units are done")
    else:
        work = partial(table.measured, data=options.data)
        records = done(units, work, path, processes=options.processes)
        say(f"all is done, and kept in {path}")
    return summary.rows(records), summary.targets(records, whole=whole)


if __name__ == "__main__":
    run(
        "tables",
        __doc__,
        measured,
        tables=lambda options: [_summary(options).table],
        options=OPTIONS,
        kept=lambda options: f"tables-{options.table}",
    )
