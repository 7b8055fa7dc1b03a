"""Sums of trees written back as GradientBoosting models of learning rate 1 that start from zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn._loss.loss import (
    ExponentialLoss,
    HalfBinomialLoss,
    HalfMultinomialLoss,
    HalfSquaredError,
)
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from bitvec.converters.sklearn.new_estimators import (
    columns_of_outputs,
    named,
    require_raw_labels,
    set_classes,
    unsupported,
)
from bitvec.converters.sklearn.tree_arrays import new_tree, node_arrays
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.core.tree_paths import tree_depth

_LOSSES: dict[tuple[PostTransform, float], tuple[str, Callable[[int], Any]]] = {
    (PostTransform.SIGMOID, 1.0): ("log_loss", lambda n: HalfBinomialLoss()),
    (PostTransform.SIGMOID, 2.0): ("exponential", lambda n: ExponentialLoss()),
    (PostTransform.SOFTMAX, 1.0): ("log_loss", lambda n: HalfMultinomialLoss(n_classes=n)),
}
"""The loss whose link is a post-transform."""


def summed(forest: Forest) -> Any:
    """Return the GradientBoosting model of a forest that sums its trees."""
    output = forest.output
    columns = _stages(forest)
    longest = max(map(len, columns))
    if output.dtype != np.float64 and longest > 1:
        raise unsupported(f"sum its trees in float64, got {output.dtype}")
    if not output.base_first and longest > 1 and np.any(output.base_score != 0):
        raise unsupported("begin its sum with the base score, got one that is added at the end")
    if output.scale is not None:
        raise unsupported("answer with the sum itself, got one that is scaled")
    if output.classes is None:
        if forest.n_outputs != 1 or output.post_transform is not PostTransform.IDENTITY:
            raise unsupported("sum to one value without a post-transform, or to class scores")
        model, loss = GradientBoostingRegressor(init="zero", learning_rate=1.0), HalfSquaredError()
    else:
        model, loss = _classifier(forest)
    # Zeros that are added to a sum leave it as it is, so short columns are filled with them.
    zero = new_tree(forest.n_features, (1,), *_single_leaf(forest), np.zeros((1, 1, 1)), 0)
    stages = np.empty((longest, forest.n_outputs), dtype=object)
    for k, column in enumerate(columns):
        for stage in range(longest):
            member = DecisionTreeRegressor()
            member.tree_ = column[stage] if stage < len(column) else zero
            member.n_outputs_, member.n_features_in_ = 1, forest.n_features
            member.max_features_ = forest.n_features
            stages[stage, k] = member
    model.n_estimators = model.n_estimators_ = longest
    model.estimators_, model.init_, model._loss = stages, "zero", loss
    model.n_trees_per_iteration_ = forest.n_outputs
    model.max_features_ = forest.n_features
    model.train_score_ = np.zeros(longest)
    return named(model, forest)


def _classifier(forest: Forest) -> tuple[Any, Any]:
    output = forest.output
    assert output.classes is not None
    labels = np.array(output.classes[0])
    key = (output.post_transform, float(output.parameter))
    fits = len(output.groups) == 1 and labels.size >= 2 and key in _LOSSES
    if not fits or (forest.n_outputs == 1) != (output.post_transform is PostTransform.SIGMOID):
        raise unsupported(
            "give one score and a sigmoid for 2 classes, or a score for each class and a softmax, "
            f"got {forest.n_outputs} scores with {output.post_transform}"
        )
    if forest.n_outputs not in (1, labels.size) or forest.n_outputs == 2:
        raise unsupported(f"give one score for 2 classes, got {forest.n_outputs}")
    require_raw_labels(output, tie_to_second=True)
    name, loss = _LOSSES[key]
    model = GradientBoostingClassifier(loss=name, init="zero", learning_rate=1.0)
    set_classes(model, [labels])
    return model, loss(labels.size)


def _stages(forest: Forest) -> list[list[Any]]:
    """Return, per output, the trees that add to it, the base score within the first.

    The sum begins with the base score plus the first leaf, and so do these: from zero.
    """
    output = forest.output
    nodes, depth = node_arrays(forest), tree_depth(forest.bitvectors)
    columns: list[list[Any]] = []
    for base, additions in zip(output.base_score, columns_of_outputs(forest), strict=True):
        column: list[Any] = []
        for tree, added in additions:
            value = added if column else (base + added).astype(output.dtype)
            wide = value.astype(np.float64)[:, None, None]
            record, of_leaf = nodes[tree]
            column.append(
                new_tree(forest.n_features, (1,), record, of_leaf, wide, int(depth[tree]))
            )
        if not column:
            record, of_leaf = _single_leaf(forest)
            wide = np.full((1, 1, 1), float(base))
            column.append(new_tree(forest.n_features, (1,), record, of_leaf, wide, 0))
        columns.append(column)
    return columns


def _single_leaf(forest: Forest) -> tuple[Array, Array]:
    record = node_arrays(forest.take([0]))[0][0][:1].copy()
    record["left_child"] = record["right_child"] = -1
    record["feature"], record["threshold"] = -2, -2.0
    return record, np.zeros(1, np.int64)
