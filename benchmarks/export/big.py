"""A forest of 1,000 trees of depth 10: what export and loading take in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.export.models import values

ROOT: Final = Path(__file__).resolve().parents[2]
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
                **_alone("export", str(saved), str(path), str(version)),
            }
            row["bytes"] = path.stat().st_size
            row |= _alone("load", str(path))
            row["times_file"] = row["load_bytes"] / row["bytes"]
            rows.append(row)
    return rows


def _alone(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.export.big", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _export(saved: str, path: str, version: str) -> dict[str, Any]:
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
        version=3 if version == "3" else 5,
        outputs=("prediction",),
    )
    seconds = time.perf_counter() - start
    return {"export_seconds": seconds, "export_peak_bytes": _status("VmHWM")}


def _load(path: str) -> dict[str, Any]:
    """Load a file; its memory is what the peak of the process rises by."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
    before = _status("VmRSS")
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    seconds = time.perf_counter() - start
    peak, stays = _status("VmHWM") - before, _status("VmRSS") - before
    (given,) = session.get_inputs()
    session.run(None, {given.name: np.zeros((1, given.shape[1]), np.float32)})
    return {"load_seconds": seconds, "load_bytes": peak, "loaded_bytes": stays}


def _status(name: str) -> int:
    """Return a size in bytes that Linux keeps of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status must tell {name}.")


if __name__ == "__main__":
    work, *given = sys.argv[1:]
    print(json.dumps(_export(*given) if work == "export" else _load(*given)))
