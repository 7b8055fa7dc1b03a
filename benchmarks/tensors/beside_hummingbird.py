"""The hard module beside hummingbird's, each in its best form, on the engine's workloads."""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.engine.cells import digits, is_baseline
from benchmarks.engine.engines import ENGINES, NATIVE, Engine
from benchmarks.report import Column, Goal, Row, groups

WORKLOADS: Final = ("W1", "W2", "W3", "W4", "W5")
BATCHES: Final = (1, 1_000, 10_000)
_READS: Final = ("xgboost", "lightgbm", "sklearn")
_STRATEGIES: Final = ("Gemm", "TreeTrav", "PerfTreeTrav")
_CALLS: Final = ("eager", "TorchScript", "compiled")
_OURS: Final = (
    Engine("bitvec eager", "of_torch_modules:Bitvec", _READS, ours=True),
    Engine("bitvec compiled", "of_torch_modules:BitvecCompiled", _READS, ours=True),
    Engine("bitvec ahead", "of_torch_modules:BitvecAhead", _READS, ours=True),
)
MODULES: Final = (
    *_OURS,
    *(
        Engine(
            f"{strategy} {way}",
            f"of_torch_modules:{strategy}_{way}",
            _READS,
            environment="hummingbird",
        )
        for strategy in _STRATEGIES
        for way in _CALLS
    ),
)


def measure(name: str, options: Namespace) -> Iterator[Row]:
    """Yield a row for each module and batch of a workload, or one with a reason."""
    from benchmarks.engine import default_cache
    from benchmarks.engine.measure import Plan, compare
    from benchmarks.engine.workloads import WORKLOADS as KNOWN
    from benchmarks.engine.workloads import made

    workload = next(one for one in KNOWN if one.name == name)
    folder = made(workload, options.cache or default_cache(), None, small=options.quick)
    plan = Plan(
        repeats=2 if options.quick else 5,
        seconds=0.02 if options.quick else 0.1,
        threads=(1,),
        batches=BATCHES,
        baselines=options.baselines_dir,
        cold=False,
    )
    native = next(engine for engine in ENGINES if engine.name == NATIVE[workload.library])
    modules = _OURS[:1] if options.quick else MODULES
    for row in compare(workload, folder, [native, *modules], plan):
        if row["engine"] != native.name:
            yield row


def figures(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each workload and batch, and one for each module that did not run."""
    timed = [row for row in rows if "seconds" in row]
    for (workload, batch), found in groups(timed, "workload", "batch").items():
        ours = {row["engine"]: row for row in found if not is_baseline(row["engine"])}
        theirs = [
            row for row in found if is_baseline(row["engine"]) and row["same_model"] is not False
        ]
        cell: Row = {"workload": workload, "batch": batch}
        cell |= {
            f"{name.removeprefix('bitvec ')}_ms": digits(1e3 * row["seconds"])
            for name, row in ours.items()
        }
        cell["differ"] = max(
            (row["raw_bits_differ"] or 0) + (row["labels_differ"] or 0) for row in ours.values()
        )
        if theirs:
            best = min(theirs, key=lambda row: row["seconds"])
            cell |= {"best": best["engine"], "best_ms": digits(1e3 * best["seconds"])}
            least = min(row["seconds"] for row in ours.values())
            cell["ratio"] = digits(best["seconds"] / least)
        yield cell
    for row in rows:
        if "reason" in row:
            named = f"{row['engine']}, {row['workload']}"
            batch = row["batch"]
            yield {
                "module": f"{named}, {batch:,} rows" if batch else named,
                "reason": row["reason"],
            }


def goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield what the module has to reach beside hummingbird's; `rows` are figures."""
    differ = [row["differ"] for row in rows if "differ" in row]
    yield Goal(
        "raw scores and labels of W1 to W5 that are not the library's",
        "0",
        max(differ, default=None),
    )
    ratios = {(row["workload"], row["batch"]): row["ratio"] for row in rows if "ratio" in row}
    name = "hummingbird's best form's time / ours, worst cell"
    if not ratios:
        yield Goal(name, ">= 1", None)
        yield Goal("the same, geometric mean", ">= 1.5", None)
        return
    workload, batch = worst = min(ratios, key=lambda cell: ratios[cell])
    yield Goal(f"{name} ({workload}, {batch:,})", ">= 1", ratios[worst])
    mean = digits(statistics.geometric_mean(ratios.values()))
    yield Goal("the same, geometric mean", ">= 1.5", mean)


COLUMNS: Final = (
    Column("workload", "workload"),
    Column("rows", "batch", ","),
    Column("eager, ms", "eager_ms", ".3g"),
    Column("compiled in place, ms", "compiled_ms", ".3g"),
    Column("by AOTInductor, ms", "ahead_ms", ".3g"),
    Column("hummingbird's best, ms", "best_ms", ".3g"),
    Column("which", "best"),
    Column("times as fast", "ratio", ".3g"),
)
