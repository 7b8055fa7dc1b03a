"""Cells of the comparison: what each engine took for a workload, batch, threads and answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from benchmarks.report import Row

OURS: Final = "bitvec"
AVX2: Final = "bitvec AVX2"
"""Compiled without AVX-512, which the baselines keep."""
BETWEEN: Final = (2, 30)
"""Batches that are timed on one thread only."""
STEPS: Final = (1, 10, 100, 1_000, 10_000)
"""Batches of raw scores and of limited engines, on one thread."""


class Cell(NamedTuple):
    """A workload, batch and number of threads; `raw` if raw scores are asked for."""

    workload: str
    batch: int
    threads: int
    raw: bool = False

    def __str__(self) -> str:
        """Return it in words, as goals name it."""
        return f"{self.workload}, {self.batch:,}, {self.threads}{', raw' * self.raw}"

    def takes(self, *, limited: bool) -> bool:
        """Return whether an engine is timed here, limited or not."""
        if self.raw or limited:
            return self.threads == 1 and self.batch in STEPS
        return self.threads == 1 or self.batch not in BETWEEN


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
            raw = row.get("answer") == "raw"
            cell = Cell(row["workload"], int(batch), row["threads"], raw)
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
    order = {cell.workload: place for place, cell in enumerate(cells)}
    places = {c: (order[c.workload], c.raw, c.threads, c.batch) for c in cells}
    return {cell: cells[cell] for cell in sorted(cells, key=lambda cell: places[cell])}


def digits(value: float) -> float:
    """Return four significant digits, to keep the file small."""
    return float(f"{value:.4g}")


def is_drawn(workload: str) -> bool:
    """Return whether chance made a workload's model."""
    return workload.startswith("drawn ")
