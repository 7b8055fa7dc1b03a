"""Cycles a row of every kernel beside those that the choice expects, and what the choice loses.

    python -m benchmarks.kernels [--json] [--quick] [--save]

The costs in `bitvec/runtime/predict/cpu/choice.py` and `few_rows/costs.py` were set by such runs:
where the ratio of a kernel is far from the others', its costs are to be measured anew.

Forests are drawn at random: oblivious, complete and unbalanced trees, 1 to 1,000 of up to 4,000
leaves with 1 to 10 values, on 5 to 100 columns. Every kernel that holds one runs a small and a
large batch on one thread, after their sums were found equal bit for bit; and some rows go through
the layout of few rows. Each level of vectors is measured that the processor has; AVX2 is a
processor without AVX-512 by what is compiled for it.
"""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from benchmarks.engine.alone import clock
from benchmarks.engine.cells import digits
from benchmarks.engine.measure import avx2
from benchmarks.report import Column, Goal, Report, Row, Table, groups, measured_by, where
from benchmarks.runner import Benchmark, run
from benchmarks.workers import alone

if TYPE_CHECKING:
    from bitvec.core.forest import Forest

FORESTS: Final = 48
AT_ONCE: Final = 8
"""Forests of one process."""
ROWS: Final = (128, 4096)
FEW: Final = 10
MOST_LEAVES: Final = 150_000
TURNS: Final = 7
SECONDS: Final = 600.0
LEVELS: Final[dict[str, dict[str, str]]] = {
    "best": {},
    "AVX2": {"BITVEC_VECTORS": "portable", "NUMBA_CPU_FEATURES": "AVX2"},
}
"""Variables of the processes of each level."""


class Case(NamedTuple):
    """Some forests at one level of vectors."""

    level: str
    first: int

    def __str__(self) -> str:
        """Return the name of the case."""
        return f"{self.level}, forests from {self.first} on"


def cases(options: Namespace) -> list[Case]:
    """Return every forest at every level."""
    n = AT_ONCE if options.quick else FORESTS
    levels = ("best",) if options.quick else LEVELS
    return [Case(level, first) for level in levels for first in range(0, n, AT_ONCE)]


def measure(case: Case, options: Namespace) -> Iterator[Row]:
    """Yield a row for each forest, batch and kernel."""
    variables = {k: avx2() if v == "AVX2" else v for k, v in LEVELS[case.level].items()}
    n = 2 if options.quick else AT_ONCE
    found = alone("benchmarks.kernels:costs", case.first, n, within=SECONDS, variables=variables)
    yield from ({"level": found["vectors"]} | row for row in found["rows"])


def costs(first: int, n: int) -> dict[str, Any]:
    """Measure some forests in this process."""
    from bitvec.runtime.predict.cpu.target import vectors

    hertz = statistics.median(clock() for _ in range(9))
    rows = [row for number in range(first, first + n) for row in _costs(number, hertz)]
    return {"vectors": vectors(), "rows": rows}


def _costs(number: int, hertz: float) -> Iterator[Row]:
    from bitvec.runtime.predict.cpu import choice
    from bitvec.runtime.predict.cpu.few_rows.costs import ROW
    from bitvec.runtime.predict.cpu.few_rows.forest_rows import FewRows

    what, forest = drawn(number)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(max(ROWS), forest.n_features)).astype(np.float32)
    packed = {
        name: choice.pack(name, forest)
        for name in choice.KERNELS
        if choice.unsupported_reason(name, forest) is None
    }
    for n in ROWS:
        small = n < 200
        expected, rows = choice.costs(forest, small=small), np.ascontiguousarray(X[:n])
        totals = {name: np.zeros((n, forest.n_outputs), forest.output.dtype) for name in packed}
        for name, kernel in packed.items():
            kernel.add_leaves(rows, totals[name])
        assert len({total.tobytes() for total in totals.values()}) == 1, what
        taken = _least({name: _adds(packed[name], rows, totals[name]) for name in packed})
        chosen = choice.choose(forest, small=small).name
        for name, seconds in taken.items():
            yield {
                "forest": what,
                "rows": n,
                "kernel": name,
                "expected": digits(expected[name] or 0.0),
                "cycles": digits(seconds * hertz / n),
                "chosen": name == chosen,
            }
    batch = choice.choose(forest), choice.choose(forest, small=True)
    few_rows = FewRows(forest, batch, packed.__getitem__, always=True)
    call, layout, some = few_rows.call("raw"), few_rows.layout(X.dtype), X[:FEW].copy()
    assert call is not None
    seconds = _least({"few": lambda: call.answer(some)})["few"]
    yield {
        "forest": what,
        "rows": FEW,
        "kernel": layout.name,
        "expected": digits(layout.cycles + ROW),
        "cycles": digits(seconds * hertz / FEW),
        "chosen": True,
    }


def _adds(kernel: Any, rows: np.ndarray, total: np.ndarray) -> Callable[[], None]:
    return lambda: kernel.add_leaves(rows, total)


