"""Figures of bitvec alone, each in a process of its own.

`nan`, `sets`, ... are what such a process does in a workload's folder; `figure` starts them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.engine.cells import digits
from benchmarks.report import Row
from benchmarks.worker import CannotRunError
from benchmarks.workers import alone

BATCH: Final = 10_000
PAIRS: Final = 41
CHAIN: Final = 1_000_000


def nan(place: str) -> dict[str, Any]:
    """Time rows of which a tenth is NaN against the same rows without, in pairs."""
    folder = Path(place)
    import bitvec
    from benchmarks.engine.engines.calls import read_job
    from benchmarks.engine.engines.of_bitvec import converted

    X = np.load(folder / "X.npy")[:BATCH]
    missing = np.where(np.random.default_rng(6).random(X.shape) < 0.1, np.float32(np.nan), X)
    predict = bitvec.compile(converted(read_job(folder, "values")), n_jobs=1).predict
    return _pairs(lambda: predict(missing), lambda: predict(X))


def sets(place: str) -> dict[str, Any]:
    """Time a forest with categorical sets against the same trees with numeric tests instead."""
    folder = Path(place)
    import dataclasses

    import bitvec
    from benchmarks.engine.engines.calls import read_job
    from benchmarks.engine.engines.of_bitvec import converted
    from bitvec.core.node_tests import Kind

    forest = converted(read_job(folder, "values"))
    tests = forest.tests
    is_set = tests.kind == Kind.SET
    words = [
        tests.set_words[tests.set_ptr[node] : tests.set_ptr[node + 1]].tobytes()
        for node in np.flatnonzero(is_set)
    ]
    column = tests.column[tests.row_ptr[tests.node_ptr[:-1]]][is_set]
    half = np.median(np.load(folder / "X.npy", mmap_mode="r")[:, 0])
    stand_in = dataclasses.replace(
        forest,
        tests=dataclasses.replace(
            tests,
            kind=np.zeros_like(tests.kind),
            b=np.where(is_set, tests.b.dtype.type(half + 0.5), tests.b),
            other_right=np.zeros_like(tests.other_right),
            set_ptr=np.zeros_like(tests.set_ptr),
            set_words=tests.set_words[:0],
        ),
    )
    X = np.load(folder / "X.npy")[:BATCH]
    ours, numeric = (bitvec.compile(f, n_jobs=1).predict for f in (forest, stand_in))
    found = {
        "nodes": forest.n_nodes,
        "set_nodes": int(is_set.sum()),
        "distinct_sets": len(set(zip(column.tolist(), words, strict=True))),
    }
    return found | _pairs(lambda: ours(X), lambda: numeric(X))


def cycles(place: str) -> dict[str, Any]:
    """Count cycles a row by CPU time and a clock that is measured in between.

    The clock is that of a chain of four dependent one-cycle operations. A guest system seldom has
    a counter of cycles, so none is used.
    """
    folder = Path(place)
    import bitvec
    from benchmarks.engine.engines.calls import read_job
    from benchmarks.engine.engines.of_bitvec import converted

    X = np.load(folder / "X.npy")[:BATCH]
    predictor = bitvec.compile(converted(read_job(folder, "values")), n_jobs=1)
    predictor.predict(X)
    found = []
    for _ in range(PAIRS):
        hertz = clock()
        found.append((_cpu(lambda: predictor.predict(X)) / len(X) * hertz, hertz))
    counts, clocks = (sorted(values) for values in zip(*found, strict=True))
    info = predictor.info()
    return {
        "cycles": counts[PAIRS // 2],
        "least_cycles": counts[0],
        "gigahertz": clocks[PAIRS // 2] / 1e9,
        "info": info,
    }


@cache
def _chain() -> Callable[[int], Any]:
    from numba import njit

    @njit
    def chain(n):  # type: ignore[no-untyped-def]
        x = np.uint64(1)
        for _ in range(n):
            x = x ^ (x << np.uint64(1))
            x = x ^ (x >> np.uint64(3))
        return x

    chain(10)
    made: Callable[[int], Any] = chain
    return made


def clock() -> float:
    """Return the cycles of a second, by a chain of four dependent one-cycle operations."""
    chain = _chain()
    return 4 * CHAIN / _cpu(lambda: chain(CHAIN))


def memory(place: str) -> dict[str, Any]:
    """Say how large the packed form is, if the engine tells."""
    folder = Path(place)
    import bitvec
    from benchmarks.engine.engines.calls import read_job
    from benchmarks.engine.engines.of_bitvec import converted

    forest = converted(read_job(folder, "labels"))
    info = bitvec.compile(forest, n_jobs=1, warm=True).info()
    return {"packed_bytes": info.get("packed_bytes"), "nodes": forest.n_nodes, "info": info}


def saved(place: str) -> dict[str, Any]:
    """Keep the forest of the model, for `first`, and fill numba's cache."""
    folder = Path(place)
    import bitvec
    from benchmarks.engine.engines.calls import read_job
    from benchmarks.engine.engines.of_bitvec import converted

    forest = converted(read_job(folder, "values"))
    bitvec.save(forest, folder / "forest.safetensors")
    bitvec.compile(forest, warm=True).predict(np.load(folder / "X.npy", mmap_mode="r")[:1])
    return {}


