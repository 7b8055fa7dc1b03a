"""Goals of the engine: every cell, exactness, and figures of bitvec alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from benchmarks.engine.cells import AVX2, OURS, Cell, by_cell, digits, is_baseline, is_drawn
from benchmarks.report import Goal, Row, one

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


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return the ratios that are asked for, exactness, and figures of bitvec alone."""
    cells = by_cell(rows)

    def ratio(kind: str, workload: str, batch: int, threads: int, goal: float) -> Goal:
        engine = AVX2 if kind == "AVX2" else OURS
        there = (batch, LARGE) if batch > LARGE else (batch,)
        found = [cells.get(Cell(workload, n, threads), {}).get(engine) for n in there]
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

    def ratios(engine: str, *, drawn: bool = False) -> dict[Cell, float]:
        won = {c: told[engine]["ratio"] for c, told in cells.items() if engine in told}
        return {c: won[c] for c in won if won[c] is not None and is_drawn(c.workload) == drawn}

    def against(engine: str, *workloads: str) -> dict[Cell, float]:
        both = {
            c: t for c, t in cells.items() if c.workload in workloads and {engine, OURS} <= {*t}
        }
        return {c: digits(t[engine]["seconds"] / t[OURS]["seconds"]) for c, t in both.items()}

    fixed, drawn = ratios(OURS), ratios(OURS, drawn=True)
    avx2 = _some(ratios(AVX2), lambda cell: cell.takes(limited=True))
    for kind, found in (("", fixed), ("AVX2: ", avx2)):
        alone = _some(found, lambda cell: cell.threads == 1)
        many = _some(alone, lambda cell: cell.batch >= 10)
        yield _least(f"{kind}every cell from 10 rows on, 1 thread", 1.5, many)
        few = _some(alone, lambda cell: cell.batch < 10)
        yield _least(f"{kind}every cell below 10 rows, 1 thread", 1.5, few)
        yield Goal(f"{kind}geometric mean of all cells", ">= 5", _mean(found))
    yield _least("every cell of 2 threads", 1.0, _some(fixed, lambda cell: cell.threads == 2))
    yield _least("10,000 rows and more, one thread's time over two's", 1.8, _twice(cells))
    yield _least("single trees over scikit-learn", 3, against("scikit-learn", "W5", "digits tree"))
    few = _some(against("pylignum compiled", "binary", "W1"), lambda cell: cell.batch <= 10)
    yield _least("up to 10 rows over pylignum compiled", 3, few)
    level = against("pylignum", *(f"oblivious {depth}" for depth in (4, 8, 10)))
    level = _some(level, lambda cell: (cell.batch, cell.threads) == (10_000, 1))
    yield _least("oblivious trees, 10,000 rows, over pylignum", 1.5, level)
    deep = _some(against("daal4py", "deep boosting"), lambda cell: cell.batch == 10_000)
    yield _least("deep boosting, 10,000 rows, over daal4py", 1.6, deep)
    yield _least("models drawn at random, every cell", 1.0, drawn)
    yield Goal("models drawn at random, geometric mean", ">= 4", _mean(drawn))


def _twice(cells: dict[Cell, dict[str, Row]]) -> dict[Cell, float]:
    """Return how many times as fast two threads are as one."""
    found = {}
    for cell, told in cells.items():
        alone = cells.get(cell._replace(threads=1), {})
        if cell.threads == 2 and cell.batch >= 10_000 and OURS in told and OURS in alone:
            found[cell] = digits(alone[OURS]["seconds"] / told[OURS]["seconds"])
    return found


def _some(ratios: dict[Cell, float], holds: Callable[[Cell], bool]) -> dict[Cell, float]:
    return {cell: ratio for cell, ratio in ratios.items() if holds(cell)}


def _least(name: str, goal: float, ratios: dict[Cell, float]) -> Goal:
    cell = min(ratios, key=lambda cell: ratios[cell], default=None)
    if cell is None:
        return Goal(name, f">= {goal:g}", None)
    return Goal(f"{name} (least: {cell})", f">= {goal:g}", ratios[cell])


def _mean(ratios: dict[Cell, float]) -> float | None:
    return digits(statistics.geometric_mean(ratios.values())) if ratios else None


def _torch(cells: dict[Cell, dict[str, Row]]) -> Goal:
    """Return the torch engine against the best of hummingbird's strategies, in the worst cell."""
    ratios = {}
    for cell, engines in cells.items():
        others = [row["seconds"] for name, row in engines.items() if name.startswith("humming")]
        if others and "bitvec torch" in engines:
            ratios[cell] = digits(min(others) / engines["bitvec torch"]["seconds"])
    return _least("torch: hummingbird's best strategy's time over ours, every cell", 1, ratios)


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
    frames, sparse = found("frames"), found("sparse")
    return [
        Goal("NaN present, time over that without (95 % interval)", "<= 1.05", ratio("nan")),
        Goal(f"{few} distinct sets, time over numeric tests", "<= 1.1", ratio("few sets")),
        Goal(f"{many} distinct sets, time over numeric tests", "<= 1.7", ratio("many sets")),
        Goal("cycles a row, W1, 10,000 rows", "<= 230", found("cycles").get("cycles")),
        Goal("packed bytes a node, W3", "<= 12", found("memory").get("bytes_a_node")),
        Goal("seconds to the first prediction of a process", "<= 0.5", start),
        Goal(
            "10,000 rows of adult in the slowest frame over an array", "<= 1.5", frames.get("most")
        ),
        Goal("seconds of one row in the slowest frame", "<= 0.0003", frames.get("most_seconds")),
        Goal(
            "sparse rows, library's time over ours, fewest of 1, 2 threads",
            ">= 2",
            sparse.get("least"),
        ),
    ]
