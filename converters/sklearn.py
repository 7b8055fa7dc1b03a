"""scikit-learn's decision trees and forests of them, lifted exactly.

scikit-learn casts X to float32 and goes left where float32(x) <= t with t in float64, so t is
rounded down to float32 once: no float32 lies between the two, and every x takes the same side. A
forest's raw score is the float64 sum of the leaf values in tree order, divided by the number of
trees; a tree's is the leaf value itself.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64

from bitvec import structure
from bitvec.arrays import Array
from bitvec.converters.sklearn_models import (
    class_labels,
    gather,
    is_classifier,
    is_forest,
    members,
    whole_number,
)
from bitvec.errors import InputError, MissingLibraryError
from bitvec.forest import Forest
from bitvec.inputs import Inputs
from bitvec.leaves import Leaves
from bitvec.node_tests import axis_aligned
from bitvec.output import Aggregate, Output
from bitvec.source import Source
from bitvec.subject import Subject

try:
    import sklearn
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "lifting a scikit-learn model") from error


def convert(model: Any) -> Forest:
    """Lift a fitted decision tree or forest of scikit-learn.

    Parameters
    ----------
    model : DecisionTree, ExtraTree, RandomForest or ExtraTrees, classifier or regressor
        A subclass is accepted if it inherits the methods that predict.

    Returns
    -------
    Forest
        float32 comparisons, float64 scores: the probabilities of a classifier, one output group
        per target, or the values of a regressor, one output per target.

    Raises
    ------
    UnsupportedModelError
        If the model is of another class, not fitted, or answers in its own way.
    InvalidForestError
        If its arrays do not describe trees, as those of a damaged or hostile file may not.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> convert(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y))
    Forest(1 tree, 2 nodes, 3 leaves, 4 features -> 3 outputs, float32, from sklearn)
    """
    trees = members(model)
    n_features = whole_number(model, "n_features_in_")
    classes = class_labels(model) if is_classifier(model) else None
    nodes = gather(trees, n_features, classes)
    record, start = nodes.record, nodes.start
    # Children count from their own tree's first position; a leaf has -1 twice.
    shift = np.repeat(start[:-1], np.diff(start))
    is_leaf = record["left_child"] < 0
    left, right = (
        np.where(is_leaf, -1, record[side] + shift) for side in ("left_child", "right_child")
    )
    bitvectors, order = structure.arrange(left, right, start[:-1])
    tests = axis_aligned(
        record["feature"][order.node],
        round_down(record["threshold"][order.node]),
        missing_right=record["missing_go_to_left"][order.node] == 0,
    )
    v = _outputs(nodes.value[order.leaf], classes)
    output = Output(
        v.shape[1],
        np.dtype(np.float64),
        aggregate=Aggregate.MEAN if is_forest(model) else Aggregate.SUM,
        classes=None if classes is None else tuple(classes),
        groups=() if classes is None else tuple(labels.size for labels in classes),
    )
    cover = record["weighted_n_node_samples"]
    with np.errstate(all="ignore"):  # statistics of a damaged file may overflow
        mass = cover * record["impurity"]
        gain = mass - mass[left] - mass[right]
    source = Source(
        "sklearn",
        sklearn.__version__,
        type(model).__name__,
        leaf_id=order.leaf - shift[order.leaf],
        node_id=order.node - shift[order.node],
        leaf_cover=cover[order.leaf],
        node_cover=cover[order.node],
        gain=gain[order.node],
        metadata=_parameters(model),
    )
    inputs = Inputs(n_features, _feature_names(model, n_features))
    return Forest(tests, bitvectors, Leaves(v), output, inputs, source)


def subject(model: Any) -> Subject:
    """Return the model as the other side of a comparison.

    `raw` is predict_proba (all targets side by side) or predict, of a shallow copy with
    `n_jobs=1`: with more threads scikit-learn adds the trees in the order in which they finish.

    Raises
    ------
    UnsupportedModelError, InvalidForestError
        As `convert`: nothing is run before its arrays are known to be sound.
    """
    n_features = convert(model).n_features
    trees = members(model)
    answering = copy.copy(model)
    if is_forest(model):
        answering.n_jobs = 1
        answering.verbose = 0
    # Rows come as plain arrays in training order; without names there is nothing to warn of.
    vars(answering).pop("feature_names_in_", None)

    def checked(X: Array) -> Array:
        if X.ndim != 2 or X.shape[1] != n_features:
            raise InputError(
                f"`X` must have {n_features} features, got shape {X.shape}: pass the training "
                "columns."
            )
        return X.astype(np.float32, copy=False)

    def raw(X: Array) -> Float[Array, "batch n_outputs"]:
        X = checked(X)
        answer = answering.predict_proba(X) if is_classifier(model) else answering.predict(X)
        parts = answer if isinstance(answer, list) else [answer.reshape(len(X), -1)]
        scores: Array = np.concatenate(parts, axis=1)
        return scores

    def leaf_ids(X: Array) -> Array:
        X = checked(X)
        # tree_.apply routes NaN and infinities also where the estimator refuses them.
        return np.stack([tree.tree_.apply(X) for tree in trees], axis=1).astype(np.int64)

    probe = np.zeros((1, n_features), np.float32)
    return Subject(
        "sklearn",
        sklearn.__version__,
        raw,
        leaf_ids,
        accepts_missing=bool(trees[0]._support_missing_values(probe)),
        accepts_infinite=False,
    )


def round_down(threshold: Float64[Array, " n"]) -> Float32[Array, " n"]:
    """Return the largest float32 that is not above each float64.

    For every float32 x, x <= t if and only if x <= round_down(t), infinities and signed zeros
    included.

    >>> [float(t) for t in round_down(np.array([0.1, 1e300, -1e-300, 0.5]))]
    [0.09999999403953552, 3.4028234663852886e+38, -1.401298464324817e-45, 0.5]
    """
    with np.errstate(over="ignore"):
        nearest = threshold.astype(np.float32)
        below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest.astype(np.float64) > threshold, below, nearest)


def _outputs(
    value: Float64[Array, "n_leaves n_targets max_n_classes"], classes: list[Array] | None
) -> Float64[Array, "n_leaves n_outputs"]:
    """Lay the targets side by side, without the padding to the largest number of classes."""
    if classes is None:
        return value[:, :, 0]
    return np.concatenate([value[:, k, : c.size] for k, c in enumerate(classes)], axis=1)


def _feature_names(model: Any, n_features: int) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    names = tuple(str(name) for name in np.asarray(names).ravel())
    # Columns of one name cannot be told apart by name: then they have none.
    return names if len(set(names)) == len(names) or len(names) != n_features else None


def _parameters(model: Any) -> dict[str, Any]:
    """Return the constructor's parameters that JSON can hold."""
    return {
        name: value
        for name, value in sorted(vars(model).items())
        if not name.startswith("_")
        and not name.endswith("_")
        and (
            value is None
            or isinstance(value, (str, bool, int))
            or (isinstance(value, float) and math.isfinite(value))
        )
    }
