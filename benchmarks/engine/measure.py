"""Time the engines of one workload against each other, in turns, and check what they answer."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.engine.cells import OURS, Cell, digits, is_baseline
from benchmarks.engine.engines import ENGINES, NATIVE, Engine
from benchmarks.engine.workloads import Workload
from benchmarks.report import Row
from benchmarks.runner import say
from benchmarks.worker import CannotRunError
from benchmarks.workers import THREADS, Worker, interpreter

START_SECONDS: Final = 120.0
"""To import, load, convert and compile."""
CALL_SECONDS: Final = 60.0
CHECKED_ROWS: Final = 10_000
SLOW: Final = 4.0
"""Times the best baseline's time beyond which any but bitvec itself is timed once, shortly."""
STEADY: Final = 0.03
"""Share that the last two turns may differ by where no more are needed."""
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
    repeats : int
        Turns of each engine; fewer where ours and the best baseline's are steady.
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


@dataclass(slots=True)
class _Running:
    """The processes of a workload's engines, and the rows so far; who cannot go on leaves."""

    workload: Workload
    folder: Path
    plan: Plan
    workers: dict[str, Worker] = field(default_factory=dict)
    ready: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def start(self, engine: Engine) -> None:
        """Start an engine, unless it gave no answer in an earlier run."""
        reason = engine.refuses(self.workload.name, self.workload.library)
        unready = self._unready(engine.name)
        if reason is None and unready.exists():
            reason = unready.read_text(encoding="utf-8")
        if reason is not None:
            self.rows.append(without(self.workload.name, engine.name, reason))
            return
        say(f"{self.workload.name}: {engine.name} starts")
        baselines, threads = self.plan.baselines, max(self.plan.threads)
        try:
            self.workers[engine.name] = started(
                engine, self.folder, self.workload.asks, baselines=baselines, threads=threads
            )
            self.ready[engine.name] = self.workers[engine.name].answer(START_SECONDS)
        except CannotRunError as error:
            self.lost(engine.name, str(error))

    def _unready(self, name: str) -> Path:
        """Return the file beside the model that says why another's engine could not be timed."""
        return self.folder / f"{name}.unready"

    def lost(self, name: str, reason: str) -> None:
        """Tell why an engine leaves; later runs do not wait for what gave no answer at all."""
        say(f"{self.workload.name}: {name}: {reason}")
        is_timed = any(row.get("engine") == name and "seconds" in row for row in self.rows)
        if reason.startswith("no answer in") and is_baseline(name) and not is_timed:
            self._unready(name).write_text(f"{reason} (in an earlier run)", encoding="utf-8")
        self.rows.append(without(self.workload.name, name, reason))
        self.workers.pop(name, None)

    def ask(self, name: str, do: str, *, at: str = "", **request: Any) -> dict[str, Any] | None:
        """Return what an engine answers to a request; None if it cannot, and leaves."""
        try:
            return self.workers[name].ask(do, within=CALL_SECONDS, **request)
        except CannotRunError as error:
            self.lost(name, f"{error}{at}")
            return None


def compare(workload: Workload, folder: Path, engines: Sequence[Engine], plan: Plan) -> list[Row]:
    """Return a row for each batch, number of threads, answer and engine, or one with a reason."""
    running = _Running(workload, folder, plan)
    try:
        for engine in engines:
            running.start(engine)
        cold = {}
        if plan.cold and OURS in running.workers:
            say(f"{workload.name}: {OURS} with nothing compiled")
            cold[OURS] = {"cold_seconds": _cold(workload, folder, plan)}
        n_rows = len(np.load(folder / "X.npy", mmap_mode="r"))
        batches = sorted({min(b, n_rows) for b in plan.batches if b in workload.batches})
        limited = {engine.name for engine in engines if engine.limited}
        for threads in plan.threads:
            say(f"{workload.name}: answers, {threads} threads")
            names = [n for n in running.workers if threads == 1 or n not in limited]
            asked = {name: running.ask(name, "prepare", threads=threads) for name in names}
            said = {n: answer | running.ready[n] for n, answer in asked.items() if answer}
            if OURS in said and threads == plan.threads[0]:
                counted = running.ask(OURS, "counts") or {}
                running.rows.append({"workload": workload.name, "figure": "counts"} | counted)
            for answer, told in _differences(running, [*said]).items():
                facts = {n: t | _said(said[n]) | cold.get(n, {}) for n, t in told.items()}
                known = {name: said[name] for name in told}
                for batch in batches:
                    cell = Cell(workload.name, batch, threads, answer == "raw")
                    here = {n: k for n, k in known.items() if cell.takes(limited=n in limited)}
                    turns = _turns(running, here, cell) if here else {}
                    known |= _hopeless(turns, batch)
                    running.rows += [
                        timed(cell, answer, n, turn) | facts[n] for n, turn in turns.items()
                    ]
    finally:
        for worker in running.workers.values():
            worker.close()
    return running.rows


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


