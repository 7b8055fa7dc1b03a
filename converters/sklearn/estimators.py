"""What any written estimator needs: leaf values with their weights, names, classes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.arrays import Array
from bitvec.errors import UnsupportedModelError
from bitvec.forest import Forest


def refusal(must: str) -> UnsupportedModelError:
    """Return the error for a forest that scikit-learn cannot hold."""
    return UnsupportedModelError(
        f"a forest that scikit-learn can hold must {must}: write it in the format of another "
        "library, or export it."
    )


def weighted(forest: Forest) -> Array:
    """Return the leaf vectors times the tree weights, rounded as the forest rounds them."""
    output = forest.output
    v = forest.v.astype(output.dtype, copy=False)
    if output.tree_weight is None:
        return v
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.bitvectors.leaf_ptr))
    weighted_v: Array = output.tree_weight[tree][:, None] * v
    return weighted_v


def dense(forest: Forest, v: Array) -> Array:
    """Return leaf vectors that are as wide as the forest has outputs."""
    if forest.leaves.output is None:
        return v
    wide = np.zeros((forest.n_leaves, forest.n_outputs), v.dtype)
    wide[np.arange(forest.n_leaves), forest.leaves.output] = v[:, 0]
    return wide


def named(model: Any, forest: Forest) -> Any:
    """Give an estimator the columns of the forest."""
    model.n_features_in_ = forest.n_features
    names = forest.inputs.feature_names
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def set_classes(model: Any, classes: list[Array] | None) -> None:
    """Give an estimator the labels of its targets, as scikit-learn keeps them."""
    if classes is None:
        return
    sizes = [labels.size for labels in classes]
    model.classes_, model.n_classes_ = (
        (classes[0], sizes[0]) if len(classes) == 1 else (classes, sizes)
    )
