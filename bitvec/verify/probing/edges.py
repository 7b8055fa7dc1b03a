"""Pairs of rows on both sides of a test of several columns, as near as floats allow."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64

from bitvec.core.arrays import Array
from bitvec.core.reference import outcomes
from bitvec.verify.probing.regions import Plan

HALVINGS = 80
"""Steps of a bisection: more than the bits of any float."""


def bisect(
    plan: Plan,
    left: Float[Array, "n n_features"],
    right: Float[Array, "n n_features"],
    node: Int64[Array, " n"],
) -> tuple[Float[Array, "n n_features"], Float[Array, "n n_features"]]:
    """Return rows on the segments between rows on both sides of a node, as near as floats allow."""
    left, right = left.copy(), right.copy()
    every = np.arange(len(left))
    for _ in range(HALVINGS):
        middle = left / 2 + right / 2
        goes_right = outcomes(plan.forest, middle, every, node)
        right[goes_right] = middle[goes_right]
        left[~goes_right] = middle[~goes_right]
    return left, right
