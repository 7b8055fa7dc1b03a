"""Targets of growth: labels, whose entropy falls, or values, whose squared error falls.

A target says the same thing twice: exactly, in float64, for thresholds and stop rules, and softly,
in torch, for training. Both speak of sums over rows, one per side of a split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Float64, Int64
from bitvec.learners.growth.cuts import Cuts, entropy_cuts, squared_error_cuts

TINY = 1e-12
"""Weights below this, of nodes whose rows weigh about 1 in all, count as none."""


class Target(Protocol):
    """Labels or values of the training rows."""

    @property
    def min_rows(self) -> int:
        """The least rows of a node that is split, unless said otherwise."""

    @property
    def told(self) -> Array:
        """Class numbers, (n_rows,), or values, (n_rows, n_outputs)."""

    @property
    def n_outputs(self) -> int:
        """The width of a leaf's vector."""

    def take(self, rows: Int64[Array, " n"]) -> Self:
        """Return those of some rows."""

    def is_pure(self) -> bool:
        """Return whether all rows have the same."""

    def impurity(self, weight: Float64[Array, " n_rows"]) -> float:
        """Return the impurity of all rows together, times their weight."""

    def unit(self, weight: Float64[Array, " n_rows"]) -> float:
        """Return what impurities are told in: a nat for each row, or the variance of the rows."""

    def cuts(self, margin: Array, start: Array, weight: Array) -> Cuts:
        """Return the best cut of each node, whose rows stand together."""

    def leaf_values(
        self, leaf: Int64[Array, " n_rows"], weight: Array, old: Array, smoothing: float
    ) -> Array:
        """Return the vector of each leaf from the rows at it; the old one where there are none."""

    def soft(self, start: Array, weight: Array, device: torch.device | None = None) -> SoftTarget:
        """Return what training sees of rows that are sorted by node."""


