"""Speed of the engine beside the others: a row a workload, batch, threads, answer, engine.

    python -m benchmarks.engine [--json] [--quick] [--save] [--data FOLDER] [--baselines-dir DIR]

Models are trained at the first run and kept in `--cache`. Each engine runs in a process of its own
and they are timed in turns, on raw scores too where these are not what is asked for.
`--baselines-dir DIR --make-baselines` makes environments for the engines that need other versions
of libraries; `--data` is the folder of real data.

Processes in those environments import this package, so what needs more than NumPy is imported late.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.engine.cells import OURS, is_drawn
from benchmarks.engine.comparison_tables import alone, avx2, chance, others, ratios, raw
from benchmarks.engine.engine_goals import goals
from benchmarks.engine.engines import ENGINES, Engine
from benchmarks.engine.floors import told
from benchmarks.report import Row, groups
from benchmarks.runner import DATA, Benchmark, Options, UsageError, count

_QUICK: Final = ("W1",)


class Work(NamedTuple):
    """A workload whose engines are compared, or one figure of bitvec alone on a workload."""

    workload: str
    figure: str = ""

    def __str__(self) -> str:
        """Return the name of the case."""
        return f"{self.workload}, {self.figure}" if self.figure else self.workload


def _names(text: str) -> list[str]:
    return [name.strip().lower() for name in text.split(",") if name.strip()]


def default_cache() -> Path:
    """Return the folder for this benchmark's models under the user's caches."""
    from benchmarks.engine.workloads import cache_of_user

    return cache_of_user() / "bitvec" / "benchmarks"


OPTIONS: Final[Options] = {
    **DATA,
    "--cache": {"type": Path, "help": "keeps the models; the user's caches if not given"},
    "--engines": {"type": _names, "default": [], "help": "engines: bitvec,daal4py"},
    "--batches": {"type": _names, "default": [], "help": "batches: 1,10000"},
    "--repeats": {"type": count, "default": 7, "help": "turns of each engine"},
    "--drawn": {"type": int, "default": 40, "help": "how many of the models that chance made"},
}


def cases(options: Namespace) -> Iterator[Work]:
    """Yield the workloads, and the figures of bitvec alone."""
    from benchmarks.engine.alone import FIGURES
    from benchmarks.engine.workloads import WORKLOADS

    known = {engine.name.lower() for engine in ENGINES}
    if not known.issuperset(options.engines):
        raise UsageError(f"--engines must be among: {', '.join(e.name for e in ENGINES)}")
    # A part of the engines or batches judges what it measures; a stand-in of a model does not.
    options.whole = not options.quick
    for workload in WORKLOADS:
        if workload.drawn and int(workload.name.split()[1]) > options.drawn:
            continue
        if workload.compared and (not options.quick or workload.name in _QUICK):
            yield Work(workload.name)
    if not options.quick:
        yield from (Work(workload, figure) for figure, workload in FIGURES)


def measure(work: Work, options: Namespace) -> list[Row]:
    """Return a row for each batch, number of threads and engine, or the row of one figure."""
    from benchmarks.engine.alone import figure
    from benchmarks.engine.measure import Plan, compare
    from benchmarks.engine.workloads import BATCHES, WORKLOADS, made

    workload = next(one for one in WORKLOADS if one.name == work.workload)
    if workload.real and options.data is None:
        return [{"workload": work.workload, "engine": "", "reason": "needs --data"}]
    cache = options.cache or default_cache()
    folder = made(workload, cache, options.data, small=options.quick)
    if work.figure:
        return [figure(work.figure, work.workload, folder)]
    plan = Plan(
        repeats=min(options.repeats, 3) if options.quick else options.repeats,
        seconds=0.02 if options.quick else 0.05,
        threads=(1,) if options.quick or workload.drawn else (1, 2),
        batches=tuple(int(batch) for batch in options.batches) or BATCHES,
        baselines=None if options.quick else options.baselines_dir,
        cold=not (options.quick or workload.drawn or workload.shares),
    )
    return compare(workload, folder, _engines(work.workload, options), plan)


def _engines(workload: str, options: Namespace) -> list[Engine]:
    return [
        engine
        for engine in ENGINES
        if not options.engines or engine.name.lower() in options.engines
        if not engine.only or workload in engine.only
        if not (engine.limited and is_drawn(workload))
        if not (options.quick and (engine.environment or (engine.ours and engine.name != OURS)))
    ]


_OF_ONE: Final = ("workload", "threads", "engine", "answer")
_TOLD: Final = (
    "same_model",
    "largest_difference",
    "raw_bits_differ",
    "warm_up_seconds",
    "cold_seconds",
)


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each workload, number of threads, engine and answer: seconds by batch.

    Of engines that did not run only those are told that read such models.
    """
    own = [row for row in rows if not isinstance(row.get("seconds", {}), dict)]
    timed = groups([row for row in own if "engine" in row], *_OF_ONE)
    found = [
        {key: same[0].get(key) for key in (*_OF_ONE, *_TOLD)}
        | {"seconds": {str(row["batch"]): row["seconds"] for row in same}}
        for same in timed.values()
    ]
    reasons = [row for row in rows if "engine" in row and "reason" in row]
    told = {(row["engine"], row["reason"], row["workload"]): row for row in reasons}
    found += [
        {key: row[key] for key in ("workload", "engine", "reason")}
        for row in told.values()
        if not row["reason"].startswith("does not read")
    ]
    alone = [{k: v for k, v in row.items() if k != "info"} for row in rows if "figure" in row]
    return [*(row for row in rows if isinstance(row.get("seconds"), dict)), *found, *alone]


BENCHMARK: Final = Benchmark(
    "engine",
    cases,
    measure,
    goals,
    {
        "table": ratios,
        "raw": raw,
        "avx2": avx2,
        "chance": chance,
        "others": others,
        "alone": alone,
        "floors": told,
    },
    figures,
    options=OPTIONS,
    requirements=Path(__file__).parent / "requirements",
    kept=True,
    in_turn=True,
)
