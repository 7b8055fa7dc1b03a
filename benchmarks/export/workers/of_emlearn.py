"""emlearn: C with nested if and else, leaves as shares of classes in 8 bits or as values."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np

from benchmarks.export.workers.job import Job
from benchmarks.old_worker import serve

LEAF_BITS = 8
"""The finest that emlearn has; its default is a vote of whole trees."""


def main() -> dict[str, Any]:
    """Export the model of a job and answer the rows."""
    import emlearn

    job = Job(sys.argv[1])
    model, X = job.model(), job.X
    options = {"leaf_bits": LEAF_BITS} if job.is_classifier else {"return_type": "regressor"}
    # It compiles what it answers with; the compiler takes minutes to optimise that.
    os.environ["CFLAGS"] = "-O0"
    start = time.perf_counter()
    made = emlearn.convert(model, method="inline", dtype="float", **options)
    code = made.save(file=str(job.folder / "model.h"), name="model")
    export_seconds = time.perf_counter() - start
    if job.is_classifier:
        scores = np.asarray(made.predict_proba(X))
        job.answer(scores=scores, label=model.classes_[np.asarray(made.predict(X))])
    else:
        job.answer(scores=np.asarray(made.predict(X)).reshape(len(X), -1))
    assert code
    (job.folder / "use.c").write_text('#include "model.h"\n', "ascii")
    return {"export_seconds": export_seconds}


if __name__ == "__main__":
    serve(main)
