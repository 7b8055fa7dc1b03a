"""Checks of the options of TAO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float64
from bitvec.errors import InputError
from bitvec.learners.sizes import require_finite_sum
from bitvec.learners.tao.oblique_solver import Svm


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The nodes and leaves of a forest that may move."""

    nodes: Bool[Array, " n_nodes"]
    leaves: Bool[Array, " n_leaves"]


def mask(name: str, which: Any, size: int) -> Bool[Array, " size"]:
    """Return a mask from a mask, from positions, or of all for None."""
    if which is None:
        return np.ones(size, bool)
    array = np.asarray(which)
    if array.dtype == bool and array.shape == (size,):
        return array.copy()
    fits = array.ndim == 1 and (array.size == 0 or array.dtype.kind in "iu")
    if not fits or (array.size and (array.min() < 0 or array.max() >= size)):
        raise InputError(
            f"`{name}` must be {size} bools, or positions from 0 and below {size}, got "
            f"{array.dtype} of shape {array.shape}."
        )
    result = np.zeros(size, bool)
    result[array.astype(np.int64)] = True
    return result


def svm_of(penalty: Any, C: Any, lambda_: Any, seed: int, *, may_be_constant: bool = True) -> Svm:
    """Return how oblique nodes are solved."""
    if not isinstance(penalty, str) or penalty not in ("l1", "l2"):
        raise InputError(f'`penalty` must be "l1" or "l2", got {penalty!r}.')
    C, lambda_ = options.positive("C", C), options.positive("lambda_", lambda_)
    return Svm(penalty, C, lambda_, seed=seed, may_be_constant=may_be_constant)


def costs(cost: Any, n_classes: int) -> Float64[Array, "n_classes n_classes"]:
    """Return what a row of class k costs where it is labelled l, 0/1 loss if not given."""
    if cost is None:
        return 1.0 - np.eye(n_classes)
    matrix = options.numbers(cost, flags=True)
    fits = matrix is not None and matrix.shape == (n_classes, n_classes)
    if matrix is None or not fits or not np.all(np.isfinite(matrix)) or np.any(matrix < 0):
        got = "text or other objects" if matrix is None else f"shape {matrix.shape}"
        raise InputError(
            f"`cost` must be {n_classes} x {n_classes} finite numbers that are not negative, got "
            f"{got}."
        )
    return matrix


def weights(sample_weight: Any, n_rows: int) -> Float64[Array, " n_rows"]:
    """Return the weight of each row, 1 if none are given."""
    if sample_weight is None:
        return np.ones(n_rows)
    array = options.numbers(sample_weight, flags=True)
    fits = array is not None and array.shape == (n_rows,)
    if array is None or not fits or not np.all(np.isfinite(array)) or np.any(array < 0):
        got = "text or other objects" if array is None else f"shape {array.shape}"
        raise InputError(
            f"`sample_weight` must be {n_rows} finite numbers that are not negative, got {got}."
        )
    if not array.any():
        raise InputError("`sample_weight` must not be 0 for all rows: leave it out.")
    require_finite_sum(array)
    return array
