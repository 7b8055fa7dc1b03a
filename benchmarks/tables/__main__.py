"""Reproduce a paper's table: `python -m benchmarks.tables kddt --data FOLDER`."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS, finish, parser
from benchmarks.tables import (
    cpt,
    cpt_summary,
    e2edt,
    e2edt_summary,
    kddt,
    kddt_summary,
    tao,
    tao_summary,
)
from benchmarks.tables.records import done, kept

TABLES: dict[str, Any] = {
    "cpt": (cpt, cpt_summary),
    "e2edt": (e2edt, e2edt_summary),
    "kddt": (kddt, kddt_summary),
    "tao": (tao, tao_summary),
}

RECORDS = RESULTS / "records"
"""Where each unit of work is kept when it is done, so that a run goes on where it was."""


def main() -> None:
    """Run the table that the first argument names."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("table", choices=sorted(TABLES))
    arguments.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    arguments.add_argument(
        "--work",
        type=Path,
        help="folder of what is done, to go on from; empty it to measure anew",
    )
    arguments.add_argument(
        "--done", action="store_true", help="do nothing more: what is done already, as it is"
    )
    arguments.add_argument("--only", default="", help="data sets whose name contains this")
    arguments.add_argument("--processes", type=int, default=2, help="how many at once")
    options = arguments.parse_args()
    table, summary = TABLES[options.table]
    units = table.units(quick=options.quick, only=options.only)
    if not units:
        arguments.error(f"--only must be part of the name of a data set, got {options.only!r}")
    folder = Path(tempfile.mkdtemp()) if options.quick else RECORDS
    path = (options.work or folder) / f"{options.table}{'-quick' if options.quick else ''}.jsonl"
    whole = not options.quick and not options.only
    if options.done:
        found = kept(path)
        rows = [found[unit] for unit in units if unit in found]
        whole &= len(rows) == len(units)
        print(f"{len(rows)} of {len(units)} units are done", file=sys.stderr)
    else:
        work = partial(table.measured, data=options.data)
        rows = done(units, work, path, processes=options.processes)
        print(f"all is done, and kept in {path}", file=sys.stderr)
    finish(
        f"tables-{options.table}",
        options,
        summary.rows(rows),
        summary.targets(rows, whole=whole),
        table=summary.table,
        module="tables",
    )


if __name__ == "__main__":
    main()
