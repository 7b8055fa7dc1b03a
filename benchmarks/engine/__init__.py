"""Speed of the engine beside the others: a row a workload, batch, threads, engine.

    python -m benchmarks.engine [--json] [--quick] [--save] [--data FOLDER] [--baselines-dir DIR]

Models are trained at the first run and kept in `--cache`. Each engine runs in a process of its own
and they are timed in turns. `--baselines-dir DIR --make-baselines` makes environments for the
engines that need other versions of libraries; `--data` is the folder of real data.

Processes in those environments import this package, so what needs more than NumPy is imported late.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.engine.engines import ENGINES, Engine
from benchmarks.report import Column, Goal, Report, Row, groups, measured_by, one, table
from benchmarks.runner import DATA, Benchmark, Options, UsageError, count

Cell = tuple[str, int, int]
"""Workload, batch, threads."""

OURS: Final = "bitvec"
LARGE: Final = 20_000
"""The largest batch where there are fewer than 100,000 rows."""
_FLOOR_BATCHES: Final = (1, 100, 10_000, 100_000)
_FLOOR: Final = {
    "W1": (4.1, 3.8, 7.0, 6.0),
    "W2": (3.5, 10.8, 20.0, 21.8),
    "W3": (7.4, 12.1, 4.9, 4.4),
    "W4": (3.6, 2.15, 3.5, 2.8),
    "W5": (3.8, 3.1, 4.8, 2.5),
}
"""Best baseline's time over the prototype's, one thread, at each batch: not to be lost."""
_FLOOR_OF_TWO: Final = {"W1": 5.7, "W2": 21.6, "W3": 2.7, "W4": 4.1, "W5": 7.9}
"""The same at 10,000 rows, two threads."""
_AVX2: Final = {"W1": 2.5, "W2": 12.0, "W4": 2.5}
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
        cold=not options.quick and not workload.drawn,
    )
    return compare(workload, folder, _engines(work.workload, options), plan)


def _engines(workload: str, options: Namespace) -> list[Engine]:
    return [
        engine
        for engine in ENGINES
        if not options.engines or engine.name.lower() in options.engines
        if not engine.only or workload in engine.only
        if not (options.quick and (engine.environment or (engine.ours and engine.name != OURS)))
    ]


_KEPT: Final = ("workload", "threads", "engine", "same_model", "largest_difference")
_KEPT_ALSO: Final = ("raw_bits_differ", "warm_up_seconds", "cold_seconds")


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each workload, number of threads and engine, with seconds by batch.

    Of engines that did not run only those are told that read such models.
    """
    own = [row for row in rows if not isinstance(row.get("seconds", {}), dict)]
    timed = groups([row for row in own if "engine" in row], "workload", "threads", "engine")
    found = [
        {key: same[0].get(key) for key in (*_KEPT, *_KEPT_ALSO)}
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


def is_baseline(engine: str) -> bool:
    """Return whether an engine is another's."""
    return not engine.startswith(OURS)


def by_cell(rows: Sequence[Row]) -> dict[Cell, dict[str, Row]]:
    """Return what was timed by cell and engine, with the ratio of the best baseline's time to it.

    An engine whose answers are another model's is no baseline.
    """
    cells: dict[Cell, dict[str, Row]] = {}
    for row in rows:
        for batch, seconds in (
            row["seconds"].items() if "engine" in row and "seconds" in row else ()
        ):
            cell = (row["workload"], int(batch), row["threads"])
            cells.setdefault(cell, {})[row["engine"]] = row | {"seconds": seconds}
    for engines in cells.values():
        # Who could not be compared, for want of the library's own answers, is not left out.
        baselines = [
            row
            for name, row in engines.items()
            if is_baseline(name) and row["same_model"] is not False
        ]
        best = min(baselines, key=lambda row: row["seconds"], default=None)
        for row in engines.values():
            row["best_baseline"] = None if best is None else best["engine"]
            row["ratio"] = None if best is None else digits(best["seconds"] / row["seconds"])
    order = {workload: place for place, (workload, *_) in enumerate(cells)}
    return dict(sorted(cells.items(), key=lambda item: (order[item[0][0]], item[0][2], item[0][1])))


def digits(value: float) -> float:
    """Return four significant digits, to keep the file small."""
    return float(f"{value:.4g}")


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return the ratios that are asked for, exactness, and figures of bitvec alone."""
    cells = by_cell(rows)

    def ratio(kind: str, workload: str, batch: int, threads: int, goal: float) -> Goal:
        engine = "bitvec AVX2" if kind == "AVX2" else OURS
        there = (batch, LARGE) if batch > LARGE else (batch,)
        found = [cells.get((workload, n, threads), {}).get(engine) for n in there]
        value = next((row["ratio"] for row in found if row is not None), None)
        name = "1 row" if batch == 1 else "largest batch" if batch > LARGE else f"{batch:,} rows"
        plural = "s" * (threads > 1)
        return Goal(f"{kind}: {workload}, {name}, {threads} thread{plural}", f">= {goal:g}", value)

    asked = []
    for workload, least in _FLOOR.items():
        pairs = zip(_FLOOR_BATCHES, least, strict=False)
        asked += [ratio("floor", workload, batch, 1, goal) for batch, goal in pairs]
        asked.append(ratio("floor", workload, 10_000, 2, _FLOOR_OF_TWO[workload]))
    asked += [ratio("AVX2", workload, 10_000, 1, goal) for workload, goal in _AVX2.items()]
    return [*asked, *_worst(cells), _torch(cells), *_exact(rows), *_alone(rows)]


def _worst(cells: dict[Cell, dict[str, Row]]) -> Iterator[Goal]:
    """Yield the least and the mean ratio over kinds of cells, and where the least is."""
    won = {cell: engines[OURS] for cell, engines in cells.items() if OURS in engines}
    known = {cell: row["ratio"] for cell, row in won.items() if row["ratio"] is not None}

    def against(cell: Cell, engine: str) -> float | None:
        other = cells[cell].get(engine)
        return None if other is None else digits(other["seconds"] / won[cell]["seconds"])

    def least(name: str, goal: float, ratios: dict[Cell, float | None]) -> Goal:
        found = {cell: ratio for cell, ratio in ratios.items() if ratio is not None}
        if not found:
            return Goal(name, f">= {goal:g}", None)
        workload, batch, threads = cell = min(found, key=lambda cell: found[cell])
        return Goal(
            f"{name} (least: {workload}, {batch:,}, {threads})", f">= {goal:g}", found[cell]
        )

    fixed = {cell: ratio for cell, ratio in known.items() if not is_drawn(cell[0])}
    drawn = {cell: ratio for cell, ratio in known.items() if is_drawn(cell[0])}
    alone = {cell: ratio for cell, ratio in fixed.items() if cell[2] == 1}
    yield least(
        "every cell from 10 rows on, 1 thread", 1.5, {c: alone[c] for c in alone if c[1] > 1}
    )
    yield least("every cell of 1 row, 1 thread", 1.5, {c: alone[c] for c in alone if c[1] == 1})
    yield least("every cell of 2 threads", 1.0, {c: fixed[c] for c in fixed if c[2] == 2})
    yield Goal("geometric mean of all cells", ">= 5", _mean(fixed))
    trees = {c: against(c, "scikit-learn") for c in won if c[0] in ("W5", "digits tree")}
    yield least("single trees over scikit-learn", 3, trees)
    few = {
        c: against(c, "pylignum compiled") for c in won if c[0] in ("binary", "W1") and c[1] <= 10
    }
    yield least("1 and 10 rows over pylignum compiled", 3, few)
    level = {c: against(c, "pylignum") for c in won if "oblivious" in c[0] and c[1:] == (10_000, 1)}
    yield least("oblivious trees, 10,000 rows, over pylignum", 1.5, level)
    deep = {c: against(c, "daal4py") for c in won if c[0] == "deep boosting" and c[1] == 10_000}
    yield least("deep boosting, 10,000 rows, over daal4py", 1.6, deep)
    yield least("models drawn at random, every cell", 1.0, {**drawn})
    yield Goal("models drawn at random, geometric mean", ">= 4", _mean(drawn))


def is_drawn(workload: str) -> bool:
    """Return whether chance made a workload's model."""
    return workload.startswith("drawn ")


def _mean(ratios: dict[Cell, float]) -> float | None:
    return digits(statistics.geometric_mean(ratios.values())) if ratios else None


def _torch(cells: dict[Cell, dict[str, Row]]) -> Goal:
    """Return the torch engine against the best of hummingbird's strategies, in the worst cell."""
    ratios = {}
    for cell, engines in cells.items():
        others = [row["seconds"] for name, row in engines.items() if name.startswith("humming")]
        if others and "bitvec torch" in engines:
            ratios[cell] = digits(min(others) / engines["bitvec torch"]["seconds"])
    name = "torch: hummingbird's best strategy's time over ours, worst cell"
    if not ratios:
        return Goal(name, ">= 1", None)
    workload, batch, threads = where = min(ratios, key=lambda cell: ratios[cell])
    return Goal(f"{name} ({workload}, {batch:,}, {threads})", ">= 1", ratios[where])


def _exact(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield how many raw scores of our engines are not the library's own."""
    ours = [row for row in rows if row.get("seconds") and not is_baseline(row.get("engine", ""))]
    for torch in (False, True):
        told = [row["raw_bits_differ"] for row in ours if row["engine"].endswith("torch") == torch]
        known = [value for value in told if value is not None]
        name = f"raw scores that differ from the library's own{', torch' * torch}"
        yield Goal(name, "0", max(known, default=None))


_RATIO: Final = "{ratio:g} ({low:g} to {high:g})"


def _alone(rows: Sequence[Row]) -> list[Goal]:
    def found(figure: str) -> Row:
        row = one(rows, figure=figure)
        return {} if "reason" in row else row

    def ratio(figure: str) -> str | None:
        row = found(figure)
        return _RATIO.format(**row) if row else None

    few, many = (found(f).get("distinct_sets", "?") for f in ("few sets", "many sets"))
    start = found("first prediction").get("seconds")
    return [
        Goal("NaN present, time over that without (95 % interval)", "<= 1.05", ratio("nan")),
        Goal(f"{few} distinct sets, time over numeric tests", "<= 1.1", ratio("few sets")),
        Goal(f"{many} distinct sets, time over numeric tests", "<= 1.7", ratio("many sets")),
        Goal("cycles a row, W1, 10,000 rows", "<= 230", found("cycles").get("cycles")),
        Goal("packed bytes a node, W3", "<= 12", found("memory").get("bytes_a_node")),
        Goal("seconds to the first prediction of a process", "<= 0.5", start),
    ]


def _in_order(names: Any) -> list[Any]:
    return [*dict.fromkeys(names)]


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{seconds / scale:.3g} {unit}"
    raise AssertionError(seconds)


def ratios(report: Report) -> str:
    """Return how many times faster than the best baseline, by workload, batch and threads."""
    cells, parts = _fixed(report), []

    def of(batch: int, threads: int) -> Callable[[Row], str | None]:
        def cell(line: Row) -> str | None:
            row = cells.get((line["workload"], batch, threads), {}).get(OURS)
            if row is None or row["ratio"] is None:
                return None if row is None else _time(row["seconds"])
            return f"**{row['ratio']:.1f}** {row['best_baseline']}, {_time(row['seconds'])}"

        return cell

    for threads in _in_order(cell[2] for cell in cells):
        batches = sorted({cell[1] for cell in cells if cell[2] == threads})
        columns = [Column(f"{threads} thread{'s' * (threads > 1)}", "workload")]
        columns += [
            Column("1 row" if batch == 1 else f"{batch:,} rows", of(batch, threads))
            for batch in batches
        ]
        lines = [{"workload": workload} for workload in _in_order(cell[0] for cell in cells)]
        parts.append(table(lines, columns))
    return "\n\n".join([*parts, measured_by(report)])


def _fixed(report: Report) -> dict[Cell, dict[str, Row]]:
    """Return the cells of models that chance did not make."""
    cells = by_cell(report["rows"])
    return {cell: engines for cell, engines in cells.items() if not is_drawn(cell[0])}


def chance(report: Report) -> str:
    """Return how the ratios of models drawn at random are distributed, by batch."""
    cells = by_cell(report["rows"])
    won = {c: engines[OURS] for c, engines in cells.items() if is_drawn(c[0]) and OURS in engines}
    body = []
    for batch in sorted({cell[1] for cell in won}):
        rows = [row for cell, row in won.items() if cell[1] == batch and row["ratio"] is not None]
        found = sorted(row["ratio"] for row in rows)
        body.append({
            "rows": batch,
            "models": len(found),
            "least": found[0],
            "best": Counter(row["best_baseline"] for row in rows).most_common(1)[0][0],
            "mean": statistics.geometric_mean(found),
            "most": found[-1],
            "slower": sum(ratio < 1 for ratio in found),
        })  # fmt: skip
        body[-1]["middle"] = statistics.median(found)
    columns = [
        Column("rows", "rows", ","),
        Column("models", "models"),
        Column("least", "least", ".2f"),
        Column("median", "middle", ".1f"),
        Column("geometric mean", "mean", ".1f"),
        Column("most", "most", ".0f"),
        Column("models on which bitvec is slower", "slower"),
        Column("most often the best other", "best"),
    ]
    return table(body, columns)


def others(report: Report) -> str:
    """Return what each engine takes for 10,000 rows on one thread, and how far it is off."""
    cells = _fixed(report)
    here = {cell[0]: engines for cell, engines in cells.items() if cell[1:] == (10_000, 1)}
    names = [engine.name for engine in ENGINES]
    names += [row["engine"] for row in report["rows"] if row.get("engine")]
    body = []
    for name in _in_order(names):
        rows = {workload: engines[name] for workload, engines in here.items() if name in engines}
        off = [row["largest_difference"] for row in rows.values()]
        known = [value for value in off if value is not None]
        times = {workload: _time(row["seconds"]) for workload, row in rows.items()}
        if rows:
            body.append({"engine": name, **times, "off": max(known, default=None)})
    columns = [Column("10,000 rows, 1 thread", "engine"), *(Column(name, name) for name in here)]
    return table(body, [*columns, Column("largest difference", "off", ".2g")]) + _why_not(report)


def _why_not(report: Report) -> str:
    """Return why engines did not run what they read."""
    missing = [row for row in report["rows"] if "reason" in row and row.get("engine")]
    body = [
        {"engine": engine, "on": ", ".join(row["workload"] for row in rows), "reason": reason}
        for (engine, reason), rows in groups(missing, "engine", "reason").items()
    ]
    columns = [Column("did not run", "engine"), Column("on", "on"), Column("because", "reason")]
    return "\n\n" + table(body, columns) if body else ""


_LABELS: Final = {
    "nan": ("A tenth of the values is NaN", "{ratio:.3f} times the time without ({low:.3f} to "
    "{high:.3f})"),
    "few sets": ("Categories split one against the rest", "{ratio:.3f} times the time of numeric "
    "tests ({low:.3f} to {high:.3f}); {set_nodes:,} of {nodes:,} nodes are sets, {distinct_sets:,} "
    "of them distinct"),
    "cycles": ("Cycles a row, 10,000 rows", "{cycles:.1f}, at least {least_cycles:.1f}, at "
    "{gigahertz:.2f} GHz"),
    "memory": ("Size of the packed forest", "{bytes_a_node:.1f} bytes a node, {packed_bytes:,} "
    "bytes for {nodes:,} nodes"),
    "first prediction": ("First prediction of a process", "{seconds:.2f} s, at least "
    "{least_seconds:.2f} s; {load_seconds:.2f} s of it import and load, {first_seconds:.2f} s "
    "compile and predict; {cold_seconds:.1f} s with nothing compiled"),
}  # fmt: skip
"""By figure, what it is called, and what is told of its row."""


def alone(report: Report) -> str:
    """Return what was measured of bitvec alone: forms of the data, and starting."""
    labels = _LABELS | {"many sets": ("Categories split into sets", _LABELS["few sets"][1])}
    lines = []
    for row in report["rows"]:
        if "figure" in row and "reason" not in row:
            what, text = labels[row["figure"]]
            lines.append({"what": what, "workload": row["workload"], "told": text.format(**row)})
    for engine, warm in _warm_up(report).items():
        what = f"Load, convert, first call: {engine}"
        lines.append({"what": what, "workload": "all", "told": warm})
    columns = (Column("what", "what"), Column("workload", "workload"), Column("measured", "told"))
    return table(lines, columns)


def _warm_up(report: Report) -> dict[str, str]:
    found: dict[str, list[float]] = {}
    for row in report["rows"]:
        for key, name in (("warm_up_seconds", "{}"), ("cold_seconds", "{}, nothing compiled")):
            if row.get(key) is not None and "engine" in row:
                found.setdefault(name.format(row["engine"]), []).append(row[key])
    return {name: f"{min(t):.2g} to {max(t):.2g} s" for name, t in found.items()}


BENCHMARK: Final = Benchmark(
    "engine",
    cases,
    measure,
    goals,
    {"table": ratios, "chance": chance, "others": others, "alone": alone},
    figures,
    options=OPTIONS,
    requirements=Path(__file__).parent / "requirements",
)
