"""Losses of one tree of a sum or mean of trees, the others fixed: functions of the raw score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int32
from bitvec.learners.tao.training_rows import Rows
from bitvec.learners.tao.tree import Tree

SMALLEST = 1e-12
"""Probabilities below it lose as much as it does, so that every loss is finite."""

HALVINGS = 6
"""Newton steps of a leaf are tried whole, halved, ..."""


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """From raw scores to class probabilities.

    Parameters
    ----------
    name : "identity", "sigmoid" or "softmax"
    slope : float
        What raw scores are multiplied by first.
    n_classes : int
    boundary : float
        What a single output must exceed for the second class.
    from_raw : bool
        It is the raw score that must exceed it, instead of the probability.
    tie_to_second : bool
        Reaching the boundary is enough.
    """

    name: str
    slope: float
    n_classes: int
    boundary: float
    from_raw: bool
    tie_to_second: bool

    def probabilities(self, score: Float64[Array, "n n_outputs"]) -> Float64[Array, "n n_classes"]:
        """Return the probability of each class."""
        if self.name == "softmax":
            z = self.slope * score
            z = np.exp(z - z.max(axis=1, keepdims=True))
            shares: Array = z / z.sum(axis=1, keepdims=True)
            return shares
        p = score
        if self.name == "sigmoid":
            with np.errstate(over="ignore"):
                p = 1 / (1 + np.exp(-self.slope * score))
        return np.concatenate([1 - p, p], axis=1) if p.shape[1] == 1 else p

    def labels(self, score: Float64[Array, "n n_outputs"]) -> Array:
        """Return class numbers."""
        if score.shape[1] == 1:
            value = score[:, 0] if self.from_raw else self.probabilities(score)[:, 1]
            above = value >= self.boundary if self.tie_to_second else value > self.boundary
            return above.astype(np.int64)
        return score.argmax(axis=1)


def _squared(link: Link | None, y: Array, score: Array) -> Array:
    if link is None:
        result: Array = ((y - score) ** 2).sum(axis=1)
        return result
    gap = link.probabilities(score) - np.eye(link.n_classes)[y]
    brier: Array = (gap**2).sum(axis=1)
    return brier


def _log_loss(link: Link | None, y: Array, score: Array) -> Array:
    assert link is not None
    every = np.arange(len(y))
    if link.name == "softmax":
        z = link.slope * score
        top = z.max(axis=1)
        loss: Array = top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - z[every, y]
        return loss
    if link.name == "sigmoid":
        z = link.slope * score[:, 0]
        return np.logaddexp(0.0, np.where(y == 1, -z, z))
    return -np.log(np.maximum(link.probabilities(score)[every, y], SMALLEST))


def _zero_one(link: Link | None, y: Array, score: Array) -> Array:
    assert link is not None
    return (link.labels(score) != y).astype(np.float64)


LOSSES: dict[str, Callable[[Link | None, Array, Array], Array]] = {
    "squared": _squared,
    "log_loss": _log_loss,
    "zero_one": _zero_one,
}
"""From link, target and raw scores to the loss of each row."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreLoss:
    """w · ℓ(y, offset + factor · T(x)).

    Parameters
    ----------
    name : "squared", "log_loss" or "zero_one"
    link : Link, optional
        Of a classifier.
    y : int64, (n_rows,), or float64, (n_rows, n_outputs)
        Class numbers, or values.
    weight : float64, (n_rows,)
    offset : float64, (n_rows, n_outputs)
        The raw scores without the tree.
    factor : float64, (n_outputs,)
        What the tree's vectors count in them.
    output : int32, (n_leaves,), optional
        The one output that each leaf adds to.
    vectors : callable, optional
        From row and leaf numbers to the vectors of leaves that are linear.
    """

    name: str
    link: Link | None
    y: Array
    weight: Float64[Array, " n_rows"]
    offset: Float64[Array, "n_rows n_outputs"]
    factor: Float64[Array, " n_outputs"]
    output: Int32[Array, " n_leaves"] | None = None
    vectors: Callable[[Array, Array], Array] | None = None

    def added(self, tree: Tree, which: Array, leaf: Array) -> Float64[Array, "n n_outputs"]:
        """Return what the tree adds to the raw scores of some rows, each at a leaf."""
        vector = tree.V[leaf] if self.vectors is None else self.vectors(which, leaf)
        vector = vector.astype(np.float64)
        if self.output is None:
            return self.factor * vector
        output = self.output[leaf]
        result = np.zeros((which.size, self.factor.size))
        result[np.arange(which.size), output] = self.factor[output] * vector[:, 0]
        return result

    def of(self, tree: Tree, rows: Rows, which: Array, leaf: Array) -> Array:
        """Return w · ℓ of some rows, each at a leaf."""
        score = self.offset[which] + self.added(tree, which, leaf)
        loss: Array = self.weight[which] * LOSSES[self.name](self.link, self.y[which], score)
        return loss

    def candidates(self, tree: Tree, rows: Rows, leaf: Array) -> Iterator[Tree]:
        """Yield the tree with leaves from shares of classes, and from Newton steps."""
        if self.vectors is not None:
            return
        if self.link is not None and self.link.name == "identity":
            yield from self._shares(tree, leaf)
            return
        slopes = self._slopes(tree, leaf)
        if slopes is None:
            return
        gradient = self._per_leaf(tree, leaf, slopes[0] * self.factor)
        bend = self._per_leaf(tree, leaf, slopes[1] * self.factor**2)
        step = -gradient / np.maximum(bend, SMALLEST * self.weight.max())
        for halving in range(HALVINGS):
            with np.errstate(over="ignore"):
                V = (tree.V + step * 0.5**halving).astype(tree.V.dtype)
            yield replace(tree, V=np.where(np.isfinite(V), V, tree.V))

    def _shares(self, tree: Tree, leaf: Array) -> Iterator[Tree]:
        """Yield the shares of classes at each leaf, and what the other trees leave of them."""
        link = self.link
        assert link is not None
        total = np.bincount(leaf, self.weight, tree.n_leaves)
        one = np.eye(link.n_classes)[self.y]
        if self.offset.shape[1] == 1:
            one = one[:, 1:]
        for wanted in (one, (one - self.offset) / self.factor):
            V = np.stack(
                [np.bincount(leaf, self.weight * part, tree.n_leaves) for part in wanted.T], axis=1
            )
            V = np.clip(V / np.where(total > 0, total, 1)[:, None], 0, 1)
            if V.shape[1] > 1:
                size = V.sum(axis=1, keepdims=True)
                V = np.where(size > 0, V / np.where(size > 0, size, 1), 1 / V.shape[1])
            if V.shape == tree.V.shape and self.output is None:
                yield replace(tree, V=V.astype(tree.V.dtype))

    def _slopes(self, tree: Tree, leaf: Array) -> tuple[Array, Array] | None:
        """Return the first and second derivatives of w · ℓ by the tree's own outputs."""
        score = self.offset + self.added(tree, np.arange(leaf.size), leaf)
        if self.link is None:
            first, second = 2 * (score - self.y), np.full(score.shape, 2.0)
        elif self.name == "zero_one":
            return None
        else:
            p, one = self.link.probabilities(score), np.eye(self.link.n_classes)[self.y]
            if score.shape[1] == 1:
                p, one = p[:, 1:], one[:, 1:]
            slope = self.link.slope
            first, second = slope * (p - one), slope**2 * p * (1 - p)
            if self.name == "squared":  # Gauss-Newton, each output on its own
                first, second = 2 * slope * p * (1 - p) * (p - one), 2 * second * p * (1 - p)
        return self.weight[:, None] * first, self.weight[:, None] * second

    def _per_leaf(self, tree: Tree, leaf: Array, part: Array) -> Array:
        """Return the sums of derivatives over the rows of each leaf, by the leaf's own numbers."""
        sums = np.stack([np.bincount(leaf, column, tree.n_leaves) for column in part.T], axis=1)
        if self.output is None:
            return sums
        own: Array = sums[np.arange(tree.n_leaves), self.output][:, None]
        return own
