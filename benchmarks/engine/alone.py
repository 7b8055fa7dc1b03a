"""Figures of bitvec alone, each in a process of its own.

    python -m benchmarks.engine.alone WHAT FOLDER

The parent (`figures`) starts these processes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.old_worker import serve

BATCH: Final = 10_000
PAIRS: Final = 41
CHAIN: Final = 1_000_000


def first(folder: Path) -> dict[str, float]:
    """Load a saved forest and predict one row; the parent measures from before the process."""
    import numpy as np

    start = time.perf_counter()
    import bitvec

    forest = bitvec.load(folder / "forest.safetensors")
    loaded = time.perf_counter()
    predictor = bitvec.compile(forest)
    X = np.load(folder / "X.npy", mmap_mode="r")[:1]
    predictor.predict(np.ascontiguousarray(X))
    return {
        "load_seconds": loaded - start,
        "first_seconds": time.perf_counter() - loaded,
        "at": time.time(),
    }


def nan(folder: Path) -> dict[str, Any]:
    """Time rows of which a tenth is NaN against the same rows without, in pairs."""
    import numpy as np

    import bitvec
    from benchmarks.engine.engines.calls import read_job
    from benchmarks.engine.engines.of_bitvec import converted

    X = np.load(folder / "X.npy")[:BATCH]
    missing = np.where(np.random.default_rng(6).random(X.shape) < 0.1, np.float32(np.nan), X)
    predict = bitvec.compile(converted(read_job(folder, "values")), n_jobs=1).predict
    return _pairs(lambda: predict(missing), lambda: predict(X))


def sets(folder: Path) -> dict[str, Any]:
    """Time a forest with categorical sets against the same trees with numeric tests instead."""
    import dataclasses

    import numpy as np

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


def cycles(folder: Path) -> dict[str, Any]:
    """Count cycles a row by CPU time and a clock that is measured in between.

    The clock is that of a chain of four dependent one-cycle operations. A guest system seldom has
    a counter of cycles, so none is used.
    """
    import numpy as np
    from numba import njit

    import bitvec
    from benchmarks.engine.engines.calls import read_job
    from benchmarks.engine.engines.of_bitvec import converted

    @njit
    def chain(n):  # type: ignore[no-untyped-def]
        x = np.uint64(1)
        for _ in range(n):
            x = x ^ (x << np.uint64(1))
            x = x ^ (x >> np.uint64(3))
        return x

    X = np.load(folder / "X.npy")[:BATCH]
    predictor = bitvec.compile(converted(read_job(folder, "values")), n_jobs=1)
    predictor.predict(X)
    chain(10)
    found = []
    for _ in range(PAIRS):
        clock = 4 * CHAIN / _cpu(lambda: chain(CHAIN))
        found.append((_cpu(lambda: predictor.predict(X)) / len(X) * clock, clock))
    counts, clocks = (sorted(values) for values in zip(*found, strict=True))
    info = predictor.info()
    return {
        "cycles": counts[PAIRS // 2],
        "least_cycles": counts[0],
        "gigahertz": clocks[PAIRS // 2] / 1e9,
        "info": info,
    }


def memory(folder: Path) -> dict[str, Any]:
    """Say how large the packed form is, if the engine tells."""
    import bitvec
    from benchmarks.engine.engines.calls import read_job
    from benchmarks.engine.engines.of_bitvec import converted

    forest = converted(read_job(folder, "labels"))
    info = bitvec.compile(forest, n_jobs=1, warm=True).info()
    return {"packed_bytes": info.get("packed_bytes"), "nodes": forest.n_nodes, "info": info}


def saved(folder: Path) -> dict[str, Any]:
    """Keep the forest of the model, for `first`, and fill numba's cache."""
    import numpy as np

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


WHAT: Final[dict[str, Callable[[Path], dict[str, Any]]]] = {
    work.__name__: work for work in (first, nan, sets, cycles, memory, saved)
}

if __name__ == "__main__":
    serve(lambda: WHAT[sys.argv[1]](Path(sys.argv[2])))
