"""Trees whose nodes and leaves stand together at positions, as scikit-learn's do, and what a model
states besides.

Part of the walkers, which share nothing with the conversion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import NodeTests
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.shape_annotations import Bool, Float64, Int64
from bitvec.verify.source_trees import SourceTrees

_LINKS = {
    "IdentityLink": (PostTransform.IDENTITY, 1.0),
    "LogLink": (PostTransform.EXPONENTIAL, 1.0),
    "LogitLink": (PostTransform.SIGMOID, 1.0),
    "HalfLogitLink": (PostTransform.SIGMOID, 2.0),
    "MultinomialLogit": (PostTransform.SOFTMAX, 1.0),
}


def joined(
    model: Any,
    size: Int64[Array, " n_trees"],
    inner: Bool[Array, " n_positions"],
    tests: NodeTests,
    links: tuple[Array, Array],
    value: Float64[Array, "n_positions width"],
    *,
    row_dtype: type,
    n_outputs: int | None = None,
    **stated: Any,
) -> SourceTrees:
    """Return the trees of a model, whose positions stand one tree after the other.

    Parameters
    ----------
    size : int64, (n_trees,)
        Positions of each tree; its root is the first.
    inner : bool, (n_positions,)
    links : two arrays of integers, (n_positions,)
        The positions, within the tree, of the left and the right child.
    value : float64, (n_positions, width)
    n_outputs : int, optional
        Trees of a stage, each of which adds to an output of its own.
    stated
        Fields of `Output` that are not those of a sum of floats from 0.
    """
    start = np.repeat(np.cumsum(size) - size, size)
    number = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(~inner))  # ~k is -(k + 1)
    left, right = (number[side[inner].astype(np.int64) + start[inner]] for side in links)
    tree_of_leaf = np.repeat(np.arange(size.size), size)[~inner]
    width = n_outputs or value.shape[1]
    return SourceTrees(
        tests=tests,
        left=left,
        right=right,
        root=number[np.cumsum(size) - size],
        leaf_id=(np.arange(inner.size) - start)[~inner],
        v=value[~inner],
        output=None if n_outputs is None else (tree_of_leaf % n_outputs).astype(np.int32),
        row_dtype=np.dtype(row_dtype),
        n_features=model.n_features_in_,
        stated={
            "n_outputs": width,
            "dtype": np.dtype(np.float64),
            "aggregate": Aggregate.SUM,
            "base_score": np.zeros(width),
            "post_transform": PostTransform.IDENTITY,
            **dict.fromkeys(("scale", "tree_weight", "divisor", "classes")),
            **stated,
        },
    )


def boosting(model: Any, base_score: Float64[Array, " n_outputs"]) -> dict[str, Any]:
    """Return what a model states whose sum begins with a base score, with the link of its loss."""
    transform, parameter = _LINKS[type(model._loss.link).__name__]
    stated = {"base_score": base_score, "base_first": True}
    stated |= {"post_transform": transform, "parameter": parameter}
    if hasattr(model, "classes_"):
        stated |= {"classes": (labels(model.classes_),), "labels_from_raw": True}
    return stated


def labels(classes: Array) -> Array:
    """Return labels as an array of one type."""
    return np.array(classes.tolist()) if classes.dtype == object else classes
