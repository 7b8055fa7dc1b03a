"""treelite's interpreter, and the compiler made of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import treelite

from benchmarks.engine.engines.calls import Calls, Job


def _model(job: Job) -> Any:
    if job.library == "sklearn":
        from benchmarks.engine.engines.of_native import sklearn_model

        return treelite.sklearn.import_model(sklearn_model(job))
    if job.library == "lightgbm":
        return treelite.frontend.load_lightgbm_model(str(job.model))
    return treelite.frontend.load_xgboost_model(str(job.model))


def _calls(job: Job, scores: Any) -> Calls:
    """Return the calls of a model: labels are the largest of what treelite answers."""
    if job.asks == "labels":
        return Calls(lambda X: np.argmax(scores(X), axis=-1), scores)
    return Calls(scores, scores, None if job.regression else partial(scores, pred_margin=True))


class Gtil:
    """`treelite.gtil.predict`."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.model = _model(job)

    def calls(self, threads: int) -> Calls:
        """Use so many threads."""

        def scores(X: Any, **options: Any) -> Any:
            return treelite.gtil.predict(self.model, X, nthread=threads, **options)

        return _calls(self.job, scores)


class Tl2cgen:
    """The library that tl2cgen compiles by gcc, which is kept beside the model."""

    def __init__(self, job: Job) -> None:
        import tl2cgen

        self.job = job
        self.path = job.folder / "tl2cgen.so"
        if not self.path.exists():
            aside = job.folder / "tl2cgen-part.so"
            options = {"parallel_comp": 32}
            tl2cgen.export_lib(
                _model(job), toolchain="gcc", libpath=aside, params=options, nthread=2
            )
            aside.replace(self.path)

    def calls(self, threads: int) -> Calls:
        """Use so many threads; making a DMatrix is part of the time."""
        import tl2cgen

        predictor = tl2cgen.Predictor(self.path, nthread=threads)

        def scores(X: Any, **options: Any) -> Any:
            return predictor.predict(tl2cgen.DMatrix(X), **options)

        return _calls(self.job, scores)
