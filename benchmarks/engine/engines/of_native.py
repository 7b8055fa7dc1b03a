"""The libraries that trained the models, by their fastest exact public calls."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.engine.engines.calls import Calls, Job, chosen


class Xgboost:
    """`Booster.inplace_predict`, which makes no DMatrix."""

    def __init__(self, job: Job) -> None:
        import xgboost

        self.job = job
        self.booster = xgboost.Booster(model_file=job.model)

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""
        booster = self.booster
        booster.set_param({"nthread": threads})
        return Calls(
            booster.inplace_predict,
            booster.inplace_predict,
            lambda X: booster.inplace_predict(X, predict_type="margin"),
        )


class XgboostMatrix(Xgboost):
    """`Booster.predict`, which needs a DMatrix; making it is part of the time."""

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""
        from xgboost import DMatrix

        booster = self.booster
        booster.set_param({"nthread": threads})

        def predict(X: Any, **options: Any) -> Any:
            return booster.predict(DMatrix(X, nthread=threads), **options)

        return Calls(predict, predict, lambda X: predict(X, output_margin=True))


class Lightgbm:
    """`Booster.predict`."""

    def __init__(self, job: Job) -> None:
        import lightgbm

        self.booster = lightgbm.Booster(model_file=str(job.model))

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""

        def predict(X: Any, **options: Any) -> Any:
            return self.booster.predict(X, num_threads=threads, **options)

        return Calls(predict, predict, lambda X: predict(X, raw_score=True))


class Sklearn:
    """`predict` and `predict_proba` of the estimator."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.model = sklearn_model(job)

    def calls(self, threads: int) -> Calls:
        """Use so many threads, where the estimator has any."""
        model = self.model
        if hasattr(model, "n_jobs"):
            model.n_jobs = threads
        scores = model.predict if self.job.regression else model.predict_proba
        predict = chosen(
            self.job.asks, values=model.predict, labels=model.predict, probabilities=scores
        )
        # A forest's average of its trees is both the raw score and the probability.
        return Calls(predict, scores, getattr(model, "decision_function", scores))


def sklearn_model(job: Job) -> Any:
    """Return the estimator that `benchmarks.engine.workloads` kept."""
    import skops.io

    # What skops wants to be told is trusted is this benchmark's own file.
    trusted = skops.io.get_untrusted_types(file=job.model)
    return skops.io.load(job.model, trusted=trusted)


class Catboost:
    """`CatBoost.predict`."""

    def __init__(self, job: Job) -> None:
        import catboost

        self.job = job
        self.model = catboost.CatBoost()
        self.model.load_model(str(job.model))

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""

        def predict(X: Any, kind: str = "RawFormulaVal") -> Any:
            return self.model.predict(X, prediction_type=kind, thread_count=threads)

        if self.job.regression:
            return Calls(predict, predict, predict)
        probabilities = partial(predict, kind="Probability")
        return Calls(probabilities, probabilities, predict)
