"""Forests written back as scikit-learn estimators that predict the same, bit for bit.

Of forests that compare in float32, a tree or a mean of trees becomes a decision tree or a random
forest, a sum of trees a GradientBoosting model of learning rate 1 that starts from zero, a weighted
median an AdaBoost regressor, and an isolation forest one of its kind. A sum of trees that compare
in float64 becomes a HistGradientBoosting model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bitvec.converters.sklearn import boosting_writer, histogram_writer, isolation_writer
from bitvec.converters.sklearn.new_estimators import (
    dense,
    named,
    set_classes,
    unsupported,
    weighted,
)
from bitvec.converters.sklearn.skops import dumps
from bitvec.converters.sklearn.tree_arrays import new_tree, node_arrays
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.output import Aggregate, PostTransform
from bitvec.core.shape_annotations import Float64
from bitvec.core.tree_paths import tree_depth
from bitvec.errors import needs
from bitvec.files import atomic
from bitvec.files.atomic import StrPath

with needs("scikit-learn", "sklearn", "Writing a scikit-learn model"):
    from sklearn.ensemble import (
        AdaBoostRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor


def to_sklearn(forest: Forest) -> Any:
    """Return a fitted scikit-learn estimator that predicts what the forest predicts.

    Parameters
    ----------
    forest : Forest
        Axis-aligned. If it compares in float32, without category sets; its answers are those of a
        single tree or a mean of trees (probabilities or values), a float64 sum of trees (identity,
        sigmoid or softmax), a weighted median, or the depths of an isolation forest. If it compares
        in float64, a float64 sum of trees (identity, exponential, sigmoid or softmax).

    Returns
    -------
    DecisionTree, RandomForest, GradientBoosting or HistGradientBoosting estimator,
    AdaBoostRegressor or IsolationForest
        Missing values are routed as the forest routes them where scikit-learn accepts them, which
        GradientBoosting and AdaBoost do not. Inner nodes have no values or impurities; training
        weights are the source's, or counts of leaves.

    Raises
    ------
    UnsupportedModelError
        If scikit-learn cannot hold the forest.
    MissingLibraryError
        If scikit-learn is not installed.

    Examples
    --------
    >>> from bitvec.converters.sklearn.read import convert
    >>> tree = DecisionTreeRegressor().fit([[0.0], [1.0]], [10.0, 20.0])
    >>> to_sklearn(convert(tree)).predict([[0.5], [0.75]]).tolist()
    [10.0, 20.0]
    """
    _require_tests(forest)
    output = forest.output
    if forest.dtype == np.float64:
        if output.aggregate is Aggregate.SUM:
            return histogram_writer.summed(forest)
        raise unsupported(
            "sum its trees if it compares in float64, as only its HistGradientBoosting does, got "
            f"{output.aggregate}"
        )
    if output.aggregate is Aggregate.WEIGHTED_MEDIAN:
        return _median(forest)
    if output.post_transform is PostTransform.EXPONENTIAL_STANDARD_RATIO:
        return isolation_writer.isolating(forest)
    averaged = output.aggregate is Aggregate.MEAN or (
        forest.n_trees == 1 and output.aggregate is Aggregate.SUM
    )
    if averaged and output.post_transform is PostTransform.IDENTITY:
        return _average(forest)
    if output.aggregate is Aggregate.SUM:
        return boosting_writer.summed(forest)
    raise unsupported(
        f"answer with the mean, sum or weighted median of its trees, got {output.aggregate} with "
        f"{output.post_transform}"
    )


def save(forest: Forest, path: StrPath) -> Path:
    """Write a forest as a .skops file, which replaces a file that is there.

    Raises
    ------
    UnsupportedModelError
        As `to_sklearn`.
    """
    return atomic.write(path, dumps(to_sklearn(forest)))


def _require_tests(forest: Forest) -> None:
    tests = forest.tests
    if forest.n_trees == 0:
        raise unsupported("have at least one tree, got none")
    if forest.feature_map is not None or forest.kernel is not None:
        raise unsupported("read X itself with hard tests, got a feature map or a prediction kernel")
    if forest.leaves.linear is not None:
        raise unsupported("have constant leaves, got linear ones")
    if np.any(tests.missing_rule != MissingRule.NAN):
        raise unsupported("count only NaN as missing, got another rule")
    if np.any((tests.relation == Relation.GREATER_EQUAL) & np.isneginf(tests.b)):
        raise unsupported("send some value left at each node, got a threshold of -inf with `>=`")
    held = (Kind.MARGIN,) if forest.dtype == np.float32 else (Kind.MARGIN, Kind.SET)
    if not np.all(np.isin(tests.kind, held)) or not np.all(tests.is_one_hot):
        raise unsupported(
            "compare one column with a threshold at each node, or in float64 ask for its category, "
            "got another test"
        )


def _average(forest: Forest) -> Any:
    output, n = forest.output, forest.n_trees
    v = dense(forest, weighted(forest))
    if n == 1:
        start = output.base_score if output.base_first else np.zeros(forest.n_outputs, output.dtype)
        v = output.finish(start + v, 1).astype(np.float64)
    elif output.dtype != np.float64 or np.any(output.base_score != 0):
        raise unsupported(
            f"average in float64 without a base score, got {output.dtype} with {output.base_score}"
        )
    elif output.divisor is not None and np.any(output.divisor != n):
        raise unsupported(f"divide by its {n} trees, got {output.divisor}")
    groups = output.groups
    if output.classes is None:
        n_classes, value = (1,) * forest.n_outputs, v[:, :, None]
    else:
        if any(c.size != size for c, size in zip(output.classes, groups, strict=True)):
            raise unsupported("have one output for each class, got one for two of them")
        n_classes, value = groups, np.zeros((len(v), len(groups), max(groups)))
        for target, end in enumerate(np.cumsum(groups)):
            value[:, target, : groups[target]] = v[:, end - groups[target] : end]
    kind = DecisionTreeRegressor if output.classes is None else DecisionTreeClassifier
    members = _estimators(forest, kind, n_classes, value)
    for member in members:
        set_classes(member, [np.arange(size) for size in groups] if output.classes else None)
    if output.aggregate is Aggregate.SUM:
        model = members[0]
    else:
        ensemble = RandomForestRegressor if output.classes is None else RandomForestClassifier
        model = ensemble(n_estimators=n)
        model.estimator_, model.estimators_ = kind(), members
        model.n_outputs_ = len(n_classes)
    set_classes(model, None if output.classes is None else [np.array(c) for c in output.classes])
    return named(model, forest)


def _estimators(
    forest: Forest,
    kind: type,
    n_classes: tuple[int, ...],
    value: Float64[Array, "n_leaves n_targets max_n_classes"],
) -> list[Any]:
    """Return one single-tree estimator for each tree."""
    leaf_ptr, depth = forest.bitvectors.leaf_ptr, tree_depth(forest.bitvectors)
    result = []
    for tree, (record, of_leaf) in enumerate(node_arrays(forest)):
        member = kind(max_depth=max(int(depth[tree]), 1))
        part = np.ascontiguousarray(value[leaf_ptr[tree] : leaf_ptr[tree + 1]], np.float64)
        member.tree_ = new_tree(
            forest.n_features, n_classes, record, of_leaf, part, int(depth[tree])
        )
        member.n_outputs_, member.n_features_in_ = len(n_classes), forest.n_features
        member.max_features_ = forest.n_features
        result.append(member)
    return result


def _median(forest: Forest) -> Any:
    output = forest.output
    if forest.n_outputs != 1 or np.any(output.base_score != 0) or output.dtype != np.float64:
        raise unsupported("take the weighted median of one float64 output without a base score")
    if output.post_transform is not PostTransform.IDENTITY or output.classes is not None:
        raise unsupported("take the weighted median of values, got classes or a post-transform")
    model = AdaBoostRegressor(n_estimators=forest.n_trees)
    value = dense(forest, forest.leaves.v)[:, :, None]
    model.estimators_ = _estimators(forest, DecisionTreeRegressor, (1,), value)
    model.estimator_ = DecisionTreeRegressor()
    model.estimator_weights_ = np.array(output.tree_weight)
    model.estimator_errors_ = np.ones(forest.n_trees)
    return named(model, forest)
