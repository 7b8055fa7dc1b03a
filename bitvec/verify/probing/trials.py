"""Rows made for the targets of a region, and the literal tests that decide what they show."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats, keys
from bitvec.core.reference import outcomes
from bitvec.core.shape_annotations import Bool
from bitvec.verify.probing.base_rows import BaseRows
from bitvec.verify.probing.coverage import Coverage
from bitvec.verify.probing.probe_targets import Targets, sides, targets
from bitvec.verify.probing.regions import Plan, Region, ancestors

BLOCK = 1 << 22
"""Elements of X held at a time, about."""
ROW_SIZE = 32
"""Elements that a row's target and its way down a tree take besides, about."""


def rows_at_a_time(n_features: int) -> int:
    """Return how many rows are made at a time."""
    return max(1, BLOCK // (n_features + ROW_SIZE))


class Trials:
    """Makes the rows of regions in which every path is a box, and notes what they show."""

    def __init__(self, plan: Plan, base: BaseRows, coverage: Coverage) -> None:
        self.plan, self.base, self.coverage = plan, base, coverage

    def probe(self, region: Region, rng: np.random.Generator) -> Iterator[Array]:
        """Yield the rows of a region's targets, checked and noted in the coverage."""
        coverage, nodes = self.coverage, region.nodes
        coverage.reachable[nodes] = reachable = self.reachable(region)
        wanted = targets(self.plan, region, self.base.draw(nodes.size, rng), reachable)
        failed_node, failed_outcome = [], []
        step = rows_at_a_time(self.plan.forest.n_features)
        for start in range(0, wanted.at.size, step):
            part = wanted.take(np.arange(start, min(start + step, wanted.at.size)))
            X, shown, needed = self.rows(region, part, rng)
            node = nodes[part.at]
            np.bitwise_or.at(coverage.needed, node[needed], part.outcome[needed])
            np.bitwise_or.at(coverage.seen, node[shown], part.outcome[shown])
            failed_node.append(node[~shown & needed])
            failed_outcome.append(part.outcome[~shown & needed])
            yield X
        # An outcome of several targets (each code of a set) is seen if every one of them was.
        for node, outcome in zip(failed_node, failed_outcome, strict=True):
            np.bitwise_and.at(coverage.seen, node, ~outcome)

    def reachable(self, region: Region) -> Bool[Array, " n_nodes"]:
        """Return whether a row can come by each node of a region."""
        return region.reachable

    def rows(
        self, region: Region, wanted: Targets, rng: np.random.Generator
    ) -> tuple[Array, Bool[Array, " n"], Bool[Array, " n"]]:
        """Return one row per target, whether it shows the target, and whether one has to."""
        X = into_region(self.plan, region, wanted, self.base.draw(wanted.at.size, rng))
        return X, shows(self.plan, region, wanted, X), wanted.needed


def into_region(plan: Plan, region: Region, wanted: Targets, X: Array) -> Array:
    """Return the rows, overwritten to admit the path and hold each target in its column."""
    low, high = limits(plan, region)
    at, used = wanted.at, region.columns
    x = np.minimum(np.maximum(X[:, used], low[at]), high[at])  # NaN stays
    must = np.isnan(x) & ~region.may_miss[at]
    x[must] = np.clip(X.dtype.type(0), low[at][must], high[at][must])
    for j, atoms in region.atoms.items():
        key = keys(x[:, j])
        atom = np.clip(np.searchsorted(atoms.first, key, side="right") - 1, 0, None)
        move = np.flatnonzero(~np.isnan(x[:, j]) & ~atoms.admitted[at, atom])
        unbounded = np.full(move.size, plan.top)
        fitted, _ = region.fit(at[move], j, -unbounded, unbounded, key[move])
        x[move, j] = floats(fitted, X.dtype)
    x[~region.has_value[at]] = np.nan
    fixed = np.flatnonzero((wanted.column >= 0) & ~wanted.missing)
    x[fixed, wanted.column[fixed]] = floats(wanted.wish[fixed], X.dtype)
    x[wanted.minus_zero, wanted.column[wanted.minus_zero]] = -0.0
    x[wanted.missing, wanted.column[wanted.missing]] = np.nan
    X[:, used] = x
    return X


def limits(plan: Plan, region: Region) -> tuple[Array, Array]:
    """Return the region's bounds as floats, (n_nodes, n_columns) each."""
    low, high = (np.clip(bound, -plan.top, plan.top) for bound in (region.low, region.high))
    return floats(low, plan.forest.dtype), floats(high, plan.forest.dtype)


def bounds(plan: Plan, region: Region, wanted: Targets) -> tuple[Array, Array, Array]:
    """Return the box of each target's row, and where it may be missing, for all features.

    A column that admits no value, or is to be missing, has low > high.
    """
    n, dtype = (wanted.at.size, plan.forest.n_features), plan.forest.dtype
    most = np.finfo(dtype).max
    low, high = np.full(n, -most), np.full(n, most)
    low[:, region.columns], high[:, region.columns] = (
        limit[wanted.at] for limit in limits(plan, region)
    )
    may_miss = np.zeros(n, bool)
    may_miss[:, region.columns] = region.may_miss[wanted.at]
    row, j = np.nonzero(~region.has_value[wanted.at])
    gap = np.flatnonzero(wanted.missing)
    row = np.append(row, gap)
    column = np.append(region.columns[j], region.columns[wanted.column[gap]])
    low[row, column], high[row, column] = most, -most
    own = np.flatnonzero((wanted.column >= 0) & ~wanted.missing)
    column = region.columns[wanted.column[own]]
    low[own, column] = floats(wanted.low[own], dtype)
    high[own, column] = floats(wanted.high[own], dtype)
    may_miss[own, column] = False
    return low, high, may_miss


def shows(plan: Plan, region: Region, wanted: Targets, X: Array) -> Bool[Array, " n"]:
    """Tell which rows come by, hold the target's value and leave the node to its side."""
    node = region.nodes[wanted.at]
    shown = comes_by(plan, X, node)
    valued = np.flatnonzero(wanted.column >= 0)
    x = X[valued, region.columns[wanted.column[valued]]]
    inside = (keys(x) >= wanted.low[valued]) & (keys(x) <= wanted.high[valued])
    shown[valued] &= np.where(wanted.missing[valued], np.isnan(x), inside & ~np.isnan(x))
    side = sides(wanted)
    sided = np.flatnonzero(side >= 0)
    shown[sided] &= outcomes(plan.forest, X, sided, node[sided]) == (side[sided] == 1)
    return shown


def comes_by(plan: Plan, X: Array, node: Array) -> Bool[Array, " n"]:
    """Send each row down the path to its node, by the literal tests."""
    arrives = np.ones(len(X), bool)
    for position, above, right in ancestors(plan, node):
        arrives[position] &= outcomes(plan.forest, X, position, above) == right
    return arrives
