"""The estimators of this package: the Forest that each holds, and its answers to compare with.

They stand above this module, so they are known by the package of their class.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError
from bitvec.verify.oracle import Oracle

PACKAGES: Final = ("bitvec.learners", "bitvec.learners.retrained")


def is_estimator(model: Any) -> bool:
    """Return whether a model is an estimator of this package, fitted or not."""
    within = tuple(f"{package}." for package in PACKAGES)
    ours = any(cls.__module__.startswith(within) for cls in type(model).__mro__)
    return ours and hasattr(type(model), "predict")


def is_fitted(model: Any) -> bool:
    """Return whether an estimator of this package has a Forest."""
    return isinstance(getattr(model, "forest_", None), Forest)


def held_forest(model: Any) -> Forest:
    """Return the Forest that an estimator predicts by.

    Raises
    ------
    UnsupportedModelError
        If it is not fitted, or answers otherwise than its forest.
    """
    _require_fitted(model)
    beside = getattr(model, "_beside_forest", None)
    if beside is not None:
        raise UnsupportedModelError(
            f"a {type(model).__name__} must answer by its forest alone to be converted, got one "
            f"{beside}: take `model.forest_`, which predicts the same labels."
        )
    forest: Forest = model.forest_
    return forest


def oracle_of_estimator(model: Any, native: Callable[[Any], Oracle]) -> Oracle:
    """Return what an estimator's forest is compared with.

    Leaves and raw scores are those of the native trees' own walks, predictions and probabilities
    those of the estimator, which refuses missing values and infinities.

    Parameters
    ----------
    native : callable
        Returns the Oracle of a native tree or forest.

    Raises
    ------
    UnsupportedModelError
        If it is not fitted, answers otherwise than its forest, or holds no native trees.
    """
    _require_fitted(model)
    trees = getattr(model, "_native", None)
    if trees is None:
        raise UnsupportedModelError(
            f"a {type(model).__name__} has no trees beside `model.forest_` that this could be "
            "compared with: certify it with a file that it was exported to."
        )
    walked = native(trees)
    # Rows come as plain arrays in training order.
    answering = copy.copy(model)
    vars(answering).pop("feature_names_in_", None)
    is_classifier = model.forest_.output.is_classifier
    whole = getattr(model, "_beside_forest", None) is None

    def scores(X: Any) -> Any:
        return answering.predict_proba(X)[:, -model.forest_.n_outputs :]

    return replace(
        walked,
        predict=answering.predict,
        scores=scores if is_classifier and whole else None,
        accepts_missing=False,
        accepts_infinite=False,
    )


def _require_fitted(model: Any) -> None:
    if not is_fitted(model):
        name = type(model).__name__
        raise UnsupportedModelError(
            f"the {name} must be fitted, got one without `forest_`: call fit first."
        )
