"""Checks of what is read from a scikit-learn model, before any of it is followed.

A model may come from a file of unknown origin, as a `Record`, or live. Either is read by attribute,
and nothing here imports scikit-learn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bitvec.converters.attribute_records import Record, attributes, class_name
from bitvec.converters.format import require_inherited
from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InvalidForestError, UnsupportedModelError

TREES = (
    "ExtraTreeClassifier",
    "ExtraTreeRegressor",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
)
FORESTS = (
    "RandomForestClassifier",
    "RandomForestRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
)
BAGGING = ("BaggingClassifier", "BaggingRegressor")
BOOSTING = ("GradientBoostingClassifier", "GradientBoostingRegressor")
HISTOGRAMS = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
ADABOOST = ("AdaBoostClassifier", "AdaBoostRegressor")
ISOLATION = ("IsolationForest",)
MODELS = (*TREES, *FORESTS, *BAGGING, *BOOSTING, *HISTOGRAMS, *ADABOOST, *ISOLATION)

_ADVICE = {
    "RandomTreesEmbedding": "it returns leaf indicators; convert its members, "
    "`model.estimators_[i]`",
    "SearchCV": "convert the model that it chose, `model.best_estimator_`",
    "CalibratedClassifier": "its calibrators come after the trees; convert "
    "`model.calibrated_classifiers_[i].estimator`",
    "TunedThreshold": "convert the classifier, `model.estimator_`",
    "FixedThreshold": "convert the classifier, `model.estimator_`",
    "TransformedTarget": "convert the regressor, `model.regressor_`, and transform its answers",
    "Voting": "its members may be of any kind; convert them, `model.estimators_[i]`",
    "Stacking": "its last model reads the answers of others; convert `model.estimators_[i]`",
    "MultiOutput": "convert its members, `model.estimators_[i]`, or fit one forest on all targets",
    "Chain": "each member reads the answers before it; convert `model.estimators_[i]`",
    "OneVsRest": "convert its members, `model.estimators_[i]`, or fit one model on all classes",
    "OneVsOne": "convert its members, `model.estimators_[i]`, or fit one model on all classes",
}
"""Part of a class name, and what its owner can do instead; the first match counts."""


def kind_of(model: Any, supported: tuple[str, ...] = MODELS) -> str:
    """Return which of scikit-learn's classes a model is, or inherits all of its answers from.

    Raises
    ------
    UnsupportedModelError
        If it is of none of them, or answers in its own way.
    """
    if isinstance(model, Record):
        if model.kind not in supported or not model.module.startswith("sklearn."):
            raise _refusal(model, supported)
        return model.kind
    base = next(
        (
            cls
            for cls in type(model).__mro__
            if cls.__name__ in supported and cls.__module__.partition(".")[0] == "sklearn"
        ),
        None,
    )
    if base is None:
        raise _refusal(model, supported)
    require_inherited(type(model), base)
    return base.__name__


def _refusal(model: Any, supported: tuple[str, ...]) -> UnsupportedModelError:
    """Return the error for a model whose class is not one of `supported`."""
    name = class_name(model)
    match = next((advice for part, advice in _ADVICE.items() if part in name), None)
    return UnsupportedModelError(
        f"the model must be one of {', '.join(supported)}, got {name}"
        + (f": {match}." if match else ".")
    )


def is_classifier(kind: str) -> bool:
    """Tell a classifier from a regressor, by the name of its class."""
    return kind.endswith("Classifier")


def members(model: Any, kind: str) -> list[Any]:
    """Return the single-tree estimators of a fitted model that is one, or holds a list of them.

    Raises
    ------
    UnsupportedModelError
        If the model is not fitted, or a member is no tree, or none of the model's own kind.
    """
    trees = [model] if kind in TREES else getattr(model, "estimators_", None)
    name = class_name(model)
    if not isinstance(trees, list) or (kind in TREES and not hasattr(model, "tree_")):
        raise UnsupportedModelError(
            f"the {name} must be fitted, got one without trees: call fit first."
        )
    if not trees:
        raise UnsupportedModelError(
            f"the {name} must have at least one tree, got none: fit it again."
        )
    for tree in trees:
        require_tree(tree, name, is_classifier(kind))
    return trees


def require_tree(tree: Any, owner: str, classifies: bool) -> None:
    """Check that a member is a fitted tree, a classifier or not as its owner needs."""
    kind = kind_of(tree, TREES)
    if is_classifier(kind) != classifies:
        wanted = "classifiers" if classifies else "regressors"
        raise UnsupportedModelError(
            f"the trees of a {owner} must be {wanted}, got a {class_name(tree)}: "
            "fit the model again with trees of that kind."
        )
    if not hasattr(tree, "tree_"):
        raise UnsupportedModelError(
            f"the {owner} must be fitted, got a member without a tree: call fit first."
        )
    if classifies:
        sizes = np.ravel(np.asarray(getattr(tree.tree_, "n_classes", None))).tolist()
        _require_class_counts(tree, sizes)


def whole_number(model: Any, name: str) -> int:
    """Return an attribute that must be a whole number of at least 1."""
    value = getattr(model, name, None)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidForestError(
            f"`{name}` must be a whole number of at least 1, got {value!r}: the model is damaged "
            "or not fitted."
        )
    return int(value)


def real_number(model: Any, name: str) -> float:
    """Return an attribute that must be one finite number."""
    value: Any = getattr(model, name, None)
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, bool
    )
    if not number or not math.isfinite(float(value)):
        raise InvalidForestError(
            f"`{name}` must be a finite number, got {value!r}: the model is damaged or not fitted."
        )
    return float(value)


def numbers(value: Any, name: str, size: int | None = None) -> Float64[Array, " n"]:
    """Return an array of finite float64 on one axis, of a given size if one is given."""
    array = value if isinstance(value, np.ndarray) else None
    if (
        array is None
        or array.dtype != np.float64
        or array.ndim != 1
        or (size is not None and array.size != size)
        or not np.all(np.isfinite(array))
    ):
        wanted = "finite float64" if size is None else f"{size} finite float64"
        got = type(value).__name__ if array is None else f"{array.dtype} of shape {array.shape}"
        raise InvalidForestError(
            f"`{name}` must be an array of {wanted} values, got {got}: the model is damaged."
        )
    return array


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
    classes = [labels_of(labels) for labels in targets]
    _require_class_counts(model, [labels.size for labels in classes])
    return classes


def classes_of(model: Any) -> Array:
    """Return the labels of a classifier of one target."""
    classes = labels_of(getattr(model, "classes_", None))
    _require_class_counts(model, [classes.size])
    return classes


def _require_class_counts(model: Any, sizes: list[int]) -> None:
    """Check `n_classes_`, by which scikit-learn lays out its probabilities."""
    counts = np.ravel(np.asarray(getattr(model, "n_classes_", sizes)))
    if counts.dtype.kind not in "iu" or counts.tolist() != sizes:
        raise InvalidForestError(
            f"`n_classes_` of the {class_name(model)} must be {sizes}, got {counts.tolist()}: the "
            "model is damaged."
        )


def labels_of(labels: Any) -> Array:
    """Return class labels as one axis of numbers, booleans or strings."""
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


def inputs_of(model: Any) -> Inputs:
    """Return the number of columns and their names, if they are distinct."""
    n_features = whole_number(model, "n_features_in_")
    return Inputs(n_features, _feature_names(model, n_features))


def _feature_names(model: Any, n_features: int) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    names = tuple(str(name) for name in np.asarray(names).ravel())
    # Columns of one name cannot be told apart by name: then they have none.
    return names if len(set(names)) == len(names) or len(names) != n_features else None


def parameters(model: Any) -> dict[str, Any]:
    """Return the constructor's parameters that JSON can hold, monotone directions among them."""
    known = dict(attributes(model))
    signs = known.get("monotonic_cst")
    listed: dict[str, Any] = {}
    if isinstance(signs, (list, tuple, np.ndarray)):
        listed["monotonic_cst"] = np.asarray(signs).astype(int).tolist()
    elif isinstance(signs, dict):
        listed["monotonic_cst"] = {str(name): int(sign) for name, sign in signs.items()}
    return listed | {
        name: value
        for name, value in sorted(known.items())
        if not name.startswith("_")
        and not name.endswith("_")
        and (
            value is None
            or isinstance(value, (str, bool, int))
            or (isinstance(value, float) and math.isfinite(value))
        )
    }


def library_version(model: Any) -> str:
    """Return the version of scikit-learn that holds a live model, or that wrote a record."""
    if isinstance(model, Record):
        version = model.state.get("_sklearn_version")
        return version if isinstance(version, str) else "unknown"
    import sklearn

    return str(sklearn.__version__)


def require_trees_per_stage(model: Any, n_outputs: int) -> None:
    """Refuse boosting whose attribute says another number of trees a stage than there are."""
    stated = getattr(model, "n_trees_per_iteration_", n_outputs)
    if stated != n_outputs:
        raise InvalidForestError(
            f"`n_trees_per_iteration_` must be the trees of a stage, {n_outputs}, got {stated}: "
            "the model is damaged."
        )
