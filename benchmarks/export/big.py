"""A forest of 1,000 trees of depth 10: what export and loading take in a process of their own."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.export.models import values
from benchmarks.worker import held, reset_peak
from benchmarks.workers import alone

TREES: Final = 1000
DEPTH: Final = 10
VERSIONS: Final = (5, 3)
NAME: Final = "RandomForest, 1,000 trees of depth 10"


def measured(share: float) -> list[dict[str, Any]]:
    """Return one row for each version of `tree_ensemble`."""
    from sklearn.ensemble import RandomForestRegressor

    import bitvec

    X, y = values()
    model = RandomForestRegressor(
        max(2, int(TREES * share)),
        max_depth=DEPTH,
        max_features="sqrt",
        max_samples=5000,
        random_state=0,
        n_jobs=2,
    )
    forest = bitvec.convert(model.fit(X, y))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "forest.safetensors"
        bitvec.save(forest, saved)
        for version in VERSIONS:
            path = Path(folder) / f"{version}.onnx"
            row = {
                "what": "big",
                "model": NAME,
                "form": f"tree_ensemble {version}",
                "trees": forest.n_trees,
                "nodes": forest.n_nodes,
                **alone("benchmarks.export.big:export", saved, path, version),
            }
            row["bytes"] = path.stat().st_size
            row |= alone("benchmarks.export.big:load", path)
            row["times_file"] = row["load_bytes"] / row["bytes"]
            rows.append(row)
    return rows


def export(saved: str, path: str, version: int) -> dict[str, Any]:
    """Export a saved forest; the peak is of the whole process, with Python and its libraries."""
    import bitvec
    from bitvec.core.forest import Forest

    forest = bitvec.load(saved)
    assert isinstance(forest, Forest)
    start = time.perf_counter()
    bitvec.export(
        forest,
        path,
        form="tree_ensemble",
        version=3 if version == 3 else 5,
        outputs=("prediction",),
    )
    seconds = time.perf_counter() - start
    return {"export_seconds": seconds, "export_peak_bytes": held()}


def load(path: str) -> dict[str, Any]:
    """Load a file; its memory is what the peak of the process rises by."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    before = reset_peak()
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    seconds = time.perf_counter() - start
    peak, stays = held() - before, held("VmRSS") - before
    (given,) = session.get_inputs()
    session.run(None, {given.name: np.zeros((1, given.shape[1]), np.float32)})
    return {"load_seconds": seconds, "load_bytes": peak, "loaded_bytes": stays}
