"""The raw score, hard or soft, as the whole equation gives it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.reference.exit_leaf_forms import exit_leaves
from bitvec.core.reference.leaf_sums import accumulate, combine
from bitvec.core.reference.soft_forms import soft_vectors


def raw(forest: Forest, X: Array) -> Float[Array, "batch n_outputs"]:
    """Return the raw score of every row: hard, or soft if the forest has a prediction kernel."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinite inputs and leaves are legal
        X = np.asarray(X).astype(forest.dtype, copy=False)
        if forest.kernel is None:
            return accumulate(forest, X, exit_leaves(forest, X))
        return combine(forest, soft_vectors(forest, X))
