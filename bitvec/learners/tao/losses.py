"""Losses of a tree: of a row at a leaf, and the leaves that are best for the rows they hold.

A loss is asked for pairs of a row and a leaf: all that the reduced problem of a node needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.learners.tao.linear_leaves import ridge_leaves, values
from bitvec.learners.tao.training_rows import Rows
from bitvec.learners.tao.tree import Tree


class Loss(Protocol):
    """Loss that a tree minimises: a weighted sum over rows."""

    @property
    def weight(self) -> Float64[Array, " n_rows"]:
        """The weight of each row."""
        ...

    def of(
        self, tree: Tree, rows: Rows, which: Int64[Array, " n"], leaf: Int64[Array, " n"]
    ) -> Float64[Array, " n"]:
        """Return the weighted loss of some rows, each at a leaf."""
        ...

    def candidates(self, tree: Tree, rows: Rows, leaf: Int64[Array, " n_rows"]) -> Iterator[Tree]:
        """Yield the tree with leaves that may be better for the rows at them."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class LabelLoss:
    """The cost of a leaf's label: w · cost[y, label]; 0/1 loss where cost is 1 off its diagonal.

    A leaf's label is the first largest entry of its row of V.

    Parameters
    ----------
    y : int64, (n_rows,)
        Class numbers.
    weight : float64, (n_rows,)
    cost : float64, (n_classes, n_classes)
        Of a row of class k at a leaf of label l: cost[k, l].
    """

    y: Int64[Array, " n_rows"]
    weight: Float64[Array, " n_rows"]
    cost: Float64[Array, "n_classes n_classes"]

    def of(self, tree: Tree, rows: Rows, which: Array, leaf: Array) -> Array:
        """Return w · cost[y, label]."""
        label = tree.V.argmax(axis=1)
        cost: Array = self.weight[which] * self.cost[self.y[which], label[leaf]]
        return cost

    def candidates(self, tree: Tree, rows: Rows, leaf: Array) -> Iterator[Tree]:
        """Yield the tree with the label of least cost at each leaf: the majority for 0/1 loss."""
        label = (self.counts(leaf, tree.n_leaves) @ self.cost).argmin(axis=1)
        yield replace(tree, V=np.eye(len(self.cost), dtype=tree.V.dtype)[label])

    def counts(self, leaf: Array, n_leaves: int) -> Float64[Array, "n_leaves n_classes"]:
        """Return the weight of the rows of each class at each leaf."""
        n_classes = len(self.cost)
        flat = np.bincount(leaf * n_classes + self.y, self.weight, n_leaves * n_classes)
        return flat.reshape(n_leaves, n_classes)


@dataclass(frozen=True, slots=True, eq=False)
class SquaredLoss:
    """w · ‖y − T(x)‖², for leaves that are constant or linear.

    Parameters
    ----------
    Y : float64, (n_rows, n_outputs)
    weight : float64, (n_rows,)
    ridge : float
        Of linear leaves: times the squared weights of columns of standard deviation 1, added to the
        loss of a leaf when its weights are found, not to the loss itself.
    """

    Y: Float64[Array, "n_rows n_outputs"]
    weight: Float64[Array, " n_rows"]
    ridge: float = 1e-6

    def of(self, tree: Tree, rows: Rows, which: Array, leaf: Array) -> Array:
        """Return w · ‖y − T(x)‖²."""
        residual = self.Y[which] - values(tree, rows, which, leaf)
        loss: Array = self.weight[which] * (residual**2).sum(axis=1)
        return loss

    def candidates(self, tree: Tree, rows: Rows, leaf: Array) -> Iterator[Tree]:
        """Yield the tree with the mean, or the ridge regression, of the rows at each leaf."""
        total = np.bincount(leaf, self.weight, tree.n_leaves)
        sums = np.stack(
            [np.bincount(leaf, self.weight * column, tree.n_leaves) for column in self.Y.T], axis=1
        )
        means = sums / np.where(total > 0, total, 1.0)[:, None]
        if tree.U is None:
            yield replace(tree, V=means.astype(tree.V.dtype))
            return
        # The mean first, for leaves where no regression is better.
        yield replace(tree, V=means.astype(tree.V.dtype), U=np.zeros_like(tree.U))
        yield ridge_leaves(tree, rows, leaf, self.Y, self.weight, self.ridge)


def leaf_step(
    tree: Tree,
    rows: Rows,
    loss: Loss,
    leaf: Int64[Array, " n_rows"],
    trainable: Array | None = None,
) -> Tree:
    """Return the tree with the leaves that lower the loss of the rows at them; others as they were.

    A leaf that no row reaches keeps what it holds. Losses are compared leaf by leaf, with the
    rounded values that the tree would hold, so that the sum never rises.
    """
    every = np.arange(rows.n_rows)
    old = np.bincount(leaf, loss.of(tree, rows, every, leaf), tree.n_leaves)
    for candidate in loss.candidates(tree, rows, leaf):
        new = np.bincount(leaf, loss.of(candidate, rows, every, leaf), tree.n_leaves)
        better = new < old - ROUNDING * np.abs(old)
        if trainable is not None:
            better &= trainable
        if not better.any():
            continue
        V = np.where(better[:, None], candidate.V, tree.V)
        U = tree.U
        if U is not None and candidate.U is not None:
            U = np.where(better[:, None, None], candidate.U, U)
        tree, old = replace(tree, V=V, U=U), np.where(better, new, old)
    return tree


ROUNDING = 1e-12
"""Share of a loss that a step must win: more than its sum over rows may be off by rounding."""
