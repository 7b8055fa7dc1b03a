"""Cuts: where a margin is compared, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.learners.growth.scan_kernels import best_entropy, best_squared_error


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """The best cut of each of some nodes.

    Parameters
    ----------
    cost : float64, (n_nodes,)
        Impurity of both sides together, times weight; infinite where no two margins differ.
    low, high : float64, (n_nodes,)
        The margins of rows that the cut lies between, low < high.
    """

    cost: Float64[Array, " n_nodes"]
    low: Float64[Array, " n_nodes"]
    high: Float64[Array, " n_nodes"]

    @property
    def threshold(self) -> Float64[Array, " n_nodes"]:
        """The middle of low and high, below high in floating point too; infinite for no cut."""
        middle = self.low / 2 + self.high / 2
        return np.where((middle >= self.low) & (middle < self.high), middle, self.low)


def entropy_cuts(
    margin: Float64[Array, " n_rows"],
    start: Int64[Array, " n_nodes_plus_1"],
    code: Int64[Array, " n_rows"],
    weight: Float64[Array, " n_rows"],
    n_classes: int,
) -> Cuts:
    """Return the cut of least weighted entropy of each node; see `scan_kernels.best_entropy`.

    Examples
    --------
    >>> cuts = entropy_cuts(
    ...     np.array([0.0, 3.0, 1.0, 1.0]), np.array([0, 4]), np.array([0, 1, 0, 0]), np.ones(4), 2
    ... )
    >>> cuts.cost.tolist(), cuts.threshold.tolist()
    ([0.0], [2.0])
    """
    found = _empty(start.size - 1)
    best_entropy(margin, start, code, weight, n_classes, *found)
    return Cuts(*found)


def squared_error_cuts(
    margin: Float64[Array, " n_rows"],
    start: Int64[Array, " n_nodes_plus_1"],
    Y: Float64[Array, "n_rows n_outputs"],
    weight: Float64[Array, " n_rows"],
) -> Cuts:
    """Return the cut of least squared error of each node, all outputs together."""
    found = _empty(start.size - 1)
    best_squared_error(margin, start, Y, weight, *found)
    return Cuts(*found)


def _empty(n: int) -> tuple[Array, Array, Array]:
    return np.empty(n), np.empty(n), np.empty(n)
