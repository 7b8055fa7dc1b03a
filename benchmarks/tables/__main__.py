"""Reproduce a paper's table: `python -m benchmarks.tables kddt --data FOLDER`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import finish, parser
from benchmarks.tables import kddt, kddt_summary, tao, tao_summary
from benchmarks.tables.records import done

TABLES: dict[str, Any] = {"kddt": (kddt, kddt_summary), "tao": (tao, tao_summary)}


def main() -> None:
    """Run the table that the first argument names."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("table", choices=sorted(TABLES))
    arguments.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    arguments.add_argument("--work", type=Path, help="folder of what is done, to go on from")
    arguments.add_argument("--only", default="", help="data sets whose name contains this")
    arguments.add_argument("--processes", type=int, default=2, help="how many at once")
    options = arguments.parse_args()
    table, summary = TABLES[options.table]
    units = table.units(quick=options.quick, only=options.only)
    if not units:
        arguments.error(f"--only must be part of the name of a data set, got {options.only!r}")
    folder = options.work or Path.cwd() / "tables-work"
    name = f"{options.table}{'-quick' if options.quick else ''}.jsonl"
    work = partial(table.measured, data=options.data)
    rows = done(units, work, folder / name, processes=options.processes)
    print(f"all is done, and kept in {folder / name}", file=sys.stderr)
    whole = not options.quick and not options.only
    finish(
        f"tables-{options.table}",
        options,
        summary.rows(rows),
        summary.targets(rows, whole=whole),
        table=summary.table,
        module=f"tables {options.table}",
    )


if __name__ == "__main__":
    main()