class SoftTarget(Protocol):
    """Rows as sums see them, float32.

    Attributes
    ----------
    statistics : (n_rows, n_statistics)
        Whose weighted sums over a side say all about it.
    """

    statistics: Tensor

    def impurity(self, sums: Tensor) -> Tensor:
        """Return the impurity times weight, from sums: (..., n_statistics) -> (...)."""

    def log_density(self, sums: Tensor, node: Tensor, rows: Tensor) -> Tensor:
        """Return ln p(y | side) of rows, as leaves of these sums say.

        Parameters
        ----------
        sums : (2, n_restarts, n_nodes, n_statistics)
        node : (n_blocks,)
        rows : (n_blocks, block)

        Returns
        -------
        (2, n_restarts, n_blocks, block)
        """


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Class numbers of rows.

    Parameters
    ----------
    code : int64, (n_rows,)
    n_classes : int
    """

    code: Int64[Array, " n_rows"]
    n_classes: int

    @property
    def min_rows(self) -> int:
        """Four, for any number of classes: leaves of few rows are what many classes need."""
        return 4

    @property
    def told(self) -> Array:
        """Class numbers."""
        return self.code

    @property
    def n_outputs(self) -> int:
        """Classes."""
        return self.n_classes

    def take(self, rows: Int64[Array, " n"]) -> Labels:
        """Return those of some rows."""
        return Labels(self.code[rows], self.n_classes)

    def is_pure(self) -> bool:
        """Return whether all rows are of one class."""
        return bool(np.all(self.code == self.code[:1]))

    def counts(self, weight: Array) -> Float64[Array, " n_classes"]:
        """Return the weight of each class."""
        return np.bincount(self.code, weight, self.n_classes)

    def impurity(self, weight: Float64[Array, " n_rows"]) -> float:
        """Return the entropy times weight, in nats."""
        n = self.counts(weight)
        n = n[n > 0]
        return max(float(-(n * np.log(n / n.sum())).sum()), 0.0)

    def unit(self, weight: Float64[Array, " n_rows"]) -> float:
        """Return a nat for each row."""
        return float(weight.sum())

    def cuts(self, margin: Array, start: Array, weight: Array) -> Cuts:
        """Return the cut of least entropy of each node."""
        return entropy_cuts(margin, start, self.code, weight, self.n_classes)

    def leaf_values(
        self, leaf: Int64[Array, " n_rows"], weight: Array, old: Array, smoothing: float
    ) -> Array:
        """Return the class shares of each leaf, `smoothing` added to the weight of each class."""
        cell = leaf * self.n_classes + self.code
        counts = np.bincount(cell, weight, old.size).reshape(old.shape)
        reached = counts.sum(axis=1, keepdims=True) > 0
        smoothed = counts + smoothing
        total = np.where(reached, smoothed.sum(axis=1, keepdims=True), 1)
        return np.where(reached, smoothed / total, old)

    def soft(self, start: Array, weight: Array, device: torch.device | None = None) -> SoftLabels:
        """Return one-hot rows."""
        return SoftLabels(torch.tensor(self.code, device=device), self.n_classes)


class SoftLabels:
    """One-hot rows, whose sums are class weights."""

    def __init__(self, code: Tensor, n_classes: int) -> None:
        self.code = code
        self.statistics: Tensor = torch.nn.functional.one_hot(code, n_classes).to(torch.float32)

    def impurity(self, sums: Tensor) -> Tensor:
        """Return the entropy times weight."""
        return -(sums * self._log_shares(sums)).sum(-1)

    def log_density(self, sums: Tensor, node: Tensor, rows: Tensor) -> Tensor:
        """Return ln π of each row's class on each side; see `SoftTarget`."""
        return self._log_shares(sums)[:, :, node[:, None], self.code[rows]]

    def _log_shares(self, sums: Tensor) -> Tensor:
        total = sums.sum(-1, keepdim=True).clamp_min(TINY)
        return (sums / total).clamp_min(TINY).log()


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values of rows.

    Parameters
    ----------
    Y : float64, (n_rows, n_outputs)
    """

    Y: Float64[Array, "n_rows n_outputs"]

    @property
    def min_rows(self) -> int:
        """Four."""
        return 4

    @property
    def told(self) -> Array:
        """Values."""
        return self.Y

    @property
    def n_outputs(self) -> int:
        """Columns of Y."""
        return self.Y.shape[1]

    def take(self, rows: Int64[Array, " n"]) -> Values:
        """Return those of some rows."""
        return Values(self.Y[rows])

    def is_pure(self) -> bool:
        """Return whether all rows have the same values."""
        return bool(np.all(self.Y[:1] == self.Y))

    def impurity(self, weight: Float64[Array, " n_rows"]) -> float:
        """Return the weighted squared error about the mean, all outputs together."""
        Y = self._centred(np.array([0, len(self.Y)]), weight)
        return float(weight @ np.square(Y).sum(axis=1))

    def unit(self, weight: Float64[Array, " n_rows"]) -> float:
        """Return the impurity of the rows."""
        return self.impurity(weight)

    def cuts(self, margin: Array, start: Array, weight: Array) -> Cuts:
        """Return the cut of least squared error of each node."""
        return squared_error_cuts(margin, start, self._centred(start, weight), weight)

    def leaf_values(
        self, leaf: Int64[Array, " n_rows"], weight: Array, old: Array, smoothing: float
    ) -> Array:
        """Return the mean at each leaf, with `smoothing` rows of the mean of all added."""
        n_leaves = len(old)
        n = np.bincount(leaf, weight, n_leaves)
        prior = weight @ self.Y / weight.sum()
        # Deviations, since sums of values far from 0 lose digits.
        deviation = self.Y - prior
        total = [np.bincount(leaf, weight * column, n_leaves) for column in deviation.T]
        mean = prior + np.stack(total, axis=1) / np.where(n > 0, n + smoothing, 1)[:, None]
        return np.where(n[:, None] > 0, mean, old)

    def soft(self, start: Array, weight: Array, device: torch.device | None = None) -> SoftValues:
        """Return values in deviations of each node."""
        Y = self._centred(start, weight)
        node = np.repeat(np.arange(start.size - 1), np.diff(start))
        n = np.maximum(np.bincount(node, weight), np.finfo(np.float64).tiny)
        square = np.bincount(node, weight * np.square(Y).sum(axis=1)) / n
        scale = np.sqrt(np.where(square > 0, square, 1.0))
        standard = (Y / scale[node, None]).astype(np.float32)
        return SoftValues(torch.from_numpy(standard).to(device))

    def _centred(self, start: Array, weight: Array) -> Float64[Array, "n_rows n_outputs"]:
        """Return values less their mean in each node."""
        node = np.repeat(np.arange(start.size - 1), np.diff(start))
        n = np.bincount(node, weight)
        shifted = self.Y - self.Y[start[:-1]][node]
        total = [np.bincount(node, weight * column) for column in shifted.T]
        return shifted - (np.stack(total, axis=1) / n[:, None])[node]


class SoftValues:
    """Rows [1, y, |y|²], whose sums give means and squared errors.

    Parameters
    ----------
    Y : float32, (n_rows, n_outputs)
        Centred in each node, so that the sums keep their digits.
    """

    def __init__(self, Y: Tensor) -> None:
        self.Y = Y
        square = Y.square().sum(-1, keepdim=True)
        self.statistics: Tensor = torch.cat([torch.ones_like(square), Y, square], dim=-1)

    def impurity(self, sums: Tensor) -> Tensor:
        """Return the squared error about the mean."""
        n, total, square = sums[..., 0], sums[..., 1:-1], sums[..., -1]
        return (square - total.square().sum(-1) / n.clamp_min(TINY)).clamp_min(0)

    def log_density(self, sums: Tensor, node: Tensor, rows: Tensor) -> Tensor:
        """Return −|y − mean|² / 2σ² on each side, of Gaussian leaves with one σ for the node.

        What both sides have in common, ln σ among it, is left out: no split depends on it.
        """
        mean = sums[..., 1:-1] / sums[..., :1].clamp_min(TINY)
        n = sums[..., 0].sum(0).clamp_min(TINY)
        n_outputs = self.Y.shape[1]
        variance = (self.impurity(sums).sum(0) / (n * n_outputs)).clamp_min(1e-4)
        gap = (self.Y[rows] - mean[:, :, node][..., None, :]).square().sum(-1)
        return -gap / (2 * variance[:, node][..., None])


def sums_by_side(
    right: Float[Tensor, "n_restarts n_blocks block"],
    weight: Float[Tensor, "n_blocks block"],
    statistics: Float[Tensor, "n_blocks block n_statistics"],
    node: Tensor,
    n_nodes: int,
) -> Tensor:
    """Return weighted sums of statistics on the left and on the right of each node.

    Parameters
    ----------
    right
        How far each row goes right, 0 to 1.

    Returns
    -------
    (2, n_restarts, n_nodes, n_statistics)
    """
    weighted = statistics * weight[..., None]
    shares = torch.stack([1 - right, right])
    by_block = torch.einsum("srnb,nbq->srnq", shares, weighted)
    sums = by_block.new_zeros((*by_block.shape[:2], n_nodes, by_block.shape[-1]))
    return sums.index_add(2, node, by_block)
