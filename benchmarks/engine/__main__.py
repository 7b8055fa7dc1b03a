"""Time what was chosen, and judge every figure that is asked for."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Final

import benchmarks.engine as package
from benchmarks.engine.engines import ENGINES, Engine
from benchmarks.engine.figures import FIGURES, figure
from benchmarks.engine.measure import Plan, compare, without
from benchmarks.engine.summary import OURS, figures, targets, with_ratios
from benchmarks.engine.tables import TABLES
from benchmarks.engine.workers import REQUIREMENTS
from benchmarks.engine.workloads import BATCHES, WORKLOADS, default_cache, made
from benchmarks.old_report import Row, Target, undecided
from benchmarks.old_runner import DATA, Options, UsageError, count, run

QUICK = ("W1", "W5")


def _names(text: str) -> list[str]:
    return [name.strip().lower() for name in text.split(",") if name.strip()]


def _chosen(name: str, asked: list[str]) -> bool:
    return not asked or name.lower() in asked


OPTIONS: Final[Options] = {
    **DATA,
    "--cache": {"type": Path, "default": default_cache(), "help": "keeps the models"},
    "--only": {"type": _names, "default": [], "help": "workloads: W1,W3"},
    "--engines": {"type": _names, "default": [], "help": "engines: bitvec,daal4py"},
    "--batches": {"type": _names, "default": [], "help": "batches: 1,10000"},
    "--repeats": {"type": count, "default": 7, "help": "turns of each engine"},
}


def measured(options: Namespace) -> tuple[list[Row], list[Target]]:
    """Return a row for each workload, batch, number of threads and engine, and each figure."""
    known = {engine.name.lower() for engine in ENGINES}
    if not known.issuperset(options.engines):
        raise UsageError(f"--engines must be among: {', '.join(e.name for e in ENGINES)}")
    known = {w.name.lower() for w in WORKLOADS} | {what for what, _ in FIGURES}
    if not known.issuperset(options.only):
        raise UsageError(f"--only must be among: {', '.join(sorted(known))}")
    plan = Plan(
        repeats=min(options.repeats, 3) if options.quick else options.repeats,
        seconds=0.02 if options.quick else 0.05,
        threads=(1,) if options.quick else (1, 2),
        batches=tuple(int(batch) for batch in options.batches) or BATCHES,
        baselines=None if options.quick else options.baselines_dir,
    )
    only = options.only or ([name.lower() for name in QUICK] if options.quick else [])
    rows: list[Row] = []
    for workload in WORKLOADS:
        if not workload.compared or not _chosen(workload.name, only):
            continue
        if workload.real and options.data is None:
            rows.append(without(workload.name, "", "needs --data"))
            continue
        folder = made(workload, options.cache, options.data, small=options.quick)
        rows += compare(workload, folder, _engines(workload.name, options), plan)
    if not options.quick:
        by_name = {workload.name: workload for workload in WORKLOADS}
        for what, name in FIGURES:
            if _chosen(what, only) or name.lower() in only:
                folder = made(by_name[name], options.cache, options.data, small=False)
                rows.append(figure(what, name, folder))
    rows = with_ratios(rows)
    # A stand-in of a model says nothing of a figure that is asked for of the model.
    return rows, undecided(targets(rows), whole=not options.quick)


def _engines(workload: str, options: Namespace) -> list[Engine]:
    return [
        engine
        for engine in ENGINES
        if _chosen(engine.name, options.engines)
        if not engine.only or workload in engine.only
        if not (options.quick and (engine.environment or (engine.ours and engine.name != OURS)))
    ]


if __name__ == "__main__":
    run(
        "engine",
        package.__doc__,
        measured,
        tables=lambda _: TABLES,
        figures=figures,
        options=OPTIONS,
        requirements=REQUIREMENTS,
    )
