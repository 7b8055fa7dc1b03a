"""Milliseconds of calls that take turns in one process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.export.runtimes import Loaded
from bitvec.core.arrays import Array

CALLS: Final = {1: 200, 1000: 1}
"""Calls of one turn, by rows: one call with a single row is too short for a clock."""
MOST_SECONDS: Final = 0.1
"""Seconds of one turn, about, at most: slow calls are made fewer times, once at least."""
SLICES: Final = {1: 256, 1000: 8}
"""Parts of the rows that calls go through, so that no branch is learnt by heart."""
ROWS: Final = 8000

SELDOM: Final = 4
RESAMPLES: Final = 2000


def milliseconds(
    loaded: Mapping[str, Loaded], X: Array, rows: int, *, turns: int, seldom: Collection[str] = ()
) -> dict[str, Array]:
    """Return milliseconds of a call with so many rows, by name, one number for each turn.

    What is named in `seldom` takes every fourth turn only, and has NaN for the others.
    """
    starts = np.arange(0, len(X) - rows + 1, rows)[: SLICES[rows]]
    calls = {
        name: [one.call(np.ascontiguousarray(X[start : start + rows])) for start in starts]
        for name, one in loaded.items()
    }
    counts = {name: _count(found, CALLS[rows]) for name, found in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    try:
        for turn in range(turns):
            for name, found in calls.items():
                rests = name in seldom and turn % SELDOM
                taken[name].append(np.nan if rests else _block(found, counts[name], turn))
    finally:
        gc.enable()
    return {name: np.array(values) for name, values in taken.items()}


def _count(calls: Sequence[Callable[[], Any]], most: int) -> int:
    """Return how many calls a turn makes; the first call of all is not timed."""
    calls[0]()
    start = time.perf_counter()
    calls[-1]()
    seconds = time.perf_counter() - start
    return int(np.clip(MOST_SECONDS / max(seconds, 1e-9), 1, most))


def _block(calls: Sequence[Callable[[], Any]], count: int, turn: int) -> float:
    order = [calls[(turn * count + i) % len(calls)] for i in range(count)]
    start = time.perf_counter()
    for call in order:
        call()
    return 1e3 * (time.perf_counter() - start) / count


def ratio(ours: Array, theirs: Array) -> tuple[float, float, float]:
    """Return the ratio of the medians over turns and its 95 % interval, by bootstrap of turns."""
    drawn = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
    ratios = np.median(ours[drawn], axis=1) / np.median(theirs[drawn], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(ours) / np.median(theirs)), float(low), float(high)
