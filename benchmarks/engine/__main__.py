"""Time what was chosen, and say whether every figure that is asked for was met."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import replace
from pathlib import Path

from benchmarks.engine.engines import ENGINES, Engine
from benchmarks.engine.figures import FIGURES, figure
from benchmarks.engine.measure import Plan, Row, compare, without
from benchmarks.engine.peers import make
from benchmarks.engine.summary import OURS, targets, with_ratios
from benchmarks.engine.tables import everything
from benchmarks.engine.workloads import BATCHES, WORKLOADS, Workload, default_cache, made
from benchmarks.report import finish, parser

QUICK = ("W1", "W5")


def _names(text: str) -> list[str]:
    return [name.strip().lower() for name in text.split(",") if name.strip()]


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number above 0, got {text!r}")
    return int(text)


def _chosen(name: str, asked: list[str]) -> bool:
    return not asked or name.lower() in asked


def main() -> None:
    """Run the benchmark."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--data", type=Path, help="the folder of real data")
    arguments.add_argument("--cache", type=Path, default=default_cache(), help="keeps the models")
    arguments.add_argument("--peers-dir", type=Path, help="environments of other engines")
    arguments.add_argument("--make-peers", action="store_true", help="make these, and end")
    arguments.add_argument("--only", type=_names, default=[], help="workloads: W1,W3")
    arguments.add_argument("--engines", type=_names, default=[], help="engines: bitvec,daal4py")
    arguments.add_argument("--batches", type=_names, default=[], help="batches: 1,10000")
    arguments.add_argument("--repeats", type=_count, default=7, help="turns of each engine")
    options = arguments.parse_args()
    if options.make_peers:
        if options.peers_dir is None:
            arguments.error("--make-peers needs --peers-dir: the folder to make them in")
        make(options.peers_dir)
        return
    known = {engine.name.lower() for engine in ENGINES}
    if not known.issuperset(options.engines):
        arguments.error(f"--engines must be among: {', '.join(e.name for e in ENGINES)}")
    known = {w.name.lower() for w in WORKLOADS} | {what for what, _ in FIGURES}
    if not known.issuperset(options.only):
        arguments.error(f"--only must be among: {', '.join(sorted(known))}")
    plan = Plan(
        repeats=min(options.repeats, 3) if options.quick else options.repeats,
        seconds=0.02 if options.quick else 0.05,
        threads=(1,) if options.quick else (1, 2),
        batches=tuple(int(batch) for batch in options.batches) or BATCHES,
        peers=None if options.quick else options.peers_dir,
    )
    only = options.only or ([name.lower() for name in QUICK] if options.quick else [])
    rows: list[Row] = []
    cache: Path = options.cache
    for workload in WORKLOADS:
        if not workload.compared or not _chosen(workload.name, only):
            continue
        if workload.real and options.data is None:
            rows.append(without(workload.name, "", "needs --data"))
            continue
        folder = made(workload, cache, options.data, small=options.quick)
        rows += compare(workload, folder, _engines(workload, options.engines, options.quick), plan)
    if not options.quick:
        by_name = {workload.name: workload for workload in WORKLOADS}
        for what, name in FIGURES:
            if _chosen(what, only) or name.lower() in only:
                folder = made(by_name[name], cache, options.data, small=False)
                rows.append(figure(what, name, folder))
    rows = with_ratios(rows)
    asked = targets(rows)
    if options.quick:
        # A stand-in of a model says nothing of a figure that is asked for of the model.
        asked = [replace(target, met=None) for target in asked]
    finish("engine", options, rows, asked, table=everything)


def _engines(workload: Workload, asked: list[str], quick: bool) -> list[Engine]:
    return [
        engine
        for engine in ENGINES
        if _chosen(engine.name, asked)
        if not engine.only or workload.name in engine.only
        if not (quick and (engine.environment or (engine.ours and engine.name != OURS)))
    ]


if __name__ == "__main__":
    main()
