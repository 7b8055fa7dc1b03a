"""Notes of a retraining: why this forest, and whether a fresh fit would use the time better."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.learners.retrained.recipe_search import Run
from bitvec.runtime.train.retrain import metrics
from bitvec.runtime.train.retrain.preparation import Task
from bitvec.runtime.train.retrain.result import Trial
from bitvec.runtime.train.retrain.selection import Selection, hard_scores
from bitvec.runtime.train.retrain.training_data import Data

MOST_ROWS = 10_000
TREES = 400
"""Trees of a quick fit at most, over all classes."""
ROUNDS = (20, 100)
LIBRARIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "xgboost": ("xgboost", "XGB", {"n_jobs": 1, "max_depth": 6, "learning_rate": 0.1}),
    "lightgbm": ("lightgbm", "LGBM", {"n_jobs": 1, "verbose": -1}),
}
"""Module, prefix of estimators and options of the libraries whose own quick fit is made."""
SKLEARN: tuple[str, str, dict[str, Any]] = (
    "sklearn.ensemble",
    "HistGradientBoosting",
    {"early_stopping": False},
)


def reason(chosen: Trial, runs: Sequence[Run], selection: Selection) -> str:
    """Return why this forest was chosen."""
    return (
        f"Chosen of {len(runs)} recipes: {chosen.recipe}, whose best score on the validation rows "
        f"is {selection.errors:.1f} paired standard errors above that of the forest that went in."
    )


def better_use(task: Task) -> list[str]:
    """Return a note where a quick fresh fit is better than what retraining has found.

    Boosted trees of the library that the forest comes from, if it is installed, else of
    scikit-learn, on at most `MOST_ROWS` rows and with at most `TREES` trees, judged on the same
    validation rows.
    """
    name = "" if task.forest.source is None else task.forest.source.library
    module, prefix, given = LIBRARIES.get(name, SKLEARN)
    objective, data, held = task.objective, task.data, task.held_out
    fits = objective.measure in ("accuracy", "log_loss", "squared")
    if data is None or not fits or data.target.shape[1] > 1 or objective.soft:
        return []
    if find_spec(module.split(".")[0]) is None or task.forest.feature_map is not None:
        return []
    began = time.process_time()
    scores, rounds = _fresh_scores(module, prefix, given, task, data, held)
    if scores is None:
        return []
    seconds = time.process_time() - began
    ours = objective.scores(hard_scores(task.selection.best, held.X), held.target)
    gain = scores - ours
    error = float(np.std(gain)) / np.sqrt(len(gain))
    if not float(np.mean(gain)) > error:
        return []
    return [
        f"A fresh fit uses the time better where its size does not matter: {prefix} of {module} "
        f"with {rounds} rounds has the {objective.metric} "
        f"{np.average(scores, weights=held.weight):.6g} on the same rows after {seconds:.1f} s."
    ]


def _fresh_scores(
    module: str, prefix: str, given: dict[str, Any], task: Task, data: Data, held: Data
) -> tuple[Array | None, int]:
    """Return the score of each validation row by a fresh fit, None where it cannot be made."""
    classes = task.forest.output.classes
    n_classes = 1 if classes is None else len(classes[0])
    y = data.target[:, 0]
    if classes is not None and len(np.unique(y)) < n_classes:
        return None, 0
    per_round = n_classes if n_classes > 2 else 1
    rounds = int(np.clip(TREES // per_round, *ROUNDS))
    kind = "Regressor" if classes is None else "Classifier"
    length = {"max_iter": rounds} if module == SKLEARN[0] else {"n_estimators": rounds}
    model = getattr(import_module(module), prefix + kind)(
        random_state=task.seed % 2**31, **length, **given
    )
    rows = np.random.default_rng(task.seed).permutation(len(data))[:MOST_ROWS]
    try:
        model.fit(data.X[rows], y[rows], sample_weight=data.weight[rows])
        if classes is None:
            predicted = np.asarray(model.predict(held.X), np.float64)
            return -np.square(predicted - held.target[:, 0]), rounds
        p = np.asarray(model.predict_proba(held.X), np.float64)
    except Exception:  # rows that this library does not take
        return None, 0
    label = held.target[:, 0]
    if task.objective.is_accuracy:
        return (p.argmax(axis=1) == label).astype(np.float64), rounds
    return np.log(p[np.arange(len(p)), label].clip(metrics.SMALLEST)), rounds
