"""Base of the estimators of native trees: input, labels, prediction by the converted forest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.converters import native
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float, Float64, Int64, Shaped
from bitvec.errors import InputError, needs
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.runtime.predict.predictor import compile
from bitvec.runtime.predict.threads import effective_jobs

with needs("scikit-learn", "sklearn", "The learners"):
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        assert_all_finite,
        check_array,
        check_is_fitted,
        validate_data,
    )

SEEDS = np.iinfo(np.int32).max
"""Seeds are drawn below this."""


@estimator
class NativeEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators whose fitted model is a native tree, or several, and its Forest."""

    forest_: Forest = attribute("The unified forest, to certify, compile, retrain or export.")
    n_features_in_: int = attribute("Columns of X.")
    feature_names_in_: Shaped[Array, " n_features"] = attribute(
        "Names of the columns, where X has names."
    )
    random_state: int | np.random.RandomState | None = parameter(
        "Seed of all that is drawn.", default=None
    )
    n_jobs: int | None = parameter("Threads, 1 if not given, all cores if −1.", default=None)
    verbose: bool = parameter("Show progress on standard error.", default=False)

    _is_classifier = False

    def _hold(self, model: Any) -> None:
        """Convert a native tree or forest and keep what predicts by it."""
        self._native = model
        self._hold_forest(native.convert(model))

    def _hold_forest(self, forest: Forest) -> None:
        """Keep a forest, with the names of the columns, and what predicts by it."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            inputs = replace(forest.inputs, feature_names=tuple(str(name) for name in names))
            forest = replace(forest, inputs=inputs)
        self.forest_ = forest
        self._predictor = compile(forest, n_jobs=self.n_jobs or 1)

    @property
    def _beside_forest(self) -> str | None:
        """Reason why the estimator answers otherwise than its forest, None where it does not."""
        return None

    def predict(self, X: Any) -> Array:
        """Return the label of each row, or its value, or values: (n_rows,) or (n_rows, n_outputs).

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
        """
        rows = self._rows(X)
        return self._predictor.predict(rows)

    def apply(self, X: Any) -> Int64[Array, "n_rows n_trees"]:
        """Return the leaf at which the crisp route of each row ends, in each tree."""
        rows = self._rows(X)
        return self._predictor.apply(rows)

    def _rows(self, X: Any, *, reset: bool = False) -> Float[Array, "n_rows n_features"]:
        """Return X as finite float64, its names and width compared with those of the fit."""
        if not reset:
            check_is_fitted(self)
        return validate_data(self, X, reset=reset, dtype=np.float64)

    def _fitted_rows(self, X: Any, y: Any) -> Float[Array, "n_rows n_features"]:
        """Return X of a fit as finite float64, and refuse a missing y."""
        # A fit that is interrupted leaves no old trees behind new labels and columns.
        self.__dict__.pop("_predictor", None)
        # In one order: sums over columns of another are rounded otherwise.
        rows = np.ascontiguousarray(self._rows(X, reset=True))
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        return rows

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(SEEDS))

    def _threads(self) -> int:
        return effective_jobs(1 if self.n_jobs is None else self.n_jobs)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_predictor")


@estimator
class NativeClassifier(ClassifierMixin, NativeEstimator):  # type: ignore[misc]
    """Base of the classifiers of native trees."""

    classes_: Shaped[Array, " n_classes"] = attribute("Labels, ascending.")

    _is_classifier = True

    def predict(self, X: Any) -> Array:
        """Return the label of each row, the first of those that are most probable.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
        """
        labels = super().predict(X)
        return labels.astype(self.classes_.dtype, copy=False)

    def predict_proba(self, X: Any) -> Float[Array, "n_rows n_classes"]:
        """Return the probabilities of `classes_`."""
        rows = self._rows(X)
        return self._predictor.predict_proba(rows)


class NativeRegressor(RegressorMixin, NativeEstimator):  # type: ignore[misc]
    """Base of the regressors of native trees, of one output or several."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def labels(y: Any) -> tuple[Array, Int64[Array, " n_rows"]]:
    """Return the classes of y, ascending, and the number of each row's.

    Raises
    ------
    InputError
        If there is one class only.
    """
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size < 2:
        raise InputError(
            f"`y` must have at least 2 classes, got 1 class in {len(y)} rows: a classifier has "
            "nothing to tell apart."
        )
    return classes, codes


def forest_labels(classes: Array) -> Array:
    """Return class labels as a Forest holds them: numbers or texts, never objects.

    Raises
    ------
    InputError
        If they are dates, or objects that are not all text.
    """
    if classes.dtype.kind in "biufU":
        return classes
    if classes.dtype == object and all(isinstance(label, str) for label in classes):
        return classes.astype(str)
    kind = type(classes[0]).__name__ if classes.dtype == object else classes.dtype
    raise InputError(f"class labels must be numbers or text, got {kind}: encode them first.")


def validation_codes(classes: Array, y: Any) -> Int64[Array, " n_rows"]:
    """Return the number of the class of each row that is to be chosen by.

    Raises
    ------
    InputError
        If y has another axis or other labels.
    """
    y = np.asarray(y)
    if y.ndim != 1 or not np.all(np.isin(y, classes)):
        raise InputError(
            "`validation[1]` must hold labels of `y`, got others: leave their rows out."
        )
    return np.searchsorted(classes, y).astype(np.int64)


def validation_rows(model: NativeEstimator, X: Any) -> Float64[Array, "n_rows n_features"]:
    """Return rows that are to be chosen by, which must be like those that the model is fitted to.

    Raises
    ------
    InputError
        If they are not.
    """
    try:
        found: Array = validate_data(model, X, reset=False, dtype=np.float64)
    except ValueError as error:
        raise InputError(f"`validation[0]` must be rows like X: {error}") from None
    return found


def values(y: Any) -> Float[Array, "n_rows n_outputs"]:
    """Return the values of a regression in two axes."""
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    return y[:, None] if y.ndim == 1 else y


def row_weights(X: Array, weight: Any) -> Float[Array, " n_rows"]:
    """Return the weight of each row, 1 if not given.

    Raises
    ------
    InputError
        If weights are no numbers, negative, not finite, all 0, or not one for each row.
    """
    if weight is None:
        return np.ones(len(X))
    found = options.numbers(weight, flags=True)
    if found is None:
        raise InputError(
            f"`sample_weight` must hold {len(X)} finite numbers that are not negative, got text or "
            "other objects: pass one number for each row."
        )
    if found.ndim == 0:
        found = np.full(len(X), float(found))
    if found.shape != (len(X),):
        raise InputError(
            f"`sample_weight` must hold {len(X)} finite numbers that are not negative, got shape "
            f"{found.shape}: pass one number for each row."
        )
    wrong = found[~(np.isfinite(found) & (found >= 0))]
    if wrong.size:
        raise InputError(
            "`sample_weight` must hold finite numbers that are not negative, got "
            f"{float(wrong[0])!r}: leave such rows out."
        )
    if not found.any():
        raise InputError("`sample_weight` must have a positive weight, got zero weights only.")
    return found


def require_rows(X: Array, y: Any) -> None:
    """Refuse X and y of different lengths."""
    check_consistent_length(X, y)
