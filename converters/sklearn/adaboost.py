"""AdaBoost over trees: weighted votes of classifiers, the weighted median of regressors."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64

from bitvec.arrays import Array
from bitvec.converters.sklearn import nodes as sklearn_nodes
from bitvec.converters.sklearn.supported import (
    inputs_of,
    is_classifier,
    labels_of,
    members,
    numbers,
)
from bitvec.errors import InvalidForestError, UnsupportedModelError
from bitvec.forest import Forest
from bitvec.leaves import Leaves
from bitvec.output import Aggregate, Output, PostTransform


def lift_adaboost(model: Any, kind: str) -> Forest:
    """Lift an AdaBoost model whose members are trees.

    Notes
    -----
    Of a classifier, each leaf gives its tree's weight to the class that it predicts and
    -weight / (n_classes - 1) to the others; the sum is divided by the sum of all weights, also of
    those of rounds without a tree. Two classes have one score, the difference of both: the votes
    are opposite numbers, so it is exactly twice the second.

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
        lifted = sklearn_nodes.lift(model, trees, inputs.n_features, [(1,)] * len(trees))
        output = Output(
            1,
            np.dtype(np.float64),
            aggregate=Aggregate.WEIGHTED_MEDIAN,
            tree_weight=weight[: len(trees)],
        )
        leaves = Leaves(lifted.value[lifted.leaf, 0])
        return Forest(lifted.tests, lifted.bitvectors, leaves, output, inputs, lifted.source)
    if getattr(model, "algorithm", None) == "SAMME.R":
        raise UnsupportedModelError(
            "an AdaBoostClassifier must use the algorithm SAMME, got SAMME.R, which adds the "
            "logarithms of centred probabilities: fit it with `algorithm='SAMME'`."
        )
    classes = labels_of(getattr(model, "classes_", None))
    if classes.size != 2:
        # Its probabilities are softmax(score / (n_classes - 1)), its labels come from the score.
        raise UnsupportedModelError(
            f"an AdaBoostClassifier must have 2 classes, got {classes.size}, for which its "
            "probabilities are a softmax of scaled scores that a forest cannot state: fit one "
            "model per class, or convert its members, `model.estimators_[i]`."
        )
    known = [_places(tree, classes) for tree in trees]
    lifted = sklearn_nodes.lift(model, trees, inputs.n_features, [(part.size,) for part in known])
    says_second = np.zeros(lifted.leaf.size, bool)
    for index, part in enumerate(known):
        of_tree = lifted.tree == index
        value = lifted.value[lifted.leaf[of_tree], 0, : part.size]
        says_second[of_tree] = part[value.argmax(axis=1)] == 1
    vote = weight[lifted.tree]
    v: Float64[Array, "n_leaves 1"] = np.where(says_second, 2 * vote, -2 * vote)[:, None]
    output = Output(
        1,
        np.dtype(np.float64),
        aggregate=Aggregate.MEAN,
        divisor=np.array([weight.sum()]),
        post_transform=PostTransform.SIGMOID,
        classes=(classes,),
        labels_from_raw=True,
    )
    return Forest(lifted.tests, lifted.bitvectors, Leaves(v), output, inputs, lifted.source)


def _places(tree: Any, classes: Array) -> Array:
    """Return where a member's classes stand among those of the model."""
    own = labels_of(getattr(tree, "classes_", None))
    if own.dtype.kind != classes.dtype.kind or not np.all(np.isin(own, classes)):
        raise InvalidForestError(
            "the classes of each tree must be classes of the model: the model is damaged."
        )
    return np.searchsorted(classes, own)
