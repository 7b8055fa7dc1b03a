"""Counts of what an update has moved: thresholds, leaves and the ways of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.engine import for_one_call


@dataclass(frozen=True, slots=True)
class Moved:
    """Difference of two forests of the same trees.

    Parameters
    ----------
    thresholds, leaves : int
        How many have moved, of `n_nodes` and `n_leaves`.
    largest_threshold, largest_leaf : float
        The largest absolute change, in units of the column and of the raw score.
    routes : float
        Share of the pairs of a row and a tree that end in another leaf.
    """

    thresholds: int
    n_nodes: int
    largest_threshold: float
    leaves: int
    n_leaves: int
    largest_leaf: float
    routes: float

    def __str__(self) -> str:
        """Return the counts as a sentence."""
        return (
            f"{self.thresholds:,} of {self.n_nodes:,} thresholds moved, by up to "
            f"{self.largest_threshold:.4g}; {self.leaves:,} of {self.n_leaves:,} leaves, by up to "
            f"{self.largest_leaf:.4g}; {100 * self.routes:.2f} % of routes changed"
        )


def moved(before: Forest, after: Forest, X: Array) -> Moved:
    """Return what differs between two forests of the same trees, on rows of theirs."""
    if not before.n_trees:
        return Moved(0, 0, 0.0, 0, 0, 0.0, 0.0)
    b = _changes(before.tests.b, after.tests.b)
    v = _changes(before.leaves.v, after.leaves.v).max(axis=1)
    other = np.zeros(0, bool)
    if b.any():  # else each row goes where it went
        exits = [for_one_call(forest, len(X)).exit_leaves(X) for forest in (before, after)]
        other = exits[0] != exits[1]
    return Moved(
        int(np.count_nonzero(b)),
        before.n_nodes,
        float(b.max(initial=0.0)),
        int(np.count_nonzero(v)),
        before.n_leaves,
        float(v.max(initial=0.0)),
        float(other.mean()) if other.size else 0.0,
    )


def _changes(before: Array, after: Array) -> Array:
    """Return absolute changes, 0 where both are the same infinity or NaN."""
    with np.errstate(invalid="ignore"):
        change = np.abs(after.astype(np.float64) - before)
    return np.where((before == after) | (np.isnan(before) & np.isnan(after)), 0.0, change)
