"""bitvec itself, through its public verbs."""

from __future__ import annotations

from functools import partial
from typing import Any

import bitvec
from benchmarks.engine.engines.calls import Calls, Job, chosen
from benchmarks.engine.floors import counts


class Bitvec:
    """The engine that `compile` chooses for a CPU."""

    engine = "numba"

    def __init__(self, job: Job) -> None:
        self.job = job
        self.forest = converted(job)

    def options(self, threads: int) -> dict[str, Any]:
        """Return what `compile` is given beside the engine."""
        return {"n_jobs": threads}

    def calls(self, threads: int) -> Calls:
        """Compile for so many threads."""
        predictor = bitvec.compile(self.forest, engine=self.engine, **self.options(threads))
        predict = chosen(
            self.job.asks,
            values=predictor.predict,
            labels=predictor.predict,
            probabilities=predictor.scores,
        )
        info = predictor.info()
        info["forest_nodes"] = self.forest.n_nodes
        count = partial(counts, self.forest, predictor, predict)
        return Calls(predict, predictor.scores, predictor.raw, counts=count, info=info)


class Torch(Bitvec):
    """The engine of matrices."""

    engine = "torch"

    def options(self, threads: int) -> dict[str, Any]:
        """Torch's threads belong to the process."""
        import torch

        torch.set_num_threads(threads)
        return {}


def converted(job: Job) -> Any:
    """Return the forest of a job's model."""
    if job.library == "sklearn":
        from benchmarks.engine.engines.of_native import sklearn_model

        return bitvec.convert(sklearn_model(job))
    return bitvec.convert(job.model)
