"""The kept run as tables, in Markdown."""

from __future__ import annotations

from typing import Any

from benchmarks.engine.summary import OURS, by_cell
from benchmarks.old_report import Report, Row, markdown, measured_by


def _in_order(names: Any) -> list[Any]:
    return [*dict.fromkeys(names)]


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale or unit == "µs":
            return f"{seconds / scale:.3g} {unit}"
    raise AssertionError(seconds)


def table(report: Report) -> str:
    """Return how many times faster than the best baseline, by workload, batch and threads."""
    cells = by_cell(report["rows"])
    parts = []
    for threads in _in_order(cell[2] for cell in cells):
        batches = sorted({cell[1] for cell in cells if cell[2] == threads})
        body = []
        for workload in _in_order(cell[0] for cell in cells):
            line = [workload]
            for batch in batches:
                row = cells.get((workload, batch, threads), {}).get(OURS)
                line.append("" if row is None else _ratio(row))
            body.append(line)
        head = [f"{threads} thread{'s' * (threads > 1)}"]
        head += ["1 row" if batch == 1 else f"{batch:,} rows" for batch in batches]
        parts.append(markdown(head, body))
    return "\n\n".join([*parts, measured_by(report)])


def _ratio(row: Row) -> str:
    took = _time(row["seconds"])
    return (
        took if row["ratio"] is None else f"**{row['ratio']:.1f}** {row['best_baseline']}, {took}"
    )


def others(report: Report) -> str:
    """Return what each engine takes for 10,000 rows on one thread, and how far it is off."""
    cells = by_cell(report["rows"])
    here = {cell[0]: engines for cell, engines in cells.items() if cell[1:] == (10_000, 1)}
    names = _in_order(row["engine"] for row in report["rows"] if row.get("engine"))
    body = []
    for name in names:
        rows = [here[workload].get(name) for workload in here]
        if any(row is not None for row in rows):
            off = [row["largest_difference"] for row in rows if row is not None]
            known = [value for value in off if value is not None]
            largest = f"{max(known):.2g}" if known else ""
            body.append(
                [name, *("" if row is None else _time(row["seconds"]) for row in rows), largest]
            )
    return markdown(["10,000 rows, 1 thread", *here, "largest difference"], body) + _why_not(report)


def _why_not(report: Report) -> str:
    """Return why engines did not run what they read."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in report["rows"]:
        reason = row.get("reason")
        if reason is not None and row.get("engine") and not reason.startswith("does not read"):
            found = reasons.setdefault((row["engine"], reason), [])
            if row["workload"] not in found:
                found.append(row["workload"])
    if not reasons:
        return ""
    body = [
        [engine, ", ".join(workloads), reason.replace("|", "\\|")]
        for (engine, reason), workloads in reasons.items()
    ]
    return "\n\n" + markdown(["did not run", "on", "because"], body)


def alone(report: Report) -> str:
    """Return what was measured of bitvec alone: starting, and forms of the data."""
    lines = []
    for row in report["rows"]:
        if "figure" in row and "reason" not in row:
            told = {k: v for k, v in row.items() if k not in ("figure", "workload", "info")}
            said = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in told.items())
            lines.append([row["figure"], row["workload"], said])
    for engine, warm in _warm_up(report).items():
        lines.append([f"load, convert, first call: {engine}", "all", warm])
    return markdown(["what", "workload", "found"], lines)


def _warm_up(report: Report) -> dict[str, str]:
    found: dict[str, list[float]] = {}
    for row in report["rows"]:
        for key, name in (("warm_up_seconds", "{}"), ("cold_seconds", "{}, nothing compiled")):
            if row.get(key) is not None and "engine" in row:
                found.setdefault(name.format(row["engine"]), []).append(row[key])
    return {name: f"{min(t):.2g} to {max(t):.2g} s" for name, t in found.items()}


TABLES = (table, others, alone)
