"""hummingbird's ONNX backend: an ONNX file of standard operators, made through torch."""

from __future__ import annotations

import functools
import sys
import time
import warnings

from benchmarks.export.children.jobs import Job


def main() -> None:
    """Export the model of a job."""
    import torch

    # torch's newer exporter does not trace what hummingbird makes.
    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    from hummingbird.ml import convert

    job = Job(sys.argv[1])
    model, X = job.model(), job.rows()[:10]
    if job.library == "xgboost":
        # hummingbird reads a number where xgboost 3 writes a list of one.
        booster = model.get_booster()
        config = booster.save_config
        booster.save_config = lambda: _unlisted(config())
        model.get_booster = lambda: booster
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    exported = convert(model, "onnx", X).model.SerializeToString()
    (job.folder / "exported.onnx").write_bytes(exported)
    job.tell(export_seconds=time.perf_counter() - start)


def _unlisted(config: str) -> str:
    before, key, after = config.partition('"base_score":"[')
    value, end, rest = after.partition(']"')
    one = key and "," not in value
    return before + '"base_score":"' + value + '"' + rest if one and end else config


if __name__ == "__main__":
    main()
