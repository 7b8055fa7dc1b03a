"""Leaf values of native trees: distributions over classes, or plain vectors."""

from __future__ import annotations

import numpy as np

from bitvec.converters.native.plain_arrays import finite, float_dtype, floats
from bitvec.core.arrays import Array, ArrayLike, require
from bitvec.errors import InvalidForestError

SUM_TOLERANCE = 1e-4
"""Distance from 1 of the sum of a leaf distribution, at most: some are smoothed by 1e-5 per class,
or normalised in float32."""


def as_columns(name: str, value: ArrayLike, dtype: np.dtype | None = None) -> Array:
    """Return leaf values as floats of two axes; one value per leaf becomes one column."""
    array = floats(name, value, dtype)
    return array[:, None] if array.ndim == 1 else array


def checked_vectors(name: str, value: ArrayLike, n_leaves: int) -> Array:
    """Return leaf vectors, (n_leaves, width), width at least 1, as a read-only finite array."""
    array = finite(name, value, float_dtype(name, value), (None, None))
    require(
        len(array) == n_leaves and array.shape[1] >= 1,
        f"`{name}` must have one row for each of the {n_leaves} leaves (one more than nodes) and a "
        f"column at least, got shape {array.shape}.",
    )
    return array


def checked_distribution(pi: ArrayLike, n_leaves: int) -> Array:
    """Return leaf distributions; one column holds the probability of the second of two classes."""
    pi = checked_vectors("pi", pi, n_leaves)
    total = pi.sum(axis=1, dtype=np.float64)
    fits = (total <= 1) if pi.shape[1] == 1 else np.abs(total - 1) <= SUM_TOLERANCE
    fits &= np.all(pi >= 0, axis=1)
    leaf = int(np.argmin(fits))
    require(
        np.all(fits),
        f"each row of `pi` must be a distribution over classes, got {pi[leaf].tolist()} at leaf "
        f"{leaf}: divide counts by their sum, or give values as `mean`.",
    )
    return pi


def checked_classes(classes: ArrayLike, width: int) -> Array:
    """Return class labels, one for each column, or two for a single column."""
    labels = np.asarray(classes)
    if labels.dtype == object and all(isinstance(label, str) for label in labels.ravel()):
        labels = labels.astype(str)
    allowed = (1, 2) if width == 1 else (width,)
    require(
        labels.ndim == 1 and labels.dtype.kind in "biufU" and labels.size in allowed,
        f"`classes` must hold one number or text for each of the {width} columns"
        f"{', or two for one column' if width == 1 else ''}, got {labels.dtype} of shape "
        f"{labels.shape}.",
    )
    require(
        np.unique(labels).size == labels.size,
        f"`classes` must be distinct, got {labels.tolist()}.",
    )
    view = labels.view()
    view.flags.writeable = False
    return view


def pi_or_mean(
    pi: ArrayLike | None, mean: ArrayLike | None, classes: ArrayLike | None, n_leaves: int
) -> tuple[Array | None, Array | None, Array | None]:
    """Return `pi`, `mean` and `classes` checked: a classifier's leaves, or a regressor's.

    Classes are numbered from 0 if not given.

    Raises
    ------
    InvalidForestError
        If not exactly one of `pi` and `mean` is given, or one does not fit.
    """
    if (pi is None) == (mean is None):
        raise InvalidForestError(
            "exactly one of `pi` (leaf distributions) and `mean` (leaf values) must be given, got "
            f"{'neither' if pi is None else 'both'}."
        )
    if pi is None:
        require(classes is None, "`classes` must come with `pi`, got it with `mean`.")
        assert mean is not None
        return None, checked_vectors("mean", mean, n_leaves), None
    pi = checked_distribution(pi, n_leaves)
    width = pi.shape[1]
    if classes is None:
        classes = np.arange(2 if width == 1 else width)
    return pi, None, checked_classes(classes, width)


def labels_of(raw: Array, classes: Array) -> Array:
    """Return the first class of highest score; of one column, the second class above one half."""
    if raw.shape[1] == 1 and classes.size == 2:
        return classes[(raw[:, 0] > 0.5).astype(np.intp)]
    return classes[raw.argmax(axis=1)]
