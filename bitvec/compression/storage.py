"""Forests of fewer bytes: numbers of float32, leaves on a grid, thresholds that nodes share.

What comes out is a forest like any other: its leaves and thresholds are the rounded numbers, so
that a header which stores them in a byte holds it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import MissingRule, Relation
from bitvec.core.output import Aggregate
from bitvec.core.to_float32 import fold_weights, narrow_scores, narrow_tests
from bitvec.runtime.export.ranks import compared

ROUNDS = 8
"""Passes of the clustering of thresholds."""


def plain(forest: Forest) -> Forest:
    """Return the forest as a sum, or a mean, of leaves in float32, which compares in float32."""
    output = forest.output
    is_mean = output.aggregate is Aggregate.MEAN and output.divisor is None
    if not is_mean or output.tree_weight is not None:
        forest = fold_weights(forest)
    return narrow_scores(narrow_tests(forest))


@dataclass(frozen=True, slots=True)
class Storage:
    """Forms of the numbers of a forest.

    Parameters
    ----------
    leaf_bits : int, optional
        8 or 16: leaves are whole multiples of a power of two, in so many bits.
    n_thresholds : int, optional
        Distinct thresholds of all columns together.
    """

    leaf_bits: int | None = None
    n_thresholds: int | None = None

    def __str__(self) -> str:
        leaves = "" if self.leaf_bits is None else f", {self.leaf_bits}-bit leaves"
        shared = "" if self.n_thresholds is None else f", {self.n_thresholds} thresholds"
        return leaves + shared

    def changes_nothing(self, forest: Forest) -> bool:
        """Return whether the thresholds of a forest are as few as they would be."""
        n = self.n_thresholds
        return n is None or n_thresholds(forest) <= n

    def __call__(self, forest: Forest, X: Array) -> Forest:
        """Return a plain forest in these forms; X, float32, says where thresholds may move."""
        return self.rounded(self.moved(forest, X))

    def moved(self, forest: Forest, X: Array) -> Forest:
        """Return a plain forest whose thresholds are of this form, and its leaves as they were."""
        if self.leaf_bits is not None:
            forest = simple_thresholds(forest, X)
        if self.n_thresholds is not None:
            forest = shared_thresholds(one_way(forest, X), X, self.n_thresholds)
        return forest

    def rounded(self, forest: Forest) -> Forest:
        """Return a forest whose leaves are of this form."""
        return forest if self.leaf_bits is None else on_grid(forest, self.leaf_bits)


STORAGES = (
    Storage(),
    Storage(16),
    Storage(8),
    Storage(8, 512),
    Storage(8, 256),
    Storage(8, 128),
    Storage(8, 64),
)
"""Those that are tried, the one without loss first."""


def on_grid(forest: Forest, bits: int) -> Forest:
    """Return the forest whose leaves are rounded to multiples of the least power of two that fits.

    Those of a sum are rounded around 0; see `centred`.

    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1]], [0], [[0], [1]], [0.1, 1.0])
    >>> small = on_grid(stump, 8)
    >>> small.v.ravel().tolist(), small.output.base_score.tolist()
    ([-0.44921875, 0.44921875], [0.55])

    Vectors of probabilities still add to 1: of each the numbers are rounded up that lose most.
    """
    v = forest.leaves.v.astype(np.float64)
    if v.shape[1] > 1 and np.all(v >= 0) and np.allclose(v.sum(axis=1), 1, atol=1e-4):
        steps = 2 ** (bits - 1)
        whole = np.floor(v * steps)
        lost = np.round(steps - whole.sum(axis=1)).astype(np.int64)
        place = np.argsort(np.argsort(whole - v * steps, axis=1, kind="stable"), axis=1)
        whole += place < lost[:, None]
        rounded = (whole / steps).astype(forest.leaves.v.dtype)
        return replace(forest, leaves=replace(forest.leaves, v=rounded))
    if forest.output.aggregate is Aggregate.SUM:
        forest = centred(forest)
        v = forest.leaves.v.astype(np.float64)
    size = float(np.ptp(v))
    if not 0 < size < np.inf:
        return forest
    step = 2.0 ** np.ceil(np.log2(size / (2**bits - 1)))
    if np.ptp(np.round(v / step)) > 2**bits - 1:
        step *= 2
    rounded = (np.round(v / step) * step + 0.0).astype(forest.leaves.v.dtype)
    return replace(forest, leaves=replace(forest.leaves, v=rounded))


def centred(forest: Forest) -> Forest:
    """Return a sum of trees whose leaves lie around 0, what they had in common in its base score.

    LightGBM's first trees hold the mean of all targets: on one grid with them the small leaves of
    later trees would be lost. Of each tree and output the middle of its range is moved.
    """
    output, leaves, ptr = forest.output, forest.leaves, forest.bitvectors.leaf_ptr
    v = leaves.v.astype(np.float64)
    if output.scale is not None or output.tree_weight is not None or not np.all(np.isfinite(v)):
        return forest
    middle = (
        np.maximum.reduceat(v, ptr[:-1], axis=0) + np.minimum.reduceat(v, ptr[:-1], axis=0)
    ) / 2
    base = output.base_score.astype(np.float64)
    if leaves.output is None:
        base = base + middle.sum(axis=0)
    else:
        np.add.at(base, leaves.output[ptr[:-1]], middle[:, 0])
    v = v - np.repeat(middle, np.diff(ptr), axis=0)
    return replace(
        forest,
        leaves=replace(leaves, v=v.astype(leaves.v.dtype)),
        output=replace(output, base_score=base.astype(output.base_score.dtype)),
    )


def one_way(forest: Forest, X: Array) -> Forest:
    """Return the forest that sends missing values left where X has none in a node's column.

    Boosters send them somewhere, which takes bits and says nothing.
    """
    tests = forest.tests
    plain_nodes = compared(forest) & (tests.missing_rule != MissingRule.NAN_OR_ZERO)
    lacks = ~np.isnan(X).any(axis=0)
    never = plain_nodes & np.asarray(lacks)[np.maximum(tests.feature, 0)]
    if not np.any(tests.missing_right & never):
        return forest
    return replace(forest, tests=replace(tests, missing_right=tests.missing_right & ~never))


def shared_thresholds(forest: Forest, X: Array, n: int) -> Forest:
    """Return the forest whose nodes that compare have about n distinct thresholds at most.

    A column has the more of them, the more nodes read it. Each threshold moves to one of its
    column's that as few rows of X as possible lie between: medians of clusters, by passes of
    Lloyd's algorithm on the ranks of thresholds among the rows.
    """
    tests = forest.tests
    if n_thresholds(forest) <= n:
        return forest
    nodes = np.flatnonzero(compared(forest))
    b = tests.b.copy()
    columns, count = np.unique(tests.feature[nodes], return_counts=True)
    share = np.sqrt(count) / np.sqrt(count).sum()
    for column, part in zip(columns.tolist(), share.tolist(), strict=True):
        here = nodes[tests.feature[nodes] == column]
        values = X[:, column]
        b[here] = _clustered(b[here], np.sort(values[~np.isnan(values)]), max(int(part * n), 1))
    return replace(forest, tests=replace(tests, b=b))


def simple_thresholds(forest: Forest, X: Array) -> Forest:
    """Return the forest whose thresholds have few digits, and lie between the same rows of X.

    A threshold between two neighbouring values of its column moves to the multiple of a power of
    two, of at least a quarter of their distance, that is nearest to the middle. No row of X, if it
    is not missing, takes another way.
    """
    tests = forest.tests
    nodes, b = compared(forest), tests.b.copy()
    for column in np.unique(tests.feature[nodes]).tolist():
        here = np.flatnonzero(nodes & (tests.feature == column))
        known = X[:, column].astype(np.float64)
        known = np.unique(known[np.isfinite(known)])
        if known.size < 2:
            continue
        gap = np.diff(known).min()
        known = np.concatenate([[known[0] - gap], known, [known[-1] + gap]])
        greater = tests.relation[here] == Relation.GREATER
        old = b[here].astype(np.float64)
        at = np.where(
            greater, np.searchsorted(known, old, "right"), np.searchsorted(known, old, "left")
        )
        at = np.clip(at, 1, known.size - 1)
        low, high = known[at - 1], known[at]
        step = 2.0 ** np.floor(np.log2((high - low) / 2))
        simple = (np.round((low + high) / 2 / step) * step + 0.0).astype(b.dtype)
        inside = (simple > low) & (simple < high)
        b[here] = np.where(inside, simple, b[here])
    return replace(forest, tests=replace(tests, b=b))


def n_thresholds(forest: Forest) -> int:
    """Return how many distinct thresholds there are of all columns together."""
    tests, nodes = forest.tests, compared(forest)
    pairs = np.stack([tests.feature[nodes].astype(np.float64), tests.b[nodes]])
    return int(np.unique(pairs, axis=1).shape[1])


def _clustered(b: Array, rows: Array, k: int) -> Array:
    """Return for each threshold the representative of its cluster, one of at most k of them."""
    distinct, place, count = np.unique(b, return_inverse=True, return_counts=True)
    if distinct.size <= k:
        return b
    rank = np.searchsorted(rows, distinct).astype(np.float64)
    cumulated = np.cumsum(count)
    centre = np.unique(np.searchsorted(cumulated, (np.arange(k) + 0.5) * cumulated[-1] / k))
    for _ in range(ROUNDS):
        middle = (rank[centre][1:] + rank[centre][:-1]) / 2
        group = np.searchsorted(middle, rank)
        ends = np.searchsorted(group, np.arange(centre.size + 1))
        before = np.concatenate([[0], cumulated])
        weight = (before[ends[:-1]] + before[ends[1:]]) / 2
        moved = np.clip(np.searchsorted(cumulated, weight), ends[:-1], np.maximum(ends[1:] - 1, 0))
        moved = np.unique(np.minimum(moved, distinct.size - 1))
        if np.array_equal(moved, centre):
            break
        centre = moved
    middle = (rank[centre][1:] + rank[centre][:-1]) / 2
    result: Array = distinct[centre[np.searchsorted(middle, rank)]][place]
    return result
