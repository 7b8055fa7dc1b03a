"""Time the engines of one workload against each other, in turns, and check what they answer."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.engine.cells import OURS, digits, is_baseline
from benchmarks.engine.engines import ENGINES, NATIVE, Engine
from benchmarks.engine.workloads import Workload
from benchmarks.report import Row
from benchmarks.runner import say
from benchmarks.worker import CannotRunError
from benchmarks.workers import THREADS, Worker, interpreter

START_SECONDS: Final = 240.0
"""To import, load, convert and compile."""
CALL_SECONDS: Final = 60.0
CHECKED_ROWS: Final = 10_000
SLOW: Final = 4.0
"""Times the best baseline's time beyond which an engine is timed once, not `repeats` times."""
ROUNDING: Final = 1e-5
"""Share of the range of the answers beyond which a row is off."""
FEW: Final = 0.02
"""The share of rows that may be off in another precision."""
HOPELESS: Final = 20.0
"""Times the best baseline's time beyond which an engine is not timed on larger batches."""
LARGE_ENOUGH: Final = 1000
"""Rows from which on time grows with the batch."""
PAUSE: Final = 0.03
"""Seconds before each turn at several threads: other engines' threads stop spinning in it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings of a run.

    Parameters
    ----------
    seconds : float
        Of one turn: calls are repeated for about so long.
    cold : bool
        Whether a start with nothing compiled is timed too.
    """

    repeats: int
    seconds: float
    threads: tuple[int, ...]
    batches: tuple[int, ...]
    baselines: Path | None
    cold: bool


def compare(workload: Workload, folder: Path, engines: Sequence[Engine], plan: Plan) -> list[Row]:
    """Return a row for each batch, number of threads and engine, or one with a reason."""
    rows: list[Row] = []
    workers: dict[str, Worker] = {}
    ready: dict[str, dict[str, Any]] = {}

    def lost(engine: str, reason: str) -> None:
        say(f"{workload.name}: {engine}: {reason}")
        rows.append(without(workload.name, engine, reason))
        workers.pop(engine, None)

    try:
        for engine in engines:
            reason = engine.refuses(workload.name, workload.library)
            if reason is not None:
                rows.append(without(workload.name, engine.name, reason))
                continue
            say(f"{workload.name}: {engine.name} starts")
            try:
                worker = started(
                    engine,
                    folder,
                    workload.asks,
                    baselines=plan.baselines,
                    threads=max(plan.threads),
                )
                workers[engine.name] = worker
                ready[engine.name] = worker.answer(START_SECONDS)
            except CannotRunError as error:
                lost(engine.name, str(error))
        cold = (
            {"cold_seconds": _cold(workload, folder, plan)} if plan.cold and OURS in workers else {}
        )
        n_rows = len(np.load(folder / "X.npy", mmap_mode="r"))
        batches = sorted({min(b, n_rows) for b in plan.batches if b in workload.batches})
        for threads in plan.threads:
            said: dict[str, dict[str, Any]] = {}
            hopeless: dict[str, dict[str, Any]] = {}
            for name, worker in [*workers.items()]:
                try:
                    said[name] = (
                        worker.ask("prepare", within=CALL_SECONDS, threads=threads) | ready[name]
                    )
                except CannotRunError as error:
                    lost(name, str(error))
            differences = _differences(workload, workers, min(CHECKED_ROWS, n_rows), lost)
            for batch in batches:
                say(f"{workload.name}, {batch} rows, {threads} threads")
                turns, reasons = _turns(workers, said | hopeless, batch, threads, plan, lost)
                hopeless |= _hopeless(turns, batch)
                rows += [
                    without(workload.name, name, reason, batch=batch, threads=threads)
                    for name, reason in reasons.items()
                ]
                rows += [
                    timed(workload.name, batch, threads, name, turn)
                    | differences[name]
                    | _said(said[name])
                    | (cold if name == OURS else {})
                    for name, turn in turns.items()
                ]
    finally:
        for worker in workers.values():
            worker.close()
    return rows


def without(
    workload: str,
    engine: str,
    reason: str,
    *,
    batch: int | None = None,
    threads: int | None = None,
) -> Row:
    """Return the row of an engine that did not run."""
    return {
        "workload": workload,
        "batch": batch,
        "threads": threads,
        "engine": engine,
        "reason": reason,
    }


def timed(workload: str, batch: int, threads: int, engine: str, turns: list[Row]) -> Row:
    """Return the row of an engine's turns at one cell."""
    seconds = [turn["seconds"] for turn in turns]
    middle = statistics.median(seconds)
    deviation = statistics.median(abs(s - middle) for s in seconds)
    return {
        "workload": workload,
        "batch": batch,
        "threads": threads,
        "engine": engine,
        "seconds": digits(middle),
        "spread": digits(deviation / middle),
        "repeats": len(turns),
        "calls": sum(turn["calls"] for turn in turns),
        "cpu_over_wall": digits(
            statistics.median(turn["cpu_seconds"] / turn["seconds"] for turn in turns)
        ),
        "idle_cpu": digits(max(turn["idle_cpu"] for turn in turns)),
    }


def _cold(workload: Workload, folder: Path, plan: Plan) -> float | None:
    """Return the seconds of a start with nothing compiled before: load, convert, first call."""
    engine = next(engine for engine in ENGINES if engine.name == OURS)
    with tempfile.TemporaryDirectory() as cache:
        empty = replace(engine, variables=(("NUMBA_CACHE_DIR", cache),))
        worker = started(empty, folder, workload.asks, baselines=None, threads=max(plan.threads))
        try:
            said = worker.answer(START_SECONDS) | worker.ask(
                "prepare", within=CALL_SECONDS, threads=1
            )
        except CannotRunError as error:
            say(f"{workload.name}: {OURS}, nothing compiled: {error}")
            return None
        finally:
            worker.close()
    return digits(_seconds(said))


