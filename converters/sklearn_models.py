"""What is read from a scikit-learn model, checked before any of it is followed.

A model may come from a file of unknown origin: scikit-learn itself follows child links and column
numbers without a look at their range, so nothing of a model is run before `gather` has passed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitvec.arrays import Array
from bitvec.errors import InvalidForestError, MissingLibraryError, UnsupportedModelError

try:
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.tree import (
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        ExtraTreeClassifier,
        ExtraTreeRegressor,
    )
    from sklearn.tree._tree import Tree
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "lifting a scikit-learn model") from error

TREES = (ExtraTreeClassifier, ExtraTreeRegressor, DecisionTreeClassifier, DecisionTreeRegressor)
FORESTS = (
    RandomForestClassifier,
    RandomForestRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
)

_ANSWERING = ("predict", "predict_proba", "_validate_X_predict")
"""The methods that answer; a subclass that overrides one answers something else."""

_ADVICE = {
    "AdaBoost": "it weighs the votes of its trees; convert its members, `model.estimators_[i]`",
    "Bagging": "its members read subsets of the columns; convert them, `model.estimators_[i]`",
    "HistGradientBoosting": "train the same trees with LightGBM or xgboost, which are lifted",
    "GradientBoosting": "train the same trees with LightGBM or xgboost, which are lifted",
    "IsolationForest": "it scores path lengths; convert its members, `model.estimators_[i]`",
    "RandomTreesEmbedding": "it returns leaf indicators; convert its members, "
    "`model.estimators_[i]`",
    "SearchCV": "convert the model that it chose, `model.best_estimator_`",
    "CalibratedClassifier": "convert `model.calibrated_classifiers_[i].estimator`",
    "Voting": "convert its members, `model.estimators_[i]`",
    "Stacking": "convert its members, `model.estimators_[i]`",
    "MultiOutput": "convert its members, `model.estimators_[i]`, or fit one forest on all targets",
}
"""Part of a class name, and what its owner can do instead; the first match counts."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The node records of all trees, one tree after the other, checked."""

    record: Array
    """(n_positions,), scikit-learn's node struct."""
    value: Float64[Array, "n_positions n_targets max_n_classes"]
    start: Array
    """(n_trees + 1,), where each tree begins."""


def is_classifier(model: Any) -> bool:
    """Tell a classifier from a regressor."""
    return isinstance(model, (DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier))


def is_forest(model: Any) -> bool:
    """Tell an average of trees from a single tree."""
    return isinstance(model, FORESTS)


def members(model: Any) -> list[Any]:
    """Return the single-tree estimators of a model that is supported and fitted.

    Raises
    ------
    UnsupportedModelError
        If the model or one of its members is of another class, answers in its own way, or is not
        fitted.
    """
    _require_supported(model, (*TREES, *FORESTS))
    trees = getattr(model, "estimators_", None) if is_forest(model) else [model]
    if not isinstance(trees, list) or not all(hasattr(tree, "tree_") for tree in trees):
        raise UnsupportedModelError(
            f"the {type(model).__name__} must be fitted, got one without trees: call fit first."
        )
    if not trees:
        raise UnsupportedModelError(
            f"the {type(model).__name__} must have at least one tree, got none: fit it again."
        )
    for tree in trees:
        _require_supported(tree, TREES)
        if is_classifier(tree) != is_classifier(model):
            raise UnsupportedModelError(
                f"the trees of a {type(model).__name__} must be of its own kind, got a "
                f"{type(tree).__name__}: fit the model again."
            )
    return trees


def _require_supported(model: Any, supported: tuple[type, ...]) -> None:
    name = type(model).__name__
    base = next((kind for kind in supported if isinstance(model, kind)), None)
    if base is None:
        raise UnsupportedModelError(_refusal(model))
    for method in _ANSWERING:
        own = getattr(type(model), method, None)
        if own is not getattr(base, method, None):
            raise UnsupportedModelError(
                f"a subclass of {base.__name__} must inherit `{method}`, got {name}, which has its "
                f"own: its answers are not those of its trees, so convert a plain {base.__name__}."
            )