def timed(cell: Cell, answer: str, engine: str, turns: list[Row]) -> Row:
    """Return the row of an engine's turns at one cell, which says of what answer it is."""
    seconds = [turn["seconds"] for turn in turns]
    middle = statistics.median(seconds)
    deviation = statistics.median(abs(s - middle) for s in seconds)
    return {
        "workload": cell.workload,
        "batch": cell.batch,
        "threads": cell.threads,
        "answer": answer,
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


def _turns(running: _Running, said: dict[str, dict[str, Any]], cell: Cell) -> dict[str, list[Row]]:
    """Return the turns of each engine, the first of them short; rows tell why some have none.

    Each turn of an engine is followed by one of the next, so that what slows the machine for a
    while slows them all.
    """
    say(f"{cell.workload}, {cell.batch} rows, {cell.threads} threads{', raw' * cell.raw}")
    plan, turns = running.plan, defaultdict[str, list[Row]](list)

    def take(names: Iterable[str], seconds: float) -> None:
        for name in [name for name in names if name in running.workers]:
            if cell.threads > 1:
                time.sleep(PAUSE)
            facts = {"batch": cell.batch, "seconds": seconds, "raw": cell.raw}
            done = running.ask(name, "time", at=f" (at {cell.batch} rows)", **facts)
            if done is not None:
                turns[name].append(done)

    def least(name: str) -> float:
        return min(turn["seconds"] for turn in turns[name])

    def best() -> str:
        return min([name for name in turns if is_baseline(name)] or turns, key=least)

    def fast(name: str) -> bool:
        return name == OURS or least(name) <= SLOW * least(best())

    def steady(name: str) -> bool:
        before, last = (turn["seconds"] for turn in turns[name][-2:])
        return abs(last / before - 1) < STEADY

    for name, told in said.items():
        if cell.batch > (told["most_rows"] or cell.batch):
            why = told.get("why", "needs too much memory for so many rows")
            facts = {"batch": cell.batch, "threads": cell.threads}
            running.rows.append(without(cell.workload, name, why, **facts))
        else:
            take([name], plan.seconds / 4)
    if cell.threads > 1:  # what waits for a core now and then looks slow by one turn
        short = [name for name in turns if least(name) < plan.seconds]
        take([name for name in short if not fast(name)], plan.seconds / 4)
    again = [name for name in turns if fast(name)]
    for _ in range(plan.repeats):
        take(again, plan.seconds)
        again = [name for name in again if name in running.workers]
        if all(steady(name) for name in again if name == best() or not is_baseline(name)):
            break
    return {name: found for name, found in turns.items() if name in running.workers}


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


def _differences(running: _Running, names: Sequence[str]) -> dict[str, dict[str, Row]]:
    """Compare what engines answer with what the library that trained the model does.

    By answer, then by engine: what is asked for, and raw scores where they are something else.
    """
    answers: dict[str, dict[str, np.ndarray]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(names):
            path = Path(folder) / f"{number}.npz"
            if running.ask(name, "answer", rows=CHECKED_ROWS, to=str(path)) is not None:
                with np.load(path) as kept:
                    answers[name] = dict(kept)
    of_library = NATIVE[running.workload.library]
    native = answers.get(of_library)
    asked = {name: difference(answer, native) for name, answer in answers.items()}
    found: dict[str, dict[str, Row]] = {running.workload.asks: asked}
    own = native or {}
    if "raw" in own and not np.array_equal(own["raw"], own["scores"]):
        kinds = ("asked", "scores", "raw")
        raw = {n: dict.fromkeys(kinds, a["raw"]) for n, a in answers.items() if "raw" in a}
        found["raw"] = {name: difference(a, raw[of_library]) for name, a in raw.items()}
    return found


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
