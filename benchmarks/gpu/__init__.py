"""Forests on a GPU: bitvec's engines, nvForest and others on one device, resident and from host.

    python -m benchmarks.gpu [--json] [--quick] [--save] [--device cuda] [--minutes 9]

Cases are kept as they are measured, and a run goes on where the last one ended: after `--minutes`
it leaves the rest for the next. Without a GPU `--quick --device cpu` runs a few small cases, the
kernels in Triton's interpreter if TRITON_INTERPRET=1, whose times mean nothing.
"""

from __future__ import annotations

import itertools
import statistics
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.gpu import generated, prepared, training
from benchmarks.gpu.answers import measure_answers
from benchmarks.report import Column, Goal, Row, Table, measured_by, one, six_digits, where
from benchmarks.runner import Benchmark, EnoughError, UsageError

FEATURES: Final = (8, 32, 128, 512)
DEPTHS: Final = (2, 4, 6, 8, 10, 16, 24, 32)
TREES: Final = (16, 64, 256, 1024)
BATCHES: Final = (1, 1024, 65_536, 1_000_000, 16_777_216)
POINTS: Final = 48
MOST_NODES: Final = 1_500_000
MOST_ROW_BYTES: Final = 1 << 34
"""Caps of a point of the grid: nodes of its forest, bytes of its rows."""
WORKLOADS: Final = ("W1", "W2", "W3", "W4", "W5", "oblivious")
OF_WORKLOADS: Final = (1, 1000, 100_000, 1_000_000)
GRID, TRAINED, TRAINING = "grid", "workload", "training"
RESIDENT, HOST = "resident", "host"

_START: Final = time.monotonic()


def grid() -> list[tuple[int, int, int, int]]:
    """Return the points of the grid: features, depth, trees and batch, drawn once for all."""
    every = [
        (n_features, depth, n_trees, batch)
        for n_features, depth, n_trees, batch in itertools.product(FEATURES, DEPTHS, TREES, BATCHES)
        if generated.n_nodes(depth, n_trees) <= MOST_NODES
        and 4 * n_features * batch <= MOST_ROW_BYTES
    ]
    drawn = np.random.default_rng(20_261_127).choice(len(every), POINTS, replace=False)
    return [every[k] for k in np.sort(drawn)]


def cases(options: Namespace) -> list[tuple[Any, ...]]:
    """Return the cases: of trained models, of the grid, and of training."""
    if options.device == "cpu" and not options.quick:
        raise UsageError("--device cpu is for a dry run only: pass --quick too.")
    if options.quick:
        return [
            (GRID, 8, 3, 4, 40, RESIDENT),
            (GRID, 8, 10, 2, 33, HOST),
            (TRAINED, "oblivious", 1, RESIDENT),
            (TRAINING, "retraining"),
        ]
    places = (RESIDENT, HOST)
    of_models = itertools.product((TRAINED,), WORKLOADS, OF_WORKLOADS, places)
    of_grid = ((GRID, *point, RESIDENT) for point in grid())
    return [*of_models, *of_grid, (TRAINING, "retraining")]


