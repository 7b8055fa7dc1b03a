"""scikit-learn's own trees, node by node, as its prediction code walks them.

Read from the arrays of the estimators, and independent of the conversion. What scikit-learn does
with them is said by `Tree._apply_dense` in `sklearn/tree/_tree.pyx`, and in `sklearn/ensemble` by
`predict_stages` in `_gradient_boosting.pyx`, `_parallel_predict_proba` in `_bagging.py`,
`decision_function` in `_weight_boosting.py` and `_compute_score_samples` in `_iforest.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn import ensemble, tree
from sklearn.ensemble._iforest import _average_path_length

from bitvec.converters.sklearn.histogram_walker import binned
from bitvec.converters.sklearn.walked_positions import boosting, joined, labels
from bitvec.core.arrays import Array
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Aggregate, PostTransform, SoftmaxSum
from bitvec.core.shape_annotations import Float64
from bitvec.verify.source_trees import SourceTrees


def source_trees(model: Any) -> SourceTrees:
    """Return the trees of a fitted estimator, or of a subclass that answers as its base.

    A leaf's id is its position in its tree. The raw score at which the label of an isolation forest
    turns is not stated.
    """
    return next(_TABLE[cls] for cls in type(model).__mro__ if cls in _TABLE)(model)


def _averaged(model: Any) -> SourceTrees:
    """Return a tree, or the mean of trees; `value` holds shares of classes, target by target."""
    single = hasattr(model, "tree_")
    members = [model] if single else model.estimators_
    sizes = members[0].tree_.n_classes.tolist()
    values = (
        np.concatenate([_value(m)[:, k, :size] for k, size in enumerate(sizes)], axis=1)
        for m in members
    )
    stated: dict[str, Any] = {"aggregate": Aggregate.SUM if single else Aggregate.MEAN}
    if hasattr(model, "classes_"):
        of_targets = model.classes_ if isinstance(model.classes_, list) else [model.classes_]
        stated |= {"classes": tuple(map(labels, of_targets)), "groups": tuple(sizes)}
    return _carts(model, members, values, **stated)


def _bagged(model: Any) -> SourceTrees:
    """Return the mean of trees that read some columns and add to the classes that they know."""

    def shares(member: Any) -> Array:
        if not hasattr(model, "classes_"):
            return _value(member)[:, :, 0]
        wide = np.zeros((member.tree_.node_count, len(model.classes_)))
        wide[:, member.classes_] = _value(member)[:, 0]
        return wide

    stated: dict[str, Any] = {"aggregate": Aggregate.MEAN}
    if hasattr(model, "classes_"):
        stated["classes"] = (labels(model.classes_),)
    values = map(shares, model.estimators_)
    columns = model.estimators_features_
    return _carts(model, model.estimators_, values, columns=columns, **stated)


def _boosted(model: Any) -> SourceTrees:
    """Return trees that add the learning rate times their values to the initial model's score.

    The loop asks for `x <= threshold` alone, so that a missing value would go right.
    """
    members = model.estimators_.ravel().tolist()
    values = (model.learning_rate * _value(member)[:, 0] for member in members)
    start = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0]
    n_outputs = model.estimators_.shape[1]
    return _carts(
        model,
        members,
        values,
        nan_right=True,
        n_outputs=n_outputs,
        softmax_sum=SoftmaxSum.WIDE,
        **boosting(model, start),
    )


def _voted(model: Any) -> SourceTrees:
    """Return votes: w for the class that a tree predicts, -w / (n_classes - 1) for the others.

    The one score of two classes is the votes for the second less those for the first.
    """
    classes, weights = model.classes_, model.estimator_weights_
    n, several = len(classes), len(classes) > 2

    def votes(member: Any, w: float) -> Array:
        says = member.classes_[_value(member)[:, 0].argmax(axis=1)]
        each = np.where(says[:, None] == classes, w, -1 / (n - 1) * w)
        return each if several else each[:, 1:] - each[:, :1]

    return _carts(
        model,
        model.estimators_,
        map(votes, model.estimators_, weights),
        aggregate=Aggregate.MEAN,
        divisor=np.full(n if several else 1, weights.sum()),
        classes=(labels(classes),),
        labels_from_raw=True,
        post_transform=PostTransform.SOFTMAX if several else PostTransform.SOFTMAX_OF_HALVES,
        parameter=float(n - 1),
        softmax_sum=SoftmaxSum.IN_ORDER,
    )


def _median(model: Any) -> SourceTrees:
    """Return trees of which the median counts, by the weights of the trees."""
    members = model.estimators_
    weights = model.estimator_weights_[: len(members)]
    values = (_value(member)[:, 0] for member in members)
    return _carts(model, members, values, aggregate=Aggregate.WEIGHTED_MEDIAN, tree_weight=weights)


def _isolated(model: Any) -> SourceTrees:
    """Return minus the depths, and what an unfinished tree of a leaf's rows would add to them."""
    members = model.estimators_
    kept = model._decision_path_lengths, model._average_path_length_per_tree
    values = (-(length + average - 1.0)[:, None] for length, average in zip(*kept, strict=True))
    reads_all = model._max_features == model.n_features_in_
    scale = len(members) * _average_path_length([model._max_samples])[0]
    return _carts(
        model,
        members,
        values,
        columns=None if reads_all else model.estimators_features_,
        classes=(np.array([1, -1]),),
        labels_from_raw=True,
        post_transform=PostTransform.EXPONENTIAL_STANDARD_RATIO,
        parameter=-float(scale),
    )


