"""YDF, which imports trees and forests of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import ydf

from benchmarks.engine.engines.calls import Calls, Job, single_precision
from benchmarks.engine.engines.of_native import sklearn_model


class Ydf:
    """`ydf.from_sklearn`; rows are handed over as a dictionary of one array."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.model = ydf.from_sklearn(sklearn_model(job), feature_name="X")

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""

        def scores(X: Any) -> Any:
            return self.model.predict({"X": X}, num_threads=threads)

        def labels(X: Any) -> Any:
            return np.argmax(scores(X), axis=-1)

        return Calls(labels if self.job.asks == "labels" else scores, scores, rows=single_precision)
