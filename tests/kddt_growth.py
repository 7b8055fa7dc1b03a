"""A slow, literal grower of Kernel Density Decision Trees: plain definitions, every event tried.

The weight of a row in a box is a product of differences of `FeatureKernel.cdf`; a threshold gains
what the impurities of the two boxes that it makes say. Nothing is updated and nothing is sorted
but the list of thresholds to try.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bitvec.core.kernels import FeatureKernel
from bitvec.learners.kddt.events import Densities, densities_of
from bitvec.learners.kddt.growth import EPSILON, GAIN, SMALLEST
from bitvec.learners.kddt.scan import ROUNDING
from bitvec.learners.kddt.tree import Limits, Targets, class_targets, mean_targets, share_targets


@dataclass(frozen=True)
class Sample:
    """Rows, the density around each value, weights and targets.

    Parameters
    ----------
    X : float64, (n_rows, n_features)
    kernels : tuple of FeatureKernel, one per feature
    uncertainty : float64, (n_rows, n_features), or None
    weight : float64, (n_rows,)
    Y : float64, (n_rows, n_outputs)
        One-hot for "labels", distributions for "shares" and "entropy", vectors for "squares".
    criterion : "labels", "shares", "entropy" or "squares"
    """

    X: np.ndarray
    kernels: tuple[FeatureKernel, ...]
    uncertainty: np.ndarray | None
    weight: np.ndarray
    Y: np.ndarray
    criterion: str

    @property
    def densities(self) -> Densities:
        return densities_of(self.X, self.kernels, self.uncertainty)

    @property
    def targets(self) -> Targets:
        if self.criterion == "labels":
            return class_targets(self.Y.argmax(axis=1), self.Y.shape[1], "gini")
        if self.criterion == "squares":
            return mean_targets(self.Y, self.weight)
        return share_targets(self.Y, "gini" if self.criterion == "shares" else "entropy")

    @cached_property
    def laws_of_values(self) -> list[list[FeatureKernel]]:
        """The kernel around each value, of one bandwidth wherever that value lies."""
        n_rows, n_features = self.X.shape
        return [[self._law(row, j) for j in range(n_features)] for row in range(n_rows)]

    def _law(self, row: int, feature: int) -> FeatureKernel:
        kernel = self.kernels[feature]
        if self.uncertainty is None:
            place = np.searchsorted(kernel.location, self.X[row, feature], side="right")
            width = kernel.bandwidth[place]
        else:
            width = self.uncertainty[row, feature]
        return FeatureKernel(kernel.edges, kernel.mass, np.array([width]), np.zeros(0))

    def density(self, row: int, feature: int) -> FeatureKernel:
        """Return the kernel around one value."""
        return self.laws_of_values[row][feature]

    def below(self, feature: int, t: np.ndarray) -> np.ndarray:
        """Return P(x' <= t) of each row, (n_rows, n_thresholds)."""
        columns = self.X[:, feature]
        return np.array([self.density(row, feature).cdf(t, x) for row, x in enumerate(columns)])

    def before(self, feature: int, t: np.ndarray) -> np.ndarray:
        """Return P(x' < t) of each row, (n_rows, n_thresholds)."""
        share = self.below(feature, t)
        for row, x in enumerate(self.X[:, feature]):
            if self.density(row, feature).bandwidth[0] == 0:
                share[row] = x < np.asarray(t)
        return share


@dataclass(frozen=True)
class Box:
    """The intervals (low, high] of a node."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def left(self, feature: int, t: float) -> Box:
        high = list(self.high)
        high[feature] = t
        return replace(self, high=tuple(high))

    def right(self, feature: int, t: float) -> Box:
        low = list(self.low)
        low[feature] = t
        return replace(self, low=tuple(low))


def everywhere(sample: Sample) -> Box:
    n_features = sample.X.shape[1]
    return Box((-np.inf,) * n_features, (np.inf,) * n_features)


def weights(sample: Sample, box: Box) -> np.ndarray:
    """Return the weight of each row in a box; none where it is too small to be kept."""
    u = sample.weight.copy()
    for feature, (low, high) in enumerate(zip(box.low, box.high, strict=True)):
        if (low, high) != (-np.inf, np.inf):
            share = sample.below(feature, np.array([low, high]))
            u *= np.maximum(share[:, 1] - share[:, 0], 0)
    u[u <= SMALLEST] = 0
    return u


def impurity(sample: Sample, u: np.ndarray) -> float:
    """Return the impurity of weights u: 1 − Σp², entropy in nats, or the summed variance."""
    if u.sum() <= 0:
        return 0.0
    mean = u @ sample.Y / u.sum()
    if sample.criterion == "labels":
        return float(1 - mean @ mean)
    if sample.criterion == "entropy":
        return float(-sum(p * np.log(p) for p in mean if p > 0))
    return float(u @ np.sum((sample.Y - mean) ** 2, axis=1) / u.sum())


def loss(sample: Sample, u: np.ndarray) -> float:
    """Return the weight times the impurity."""
    return float(u.sum()) * impurity(sample, u)


@dataclass(frozen=True)
class Candidate:
    """A threshold, the loss of both children, and the weight of the left one."""

    feature: int
    threshold: float
    loss: float
    left: float


def children(
    sample: Sample, u: np.ndarray, feature: int, threshold: float, share: np.ndarray
) -> Candidate:
    """Return what a threshold gains that sends this share of each row left."""
    sides = u * share, u * (1 - share)
    return Candidate(feature, threshold, sum(loss(sample, side) for side in sides), sides[0].sum())


def truncated(
    sample: Sample, box: Box, feature: int, t: np.ndarray, *, strict: bool = False
) -> np.ndarray:
    """Return P(x' <= t) of each row in a box, or P(x' < t), (n_rows, n_thresholds)."""
    low, high = box.low[feature], box.high[feature]
    ends = sample.below(feature, np.array([low, high]))
    share = (sample.before if strict else sample.below)(feature, np.minimum(t, high))
    whole = ends[:, 1:] - ends[:, :1]
    return np.clip((share - ends[:, :1]) / np.where(whole > 0, whole, 1), 0, 1)


def positions(sample: Sample, box: Box, feature: int, u: np.ndarray) -> np.ndarray:
    """Return where the density of a row changes in (low, high], rising."""
    at = set()
    for row in np.flatnonzero(u):
        density = sample.density(int(row), feature)
        at |= set((sample.X[row, feature] + density.bandwidth[0] * density.edges).tolist())
    return np.array(sorted(t for t in at if box.low[feature] < t <= box.high[feature]))


def candidates(sample: Sample, box: Box, feature: int, least: float) -> list[Candidate]:
    """Return every threshold at which the loss can be least, from left to right.

    Each event; the left limit at a jump; between events, where a child's weight is just the least
    that is allowed; and where nobody lies between two events, the middle in place of the first.
    """
    u = weights(sample, box)
    w = u.sum()
    low, end = box.low[feature], box.high[feature]
    t = positions(sample, box, feature, u)
    if np.isfinite(low):
        t = np.concatenate([[low], t])
    upto = truncated(sample, box, feature, t)
    under = truncated(sample, box, feature, t, strict=True)
    found = []
    for k, here in enumerate(t):
        after = t[k + 1] if k + 1 < t.size else end
        next_share = under[:, k + 1] if k + 1 < t.size else np.ones(u.size)
        if u @ (upto[:, k] - under[:, k]) > 0:
            limit = float(np.nextafter(here, -np.inf))
            found.append(children(sample, u, feature, limit, under[:, k]))
        weight, next_weight = u @ upto[:, k], u @ next_share
        empty = np.allclose(upto[:, k][u > 0], next_share[u > 0], rtol=0, atol=1e-15)
        middle = here + (after - here) / 2 if np.isfinite(after) else here
        at = middle if empty and middle < after else here
        found.append(children(sample, u, feature, float(at), upto[:, k]))
        for goal in (least, w - least):
            if weight < goal < next_weight:
                at = here + (goal - weight) / (next_weight - weight) * (after - here)
                if here < at < after:
                    share = truncated(sample, box, feature, np.array([at]))[:, 0]
                    found.append(children(sample, u, feature, float(at), share))
    return [
        c
        for c in found
        if min(c.left, w - c.left) > max(least - ROUNDING, 0) and low < c.threshold < end
    ]


def best_splits(sample: Sample, box: Box, limits: Limits) -> list[Candidate]:
    """Return the best candidate of each feature that has one."""
    each = [
        candidates(sample, box, feature, limits.min_weight) for feature in range(sample.X.shape[1])
    ]
    return [min(own, key=lambda c: (c.loss, c.threshold)) for own in each if own]


@dataclass(frozen=True)
class Node:
    """A node of the tree grown slowly; `unique` where no other split is as good by a margin."""

    weight: float
    loss: float
    split: Candidate | None = None
    unique: bool = True
    left: Node | None = None
    right: Node | None = None


MARGIN = 1e-7
"""By how much of its weight a split must be better than another to be the only one."""


def grow_slowly(sample: Sample, limits: Limits, box: Box | None = None, depth: int = 0) -> Node:
    """Return the tree that the definition gives, by recursion."""
    box = everywhere(sample) if box is None else box
    u = weights(sample, box)
    node = Node(float(u.sum()), loss(sample, u))
    if depth >= limits.max_depth or node.weight < 2 * limits.min_weight:
        return node
    pure = least_gain = GAIN * node.weight
    if sample.criterion in ("shares", "squares"):
        pure = node.weight * (4 * EPSILON * np.abs(sample.targets.Y).max()) ** 2
        least_gain = GAIN * node.loss
    if node.loss <= pure:
        return node
    every = [
        c
        for feature in range(sample.X.shape[1])
        for c in candidates(sample, box, feature, limits.min_weight)
    ]
    if not every:
        return node
    best = min(every, key=lambda c: c.loss)
    gain = node.loss - best.loss
    if gain <= least_gain or gain < limits.min_gain * sample.weight.sum():
        return node
    near = [c for c in every if c.loss <= best.loss + MARGIN * node.weight]
    return replace(
        node,
        split=best,
        unique=all(c.feature == best.feature and c.threshold == best.threshold for c in near),
        left=grow_slowly(sample, limits, box.left(best.feature, best.threshold), depth + 1),
        right=grow_slowly(sample, limits, box.right(best.feature, best.threshold), depth + 1),
    )
