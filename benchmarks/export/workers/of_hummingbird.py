"""hummingbird's ONNX backend: an ONNX file of standard operators, made through torch."""

from __future__ import annotations

import functools
import sys
import time
import warnings
from typing import Any

from benchmarks.export.workers.job import Job
from benchmarks.hummingbird import readable
from benchmarks.old_worker import serve


def main() -> dict[str, Any]:
    """Export the model of a job."""
    import torch

    # torch's newer exporter does not trace what hummingbird makes.
    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    from hummingbird.ml import convert

    job = Job(sys.argv[1])
    model, X = job.model(), job.X[:10]
    if job.library == "xgboost":
        readable(model)
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    exported = convert(model, "onnx", X).model.SerializeToString()
    (job.folder / "exported.onnx").write_bytes(exported)
    return {"export_seconds": time.perf_counter() - start}


if __name__ == "__main__":
    serve(main)