def measure(case: tuple[Any, ...], options: Namespace) -> list[Row]:
    """Return the row of one case.

    Raises
    ------
    EnoughError
        If the minutes of this run are over.
    """
    if time.monotonic() - _START > 60 * options.minutes:
        raise EnoughError
    kind, *facts = case
    point = None
    if kind == TRAINING:
        return [training.measure_retraining(options)]
    if kind == GRID:
        n_features, depth, n_trees, batch, place = facts
        point = n_features, depth, n_trees
        prepared.prepare([point] if options.quick else [one[:3] for one in grid()])
        forest = generated.forest(*point)
        named = {"what": GRID, "depth": depth}
        rows = None
    else:
        name, batch, place = facts
        named = {"what": name}
        try:
            forest, rows = generated.workload(name, options.models, quick=options.quick)
        except ImportError as error:
            return [
                named | {"batch": batch, "reason": f"{error.name} is not installed to train it"}
            ]
    return [named | measure_answers(forest, rows, batch, place == HOST, options, point)]


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked of the engine of Triton kernels."""

    def times_nvforest(name: str) -> float | None:
        row = one(rows, what=name, batch=1_000_000, place=RESIDENT)
        return _ratio(row)

    ratios = _ratios(where(rows, what=GRID))
    answered = [row for row in rows if "same_bits" in row]
    same = sum(row["same_bits"] for row in answered)
    compared = [row["same_as_torch"] for row in rows if "same_as_torch" in row]
    shares = [row["copy_share"] for row in rows if row.get("copy_share") is not None]
    return [
        Goal(
            "cases whose raw scores are the reference's bit for bit",
            f"{len(answered)} of {len(answered)}",
            f"{same} of {len(answered)}" if answered else None,
        ),
        Goal(
            "cases whose raw scores of all rows are the torch engine's bit for bit",
            f"{len(compared)} of {len(compared)}",
            f"{sum(compared)} of {len(compared)}" if compared else None,
        ),
        Goal("times nvForest, W1, 1 million rows", ">= 1.5", times_nvforest("W1")),
        Goal("times nvForest, W2, 1 million rows", ">= 1.5", times_nvforest("W2")),
        Goal(
            "times nvForest, geometric mean of the grid",
            ">= 1",
            statistics.geometric_mean(ratios) if ratios else None,
        ),
        Goal("largest share of the copy bandwidth", ">= 0.3", max(shares, default=None)),
        Goal(
            "times two cores, a step of retraining 100 trees of depth 10",
            ">= 20",
            one(rows, what="retraining").get("times_two_cores"),
        ),
    ]


def _ratio(row: Row) -> float | None:
    ours, theirs = row.get("triton_ms"), row.get("nvforest_ms")
    return theirs / ours if ours and theirs else None


def _ratios(rows: Iterable[Row]) -> list[float]:
    return [ratio for row in rows if (ratio := _ratio(row)) is not None]


def _of_models(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if "batch" in row and row["what"] != GRID]


def _of_batches(rows: Sequence[Row]) -> list[Row]:
    """Return how the grid's ratios are spread, for each batch, by the depth of the trees."""
    found: list[Row] = []
    for batch in BATCHES:
        row: Row = {"batch": batch}
        for name, depths in _DEPTHS.items():
            points = [one for one in where(rows, what=GRID, batch=batch) if one["depth"] in depths]
            ratios = _ratios(points)
            if ratios:
                middle = statistics.geometric_mean(ratios)
                row[name] = f"{middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        found.append(row)
    return found


_DEPTHS: Final = {"shallow": range(2, 7), "middle": range(8, 11), "deep": range(16, 33)}
_SHOWN: Final = ("triton", "torch", "nvforest")
_TABLES: Final = {
    "table": Table(
        (
            Column("model", "what"),
            Column("rows", "batch", ","),
            Column("rows lie", "place"),
            *(Column(f"{name}, ms", f"{name}_ms", ".3g") for name in _SHOWN),
        ),
        _of_models,
        after=measured_by,
    ),
    "grid": Table(
        (
            Column("rows", "batch", ","),
            Column("depth 2 to 6", "shallow"),
            Column("depth 8 and 10", "middle"),
            Column("depth 16 to 32", "deep"),
        ),
        _of_batches,
        after=measured_by,
    ),
}
BENCHMARK: Final = Benchmark(
    "gpu",
    cases,
    measure,
    goals,
    _TABLES,
    figures=lambda rows: [six_digits(row) for row in rows],
    options={
        "--device": {
            "default": "cuda",
            "help": "where the engines run: cuda, or cpu for a dry run",
        },
        "--minutes": {"type": float, "default": 9.0, "help": "after which no case is begun"},
        "--models": {"type": Path, "help": "folder of W1.bitvec and so on; trained if not given"},
    },
    kept=True,
    in_turn=True,
)
