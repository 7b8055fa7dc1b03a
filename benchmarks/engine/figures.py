"""Figures of bitvec alone: NaN, categories, cycles, memory, the first prediction."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.engine.measure import rounded
from benchmarks.old_report import Row
from benchmarks.old_runner import say
from benchmarks.old_worker import CannotRunError
from benchmarks.old_workers import alone

SECONDS: Final = 300.0
RESAMPLES: Final = 2000
PROCESSES: Final = 7

# Who measures what, on which workload.
FIGURES: Final = (
    ("nan", "W1"),
    ("few sets", "few sets"),
    ("many sets", "many sets"),
    ("cycles", "W1"),
    ("memory", "W3"),
    ("first prediction", "W1"),
)


def figure(what: str, workload: str, folder: Path) -> Row:
    """Return the row of one figure, or one with the reason why there is none."""
    say(f"{what}, {workload}")
    row: Row = {"workload": workload, "figure": what}
    try:
        return row | _MEASURES[what](folder)
    except CannotRunError as error:
        return row | {"reason": str(error)}


def _alone(what: str, folder: Path, **variables: str) -> dict[str, Any]:
    return alone("benchmarks.engine.alone", what, str(folder), within=SECONDS, variables=variables)


def interval(pairs: np.ndarray) -> tuple[float, float, float]:
    """Return the median ratio of pairs and its 95 % interval by bootstrap."""
    ratios = pairs[:, 0] / pairs[:, 1]
    drawn = np.random.default_rng(0).integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), (0.025, 0.975))
    return rounded(float(np.median(ratios))), rounded(float(low)), rounded(float(high))


def _ratio(what: str) -> Callable[[Path], Row]:
    def measured(folder: Path) -> Row:
        found = _alone(what, folder)
        ratio, low, high = interval(np.array(found.pop("pairs")))
        return found | {"ratio": ratio, "low": low, "high": high}

    return measured


def _cycles(folder: Path) -> Row:
    found = _alone("cycles", folder)
    method = "CPU time x a clock measured by a chain of dependent operations"
    return {
        "cycles": rounded(found["cycles"]),
        "least_cycles": rounded(found["least_cycles"]),
        "gigahertz": rounded(found["gigahertz"]),
        "method": method,
        "info": found["info"],
    }


def _memory(folder: Path) -> Row:
    found = _alone("memory", folder)
    packed = found["packed_bytes"]
    each = None if packed is None else rounded(packed / found["nodes"])
    return {"nodes": found["nodes"], "packed_bytes": packed, "bytes_a_node": each}


def _first(folder: Path) -> Row:
    """Time processes from before they start until they have predicted one row."""

    def once(cache: str) -> dict[str, float]:
        start = time.time()
        found = _alone("first", folder, NUMBA_CACHE_DIR=cache)
        return found | {"seconds": found["at"] - start}

    with tempfile.TemporaryDirectory() as cache:
        _alone("saved", folder, NUMBA_CACHE_DIR=cache)
        warm = [once(cache) for _ in range(PROCESSES)]
    with tempfile.TemporaryDirectory() as cache:
        cold = once(cache)
    return {
        "seconds": rounded(statistics.median(w["seconds"] for w in warm)),
        "least_seconds": rounded(min(w["seconds"] for w in warm)),
        "load_seconds": rounded(statistics.median(w["load_seconds"] for w in warm)),
        "first_seconds": rounded(statistics.median(w["first_seconds"] for w in warm)),
        "cold_seconds": rounded(cold["seconds"]),
    }


_MEASURES: Final[dict[str, Callable[[Path], Row]]] = {
    "nan": _ratio("nan"),
    "few sets": _ratio("sets"),
    "many sets": _ratio("sets"),
    "cycles": _cycles,
    "memory": _memory,
    "first prediction": _first,
}
