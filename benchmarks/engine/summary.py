"""Ratios to the best baseline, and the targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.old_report import Row, Target, at_least, none

Cell = tuple[str, int, int]
"""Workload, batch, threads."""

OURS: Final = "bitvec"
BATCHES: Final = (1, 100, 10_000, 100_000)
LARGE: Final = 20_000
"""The largest batch where there are fewer than 100,000 rows."""

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
_AIM: Final = {"W1": 7.5, "W2": 20.0, "W3": 5.0, "W4": 4.0, "W5": 4.5}
_AIM_SMALL: Final = 3.5
_AIM_OF_TWO: Final = {"W1": 6.0, "W2": 18.0, "W3": 3.0, "W4": 4.0, "W5": 5.0}
_AVX2: Final = {"W1": 2.5, "W2": 12.0, "W4": 2.5}


def is_baseline(engine: str) -> bool:
    """Return whether an engine is another's."""
    return not engine.startswith(OURS)


def by_cell(rows: Iterable[Row]) -> dict[Cell, dict[str, Row]]:
    """Return the rows that were timed, by cell and engine."""
    cells: dict[Cell, dict[str, Row]] = {}
    for row in rows:
        if row.get("seconds") is not None and "engine" in row:
            cell = (row["workload"], row["batch"], row["threads"])
            cells.setdefault(cell, {})[row["engine"]] = row
    return cells


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Add to each timed row the best baseline's time over its own, and who that baseline is."""
    cells = by_cell(rows)
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
            row["ratio"] = None if best is None else _digits(best["seconds"] / row["seconds"])
    return list(rows)


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with what an engine says of itself once a workload and number of threads."""
    found, told = [], set()
    for row in rows:
        place = (row["workload"], row.get("engine"), row.get("threads"))
        found.append({k: v for k, v in row.items() if k != "info" or place not in told})
        if "info" in row:
            told.add(place)
    return found


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


def targets(rows: Sequence[Row]) -> list[Target]:
    """Return one entry for each figure that is asked for; those not measured have no value."""
    cells = by_cell(rows)

    def ratio(workload: str, batch: int, threads: int, engine: str = OURS) -> float | None:
        for rows_there in (batch, LARGE) if batch > LARGE else (batch,):
            row = cells.get((workload, rows_there, threads), {}).get(engine)
            if row is not None:
                found: float | None = row["ratio"]
                return found
        return None

    asked = []
    for workload, floors in _FLOOR.items():
        for batch, floor in zip(BATCHES, floors, strict=True):
            value = ratio(workload, batch, 1)
            asked.append(at_least(f"floor: {workload}, {_rows(batch)}, 1 thread", floor, value))
        value = ratio(workload, 10_000, 2)
        floor = _FLOOR_OF_TWO[workload]
        asked.append(at_least(f"floor: {workload}, 10,000 rows, 2 threads", floor, value))
    for workload in _AIM:
        for batch in (1, 100):
            value = ratio(workload, batch, 1)
            asked.append(at_least(f"aim: {workload}, {_rows(batch)}, 1 thread", _AIM_SMALL, value))
        for threads, aims in ((1, _AIM), (2, _AIM_OF_TWO)):
            value = ratio(workload, 10_000, threads)
            name = f"aim: {workload}, 10,000 rows, {threads} thread{'s' * (threads > 1)}"
            asked.append(at_least(name, aims[workload], value))
    for workload, aim in _AVX2.items():
        value = ratio(workload, 10_000, 1, "bitvec AVX2")
        asked.append(at_least(f"AVX2: {workload}, 10,000 rows, 1 thread", aim, value))
    return [*asked, _torch(cells), *_exact(cells), *_figures(rows)]


def _rows(batch: int) -> str:
    return "1 row" if batch == 1 else "largest batch" if batch > LARGE else f"{batch:,} rows"


def _most(name: str, goal: float, value: float | None, *, shown: str | None = None) -> Target:
    met = None if value is None else value <= goal
    return Target(name, f"<= {goal:g}", shown or value, met)


def _torch(cells: dict[Cell, dict[str, Row]]) -> Target:
    """The torch engine against the best of hummingbird's strategies, in the worst cell."""
    ratios = {}
    for cell, engines in cells.items():
        others = [row["seconds"] for name, row in engines.items() if name.startswith("humming")]
        if others and "bitvec torch" in engines:
            ratios[cell] = _digits(min(others) / engines["bitvec torch"]["seconds"])
    where = min(ratios, key=lambda cell: ratios[cell], default=None)
    name = "torch: hummingbird's best strategy's time over ours, worst cell"
    if where is None:
        return at_least(name, 1, None)
    workload, batch, threads = where
    return at_least(f"{name} ({workload}, {batch:,}, {threads})", 1, ratios[where])


def _exact(cells: dict[Cell, dict[str, Row]]) -> list[Target]:
    """Return whether every engine of ours that was timed gave the library's own raw scores."""
    ours = [
        row
        for engines in cells.values()
        for name, row in engines.items()
        if not is_baseline(name) and row["raw_bits_differ"] is not None
    ]
    found = []
    for torch in (False, True):
        chosen = [r["raw_bits_differ"] for r in ours if r["engine"].endswith("torch") == torch]
        name = f"raw scores that differ from the library's own{', torch' * torch}"
        found.append(none(name, max(chosen, default=None)))
    return found


def _figures(rows: Sequence[Row]) -> list[Target]:
    by = {row["figure"]: row for row in rows if "figure" in row and "reason" not in row}

    def value(figure: str, key: str) -> float | None:
        found: float | None = by.get(figure, {}).get(key)
        return found

    def within(name: str, figure: str, goal: float) -> Target:
        row = by.get(figure)
        if row is None:
            return _most(name, goal, None)
        shown = f"{row['ratio']:g} ({row['low']:g} to {row['high']:g})"
        return _most(name, goal, row["ratio"], shown=shown)

    few, many = (by.get(f, {}).get("distinct_sets", "?") for f in ("few sets", "many sets"))
    return [
        within("NaN present, time over that without (95 % interval)", "nan", 1.05),
        within(f"{few} distinct sets, time over numeric tests", "few sets", 1.1),
        within(f"{many} distinct sets, time over numeric tests", "many sets", 1.7),
        _most("cycles a row, W1, 10,000 rows", 230, value("cycles", "cycles")),
        _most("packed bytes a node, W3", 12, value("memory", "bytes_a_node")),
        _most(
            "seconds to the first prediction of a process",
            0.5,
            value("first prediction", "seconds"),
        ),
    ]
