"""emlearn: C with nested if and else, leaves as shares of classes in 8 bits or as values."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from benchmarks.jobs import read

LEAF_BITS = 8
"""The finest that emlearn has; its default is a vote of whole trees."""


def run(folder: str) -> dict[str, Any]:
    """Export the model of a job and answer the rows; `votes` asks for its defaults."""
    import emlearn

    job = read(folder)
    model, X = job.model(), job.rows["X"]
    if not job.facts["is_classifier"]:
        options = {"return_type": "regressor"}
    else:
        options = {} if job.facts.get("votes") else {"leaf_bits": LEAF_BITS}
    # It compiles what it answers with; the compiler takes minutes to optimise that.
    os.environ["CFLAGS"] = "-O0"
    start = time.perf_counter()
    made = emlearn.convert(model, method="inline", dtype="float", **options)
    code = made.save(file=str(job.folder / "model.h"), name="model")
    export_seconds = time.perf_counter() - start
    if job.facts["is_classifier"]:
        scores = np.asarray(made.predict_proba(X))
        job.answer(scores=scores, label=model.classes_[np.asarray(made.predict(X))])
    else:
        job.answer(scores=np.asarray(made.predict(X)).reshape(len(X), -1))
    assert code
    (job.folder / "use.c").write_text('#include "model.h"\n', "ascii")
    return {"export_seconds": export_seconds}
