"""Forests as torch modules and programs: equal bits, size, latency and memory of each way.

    python -m benchmarks.tensors [--json] [--quick] [--save] [--baselines-dir DIR]

Every way runs in a process of its own, on one thread; its milliseconds are of the processor, so
that other work on the machine does not count, and its memory is what the process takes beyond
Python and NumPy up to calls of 1,000 rows. The hard module is then timed beside hummingbird's on
five workloads of the engine's benchmark, whose models are trained at the first run and kept in
`--cache`, and steps of training on tensors beside those on prepared rows.
Cases are kept as they are measured, and a run goes on from there.
`--baselines-dir DIR --make-baselines` makes environments for hummingbird, ExecuTorch, LiteRT and
JAX. Forests that are trained with encoders before them are measured by `joint`.

Processes in those environments import this package, so what needs more than NumPy is imported late.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.report import Column, Goal, Report, Row, Table, groups, measured_by, six_digits
from benchmarks.runner import Benchmark, say
from benchmarks.tensors import beside_hummingbird as beside
from benchmarks.tensors import training_steps
from benchmarks.tensors.ways import FOREST, ROWS, WAYS, Way
from benchmarks.worker import CannotRunError
from benchmarks.workers import THREADS, alone, interpreter

_SECONDS: Final = 900.0
"""For one way: compiling ahead takes long."""


def _xgboost(n_trees: int) -> Any:
    import xgboost

    return xgboost.XGBClassifier(n_estimators=n_trees, max_depth=6)


def _random_forest(n_trees: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_trees // 2, max_depth=10, random_state=0)


MODELS: Final[dict[str, Callable[[int], Any]]] = {
    "xgboost, 100 trees of depth 6": _xgboost,
    "RandomForest, 50 trees of depth 10": _random_forest,
}


class Work(NamedTuple):
    """All ways to run a model and steps of its training, or modules on a workload."""

    what: str
    name: str

    def __str__(self) -> str:
        """Return the name of the case."""
        return f"{self.what}: {self.name}"


def cases(options: Namespace) -> Iterator[Work]:
    """Yield models and workloads."""
    workloads = beside.WORKLOADS[:1] if options.quick else beside.WORKLOADS
    for what, names in (("ways", MODELS), ("steps", MODELS), ("hummingbird", workloads)):
        yield from (Work(what, name) for name in names)


def measure(work: Work, options: Namespace) -> Iterator[Row]:
    """Yield a row for each way, step, or module and batch."""
    if work.what == "hummingbird":
        yield from beside.measure(work.name, options)
        return
    import bitvec

    rng = np.random.default_rng(0)
    X = rng.normal(size=(max(ROWS), 30)).astype(np.float32)
    y = (X[:, 0] - X[:, 1] + 2 * X[:, 2] + X[:, 3] * X[:, 4] > 0).astype(int)
    forest = bitvec.convert(MODELS[work.name](10 if options.quick else 100).fit(X, y))
    if work.what == "steps":
        yield from training_steps.measure(work.name, forest, X, options)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bitvec.save(forest, folder / FOREST)
        np.save(folder / "X.npy", X.astype(forest.dtype))
        np.save(folder / "raw.npy", bitvec.compile(forest, engine="reference").raw(X))
        for way in WAYS.values():
            if way.quick or not options.quick:
                row = {"model": work.name, "target": way.target, "form": way.form}
                yield row | _of(way, folder, options)
                say(way.name)


def _of(way: Way, folder: Path, options: Namespace) -> Row:
    """Return what processes of a way tell, or why there is nothing."""
    given: dict[str, Any] = {"variables": dict.fromkeys(THREADS, "1"), "within": _SECONDS}
    if way.environment:
        with suppress(CannotRunError):  # where it is not made, this one may have the library
            given["python"] = interpreter(options.baselines_dir, way.environment)
    place = "benchmarks.tensors.ways"
    told: Row = {}
    try:
        if way.write is not None:
            told = alone(f"{place}:written", folder, way.name, **given)
        return told | alone(f"{place}:measured", folder, way.name, **given)
    except CannotRunError as error:
        return told | {"reason": str(error)}


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return rows of ways and steps, to six digits, and a row for each cell of a workload."""
    kept = [six_digits(row) for row in rows if "engine" not in row]
    return [*kept, *beside.figures([row for row in rows if "engine" in row])]


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what the module and its programs have to reach; `rows` are figures."""
    ways = [row for row in rows if "ms_1" in row]
    exact = {(way.target, way.form) for way in WAYS.values() if way.exact}
    unequal = sum(not row["equal"] for row in ways if (row["target"], row["form"]) in exact)
    return [
        Goal("ways of all bits whose raw scores differ", "0", unequal if ways else None, True),
        Goal(
            "compiled by Inductor, in place or ahead / engine torch, worst cell",
            "<= 1.1",
            _worst(ways, "compiled in place", ".pt2, AOTInductor"),
        ),
        Goal(
            "compiled in place / engine torch, worst cell",
            "told",
            _worst(ways, "compiled in place"),
        ),
        Goal("eager / engine torch, worst cell", "told", _worst(ways, "eager")),
        *beside.goals(rows),
        *training_steps.goals(rows),
    ]


def _worst(ways: Sequence[Row], *targets: str) -> float | None:
    """Return the largest of the ratios of the faster target's time to that of the engine torch."""
    ratios: list[float] = []
    for found in groups(ways, "model").values():
        by = {row["target"]: row for row in found if row["form"] == "auto"}
        ours, engine = [by[target] for target in targets if target in by], by.get("engine torch")
        if ours and engine:
            ratios += [min(row[f"ms_{n}"] for row in ours) / engine[f"ms_{n}"] for n in ROWS]
    return max(ratios, default=None)


def _after(report: Report) -> str:
    return (
        "Milliseconds of one thread of the processor; memory is what a process takes beyond Python "
        f"and NumPy, with the runtime, up to 1,000 rows. {measured_by(report)}"
    )


def _bits(row: Row) -> str:
    if row["equal"]:
        return "equal"
    return "rounded" if row["rounded"] else "differ"


_COLUMNS: Final = (
    Column("model", "model"),
    Column("target", "target"),
    Column("form", "form"),
    Column("bits", _bits),
    Column("bytes", "bytes", ","),
    Column("memory, MiB", lambda row: row.get("grown") and row["grown"] / 2**20, ".0f"),
    *(Column(f"{n:,} row{'s' * (n > 1)}, ms", f"ms_{n}", ".3g") for n in ROWS),
)


def _having(*keys: str) -> Callable[[Sequence[Row]], list[Row]]:
    return lambda rows: [row for row in rows if any(key in row for key in keys)]


BENCHMARK: Final = Benchmark(
    "tensors",
    cases,
    measure,
    goals,
    {
        "table": Table(_COLUMNS, _having("target"), missing="target", after=_after),
        "hummingbird": Table(
            beside.COLUMNS, _having("batch", "module"), missing="module", after=measured_by
        ),
        "steps": Table(training_steps.COLUMNS, _having("step"), after=measured_by),
    },
    figures,
    options={"--cache": {"type": Path, "help": "keeps the models of the workloads"}},
    requirements=Path(__file__).parent / "requirements",
    kept=True,
    in_turn=True,
)
