"""Forests as torch modules and programs: equal bits, size and latency of each way to run them.

    python -m benchmarks.tensors [--json] [--quick] [--save] [--data FOLDER]

One thread; seconds are of the processor, so that other work on the machine does not count. With the
folder of real data, forests are trained together with the encoders before them as well (`joint`).
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import lightgbm
import numpy as np
import torch
import xgboost
from sklearn.ensemble import RandomForestClassifier

import bitvec
from benchmarks import joint
from benchmarks.report import Column, Goal, Report, Row, Table, groups, measured_by, six_digits
from benchmarks.runner import DATA, Benchmark, run
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest

ROWS: Final = (1, 1_000, 10_000)
FORMS: Final = ("matrix", "perfect", "levels")
_JOINT: Final = "joint training,"
SECONDS: Final = 0.3
"""For which a way is run again, at least three times; the least counts."""


def _data() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(max(ROWS), 30)).astype(np.float32)
    return X, (X[:, 0] - X[:, 1] + 2 * X[:, 2] + X[:, 3] * X[:, 4] > 0).astype(int)


MODELS: Final[dict[str, Callable[[int], Any]]] = {
    "xgboost, 100 trees of depth 6": lambda n: xgboost.XGBClassifier(n_estimators=n, max_depth=6),
    "LightGBM, 100 trees of 31 leaves": lambda n: lightgbm.LGBMClassifier(
        n_estimators=n, num_leaves=31, verbose=-1
    ),
    "RandomForest, 50 trees of depth 10": lambda n: RandomForestClassifier(
        n // 2, max_depth=10, random_state=0
    ),
}


def cases(options: Namespace) -> Iterable[str]:
    """Return the names of models, and of joint training where the data are there."""
    seeds = joint.SEEDS[:1] if options.quick else joint.SEEDS
    trained = [f"{_JOINT} {name} {seed}" for name in joint.DATA for seed in seeds]
    return [*MODELS, *(trained if options.data else ())]


def ways(
    forest: Forest, folder: Path, x: torch.Tensor, *, quick: bool
) -> Iterator[tuple[str, str, Callable[[torch.Tensor], Any], int | None]]:
    """Yield target, form, what answers a tensor with raw scores, and bytes of a file."""
    engine = bitvec.compile(forest, engine="torch").engine
    yield "engine torch", "auto", lambda x: engine.raw(x.numpy()), None
    for form in ("auto", *FORMS):
        yield "eager", form, bitvec.to_torch(forest, form=form), None
    path = bitvec.export(forest, folder / "model.pt2")
    program = torch.export.load(path).module()
    yield ".pt2", "auto", lambda x: program(x)["raw"], path.stat().st_size
    if quick:
        return
    compiled: Any = torch.compile(bitvec.to_torch(forest), fullgraph=True, dynamic=True)
    yield "torch.compile", "auto", compiled, None
    in_place = bitvec.to_torch(forest)
    in_place.compile(fullgraph=True, dynamic=True)
    yield "compiled in place", "auto", in_place, None
    path = bitvec.export(forest, folder / "compiled.pt2", compiled=True)
    package = torch._inductor.aoti_load_package(str(path))
    yield ".pt2, compiled", "auto", lambda x: package(x)["raw"], path.stat().st_size


def measure(name: str, options: Namespace) -> Iterator[Row]:
    """Yield a row for each way to run a model."""
    torch.set_num_threads(1)
    if name.startswith(_JOINT):
        data, seed = name.removeprefix(_JOINT).split()
        yield from joint.measure(options.data, data, int(seed), quick=options.quick)
        return
    X, y = _data()
    model = MODELS[name](10 if options.quick else 100).fit(X, y)
    forest = bitvec.convert(model)
    rows = X.astype(forest.dtype)
    expected = bitvec.compile(forest, engine="reference").raw(rows)
    x = torch.tensor(rows)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for target, form, answer, size in ways(forest, Path(folder), x, quick=options.quick):
            row: Row = {"model": name, "target": target, "form": form, "bytes": size}
            equal = True
            for n in ROWS:
                part = x[:n]
                found = np.asarray(answer(part))
                equal &= found.tobytes() == expected[:n].tobytes()
                row[f"ms_{n}"] = 1e3 * _least(answer, part)
            yield row | {"equal": equal}


def _least(answer: Callable[[torch.Tensor], Any], x: torch.Tensor) -> float:
    taken: list[float] = []
    start = time.perf_counter()
    while len(taken) < 3 or time.perf_counter() - start < SECONDS:
        before = time.process_time()
        answer(x)
        taken.append(time.process_time() - before)
    return min(taken)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what the module and its programs have to reach beside the engine torch."""
    trained = [row for row in rows if "joint" in row]
    rows = [row for row in rows if "equal" in row]
    unequal = sum(not row["equal"] for row in rows) + sum(not row["exported"] for row in trained)
    slowest: dict[str, float] = {}
    for found in groups(rows, "model").values():
        by = {(row["target"], row["form"]): row for row in found}
        for target in ("eager", "torch.compile", "compiled in place"):
            ours, engine = by.get((target, "auto")), by.get(("engine torch", "auto"))
            if ours and engine:
                ratio = max(ours[f"ms_{n}"] / engine[f"ms_{n}"] for n in ROWS)
                slowest[target] = max(slowest.get(target, 0.0), ratio)
    return [
        Goal("ways whose raw scores differ in a bit", "0", unequal, True),
        Goal("torch.compile / engine torch, worst cell", "<= 1.1", slowest.get("torch.compile")),
        Goal(
            "compiled in place / engine torch, worst cell",
            "<= 1.1",
            slowest.get("compiled in place"),
        ),
        Goal("eager / engine torch, worst cell", "<= 1", slowest.get("eager")),
        *_goals_of_training(trained),
    ]


