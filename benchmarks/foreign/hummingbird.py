"""hummingbird's ONNX backend: an ONNX file of standard operators, made through torch."""

from __future__ import annotations

import functools
import time
import warnings
from typing import Any

from benchmarks.hummingbird import readable
from benchmarks.jobs import read


def run(folder: str) -> dict[str, Any]:
    """Export the model of a job."""
    import torch

    # torch's newer exporter does not trace what hummingbird makes.
    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    from hummingbird.ml import convert

    job = read(folder)
    model, X = job.model(), job.rows["X"][:10]
    if job.facts["library"] == "xgboost":
        readable(model)
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    exported = convert(model, "onnx", X).model.SerializeToString()
    (job.folder / "exported.onnx").write_bytes(exported)
    return {"export_seconds": time.perf_counter() - start}
