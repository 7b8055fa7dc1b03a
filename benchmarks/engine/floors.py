"""Least times of exact answers, and counts of what models take: why cells are not won.

A floor is the time of a call, and of the largest of: values read and answers written at the speed
of memory, sums of leaf values one rounding after the other, exponentials. No engine with the bits
of the source does without these. What else a forest takes depends on the way; comparisons and the
bytes of the packed trees are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.engine.cells import OURS, Cell, by_cell, digits
from benchmarks.report import Column, Report, Row, one, table

TURNS: Final = 41
COUNTED: Final = 1_000
WON: Final = 1.5
"""Times faster than the best other engine from which on a cell is not told."""


def floors(place: str) -> dict[str, Any]:
    """Time a call, a byte read or written in large arrays, and an exponential, and count cycles.

    A sum takes at least a sixteenth of a cycle, by two adders of 64 bytes, and two cycles where it
    waits for the one before.
    """
    import bitvec
    from benchmarks.engine.alone import clock
    from bitvec import Forest

    X = np.load(Path(place) / "X.npy")
    stump = bitvec.compile(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]), n_jobs=1)
    row, values = np.zeros((1, 2), np.float32), np.linspace(-9.0, 0.0, 2048)
    found, cycle = values.copy(), 1 / max(clock() for _ in range(TURNS))
    return {
        "call_seconds": _least(lambda: stump.predict(row)),
        "read_seconds": _least(X.max) / X.nbytes,
        "write_seconds": _least(lambda: np.full(X.shape, 0.5, X.dtype)) / X.nbytes,
        "sum_seconds": cycle / 16,
        "chained_sum_seconds": 2 * cycle,
        "exponential_seconds": _least(lambda: np.exp(values, out=found)) / values.size,
    }


def _least(work: Callable[[], Any]) -> float:
    """Return the least seconds of a call, whose clock is read before and after some."""
    work()
    found = []
    for _ in range(TURNS):
        n, start = 0, time.perf_counter()
        while (taken := time.perf_counter() - start) < 0.002:
            work()
            n += 1
        found.append(taken / n)
    return min(found)


def counts(forest: Any, predictor: Any, answer: Callable[[Any], Any], X: np.ndarray) -> Row:
    """Return what a row of a forest takes: numbers on an average, and bytes."""
    from bitvec.core import tree_paths
    from bitvec.core.output import PostTransform

    X, B, tests = X[:COUNTED], forest.bitvectors, forest.tests
    depth = tree_paths.leaf_depth(B)[predictor.exit_leaves(X) + B.leaf_ptr[:-1]]
    answers, links = np.asarray(answer(X)), (PostTransform.SIGMOID, PostTransform.SOFTMAX)
    has_link = forest.output.post_transform in links and answers.dtype.kind == "f"
    return {
        "comparisons": digits(float(depth.sum(axis=1).mean())),
        "products": digits(tests.column.size / max(tests.n_nodes, 1)),
        "trees": forest.n_trees,
        "sums": forest.n_trees * forest.leaves.v.shape[1],
        "exponentials": forest.output.n_outputs if has_link else 0,
        "read_bytes": _read(forest, X, depth),
        "written_bytes": answers.nbytes // len(X),
        "packed_bytes": predictor.info()["packed_bytes"],
    }


def _read(forest: Any, X: np.ndarray, depth: np.ndarray) -> int:
    """Return the bytes of a row that must be read: all of it if the source refuses some values."""
    metadata = getattr(forest.source, "metadata", None) or {}
    whole = X.nbytes // len(X)
    if any(metadata.get(f"refuses_{what}") for what in ("missing", "infinite")):
        return whole
    return min(whole, int(depth.sum(axis=1).mean()) * X.itemsize)


def least_seconds(rates: Row, counted: Row, batch: int, *, raw: bool) -> dict[str, float]:
    """Return the seconds that a batch takes at least on one thread, by what takes them."""
    read = rates["read_seconds"] * counted["read_bytes"]
    read += rates["write_seconds"] * counted["written_bytes"]
    chain = rates["chained_sum_seconds"] * counted["trees"]
    return {
        "memory": batch * read,
        "sums": max(batch * rates["sum_seconds"] * counted["sums"], chain),
        "exponentials": 0.0
        if raw
        else batch * rates["exponential_seconds"] * counted["exponentials"],
    }


def _not_won(report: Report) -> Iterator[tuple[Cell, Row, Row]]:
    """Yield cells in which the best other comes near, what was timed, and what is counted."""
    counted = {row["workload"]: row for row in report["rows"] if row.get("figure") == "counts"}
    for cell, engines in by_cell(report["rows"]).items():
        ratio = engines.get(OURS, {}).get("ratio")
        if ratio is not None and ratio < WON and cell.workload in counted:
            yield cell, engines[OURS], counted[cell.workload]


def told(report: Report) -> str:
    """Return the cells that are not won, with floors and counts."""
    rates = one(report["rows"], figure="floors")
    if "call_seconds" not in rates:
        return ""
    body = []
    for cell, row, counted in sorted(_not_won(report), key=lambda found: found[1]["ratio"]):
        parts = least_seconds(rates, counted, cell.batch, raw=cell.raw)
        most = max(parts, key=lambda name: parts[name])
        floor = rates["call_seconds"] + parts[most] / cell.threads
        body.append(
            {
                "cell": str(cell),
                "ratio": row["ratio"],
                "best": row["best_baseline"],
                "took": row["seconds"] * 1e6,
                "floor": floor * 1e6,
                "most": most if parts[most] > rates["call_seconds"] else "call",
                "each": row["seconds"] / cell.batch / counted["comparisons"] * 1e9,
                **counted,
            }
        )
    columns = [
        Column("workload, rows, threads", "cell"),
        Column("times faster", "ratio", ".2f"),
        Column("than", "best"),
        Column("µs", "took", ".3g"),
        Column("least µs", "floor", ".2g"),
        Column("of which most", "most"),
        Column("comparisons a row", "comparisons", ",.0f"),
        Column("ns for each", "each", ".2f"),
        Column("bytes of the trees", "packed_bytes", ","),
    ]
    return table(body, columns) if body else ""
