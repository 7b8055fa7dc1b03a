"""AdaBoost over trees: weighted votes of classifiers, the weighted median of regressors."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.converters.sklearn import nodes as sklearn_nodes
from bitvec.converters.sklearn.unsupported import (
    classes_of,
    inputs_of,
    is_classifier,
    labels_of,
    members,
    numbers,
)
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.output import Aggregate, Output, PostTransform, SoftmaxSum
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.errors import InvalidForestError, UnsupportedModelError


def convert_adaboost(model: Any, kind: str) -> Forest:
    """Convert an AdaBoost model whose members are trees.

    Notes
    -----
    Of a classifier, each leaf gives its tree's weight to the class that it predicts and
    -weight / (n_classes - 1) to the others; the sum is divided by the sum of all weights, also of
    those of rounds without a tree. Two classes have one score, the difference of both: the votes
    are opposite numbers, so it is exactly twice the second. Probabilities are the softmax of
    score / (n_classes - 1).

    Of a regressor, the raw score is the median of the trees' values in order of size, at half of
    the weights' cumulative sum. scikit-learn sorts with an unstable sort beyond 16 trees: where two
    trees give one value and half of the weights is met within rounding, another tree may be chosen.
    """
    trees = members(model, kind)
    inputs = inputs_of(model)
    weight = numbers(getattr(model, "estimator_weights_", None), "estimator_weights_")
    if weight.size < len(trees):
        raise InvalidForestError(
            f"`estimator_weights_` must hold one weight for each of {len(trees)} trees, got "
            f"{weight.size}: the model is damaged."
        )
    if not is_classifier(kind):
        arranged = sklearn_nodes.arrange_trees(model, trees, inputs.n_features, [(1,)] * len(trees))
        output = Output(
            1,
            np.dtype(np.float64),
            aggregate=Aggregate.WEIGHTED_MEDIAN,
            tree_weight=weight[: len(trees)],
        )
        leaves = Leaves(arranged.value[:, 0])
        return Forest(arranged.tests, arranged.bitvectors, leaves, output, inputs, arranged.source)
    if getattr(model, "algorithm", None) == "SAMME.R":
        raise UnsupportedModelError(
            "an AdaBoostClassifier must use the algorithm SAMME, got SAMME.R, which adds the "
            "logarithms of centred probabilities: fit it with `algorithm='SAMME'`."
        )
    classes = classes_of(model)
    if classes.size < 2:
        raise UnsupportedModelError(
            "an AdaBoostClassifier must have at least 2 classes, got 1, whose score is 0 whatever "
            "its trees say: fit it with rows of another class."
        )
    known = [_places(tree, classes) for tree in trees]
    arranged = sklearn_nodes.arrange_trees(
        model, trees, inputs.n_features, [(part.size,) for part in known]
    )
    says = np.zeros(arranged.leaf.size, np.intp)
    for index, part in enumerate(known):
        of_tree = arranged.tree == index
        value = arranged.value[of_tree, 0, : part.size]
        says[of_tree] = part[value.argmax(axis=1)]
    output = Output(
        1 if classes.size == 2 else classes.size,
        np.dtype(np.float64),
        aggregate=Aggregate.MEAN,
        divisor=np.full(1 if classes.size == 2 else classes.size, weight.sum()),
        post_transform=PostTransform.SOFTMAX_OF_HALVES
        if classes.size == 2
        else PostTransform.SOFTMAX,
        parameter=1.0 if classes.size == 2 else float(classes.size - 1),
        classes=(classes,),
        labels_from_raw=True,
        softmax_sum=SoftmaxSum.IN_ORDER,
    )
    leaves = Leaves(_votes(says, weight[arranged.tree], classes.size))
    return Forest(arranged.tests, arranged.bitvectors, leaves, output, inputs, arranged.source)


def _votes(
    says: Int64[Array, " n_leaves"], weight: Float64[Array, " n_leaves"], n_classes: int
) -> Float64[Array, "n_leaves n_outputs"]:
    if n_classes == 2:
        return np.where(says == 1, 2 * weight, -2 * weight)[:, None]
    against = -1 / (n_classes - 1) * weight
    chosen = says[:, None] == np.arange(n_classes)
    return np.where(chosen, weight[:, None], against[:, None])


def _places(tree: Any, classes: Array) -> Array:
    """Return where a member's classes stand among those of the model."""
    own = labels_of(getattr(tree, "classes_", None))
    if own.dtype.kind != classes.dtype.kind or not np.all(np.isin(own, classes)):
        raise InvalidForestError(
            "the classes of each tree must be classes of the model: the model is damaged."
        )
    return np.searchsorted(classes, own)
