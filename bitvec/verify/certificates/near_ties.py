"""Rows that another order of the sums in a feature map may send to another leaf."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps.rounding import SLACK, gamma, with_bounds
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, Kind, NodeTests
from bitvec.core.reference import margins
from bitvec.core.shape_annotations import Bool, Float, Float64
from bitvec.verify.probing.found_rows import walk

VALUES = 1 << 22
"""Numbers of φ that are held at a time."""


@dataclass(slots=True)
class Settled:
    """Drops near ties, and counts them."""

    forest: Forest
    n_left_out: int = 0

    def __call__(self, X: Float[Array, "batch n_features"]) -> Float[Array, "n n_features"]:
        """Return the rows that are no near ties."""
        near = near_ties(self.forest, X)
        self.n_left_out += int(near.sum())
        return X[~near]


def near_ties(forest: Forest, X: Float[Array, "batch n_features"]) -> Bool[Array, " batch"]:
    """Return the rows of which a margin on the way lies within its rounding of the threshold.

    All others exit at the leaves of the reference, however the sums of φ and of S · φ are ordered,
    as long as both sides add in the forest's dtype: turn by turn, no margin changes sides. Rows
    that hold NaN or infinities count as settled, for these are not rounded; so does every row where
    nothing is known of φ or of a node, which is then compared as if nothing were rounded.
    """
    near = np.zeros(len(X), bool)
    if forest.feature_map is None or not _is_linear(forest):
        return near
    step = max(1, VALUES // max(forest.feature_map.n_features, forest.n_features, 1))
    for start in range(0, len(X), step):
        rows = X[start : start + step]
        found = with_bounds(forest.feature_map, rows)
        if found is None:
            return near
        near[start : start + step] = _near(forest, *found)
    return near & np.isfinite(X).all(axis=1)


def _is_linear(forest: Forest) -> bool:
    """Return whether nodes compare sums of products with thresholds, and do nothing else."""
    tests = forest.tests
    return (
        bool(np.all(tests.kind == Kind.MARGIN))
        and bool(np.all(tests.activation == Activation.IDENTITY))
        and bool(np.all(tests.missing_rule == 0))
        and tests.substitute is None
        and (tests.indicator is None or bool(np.all(tests.indicator < 0)))
    )


def _near(forest: Forest, Z: Array, E: Array) -> Array:
    tests = forest.tests
    near = np.zeros(len(Z), bool)
    with np.errstate(over="ignore", invalid="ignore"):
        for row, node, _ in walk(forest, Z):
            z, _ = margins(tests, Z, row, node)
            apart = np.abs(z.astype(np.float64) - tests.b[node].astype(np.float64))
            for one in np.unique(node):
                at = np.flatnonzero(node == one)
                bound = SLACK * _bound(tests, int(one), Z[row[at]], E[row[at]])
                near[row[at[~(apart[at] > bound)]]] = True
    return near


def _bound(tests: NodeTests, node: int, Z: Array, E: Array) -> Float64[Array, " batch"]:
    """Return how far the margin of a node, whose z sums r · (S · φ − offset), may lie apart."""
    rows, entries = tests.part_of(node)
    n_entries = np.diff(tests.row_ptr[rows.start : rows.stop + 1])
    column, r = tests.column[entries], np.abs(tests.r[rows].astype(np.float64))
    weight = np.abs(tests.weight[entries].astype(np.float64)) * np.repeat(r, n_entries)
    n_terms = column.size + n_entries.size + 1
    g = float(gamma(n_terms, tests.dtype))
    share = E[:, column] * (1 + g) + 2 * g * np.abs(Z[:, column].astype(np.float64))
    lost = 2 * n_terms * float(np.finfo(tests.dtype).smallest_subnormal) * max(1.0, r.max())
    bound: Array = share @ weight
    return bound + 2 * g * (r @ np.abs(tests.offset[rows].astype(np.float64))) + lost