def _refusal(model: Any) -> str:
    name = type(model).__name__
    steps = getattr(model, "steps", None)
    if name == "Pipeline" and isinstance(steps, list) and steps:
        last = type(steps[-1][-1]).__name__
        return (
            "a Pipeline cannot be lifted, because its other steps change the columns that the "
            f"trees read: convert its last step, `model[-1]` (a {last}), and give it the rows "
            "that `model[:-1].transform(X)` returns."
        )
    names = ", ".join(kind.__name__ for kind in (*TREES, *FORESTS))
    match = next((advice for part, advice in _ADVICE.items() if part in name), None)
    return f"the model must be one of {names}, got {name}" + (f": {match}." if match else ".")


def whole_number(model: Any, name: str) -> int:
    """Return an attribute that must be a whole number of at least 1."""
    value = getattr(model, name, None)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidForestError(
            f"`{name}` must be a whole number of at least 1, got {value!r}: the model is damaged "
            "or not fitted."
        )
    return int(value)


def class_labels(model: Any) -> list[Array]:
    """Return the labels of each target, as arrays of numbers, booleans or strings."""
    several = whole_number(model, "n_outputs_") > 1
    found = getattr(model, "classes_", None)
    targets = found if several else [found]
    if not isinstance(targets, list) or len(targets) != model.n_outputs_:
        raise InvalidForestError(
            f"`classes_` must hold one array per target, got {type(found).__name__} for "
            f"{model.n_outputs_} targets: the model is damaged."
        )
    return [_labels(labels) for labels in targets]


def _labels(labels: Any) -> Array:
    array = np.asarray(labels)
    if array.dtype == object:
        items = array.ravel().tolist()
        kinds = {type(item) for item in items}
        # One type only: NumPy would turn [1, "a"] into strings without a word.
        array = np.asarray(items) if len(kinds) == 1 else array
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "biufU":
        raise UnsupportedModelError(
            "class labels must be one axis of numbers, booleans or strings, got "
            f"{array.dtype} of shape {array.shape}: encode the labels and fit again."
        )
    return array


def gather(trees: list[Any], n_features: int, classes: list[Array] | None) -> Nodes:
    """Concatenate the trees' records, checked so that every index that is followed is in range.

    Cycles and shared children are left to `structure.arrange`.

    Raises
    ------
    InvalidForestError
        If a tree holds no nodes, reads other features, has other classes, or points out of range.
    """
    records, values = [], []
    for index, estimator in enumerate(trees):
        tree = estimator.tree_
        # `nodes` points into memory that belongs to the tree: its bounds come first.
        if type(tree) is not Tree or not 1 <= tree.node_count <= tree.capacity:
            raise InvalidForestError(
                f"tree {index} must hold its nodes, got {type(tree).__name__} with "
                f"{getattr(tree, 'node_count', 0)} of them: the model is damaged."
            )
        records.append(tree.__getstate__()["nodes"])
        values.append(tree.value)
        _require_shape(index, tree, n_features, classes)
    record = np.concatenate(records)
    start = np.cumsum([0, *map(len, records)])
    left, right = record["left_child"], record["right_child"]
    size = np.repeat(np.diff(start), np.diff(start))
    inner = left != -1
    sound = np.where(
        inner,
        (left >= 0) & (left < size) & (right >= 0) & (right < size),
        right == -1,
    )
    if not sound.all():
        raise InvalidForestError(
            "the children of a node must be two positions of its own tree, or -1 twice: the "
            "model's child links are damaged."
        )
    feature = record["feature"]
    if not np.all(~inner | ((feature >= 0) & (feature < n_features))):
        raise InvalidForestError(
            f"each node must read a feature below {n_features}: the model is damaged."
        )
    return Nodes(record, np.concatenate(values), start)


def _require_shape(index: int, tree: Any, n_features: int, classes: list[Array] | None) -> None:
    got = (tree.n_features, *tree.n_classes.tolist())
    want = (n_features, *(labels.size for labels in classes or ()))
    if classes is None:
        want = (n_features, *([1] * max(tree.n_outputs, 1)))
    if got != want:
        raise InvalidForestError(
            f"tree {index} must read {n_features} features and have {want[1:]} classes per "
            f"target, got {got[0]} and {got[1:]}: the model is damaged."
        )