def _seconds(said: dict[str, Any]) -> float:
    return float(sum(said[k] for k in ("import_seconds", "load_seconds", "first_seconds")))


def _said(said: dict[str, Any]) -> Row:
    return {"warm_up_seconds": digits(_seconds(said)), "info": said["info"]}


def avx2() -> str:
    """Return this processor's features without those of AVX-512, as numba takes them."""
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten().split(",")
    return ",".join("-" + f[1:] if f[1:].startswith(("avx512", "evex512")) else f for f in features)


def started(
    engine: Engine, folder: Path, asks: str, *, baselines: Path | None, threads: int
) -> Worker:
    """Start an engine's process, whose first answer says that it has loaded the model.

    It has the interpreter of this one where its environment is not made.
    """
    variables = dict.fromkeys(THREADS, str(threads))
    variables |= {k: avx2() if value == "AVX2" else value for k, value in engine.variables}
    python = None
    if engine.environment:
        with suppress(CannotRunError):
            python = interpreter(baselines, engine.environment)
    return Worker(
        "benchmarks.engine.worker:Process",
        engine.path,
        folder,
        asks,
        python=python,
        variables=variables,
    )


def _turns(
    workers: dict[str, Worker],
    said: dict[str, dict[str, Any]],
    batch: int,
    threads: int,
    plan: Plan,
    lost: Any,
) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """Return the turns of each engine, and why some have none.

    Each turn of an engine is followed by one of the next, so that what slows the machine for a
    while slows them all.
    """
    turns: dict[str, list[Row]] = {}
    reasons = {
        name: said[name].get("why", "needs too much memory for so many rows")
        for name in workers
        if batch > (said[name]["most_rows"] or batch)
    }

    def turn(name: str, seconds: float) -> Row | None:
        if threads > 1:
            time.sleep(PAUSE)
        try:
            return workers[name].ask("time", within=CALL_SECONDS, batch=batch, seconds=seconds)
        except CannotRunError as error:
            lost(name, f"{error} (at {batch} rows)")
            return None

    first = {
        name: result
        for name in [*workers]
        if name not in reasons
        if (result := turn(name, plan.seconds / 4)) is not None
    }
    least = min((r["seconds"] for r in first.values()), default=0.0)
    baseline = min((r["seconds"] for n, r in first.items() if is_baseline(n)), default=least)
    for _ in range(plan.repeats):
        for name, result in first.items():
            if name not in workers:
                continue
            if result["seconds"] > SLOW * baseline and is_baseline(name):
                turns[name] = [result]
            elif (done := turn(name, plan.seconds)) is not None:
                turns.setdefault(name, []).append(done)
    return {name: turns[name] for name in turns if name in workers}, reasons


def _hopeless(turns: dict[str, list[Row]], batch: int) -> dict[str, dict[str, Any]]:
    """Return what is said of baselines that are so slow that larger batches are left out."""
    if batch < LARGE_ENOUGH:
        return {}
    seconds = {n: min(t["seconds"] for t in ts) for n, ts in turns.items() if is_baseline(n)}
    best = min(seconds.values(), default=0.0)
    why = f"more than {HOPELESS:g} times the best baseline's time on {batch:,} rows"
    return {
        name: {"most_rows": batch, "why": why}
        for name, took in seconds.items()
        if took > HOPELESS * best
    }


def _differences(
    workload: Workload, workers: dict[str, Worker], rows: int, lost: Any
) -> dict[str, Row]:
    """Compare what each engine answers with what the library that trained the model does."""
    answers: dict[str, dict[str, np.ndarray]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, worker) in enumerate([*workers.items()]):
            path = Path(folder) / f"{number}.npz"
            try:
                worker.ask("answer", within=CALL_SECONDS, rows=rows, to=str(path))
            except CannotRunError as error:
                lost(name, str(error))
                continue
            with np.load(path) as kept:
                answers[name] = dict(kept)
    native = answers.get(NATIVE[workload.library])
    return {name: difference(answer, native) for name, answer in answers.items()}


def difference(
    answer: dict[str, np.ndarray], native: dict[str, np.ndarray] | None
) -> dict[str, float | int | None]:
    """Return how far an answer is from the library's own.

    `largest_difference` is that of values or probabilities; `raw_bits_differ` counts raw scores
    that are not the same number, where both have raw scores; `labels_differ` counts rows whose
    labels are others, where labels are asked for. `same_model` says whether few rows are off by
    more than rounding: an engine that reads thresholds in another precision routes some rows
    otherwise and counts as a baseline, one that answers another question does not.
    """
    found: dict[str, float | int | None] = {
        "largest_difference": None,
        "raw_bits_differ": None,
        "labels_differ": None,
        "same_model": None,
    }
    if native is None:
        return found
    ours, theirs = _columns(answer["scores"]), _columns(native["scores"])
    # Of two classes some answer with one column, others with two.
    width = min(ours.shape[1], theirs.shape[1])
    apart = np.abs(ours[:, -width:] - theirs[:, -width:])
    found["largest_difference"] = digits(float(apart.max()))
    if "raw" in answer and "raw" in native:
        a, b = _columns(answer["raw"]), _columns(native["raw"])
        found["raw_bits_differ"] = int(np.count_nonzero(a != b)) if a.shape == b.shape else a.size
    off = apart.max(axis=1) > ROUNDING * np.ptp(theirs)
    if native["asked"].dtype.kind in "iu":
        off = answer["asked"].ravel() != native["asked"]
        found["labels_differ"] = int(np.count_nonzero(off))
    found["same_model"] = bool(np.mean(off) <= FEW)
    return found


def _columns(scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores, np.float64).reshape(len(scores), -1)
