"""Checks of rows, targets and weights, as scikit-learn makes them; rows of frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Int64
from bitvec.errors import InputError, needs
from bitvec.runtime.predict.frames import as_frame

with needs("scikit-learn", "sklearn", "RetrainedClassifier"):
    from sklearn.utils import check_consistent_length, column_or_1d, get_tags
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import assert_all_finite, check_is_fitted, validate_data


def training_rows(
    estimator: Any, X: Any, y: Any, weight: Any, *, is_classifier: bool
) -> tuple[Any, Array, Array | None]:
    """Return rows, targets and weights checked; rows of weight 0 are left out."""
    X = checked_rows(estimator, X, reset=True)
    if y is None:
        raise InputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    if is_classifier:
        check_classification_targets(y)
    else:
        y = y.astype(np.float64)
    check_consistent_length(X, y)
    if weight is None:
        return X, y, None
    weight = _weights(weight, len(y))
    used = np.flatnonzero(weight)
    return (X, y, weight) if used.size == len(y) else taken((X, y, weight), used)


def checked_rows(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """Return a data frame as it is, and all else as numbers; NaN and infinity pass.

    The model that is fitted, and the forest that predicts, say which values they do not accept.
    """
    if not reset:
        check_is_fitted(estimator)
    if is_frame(X):
        return validate_data(estimator, X, reset=reset, skip_check_array=True)
    return validate_data(estimator, X, reset=reset, accept_sparse="csr", ensure_all_finite=False)


def input_tags(model: Any) -> dict[str, bool]:
    """Return whether a model accepts sparse matrices and NaN, as far as it says so."""
    if not hasattr(model, "__sklearn_tags__"):
        return {"sparse": False, "allow_nan": False}
    tags = get_tags(model).input_tags
    return {"sparse": tags.sparse, "allow_nan": tags.allow_nan}


def taken(parts: tuple[Any, ...], rows: Int64[Array, " n"]) -> tuple[Any, ...]:
    """Return some rows of each part that there is."""
    return tuple(None if part is None else take_rows(part, rows) for part in parts)


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame, whose columns have names and may hold categories."""
    if isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "tocsr"):
        return False
    return as_frame(X) is not None


def take_rows(X: Any, rows: Int64[Array, " n"]) -> Any:
    """Return some rows of an array, a CSR matrix or a data frame, in a container of its kind."""
    if is_frame(X):
        return as_frame(X)[rows].to_native()
    return X[rows]


def _weights(weight: Any, n_rows: int) -> Float[Array, " n_rows"]:
    weight = np.asarray(weight, np.float64)
    sound = weight.shape == (n_rows,) and bool(np.all(weight >= 0)) and np.isfinite(weight.sum())
    if not sound:
        raise InputError(
            f"`sample_weight` must hold {n_rows} numbers that are not negative and have a finite "
            f"sum, got shape {weight.shape}: pass one number for each row."
        )
    if not weight.any():
        raise InputError("`sample_weight` must have a positive weight, got zero weights only.")
    return weight
