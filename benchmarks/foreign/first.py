"""The first prediction of a process, which has imported nothing but Python's own before."""

from __future__ import annotations

import time


def first(folder: str) -> dict[str, float]:
    """Load a saved forest and predict one row; the parent measures from before the process."""
    import numpy as np

    start = time.perf_counter()
    import bitvec

    forest = bitvec.load(f"{folder}/forest.safetensors")
    loaded = time.perf_counter()
    predictor = bitvec.compile(forest)
    X = np.load(f"{folder}/X.npy", mmap_mode="r")[:1]
    predictor.predict(np.ascontiguousarray(X))
    return {
        "load_seconds": loaded - start,
        "first_seconds": time.perf_counter() - loaded,
        "at": time.time(),
    }
