"""What callers hand in, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from bitvec.arrays import Array
from bitvec.errors import InputError
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


def svm_of(
    penalty: str, C: float, lambda_: float, seed: int, *, may_be_constant: bool = True
) -> Svm:
    """Return how oblique nodes are solved."""
    if penalty not in ("l1", "l2"):
        raise InputError(f'`penalty` must be "l1" or "l2", got {penalty!r}.')
    for name, value in (("C", C), ("lambda_", lambda_)):
        if not 0 < value < np.inf:
            raise InputError(f"`{name}` must be finite and above 0, got {value}.")
    return Svm(penalty, float(C), float(lambda_), seed=seed, may_be_constant=may_be_constant)


def weights(sample_weight: Any, n_rows: int) -> Float64[Array, " n_rows"]:
    """Return the weight of each row, 1 if none are given."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        array = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        array = np.full(1, np.nan)
    if array.shape != (n_rows,) or not np.all(np.isfinite(array)) or np.any(array < 0):
        raise InputError(
            f"`sample_weight` must be {n_rows} finite numbers that are not negative, got shape "
            f"{array.shape}."
        )
    if not array.any():
        raise InputError("`sample_weight` must not be 0 for all rows: leave it out.")
    return array
