"""lleaves, which compiles LightGBM models by LLVM."""

from __future__ import annotations

from typing import Any

import lleaves

from benchmarks.engine.engines.calls import Calls, Job


class Lleaves:
    """`lleaves.Model`, compiled once and kept beside the model."""

    def __init__(self, job: Job) -> None:
        self.model = lleaves.Model(model_file=str(job.model))
        self.model.compile(cache=str(job.folder / "lleaves.bin"))

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""

        def predict(X: Any) -> Any:
            return self.model.predict(X, n_jobs=threads)

        return Calls(predict, predict)
