"""The process of one engine, which `benchmarks.worker` serves.

It runs in environments of other libraries, so it imports nothing but NumPy and that engine.
"""

from __future__ import annotations

import gc
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.engine.engines.calls import Calls, read_job

PARTS = 512
"""Slices of the rows that small batches go through, so that no branch can be learnt by heart."""

FEW: Final = 10_000
"""Rows below which a first call may compile what no call before it did: it is not timed."""


class Process:
    """An engine, its calls for one number of threads, and the rows."""

    def __init__(self, path: str, folder: str, asks: str) -> None:
        start = time.perf_counter()
        module, _, name = path.partition(":")
        made = import_module(f"benchmarks.engine.engines.{module}")
        imported = time.perf_counter()
        job = read_job(Path(folder), asks)
        self.engine: Any = getattr(made, name)(job)
        self.ready = {
            "import_seconds": imported - start,
            "load_seconds": time.perf_counter() - imported,
        }
        self.X = job.rows()
        self.calls: Calls
        self._limits: Any = None
        self._parts: dict[tuple[int, bool], list[Any]] = {}
        self._since = (0.0, 0.0)
        self.rest()

    def rest(self) -> None:
        """Remember when work ended, to see whether threads go on spinning."""
        self._since = (time.perf_counter(), time.process_time())

    def prepare(self, threads: int) -> dict[str, Any]:
        """Make the calls of so many threads, and the first of them."""
        self._limit(threads)
        start = time.perf_counter()
        self.calls = self.engine.calls(threads)
        self._parts = {}
        self.calls.predict(self.calls.rows(self.X[:100]))
        first = time.perf_counter() - start
        self.rest()
        return {"first_seconds": first, "info": self.calls.info, "most_rows": self.calls.most_rows}

    def _limit(self, threads: int) -> None:
        """Limit OpenMP and BLAS, whose threads are not all set by the engines' own options."""
        try:
            from threadpoolctl import threadpool_limits
        except ImportError:
            return
        self._limits = threadpool_limits(threads)

    def counts(self) -> dict[str, Any]:
        """Return what a row takes of the model, if the engine counts it."""
        return self.calls.counts(self.X) if self.calls.counts is not None else {}

    def answer(self, rows: int, to: str) -> dict[str, Any]:
        """Write what the first rows give."""
        X = self.calls.rows(self.X[:rows])
        calls = {"asked": self.calls.predict, "scores": self.calls.scores, "raw": self.calls.raw}
        found = {call: np.asarray(call(X)) for call in {*calls.values()} if call is not None}
        np.savez(to, **{name: found[call] for name, call in calls.items() if call is not None})
        self.rest()
        return {}

    def time(self, batch: int, seconds: float, *, raw: bool) -> dict[str, Any]:
        """Call again and again, for about so long; return seconds a call.

        Raw scores are asked for, or the answer of the job.
        """
        call = self.calls.raw if raw else self.calls.predict
        wall, cpu = self._since
        idle = (time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9)
        is_new = (batch, raw) not in self._parts
        parts = self._slices(batch, raw=raw)
        if is_new and batch < FEW:
            call(parts[0])
        calls, (wall, cpu) = 1, _timed(call, parts[:1])
        while wall < seconds / 2:
            calls = max(2 * calls, int(calls * seconds / wall))
            wall, cpu = _timed(call, [parts[i % len(parts)] for i in range(calls)])
        self.rest()
        return {
            "seconds": wall / calls,
            "cpu_seconds": cpu / calls,
            "calls": calls,
            "idle_cpu": idle,
        }

    def _slices(self, batch: int, *, raw: bool) -> list[Any]:
        if (batch, raw) not in self._parts:
            starts = np.arange(0, len(self.X) - batch + 1, batch)[:PARTS]
            parts = [self.calls.rows(self.X[s : s + batch]) for s in starts]
            self._parts = {(batch, raw): parts}
        return self._parts[batch, raw]


def _timed(call: Any, parts: list[Any]) -> tuple[float, float]:
    """Return seconds and CPU seconds of a call with each part."""
    gc.disable()
    cpu, wall = time.process_time(), time.perf_counter()
    for part in parts:
        call(part)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    gc.enable()
    return wall, cpu
