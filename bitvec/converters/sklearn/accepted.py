"""Which values a model of scikit-learn refuses to predict from: missing ones, and infinite ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.sklearn.records import Record
from bitvec.converters.sklearn.supported import ADABOOST, BAGGING, BOOSTING, FORESTS, TREES


def refused(model: Any, kind: str) -> dict[str, bool]:
    """Return the marks of what a model refuses, as they stand in a forest's metadata.

    HistGradientBoosting and IsolationForest refuse nothing. Boosting over trees refuses NaN and
    infinities. Trees, and what averages them, refuse infinities, and NaN by what the tree says of
    itself; a record says nothing, and then NaN is not refused.
    """
    if kind in (*BOOSTING, *ADABOOST):
        return {"refuses_missing": True, "refuses_infinite": True}
    if kind not in (*TREES, *FORESTS, *BAGGING):
        return {}
    trees = [model] if kind in TREES else model.estimators_
    if kind in BAGGING and not _reads_all(model):
        return {}  # a column that no tree reads may hold anything
    marks = {"refuses_infinite": True}
    if not isinstance(model, Record) and not all(map(_accepts_missing, trees)):
        marks["refuses_missing"] = True
    return marks


def _reads_all(model: Any) -> bool:
    read = np.unique(np.concatenate([np.asarray(part) for part in model.estimators_features_]))
    return bool(read.size == model.n_features_in_)


def _accepts_missing(tree: Any) -> bool:
    # Older versions, whose trees have no such method, refuse NaN.
    asked = getattr(tree, "_support_missing_values", None)
    return asked is not None and bool(asked(np.zeros((1, 1), np.float32)))
