"""Engine of the equation itself: slow, and the oracle of every other engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float, Int32

BLOCK_ROWS = 4096
"""Rows that are cast and run at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceEngine:
    """Runs a forest by `bitvec.core.reference`.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> ReferenceEngine(stump).raw(np.array([[0.0, 9.0], [1.0, 9.0]])).tolist()
    [[10.0], [20.0]]
    """

    forest: Forest

    @property
    def name(self) -> str:
        """The name of this engine."""
        return "reference"

    def exit_leaves(
        self,
        X: Float[Array, "batch n_features"],
        out: Int32[Array, "batch n_trees"] | None = None,
    ) -> Int32[Array, "batch n_trees"]:
        """Return leaf numbers within each tree."""
        if out is None:
            out = np.empty((len(X), self.forest.n_trees), np.int32)
        return self._fill(X, out, reference.exit_leaves)

    def raw(
        self,
        X: Float[Array, "batch n_features"],
        out: Float[Array, "batch n_outputs"] | None = None,
    ) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores."""
        if out is None:
            out = np.empty((len(X), self.forest.n_outputs), self.forest.output.dtype)
        return self._fill(X, out, reference.raw)

    def info(self) -> dict[str, Any]:
        """Return nothing: there is one way to run the equation."""
        return {}

    def _fill(self, X: Array, out: Array, method: Callable[[Forest, Array], Array]) -> Array:
        forest = self.forest if self.forest.n_trees else replace(self.forest, kernel=None)
        for start in range(0, len(X), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            out[part] = method(forest, X[part])
        return out
