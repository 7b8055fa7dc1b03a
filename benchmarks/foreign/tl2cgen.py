"""tl2cgen: C of treelite's model, its thresholds and leaves in nested if and else."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.jobs import Job, read

PARTS: Final = 50
"""Files of C: a compiler takes far longer for all trees in one."""
FLAGS: Final = ("-std=c99", "-O2", "-fPIC")


def run(folder: str) -> dict[str, Any]:
    """Export the model of a job, compile it, and answer the rows."""
    import tl2cgen

    job = read(folder)
    model, code = _treelite(job), job.folder / "code"
    start = time.perf_counter()
    tl2cgen.generate_c_code(model, str(code), params={"parallel_comp": PARTS})
    export_seconds = time.perf_counter() - start
    start = time.perf_counter()
    object_bytes = _compiled(code)
    compile_seconds = time.perf_counter() - start
    predictor = tl2cgen.Predictor(str(code / "predictor.so"), nthread=1)
    scores = predictor.predict(tl2cgen.DMatrix(job.rows["X"], dtype="float32"))
    scores = scores.reshape(len(scores), -1)
    if job.facts["is_classifier"] and scores.shape[1] == 1:
        scores = np.concatenate([1 - scores, scores], axis=1)
    job.answer(scores=scores)
    return {
        "export_seconds": export_seconds,
        "load_seconds": compile_seconds,
        "object_bytes": object_bytes,
    }


def _compiled(code: Path) -> int | None:
    """Compile and link all files; return text and data of their objects."""
    sources = sorted(code.glob("*.c"))
    objects = [str(path.with_suffix(".o")) for path in sources]
    for path, made in zip(sources, objects, strict=True):
        subprocess.run(["cc", *FLAGS, "-c", str(path), "-o", made], check=True)
    library = str(code / "predictor.so")
    subprocess.run(["cc", "-shared", "-o", library, *objects, "-lm"], check=True)
    if shutil.which("size") is None:
        return None
    told = subprocess.run(["size", *objects], capture_output=True, text=True, check=True)
    lines = [line.split() for line in told.stdout.splitlines()[1:]]
    return sum(int(text) + int(data) for text, data, *_ in lines)


def _treelite(job: Job) -> Any:
    import treelite

    model = job.model()
    if job.facts["library"] == "sklearn":
        return treelite.sklearn.import_model(model)
    if job.facts["library"] == "xgboost":
        return treelite.frontend.from_xgboost(model.get_booster())
    return treelite.frontend.from_lightgbm(model)