def _goals_of_training(rows: Sequence[Row]) -> Iterator[Goal]:
    """Yield what heads have to reach, by the mean of the seeds of each data set."""
    closed: list[float] = []
    behind: list[float] = []
    for found in groups(rows, "data", "head").values():
        linear, frozen, joined = (
            float(np.mean([row[name] for row in found])) for name in ("linear", "frozen", "joint")
        )
        if found[0]["head"] == joint.TREE:
            closed.append((joined - frozen) / (linear - frozen) if linear > frozen else 1.0)
        else:
            behind.append(100 * (linear - joined))
    second = sorted(closed)[-2] if len(closed) > 1 else None
    name = "share of the gap from frozen tree to linear head that one tree closes, second best"
    yield Goal(name, ">= 0.8", second)
    worst = max(behind, default=None)
    yield Goal("points by which a forest of 10 is behind the linear head, worst", "<= 0.3", worst)


def _after(report: Report) -> str:
    return f"Milliseconds of one thread of the processor. {measured_by(report)}"


_TRAINED: Final = (
    Column("data", "data"),
    Column("seed", "seed"),
    Column("head", "head"),
    Column("linear head", "linear", ".4f"),
    Column("frozen features", "frozen", ".4f"),
    Column("trained together, hard", "joint", ".4f"),
    Column("exported with the encoder", lambda row: "bits" if row["exported"] else "differs"),
)
_COLUMNS: Final = (
    Column("model", "model"),
    Column("target", "target"),
    Column("form", "form"),
    Column("bits", lambda row: "equal" if row["equal"] else "differ"),
    Column("bytes", "bytes", ","),
    *(Column(f"{n:,} row{'s' * (n > 1)}, ms", f"ms_{n}", ".3g") for n in ROWS),
)
BENCHMARK: Final = Benchmark(
    "tensors",
    cases,
    measure,
    goals,
    {
        "table": Table(
            _COLUMNS, lambda rows: [row for row in rows if "equal" in row], after=_after
        ),
        "joint": Table(_TRAINED, lambda rows: [row for row in rows if "joint" in row]),
    },
    options=DATA,
    figures=lambda rows: [six_digits(row) for row in rows],
)

if __name__ == "__main__":
    run(BENCHMARK, __doc__)
