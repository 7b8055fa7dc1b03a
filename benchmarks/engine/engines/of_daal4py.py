"""daal4py, which converts gradient boosting of xgboost and LightGBM."""

from __future__ import annotations

import daal4py

from benchmarks.engine.engines.calls import Calls, Job, chosen


class Daal4py:
    """`daal4py.mb.convert_model`."""

    def __init__(self, job: Job) -> None:
        self.job = job
        if job.library == "xgboost":
            import xgboost

            model = xgboost.Booster(model_file=job.model)
        else:
            import lightgbm

            model = lightgbm.Booster(model_file=str(job.model))
        self.model = daal4py.mb.convert_model(model)

    def calls(self, threads: int) -> Calls:
        """Use so many threads, in the whole process."""
        daal4py.daalinit(threads)
        model = self.model
        if self.job.regression:
            return Calls(model.predict, model.predict)
        predict = chosen(self.job.asks, labels=model.predict, probabilities=model.predict_proba)
        return Calls(predict, model.predict_proba)
