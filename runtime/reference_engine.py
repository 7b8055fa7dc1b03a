"""The equation itself as an engine: slow, and what every other engine is held to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int32

from bitvec import reference
from bitvec.arrays import Array
from bitvec.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceEngine:
    """Runs a forest by `bitvec.reference`.

    Examples
    --------
    >>> from bitvec.forest import from_matrices
    >>> stump = from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> ReferenceEngine(stump).raw(np.array([[0.0, 9.0], [1.0, 9.0]])).tolist()
    [[10.0], [20.0]]
    """

    forest: Forest

    @property
    def name(self) -> str:
        """The name of this engine."""
        return "reference"

    def exit_leaves(self, X: Float[Array, "batch n_features"]) -> Int32[Array, "batch n_trees"]:
        """Return leaf numbers within each tree."""
        return reference.exit_leaves(self.forest, X).astype(np.int32)

    def raw(self, X: Float[Array, "batch n_features"]) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores."""
        if self.forest.kernel is None or self.forest.n_trees == 0:
            return reference.raw(replace(self.forest, kernel=None), X)
        return reference.raw(self.forest, X)
