"""Cells of the comparison: what each engine took for a workload, batch and number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.report import Row

Cell = tuple[str, int, int]
"""Workload, batch, threads."""

OURS: Final = "bitvec"


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


def is_drawn(workload: str) -> bool:
    """Return whether chance made a workload's model."""
    return workload.startswith("drawn ")
