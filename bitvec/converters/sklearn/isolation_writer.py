"""Isolation forests written back: sums of depths whose labels turn where scikit-learn's turn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.tree import ExtraTreeRegressor

from bitvec.converters.sklearn.isolation import average_path_length, highest_inlier
from bitvec.converters.sklearn.new_estimators import dense, named, unsupported, weighted
from bitvec.converters.sklearn.tree_arrays import new_tree, node_arrays
from bitvec.core.forest import Forest
from bitvec.core.output import Output
from bitvec.core.tree_paths import tree_depth

MOST_ROWS = 1 << 40


def isolating(forest: Forest) -> Any:
    """Return the IsolationForest of a forest whose raw score is minus a sum of depths."""
    output = forest.output
    if forest.n_outputs != 1 or output.dtype != np.float64 or np.any(output.base_score != 0):
        raise unsupported("sum its depths to one float64 score without a base score")
    if output.scale is not None or output.tie_to_second or not output.labels_from_raw:
        raise unsupported("tell outliers by a sum of depths that exceeds a boundary")
    if output.classes is None or output.classes[0].tolist() != [1, -1]:
        raise unsupported("call inliers 1 and outliers -1, got other labels, or none")
    depth = -dense(forest, weighted(forest))[:, 0]
    if not np.array_equal((depth + 1.0) - 1.0, depth):
        raise unsupported(
            "hold depths that scikit-learn's own sum keeps, got ones that it would round"
        )
    members, lengths = [], []
    leaf_ptr, deepest = forest.bitvectors.leaf_ptr, tree_depth(forest.bitvectors)
    for tree, (record, of_leaf) in enumerate(node_arrays(forest)):
        part = depth[leaf_ptr[tree] : leaf_ptr[tree + 1]]
        member = ExtraTreeRegressor(max_features=1)
        value = np.zeros((part.size, 1, 1))
        member.tree_ = new_tree(forest.n_features, (1,), record, of_leaf, value, int(deepest[tree]))
        member.n_outputs_, member.n_features_in_ = 1, forest.n_features
        member.max_features_ = 1
        length = np.ones(len(record))
        length[of_leaf] += part
        members.append(member)
        lengths.append(length)
    model = IsolationForest(n_estimators=forest.n_trees)
    model.estimator_, model.estimators_ = ExtraTreeRegressor(max_features=1), members
    model.estimators_features_ = [np.arange(forest.n_features)] * forest.n_trees
    model._max_features = forest.n_features
    model._max_samples = model.max_samples_ = _rows_per_tree(-output.parameter, forest.n_trees)
    model._decision_path_lengths = tuple(lengths)
    model._average_path_length_per_tree = tuple(np.zeros(part.size) for part in lengths)
    model.offset_ = _offset(forest, output)
    return named(model, forest)


def _rows_per_tree(scale: float, n_trees: int) -> int:
    """Return the number of rows whose expected depth the scores are measured by."""
    low, high = 1, MOST_ROWS
    while high - low > 1:
        middle = (low + high) // 2
        above = n_trees * average_path_length(np.array([middle]))[0] >= scale
        low, high = (low, middle) if above else (middle, high)
    if n_trees * average_path_length(np.array([high]))[0] != scale:
        raise unsupported(
            "measure its depths by what a whole number of rows would give, as before trees were "
            "added or taken away"
        )
    return high


def _offset(forest: Forest, output: Output) -> float:
    scale = -output.parameter
    assert output.boundary is not None
    raw = np.full(8, output.boundary)  # several, as in `highest_inlier`
    metadata = {} if forest.source is None else forest.source.metadata
    for offset in (metadata.get("offset"), float(-(2 ** -(-raw / scale))[0])):
        if isinstance(offset, float) and highest_inlier(scale, offset) == output.boundary:
            return offset
    raise unsupported(
        "turn its labels where a score turns, got a boundary between two of one score"
    )
