"""Requests of one row each to `bitvec serve`, at random times that wait for no answer.

The service runs on one core with one thread, its client (`open_loop`) on another, which Linux
alone can hold them to. A request's milliseconds run from the moment at which it was due.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.open_loop import Answered
from benchmarks.report import Column, Goal, Report, Row, measured_by, table

CASE: Final = "service"
REPEATS: Final = 3
RATES: Final = (500, 1000, 1500, 2000)
"""Requests a second that the service is asked."""
BACKLOG: Final = 0.1
"""Seconds after the last request within which a service that keeps up has answered all."""

_PINNED: Final = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Runs a program of Python on one core."""


def rows(model: Path, X: np.ndarray, expected: np.ndarray, *, quick: bool) -> Iterator[Row]:
    """Serve a model and yield the figures of each number of requests a second.

    Of several runs: medians of the times, and the worst of all else.
    """
    cores = sorted(os.sched_getaffinity(0))
    command = [sys.executable, "-c", _PINNED, str(cores[0]), "-m", "bitvec", "serve"]
    service = subprocess.Popen([*command, model, "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    try:
        port = int(service.stdout.readline().rpartition(":")[2].partition("/")[0])
        seconds, repeats = (2, 1) if quick else (10, REPEATS)
        load(port, cores[-1], X, expected, RATES[0], 2, seed=0)  # warms both up
        for rate in RATES:
            runs = [
                load(port, cores[-1], X, expected, rate, seconds, seed=seed)
                for seed in range(1, repeats + 1)
            ]
            yield {
                "case": CASE, "way": "bitvec serve", "rate": rate, "requests": rate * seconds,
                **{key: statistics.median(run[key] for run in runs) for key in ("p50", "p99")},
                "late": max(run["late"] for run in runs),
                "answered": min(run["answered"] for run in runs),
                "differ": sum(run["differ"] for run in runs),
                "keeps_up": all(run["keeps_up"] for run in runs),
            }  # fmt: skip
    finally:
        service.terminate()
        service.communicate()


def load(
    port: int,
    core: int,
    X: np.ndarray,
    expected: np.ndarray,
    rate: int,
    seconds: int,
    *,
    seed: int,
) -> Row:
    """Ask for one row at each of `rate * seconds` times drawn from the seconds; milliseconds."""
    rng = np.random.default_rng(seed)
    picked = rng.integers(0, len(X), rate * seconds)
    asked = {
        "port": port, "path": "/predict", "due": np.sort(rng.random(len(picked))) * seconds,
        "bodies": [json.dumps([X[at].tolist()]) for at in picked],
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.open_loop", str(core)],
        input=json.dumps(asked | {"due": asked["due"].tolist()}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    answers = [Answered(*each) for each in json.loads(done.stdout)]
    took = np.array([each.complete - each.due for each in answers])
    good = [each.status == 200 for each in answers]
    found = [json.loads(each.body)[0]["probability_1"] for each in answers if each.status == 200]
    right = expected[picked[good]].tolist()
    return {
        "p50": float(np.quantile(took, 0.5)) * 1e3,
        "p99": float(np.quantile(took, 0.99)) * 1e3,
        "late": float(np.quantile([each.sent - each.due for each in answers], 0.99)) * 1e3,
        "answered": int(sum(good)),
        "differ": sum(a != b for a, b in zip(found, right, strict=True)),
        "keeps_up": all(good) and max(each.complete for each in answers) < seconds + BACKLOG,
    }


def goals(measured: Sequence[Row]) -> list[Goal]:
    """Return what is asked of the service, where it was measured."""
    asked = {row["rate"]: row for row in measured if row["case"] == CASE}
    if not asked:
        return []
    kept_up = [rate for rate, row in asked.items() if row["keeps_up"]]
    return [
        Goal("answers of the service that differ", "0", sum(r["differ"] for r in asked.values())),
        Goal("one-row requests a second that the service keeps up with", ">= 1000",
             max(kept_up, default=0)),
        Goal("milliseconds, p99 at 500 requests a second", "< 10", asked[500]["p99"]),
    ]  # fmt: skip


_COLUMNS: Final = (
    Column("requests a second", "rate", ",d"),
    Column("ms, median", "p50", ".2f"),
    Column("ms, 99 %", "p99", ".2f"),
    Column("sent late, ms, 99 %", "late", ".2f"),
    Column("keeps up", lambda row: "yes" if row["keeps_up"] else "no"),
)


def draw(report: Report, path: Path) -> None:
    """Draw the milliseconds of requests against how many there are in a second."""
    from matplotlib.figure import Figure

    from benchmarks import svg

    rows = [row for row in report["rows"] if row["case"] == CASE]
    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    axis = figure.subplots()
    for key, label, colour, mark in (
        ("p99", "99 of 100 within", "#c05a00", "s"),
        ("p50", "half of them within", "#0b5cad", "o"),
    ):
        points = ([row["rate"] for row in rows], [row[key] for row in rows])
        axis.plot(*points, color=colour, marker=mark, label=label)
    axis.set(xlabel="requests a second, of one row each", ylabel="milliseconds", ylim=(0, None))
    axis.set_xticks([row["rate"] for row in rows], [f"{row['rate']:,}" for row in rows])
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="upper left")
    svg.write(figure, path)


def table_of(report: Report) -> str:
    """Return the table of the service, or that it was not measured."""
    found = [row for row in report["rows"] if row["case"] == CASE]
    if not found:
        return "Not measured yet: `python -m benchmarks.data --data FOLDER --save`."
    after = f"One thread; the client on another core. {measured_by(report)}"
    return f"{table(found, _COLUMNS)}\n\n{after}"
