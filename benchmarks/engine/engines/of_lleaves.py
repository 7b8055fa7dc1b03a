"""lleaves, which compiles LightGBM models by LLVM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import lleaves

from benchmarks.engine.engines.calls import Calls, Job


class Lleaves:
    """`lleaves.Model`, compiled once and kept beside the model."""

    def __init__(self, job: Job) -> None:
        self.predict = _compiled(job, "lleaves.bin")
        self.raw = None if job.regression else _compiled(job, "lleaves-raw.bin", raw_score=True)

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""
        predict = partial(self.predict, n_jobs=threads)
        return Calls(predict, predict, self.raw and partial(self.raw, n_jobs=threads))


def _compiled(job: Job, name: str, **options: Any) -> Callable[..., Any]:
    model = lleaves.Model(model_file=str(job.model))
    model.compile(cache=str(job.folder / name), **options)
    predict: Callable[..., Any] = model.predict
    return predict
