"""Parts of every written estimator: leaf values with their weights, names, classes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Output
from bitvec.core.shape_annotations import Float
from bitvec.errors import UnsupportedModelError


def unsupported(must: str) -> UnsupportedModelError:
    """Return the error for a forest that scikit-learn cannot hold."""
    return UnsupportedModelError(
        f"a forest that scikit-learn can hold must {must}: write it in the format of another "
        "library, or export it."
    )


def weighted(forest: Forest) -> Array:
    """Return the leaf vectors times the tree weights, rounded as the forest rounds them."""
    output = forest.output
    v = forest.leaves.v.astype(output.dtype, copy=False)
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


def columns_of_outputs(forest: Forest) -> list[list[tuple[int, Float[Array, " n_leaves"]]]]:
    """Return, per output, the trees that add to it, each with what its own leaves add."""
    leaf_ptr = forest.bitvectors.leaf_ptr
    v = dense(forest, weighted(forest))
    adds = np.ones((forest.n_trees, forest.n_outputs), bool)
    if forest.leaves.output is not None:
        tree_of = np.repeat(np.arange(forest.n_trees), np.diff(leaf_ptr))
        adds[:] = False
        adds[tree_of, forest.leaves.output] = True
    return [
        [
            (tree, v[leaf_ptr[tree] : leaf_ptr[tree + 1], k])
            for tree in np.flatnonzero(adds[:, k]).tolist()
        ]
        for k in range(forest.n_outputs)
    ]


def require_raw_labels(output: Output, *, tie_to_second: bool) -> None:
    """Check that labels are told as scikit-learn's boosted classifiers tell them."""
    if not output.labels_from_raw or output.boundary is not None:
        raise unsupported("tell its labels by its raw scores, got labels by other scores")
    if output.n_outputs == 1 and output.tie_to_second != tie_to_second:
        taken = "second" if tie_to_second else "first"
        raise unsupported(f"take the {taken} class at a raw score of 0, got the other")


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
    # `predict` gives the labels of all targets the type of the first, which would cut longer texts.
    common = np.result_type(*classes)
    classes = [labels.astype(common) for labels in classes]
    model.classes_, model.n_classes_ = (
        (classes[0], sizes[0]) if len(classes) == 1 else (classes, sizes)
    )