def _carts(
    model: Any,
    members: list[Any],
    values: Iterable[Float64[Array, "n_positions width"]],
    *,
    columns: list[Array] | None = None,
    nan_right: bool = False,
    **stated: Any,
) -> SourceTrees:
    """Return trees that compare rows of float32 with thresholds of float64.

    Parameters
    ----------
    values : iterable of float64, (n_positions, width)
        What each tree holds at its positions.
    columns : list, optional
        The columns that each tree reads.
    nan_right : bool
        Whether a missing value goes right everywhere.
    """
    trees = [member.tree_ for member in members]

    def every(name: str) -> Array:
        return np.concatenate([getattr(tree, name) for tree in trees])

    links = every("children_left"), every("children_right")
    inner = links[0] != -1
    size = np.array([tree.node_count for tree in trees])
    feature = every("feature")[inner]
    if columns is not None:
        first = np.repeat(np.cumsum([0, *map(len, columns)])[:-1], size)[inner]
        feature = np.concatenate(columns)[first + feature]
    missing_right = nan_right or every("missing_go_to_left")[inner] == 0
    tests = axis_aligned(feature, every("threshold")[inner], missing_right=missing_right)
    v = np.concatenate(list(values))
    return joined(model, size, inner, tests, links, v, row_dtype=np.float32, **stated)


def _value(member: Any) -> Float64[Array, "n_positions n_targets max_n_classes"]:
    value: Array = member.tree_.value
    return value


_TABLE: dict[type, Callable[[Any], SourceTrees]] = {
    tree.DecisionTreeClassifier: _averaged,
    tree.DecisionTreeRegressor: _averaged,
    ensemble.RandomForestClassifier: _averaged,
    ensemble.RandomForestRegressor: _averaged,
    ensemble.ExtraTreesClassifier: _averaged,
    ensemble.ExtraTreesRegressor: _averaged,
    ensemble.BaggingClassifier: _bagged,
    ensemble.BaggingRegressor: _bagged,
    ensemble.GradientBoostingClassifier: _boosted,
    ensemble.GradientBoostingRegressor: _boosted,
    ensemble.HistGradientBoostingClassifier: binned,
    ensemble.HistGradientBoostingRegressor: binned,
    ensemble.AdaBoostClassifier: _voted,
    ensemble.AdaBoostRegressor: _median,
    ensemble.IsolationForest: _isolated,
}