def _cpu(work: Callable[[], Any]) -> float:
    """Return CPU seconds of the process: other processes do not lengthen them, as they do time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _pairs(one: Callable[[], Any], other: Callable[[], Any]) -> dict[str, Any]:
    for _ in range(3):
        one()
        other()
    found = []
    for turn in range(PAIRS):
        # Who goes first changes, so that neither profits of the other's work.
        if turn % 2:
            after = _cpu(other)
            found.append((_cpu(one), after))
        else:
            found.append((_cpu(one), _cpu(other)))
    return {"pairs": found}


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
    ("floors", "digits tree"),
    ("frames", "adult frame"),
    ("sparse", "sparse rows"),
    ("first prediction", "W1"),
)


_MODULES: Final = {
    "first": "foreign.first",
    "floors": "engine.floors",
    "frames": "engine.containers",
    "sparse": "engine.containers",
}
"""Modules that measure what this one does not."""


def figure(what: str, workload: str, folder: Path) -> Row:
    """Return the row of one figure, or one with the reason why there is none."""
    row: Row = {"workload": workload, "figure": what}
    try:
        return row | _MEASURES[what](folder)
    except CannotRunError as error:
        return row | {"reason": str(error)}


def _alone(what: str, folder: Path, **variables: str) -> dict[str, Any]:
    place = f"benchmarks.{_MODULES.get(what, 'engine.alone')}:{what}"
    return alone(place, folder, within=SECONDS, variables=variables)


def interval(pairs: np.ndarray) -> tuple[float, float, float]:
    """Return the median ratio of pairs and its 95 % interval by bootstrap."""
    ratios = pairs[:, 0] / pairs[:, 1]
    drawn = np.random.default_rng(0).integers(0, len(ratios), (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), (0.025, 0.975))
    return digits(float(np.median(ratios))), digits(float(low)), digits(float(high))


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
        "cycles": digits(found["cycles"]),
        "least_cycles": digits(found["least_cycles"]),
        "gigahertz": digits(found["gigahertz"]),
        "method": method,
        "info": found["info"],
    }


def _memory(folder: Path) -> Row:
    found = _alone("memory", folder)
    packed = found["packed_bytes"]
    each = None if packed is None else digits(packed / found["nodes"])
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
        "seconds": digits(statistics.median(w["seconds"] for w in warm)),
        "least_seconds": digits(min(w["seconds"] for w in warm)),
        "load_seconds": digits(statistics.median(w["load_seconds"] for w in warm)),
        "first_seconds": digits(statistics.median(w["first_seconds"] for w in warm)),
        "cold_seconds": digits(cold["seconds"]),
    }


_MEASURES: Final[dict[str, Callable[[Path], Row]]] = {
    "nan": _ratio("nan"),
    "few sets": _ratio("sets"),
    "many sets": _ratio("sets"),
    "cycles": _cycles,
    "memory": _memory,
    **{what: partial(_alone, what) for what in ("floors", "frames", "sparse")},
    "first prediction": _first,
}
