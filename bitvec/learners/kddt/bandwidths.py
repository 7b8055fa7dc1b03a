"""The bandwidth of each feature: given, by rule, or by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from bitvec.core import options
from bitvec.core.arrays import Array
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
    found = options.numbers(0.0 if value is None else value)
    if (
        found is None
        or found.shape not in ((), (n_features,))
        or not np.all(np.isfinite(found))
        or np.any(found < 0)
    ):
        rules = f"one of {', '.join(RULES)}, " if name == "bandwidth" else ""
        raise InputError(
            f"`{name}` must be {rules}a number that is not negative, or one for each of the "
            f"{n_features} features, got {value!r}."
        )
    return np.broadcast_to(found, n_features).copy()


def checked_grid(grid: Any) -> Float[Array, " n_bandwidths"]:
    """Return the bandwidths to try, ascending: the smallest have the smallest trees.

    Raises
    ------
    InputError
        If they are not finite numbers, or any is negative.
    """
    given = options.numbers(grid)
    if given is None or not given.size or not np.all(np.isfinite(given)) or given.min() < 0:
        raise InputError(
            "`bandwidths` must be finite numbers that are not negative, in standard deviations of "
            f"each feature, got {grid!r}."
        )
    return np.unique(given)
