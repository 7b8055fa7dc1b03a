"""The bandwidth of each feature: given, by rule, or by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.learners.kddt.search import Search

RULES: Final = ("cv", "silverman", "likelihood")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Bandwidths, and what each of the grid scored where they come from cross-validation."""

    bandwidth: Float[Array, " n_features"]
    search: Search | None = None


def given_bandwidth(name: str, value: Any, n_features: int) -> Float[Array, " n_features"]:
    """Return bandwidths that were given as numbers, in the features' own units.

    Raises
    ------
    InputError
        If they are not one finite number, or one for each feature, none negative.
    """
    try:
        found = np.asarray(0.0 if value is None else value, np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if (
        found.shape not in ((), (n_features,))
        or not np.all(np.isfinite(found))
        or np.any(found < 0)
    ):
        raise InputError(
            f"`{name}` must be one of {', '.join(RULES)}, a number that is not negative, or one "
            f"for each of the {n_features} features, got {value!r}."
        )
    return np.broadcast_to(found, n_features).copy()


def checked_grid(grid: Any) -> Float[Array, " n_bandwidths"]:
    """Return the bandwidths to try, ascending: the smallest have the smallest trees.

    Raises
    ------
    InputError
        If they are not positive finite numbers.
    """
    found = np.unique(np.asarray(grid, np.float64))
    if found.ndim != 1 or not found.size or not np.all(np.isfinite(found)) or found[0] < 0:
        raise InputError(
            "`bandwidths` must be finite numbers that are not negative, in standard deviations of "
            f"each feature, got {grid!r}."
        )
    return found
