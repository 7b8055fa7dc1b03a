"""Conversion of scikit-learn's tree models, by a table of their classes; none is imported.

A .skops file is converted from its schema and arrays alone: neither skops nor scikit-learn is
needed, and nothing of the file is run. Pickles are refused, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from bitvec.converters.attribute_records import Record
from bitvec.converters.sklearn.adaboost import convert_adaboost
from bitvec.converters.sklearn.averaged_trees import convert_bagging, convert_forest
from bitvec.converters.sklearn.boosting import convert_boosting
from bitvec.converters.sklearn.histogram import convert_histogram
from bitvec.converters.sklearn.isolation import convert_isolation
from bitvec.converters.sklearn.skops_schema import read
from bitvec.converters.sklearn.unsupported import (
    ADABOOST,
    BAGGING,
    BOOSTING,
    FORESTS,
    HISTOGRAMS,
    ISOLATION,
    TREES,
    kind_of,
)
from bitvec.core.forest import Forest
from bitvec.files.sound import sound

_CONVERTERS: Final[dict[str, Callable[[Any, str], Forest]]] = {
    **dict.fromkeys((*TREES, *FORESTS), convert_forest),
    **dict.fromkeys(BAGGING, convert_bagging),
    **dict.fromkeys(BOOSTING, convert_boosting),
    **dict.fromkeys(HISTOGRAMS, convert_histogram),
    **dict.fromkeys(ADABOOST, convert_adaboost),
    **dict.fromkeys(ISOLATION, convert_isolation),
}


def convert(model: Any) -> Forest:
    """Convert a fitted tree model of scikit-learn, or a .skops file of one.

    Parameters
    ----------
    model : estimator, or path of a .skops file
        DecisionTree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting, HistGradientBoosting,
        Bagging or AdaBoost (over trees), classifier or regressor, or IsolationForest. A subclass is
        accepted if it inherits the methods that predict.

    Returns
    -------
    Forest
        Its raw scores, in float64, are: the probabilities of a tree or an average of trees, one
        output group per target; `decision_function` of a boosted classifier; `predict` of a
        regressor, before its link; minus the sum of depths of an isolation forest, whose labels
        are 1 and -1. It compares in float32, for HistGradientBoosting in float64.

    Raises
    ------
    UnsupportedModelError
        If the model is of another class, not fitted, or answers in its own way.
    InvalidForestError
        If its arrays do not describe trees, as those of a damaged model may not.
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If the file is no skops file (a pickle, say), damaged, or unpacks to an absurd size.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> convert(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y))
    Forest(1 tree, 2 nodes, 3 leaves, 4 features -> 3 outputs, float32, from sklearn)
    """
    if not isinstance(model, str | PathLike):
        return of_record(model)
    path = Path(model)
    with sound(path.name, "hold a model as scikit-learn leaves it"):
        return of_record(read(path))


def of_record(model: Any) -> Forest:
    """Convert a live estimator or the record of one."""
    kind = kind_of(model)
    forest = _CONVERTERS[kind](model, kind)
    assert forest.source is not None
    metadata = {**forest.source.metadata, **_refused(model, kind)}
    return replace(forest, source=replace(forest.source, metadata=metadata))


def _refused(model: Any, kind: str) -> dict[str, bool]:
    """Return marks of the values that a model refuses to predict from, for the metadata.

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
