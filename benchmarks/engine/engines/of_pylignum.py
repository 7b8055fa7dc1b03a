"""pylignum, which runs files of LightGBM, xgboost and CatBoost, interpreted or compiled."""

from __future__ import annotations

from typing import Any

import lignum
import numpy as np

from benchmarks.engine.engines.calls import Calls, Job


class Pylignum:
    """`lignum.load`, whose interpreter needs no compiler."""

    def __init__(self, job: Job) -> None:
        self.model = lignum.load(str(job.model))

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""

        def predict(X: Any, *, raw_score: bool = False) -> Any:
            return self.model.predict(X, raw_score=raw_score, n_jobs=threads)

        return Calls(predict, predict, lambda X: predict(X, raw_score=True), _doubles)


class PylignumCompiled(Pylignum):
    """Its trees, compiled by the system's C compiler once and kept beside the model."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.model.compile(work_dir=str(job.folder / "lignum"))


def _doubles(X: np.ndarray) -> np.ndarray:
    """Return rows as it takes them without a copy."""
    return np.ascontiguousarray(X, np.float64)