def _least(works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the least seconds of each, of turns in which each runs for a millisecond."""
    found: dict[str, float] = {}
    for _ in range(TURNS):
        for name, work in works.items():
            n, start = 0, time.perf_counter()
            while (taken := time.perf_counter() - start) < 1e-3 or n < 2:
                work()
                n += 1
            found[name] = min(found.get(name, np.inf), taken / n)
    return found


def drawn(number: int) -> tuple[str, Forest]:
    """Return a forest drawn at random by a number, and what it is."""
    from bitvec.core import structure
    from bitvec.core.forest import Forest
    from bitvec.core.inputs import Inputs
    from bitvec.core.leaves import Leaves
    from bitvec.core.node_tests import axis_aligned
    from bitvec.core.output import Output

    rng = np.random.default_rng(number)

    def in_log(low: int, high: int) -> int:
        return int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))

    kind = ("oblivious", "complete", "unbalanced")[number % 3]
    n_leaves = in_log(4, 4000) if kind == "unbalanced" else 1 << int(rng.integers(2, 12))
    n_trees = min(in_log(1, 1000), max(1, MOST_LEAVES // n_leaves))
    n_columns, width = in_log(5, 100), int(rng.choice([1, 1, 1, 3, 10]))
    children = [_children(n_leaves, kind == "unbalanced", rng) for _ in range(n_trees)]
    of_tree = np.arange(n_trees)[:, None]
    left, right = (
        np.where(side >= 0, side + of_tree * (n_leaves - 1), side - of_tree * n_leaves).ravel()
        for side in (np.stack([one[k] for one in children]) for k in (0, 1))
    )
    B = structure.from_children(left, right, of_tree[:, 0] * (n_leaves - 1))
    shape = (n_trees, n_leaves - 1)
    feature, cut = rng.integers(0, n_columns, shape), rng.integers(-100, 101, shape)
    if kind == "oblivious":  # breadth first, node k stands on level log2(k + 1)
        level = np.log2(np.arange(1, n_leaves)).astype(int)
        first = (1 << level) - 1
        feature, cut = feature[:, first], cut[:, first]
    tests = axis_aligned(feature.ravel(), (cut.ravel() / 50).astype(np.float32))
    leaves = Leaves(rng.normal(size=(B.n_leaves, width)))
    forest = Forest(tests, B, leaves, Output(width, np.dtype(np.float64)), Inputs(n_columns))
    values = f", {width} values" * (width > 1)
    return f"{n_trees} {kind} x {n_leaves} leaves, {n_columns} columns{values}", forest


def _children(
    n_leaves: int, unbalanced: bool, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the children of nodes, breadth first; `~leaf` stands for a leaf."""
    sides = np.zeros((2, n_leaves - 1), np.int64)
    spans, made = [(0, n_leaves)], 1
    for node, (low, high) in enumerate(spans):
        share = rng.uniform(0.1, 0.9) if unbalanced else 0.5
        middle = low + min(max(1, round(share * (high - low))), high - low - 1)
        for side, span in enumerate(((low, middle), (middle, high))):
            if span[1] - span[0] == 1:
                sides[side, node] = ~span[0]
            else:
                sides[side, node] = made
                made += 1
                spans.append(span)
    return sides[0], sides[1]


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return for each level and kernel how far the costs are off, and what the choice loses.

    What was returned before stays as it is.
    """
    found = [row for row in rows if "what" in row]
    rows = [row for row in rows if "what" not in row]
    for (level, n, kernel), some in sorted(groups(rows, "level", "rows", "kernel").items()):
        ratios = [row["cycles"] / row["expected"] for row in some if row["expected"]]
        low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
        found.append(
            {"what": "ratio", "level": level, "rows": n, "kernel": kernel, "forests": len(ratios)}
            | {"low": digits(low), "median": digits(middle), "high": digits(high)}
        )
    for (level, n), some in sorted(groups(rows, "level", "rows").items()):
        if n == FEW:
            continue
        lost = {}
        for (forest,), kernels in groups(some, "forest").items():
            chosen = next(row["cycles"] for row in kernels if row["chosen"])
            lost[forest] = chosen / min(row["cycles"] for row in kernels)
        worst = max(lost, key=lambda forest: lost[forest])
        mean = digits(statistics.geometric_mean(lost.values()))
        right = sum(value < 1.05 for value in lost.values())
        found.append(
            {"what": "choice", "level": level, "rows": n, "forests": len(lost), "right": right}
            | {"mean": mean, "worst": digits(lost[worst]), "worst_forest": worst}
        )
    return found


def goals(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield what the choice loses against the fastest kernel."""
    for row in where(rows, what="choice"):
        name = f"chosen kernel's time over the fastest's, {row['level']}, {row['rows']} rows"
        yield Goal(f"{name}, geometric mean", "<= 1.1", row["mean"])


def _of_choice(report: Report) -> str:
    columns = (
        Column("vectors", "level"),
        Column("rows", "rows", ",d"),
        Column("forests", "forests", "d"),
        Column("within 5 % of the fastest", "right", "d"),
        Column("time over the fastest's", "mean", ".2f"),
        Column("worst", "worst", ".2f"),
        Column("where", "worst_forest"),
    )
    return Table(columns, {"what": "choice"}, after=measured_by)(report)


_RATIOS: Final = Table(
    (
        Column("vectors", "level"),
        Column("rows", "rows", ",d"),
        Column("kernel", "kernel"),
        Column("forests", "forests", "d"),
        Column("cycles over those expected: a tenth below", "low", ".2f"),
        Column("median", "median", ".2f"),
        Column("a tenth above", "high", ".2f"),
    ),
    {"what": "ratio"},
)

BENCHMARK: Final = Benchmark(
    "kernels", cases, measure, goals, {"table": _of_choice, "ratios": _RATIOS}, figures
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)
