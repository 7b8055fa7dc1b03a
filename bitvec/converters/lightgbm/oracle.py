"""LightGBM's own answers, through the prediction functions of its Booster and wrappers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from bitvec.converters.lightgbm.open import booster_of, open_model
from bitvec.converters.lightgbm.read import forest_of
from bitvec.converters.lightgbm.walker import source_trees
from bitvec.converters.naming import naming
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import needs
from bitvec.verify.oracle import FrameAnswers, LeafValues, Oracle

DENSE = (
    "LightGBM reads |x| <= 1e-35 of a dense matrix as 0 and rounds one of integers to float32: the "
    "rows were dense float64"
)
ORDER = (
    "LightGBM reads the columns of a frame by position unless it is told to validate their names, "
    "the forest by name: it was told to"
)
SUMS = "LightGBM's raw scores of a random forest are sums: they were divided by its iterations"


def oracle_of(model: Any) -> Oracle:
    """Return LightGBM's own answers to a model that `convert` accepts.

    Parameters
    ----------
    model : path, Booster, or scikit-learn wrapper

    Returns
    -------
    Oracle
        Raw scores, predictions and leaf ids through `Booster.predict` with one thread, labels
        through the wrapper; a random forest's raw scores are divided by its iterations, as for its
        predictions.

    Raises
    ------
    MissingLibraryError
        If lightgbm is not installed.
    """
    with needs("lightgbm", "lightgbm", "Asking a LightGBM model"):
        import lightgbm
    opened = open_model(model)
    with naming(opened.name):
        forest = forest_of(opened)
    is_file = isinstance(model, (str, PathLike))
    if is_file:
        booster = lightgbm.Booster(model_file=str(model))
    else:
        booster = booster_of(model)
    n_outputs, n_trees = forest.n_outputs, forest.n_trees
    averages = forest.output.aggregate is Aggregate.MEAN
    divisor = max(n_trees // n_outputs, 1) if averages else 1

    def ask(width: int, **kind: bool) -> Callable[[Array], Array]:
        def answer(X: Array) -> Array:
            if not len(X) or not width:  # LightGBM asks for rows
                return np.zeros((len(X), width))
            return np.asarray(booster.predict(X, num_threads=1, **kind)).reshape(len(X), width)

        return answer

    summed, leaf_ids = ask(n_outputs, raw_score=True), ask(n_trees, pred_leaf=True)
    predicted = ask(n_outputs)
    labelled = opened.labels is not None

    def of_frame(width: int, **kind: bool) -> Callable[[Any], Array]:
        def answer(frame: Any) -> Array:
            found = [str(label) for label in getattr(frame, "columns", ())]
            if found != [str(name) for name in booster.feature_name()]:
                raise ValueError("LightGBM with validate_features asks for the training columns.")
            rows = booster.predict(frame, num_threads=1, validate_features=True, **kind)
            return np.asarray(rows).reshape(-1, width)

        return answer

    framed, frame_ids = of_frame(n_outputs, raw_score=True), of_frame(n_trees, pred_leaf=True)
    return Oracle(
        name="lightgbm",
        version=lightgbm.__version__,
        raw=lambda X: summed(X) / divisor,
        leaf_ids=lambda X: leaf_ids(X).astype(np.int64),
        ids="source",
        predict=_labels(model) if labelled else None if forest.output.is_classifier else predicted,
        scores=predicted if forest.output.is_classifier else None,
        leaf_values=lambda: _stored(forest),
        trees=lambda: source_trees(booster, model),
        n_trees=n_trees,
        n_features=forest.n_features,
        n_outputs=n_outputs,
        of_frame=None
        if is_file or not n_trees
        else FrameAnswers(
            raw=lambda frame: framed(frame) / divisor,
            leaf_ids=frame_ids,
            labels=_labels(model) if labelled else None,
            notes=(ORDER,),
        ),
        notes=(DENSE, SUMS) if averages else (DENSE,),
    )


def _labels(model: Any) -> Callable[[Array], Array]:
    """Return the labels of a wrapper, which a Booster does not know."""

    def answer(X: Array) -> Array:
        with warnings.catch_warnings():  # rows come as plain arrays in training order
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return np.asarray(model.predict(X, num_threads=1))

    return answer


def _stored(forest: Forest) -> LeafValues:
    B, source = forest.bitvectors, forest.source
    assert source is not None
    assert source.leaf_id is not None
    tree = np.repeat(np.arange(forest.n_trees), np.diff(B.leaf_ptr))
    return LeafValues(tree, source.leaf_id, forest.leaves.v)
