"""Aggregation of the trees' vectors into raw scores."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate


def divisor(forest: Forest) -> Array:
    """Return what the sum over trees is divided by, float64 (n_outputs,)."""
    output = forest.output
    if output.scale is not None:
        return 1 / output.scale.astype(np.float64)
    if output.aggregate is not Aggregate.MEAN:
        return np.ones(output.n_outputs)
    if output.divisor is None:
        return np.full(output.n_outputs, float(max(forest.n_trees, 1)))
    return output.divisor.astype(np.float64)
