"""xgboost's own answers, through the prediction functions of its Booster and wrappers."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.naming import naming
from bitvec.converters.xgboost.document import Document, integer, member, plain
from bitvec.converters.xgboost.format import is_xgboost_binary
from bitvec.converters.xgboost.objectives import objective_named
from bitvec.converters.xgboost.open import open_model, read_bytes
from bitvec.converters.xgboost.read import booster_of, classes_of, sizes_of, used_iterations
from bitvec.converters.xgboost.trees import read_trees
from bitvec.converters.xgboost.walker import source_trees
from bitvec.core.arrays import Array
from bitvec.errors import UnsupportedModelError, needs
from bitvec.verify.oracle import FrameAnswers, LeafValues, Oracle, require_columns


def _has_old_vectors(model: Document) -> bool:
    """Return whether a tree has vector leaves as xgboost before 3.2 wrote them."""
    return any(
        integer(member(tree, "tree_param", dict), "size_leaf_vector", default=1) > 1
        and "leaf_weights" not in tree
        for tree in member(model, "trees", list)
    )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def oracle_of(model: Any) -> Oracle:
    """Return xgboost's own answers to a model that `convert` accepts.

    Parameters
    ----------
    model : path, Booster, or scikit-learn wrapper

    Returns
    -------
    Oracle
        Raw scores, node ids and predictions through `Booster.predict` on a DMatrix, which refuses
        infinities; the trees and missing values that `convert` takes. Labels are those of a
        wrapper's own `predict`; a Booster, a file and a dart (which wrappers round differently)
        have them by the rule of `XGBClassifier.predict`. A file of the old binary format, which
        xgboost 3.1 no longer reads, is handed to it as JSON.

    Raises
    ------
    MissingLibraryError
        If xgboost is not installed.
    UnsupportedModelError
        If the xgboost that is installed cannot read the file.
    """
    with needs("xgboost", "xgboost", "Asking an xgboost model"):
        import xgboost
    opened = open_model(model)
    with naming(opened.name):
        trees_of_model, weights = booster_of(opened.learner)
        n_features, n_outputs = sizes_of(opened.learner, trees_of_model)
        n_trees, iteration = used_iterations(opened, trees_of_model, n_outputs)
        objective = objective_named(member(member(opened.learner, "objective", dict), "name", str))
        classes = classes_of(opened, objective, n_outputs)
        if _has_old_vectors(trees_of_model) and _release(xgboost.__version__) >= (3, 2):
            raise UnsupportedModelError(
                f"an xgboost before 3.2 must be asked about leaf vectors that one of them wrote, "
                f"got {xgboost.__version__}, which crashes on them: install an older one."
            )
    is_file = isinstance(model, (str, PathLike))
    if is_file:
        data = read_bytes(Path(model))
        if is_xgboost_binary(data[:256]):
            data = json.dumps(plain(opened.document)).encode()
        booster = xgboost.Booster(model_file=bytearray(data))
    else:
        booster = model.get_booster() if opened.wrapped else model
    wrapper = model if opened.wrapped and not is_file else None
    end = int(iteration[-1]) + 1 if iteration.size else 0

    def checked(X: Array) -> Array:
        require_columns(X, n_features)  # pred_leaf would read past the columns
        return X

    def answer(X: Array, width: int, **kind: bool) -> Array:
        if not len(checked(X)):  # a DMatrix must have rows
            return np.zeros((0, width), np.float32)
        rows = xgboost.DMatrix(X, missing=opened.missing)
        values = booster.predict(rows, iteration_range=(0, end), validate_features=False, **kind)
        return np.asarray(values).reshape(len(X), width)

    def values(X: Array) -> Array:
        return answer(X, n_outputs)

    asks_wrapper = weights is None and wrapper is not None
    only_labels = objective.labels_from_raw  # multi:softmax

    def probabilities(X: Array) -> Array:
        if not only_labels or not len(checked(X)):
            return values(X)
        return np.asarray(model.predict_proba(X, validate_features=False))

    def labels(X: Array) -> Array:
        assert classes is not None
        if asks_wrapper and len(checked(X)):
            return np.asarray(model.predict(X, validate_features=False))
        if only_labels:
            index = answer(X, 1)
        elif n_outputs > 1 and len(classes) == 1:
            index = values(X).argmax(axis=1)[:, None]
        else:
            index = values(X) > np.float32(0.5)
        return np.asarray(classes[0][index.astype(np.intp)])

    def of_frame(frame: Any, **kind: bool) -> Array:
        rows = xgboost.DMatrix(frame, missing=opened.missing, enable_categorical=True, nthread=1)
        return np.asarray(booster.predict(rows, iteration_range=(0, end), **kind))

    def leaf_values() -> LeafValues:
        trees = read_trees(member(trees_of_model, "trees", list)[:n_trees], n_features, n_outputs)
        leaf = np.flatnonzero(trees.left < 0)
        tree = np.searchsorted(trees.roots, leaf, side="right") - 1
        return LeafValues(tree, trees.node_id(leaf), trees.v[leaf])

    return Oracle(
        name="xgboost",
        version=xgboost.__version__,
        raw=lambda X: answer(X, n_outputs, output_margin=True),
        leaf_ids=lambda X: answer(X, n_trees, pred_leaf=True).astype(np.int64),
        ids="source",
        accepts_infinite=False,
        predict=values if classes is None else labels,
        scores=probabilities if classes is not None and (asks_wrapper or not only_labels) else None,
        leaf_values=leaf_values,
        trees=lambda: source_trees(booster, wrapper, saved=is_file),
        n_trees=n_trees,
        n_features=n_features,
        n_outputs=n_outputs,
        of_frame=None
        if is_file or not n_trees
        else FrameAnswers(
            raw=lambda frame: of_frame(frame, output_margin=True),
            leaf_ids=lambda frame: of_frame(frame, pred_leaf=True),
            labels=model.predict if classes is not None and asks_wrapper else None,
        ),
    )
