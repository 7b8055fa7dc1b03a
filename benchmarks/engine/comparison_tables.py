"""Tables of the engine's kept run, for the docs."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from benchmarks.engine.cells import AVX2, BETWEEN, OURS, Cell, by_cell, is_drawn
from benchmarks.engine.engines import ENGINES
from benchmarks.report import Column, Report, Row, groups, measured_by, table


def _in_order(names: Any) -> list[Any]:
    return [*dict.fromkeys(names)]


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{seconds / scale:.3g} {unit}"
    raise AssertionError(seconds)


def ratios(report: Report) -> str:
    """Return how many times faster than the best baseline, by workload, batch and threads."""
    cells = _fixed(report)
    threads = _in_order(cell.threads for cell in cells)
    parts = [_by_batch({c: cells[c] for c in cells if c.threads == n}) for n in threads]
    return "\n\n".join([*parts, measured_by(report)])


def raw(report: Report) -> str:
    """Return the same of raw scores."""
    return _by_batch(_fixed(report, raw=True))


def _by_batch(cells: dict[Cell, dict[str, Row]]) -> str:
    """Return a line for each workload; batches of one thread only are left to the plot."""

    def of(batch: int) -> Callable[[Row], str | None]:
        def cell(line: Row) -> str | None:
            row = line.get(f"{batch}", {}).get(OURS)
            if row is None or row["ratio"] is None:
                return None if row is None else _time(row["seconds"])
            return f"**{row['ratio']:.1f}** {row['best_baseline']}, {_time(row['seconds'])}"

        return cell

    lines: dict[str, Row] = {}
    for cell, engines in cells.items():
        lines.setdefault(cell.workload, {"workload": cell.workload})[f"{cell.batch}"] = engines
    threads = max((cell.threads for cell in cells), default=1)
    columns = [Column(f"{threads} thread{'s' * (threads > 1)}", "workload")]
    columns += [
        Column("1 row" if batch == 1 else f"{batch:,} rows", of(batch))
        for batch in sorted({cell.batch for cell in cells} - {*BETWEEN})
    ]
    return table(lines.values(), columns)


def _fixed(report: Report, *, raw: bool = False) -> dict[Cell, dict[str, Row]]:
    """Return the cells of models that chance did not make, of what is asked for or raw scores."""
    cells = by_cell(report["rows"])
    return {c: found for c, found in cells.items() if c.raw == raw and not is_drawn(c.workload)}


def chance(report: Report) -> str:
    """Return how the ratios of models drawn at random are distributed, by batch."""
    return _spread(report, OURS, lambda cell: is_drawn(cell.workload))


def avx2(report: Report) -> str:
    """Return the same of the other models with AVX2, where the baselines keep AVX-512."""
    return _spread(report, AVX2, lambda cell: cell.takes(limited=True))


def _spread(report: Report, engine: str, counts: Callable[[Cell], bool]) -> str:
    found: dict[int, list[Row]] = {}
    for cell, engines in by_cell(report["rows"]).items():
        if counts(cell) and engine in engines and engines[engine]["ratio"] is not None:
            found.setdefault(cell.batch, []).append(engines[engine])
    body = []
    for batch, rows in sorted(found.items()):
        ratios = [row["ratio"] for row in rows]
        best = Counter(row["best_baseline"] for row in rows).most_common(1)[0][0]
        body.append({"rows": batch, "ratios": ratios, "best": best})

    def of(summary: Callable[[list[float]], float]) -> Callable[[Row], float]:
        return lambda row: summary(row["ratios"])

    columns = [
        Column("rows", "rows", ","),
        Column("cells", of(len), "d"),
        Column("least", of(min), ".2f"),
        Column("median", of(statistics.median), ".1f"),
        Column("geometric mean", of(statistics.geometric_mean), ".1f"),
        Column("most", of(max), ".0f"),
        Column("cells in which bitvec is slower", of(lambda r: sum(x < 1 for x in r)), "d"),
        Column("most often the best other", "best"),
    ]
    return table(body, columns)


def others(report: Report) -> str:
    """Return what each engine takes for 10,000 rows on one thread, and how far it is off."""
    cells = _fixed(report)
    here = {c.workload: cells[c] for c in cells if (c.batch, c.threads) == (10_000, 1)}
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
    "floors": ("What no engine does without", "a call {call_seconds:.1e} s, a byte read "
    "{read_seconds:.1e} s and written {write_seconds:.1e} s, a sum {sum_seconds:.1e} s, one after "
    "the other {chained_sum_seconds:.1e} s, an exponential {exponential_seconds:.1e} s"),
    "frames": ("10,000 rows of adult in a frame", "pandas {frames[pandas][ratio]:.2f}, polars "
    "{frames[polars][ratio]:.2f}, pyarrow {frames[pyarrow][ratio]:.2f} times the time of an array; "
    "one row {frames[pandas][one_row_seconds]:.1e}, {frames[polars][one_row_seconds]:.1e}, "
    "{frames[pyarrow][one_row_seconds]:.1e} s"),
    "sparse": ("5,000 sparse rows of {columns:,} columns, of which {read:,} are read", "LightGBM "
    "takes {threads[one][ratio]:.1f} times as long on one thread, {threads[two][ratio]:.1f} times "
    "on two; bitvec {threads[one][seconds]:.1e} and {threads[two][seconds]:.1e} s"),
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
        if row.get("figure") in labels and "reason" not in row:
            what, text = labels[row["figure"]]
            lines.append(
                {
                    "what": what.format(**row),
                    "workload": row["workload"],
                    "told": text.format(**row),
                }
            )
    for engine, warm in _warm_up(report).items():
        what = f"Load, convert, first call: {engine}"
        lines.append({"what": what.format(**row), "workload": "all", "told": warm})
    columns = (Column("what", "what"), Column("workload", "workload"), Column("measured", "told"))
    return table(lines, columns)


def _warm_up(report: Report) -> dict[str, str]:
    found: dict[str, list[float]] = {}
    for row in report["rows"]:
        for key, name in (("warm_up_seconds", "{}"), ("cold_seconds", "{}, nothing compiled")):
            if row.get(key) is not None and "engine" in row:
                found.setdefault(name.format(row["engine"]), []).append(row[key])
    return {name: f"{min(t):.2g} to {max(t):.2g} s" for name, t in found.items()}
