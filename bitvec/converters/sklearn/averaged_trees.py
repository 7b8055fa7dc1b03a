"""Single trees, averages of trees (RandomForest, ExtraTrees) and Bagging over trees.

A forest's raw score is the float64 sum of the leaf values in tree order, divided by the number of
trees; a tree's is the leaf value itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.attribute_records import Record
from bitvec.converters.sklearn import nodes as sklearn_nodes
from bitvec.converters.sklearn.unsupported import (
    TREES,
    class_labels,
    classes_of,
    inputs_of,
    is_classifier,
    members,
    whole_number,
)
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate, Output
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InvalidForestError, UnsupportedModelError


def convert_forest(model: Any, kind: str) -> Forest:
    """Convert a tree, or a forest that averages its trees."""
    trees = members(model, kind)
    inputs = inputs_of(model)
    classes = class_labels(model) if is_classifier(kind) else None
    per_target = (
        (1,) * _n_targets(trees[0].tree_)
        if classes is None
        else tuple(labels.size for labels in classes)
    )
    arranged = sklearn_nodes.arrange_trees(
        model, trees, inputs.n_features, [per_target] * len(trees)
    )
    v = _side_by_side(arranged.value, classes)
    output = Output(
        v.shape[1],
        np.dtype(np.float64),
        aggregate=Aggregate.SUM if kind in TREES else Aggregate.MEAN,
        classes=None if classes is None else tuple(classes),
        groups=() if classes is None else per_target,
    )
    return Forest(arranged.tests, arranged.bitvectors, Leaves(v), output, inputs, arranged.source)


def convert_bagging(model: Any, kind: str) -> Forest:
    """Convert a bagging model over trees, which may read some of the columns and know some classes.

    scikit-learn fits the members on class numbers, adds a member's probabilities to those of the
    classes that it knows, and divides by `n_estimators`.
    """
    trees = members(model, kind)
    if whole_number(model, "n_estimators") != len(trees):
        raise UnsupportedModelError(
            f"`n_estimators` must be the number of fitted trees, got {model.n_estimators} for "
            f"{len(trees)}, of which scikit-learn would use some: fit again, or set it back."
        )
    inputs = inputs_of(model)
    columns = sklearn_nodes.tree_columns(model, len(trees), inputs.n_features)
    classes = classes_of(model) if is_classifier(kind) else None
    if classes is None:
        known = None
        n_classes = [(1,) * _n_targets(trees[0].tree_)] * len(trees)
    else:
        known = [_known(tree, classes.size) for tree in trees]
        n_classes = [(part.size,) for part in known]
    arranged = sklearn_nodes.arrange_trees(
        model, trees, inputs.n_features, n_classes, columns=columns
    )
    value = arranged.value
    if classes is None or known is None:
        v = value[:, :, 0]
    else:
        v = np.zeros((len(value), classes.size))
        for index, part in enumerate(known):
            rows = np.flatnonzero(arranged.tree == index)
            v[rows[:, None], part] = value[rows, 0, : part.size]
    output = Output(
        v.shape[1],
        np.dtype(np.float64),
        aggregate=Aggregate.MEAN,
        classes=None if classes is None else (classes,),
    )
    return Forest(arranged.tests, arranged.bitvectors, Leaves(v), output, inputs, arranged.source)


def _n_targets(tree: Any) -> int:
    """Return the targets for which a tree holds values, which a stated number may exceed."""
    value = getattr(tree, "values" if isinstance(tree, Record) else "value", None)
    shape: tuple[int, ...] = value.shape if isinstance(value, np.ndarray) else ()
    if len(shape) != 3 or shape[1] == 0:
        raise InvalidForestError(
            f"the values of a tree must have three axes, got shape {shape}: the model is damaged."
        )
    return int(shape[1])


def _known(tree: Any, n_classes: int) -> Array:
    """Return the class numbers that a member of a bagging classifier knows."""
    known = np.asarray(getattr(tree, "classes_", None))
    sound = known.ndim == 1 and known.dtype.kind in "iu" and 1 <= known.size <= n_classes
    if not sound or known.min() < 0 or known.max() >= n_classes or np.any(np.diff(known) <= 0):
        raise InvalidForestError(
            f"the classes of each tree must be rising numbers below {n_classes}: the model is "
            "damaged."
        )
    return known


def _side_by_side(
    value: Float64[Array, "n_leaves n_targets max_n_classes"], classes: list[Array] | None
) -> Float64[Array, "n_leaves n_outputs"]:
    """Lay the targets side by side, without the padding to the largest number of classes."""
    if classes is None:
        return value[:, :, 0]
    if len(classes) == 1:
        return value[:, 0]
    return np.concatenate([value[:, k, : c.size] for k, c in enumerate(classes)], axis=1)
