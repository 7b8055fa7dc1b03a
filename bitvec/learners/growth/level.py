"""The rows of a level: sorted by node, in each node's own units, and dealt out in blocks.

Hard routing puts each row in one node, so all stumps of a level together cost as much as one stump
on all rows. A block holds rows of one node only; a node's weights are fetched once for each block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float64, Int64
from bitvec.learners.growth.targets import SoftTarget, Target

CONSTANT = 1e-13
"""A column whose deviation is below this share of its mean counts as constant: it is rounding."""
MIN_ROWS_OF_A_STEP = 256
"""Rows that a node has in a step at least, if it has them: class shares of fewer are noise."""

Unit = Literal["column", "node", "scale", "none"]
"""Standardisation of a node's columns: by mean and deviation of each; by those of all together, for
pixels; by the root of the mean square of all, about 0; or none."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Mean and deviation of each column at each node, by which rows are standardised.

    Parameters
    ----------
    center, spread : float64, (n_nodes, n_columns)
        A constant column has the spread 1.
    varies : bool, (n_nodes, n_columns)
    n_features : int
        Columns of X.
    columns : int64, (n_nodes, n_columns), optional
        The columns of X that each node reads; all if not given.
    """

    center: Float64[Array, "n_nodes n_columns"]
    spread: Float64[Array, "n_nodes n_columns"]
    varies: Bool[Array, "n_nodes n_columns"]
    n_features: int
    columns: Int64[Array, "n_nodes n_columns"] | None = None

    def fold(self, node: int, beta: Array) -> Float64[Array, "... n_features_plus_1"]:
        """Return weights and bias over raw columns from those over standardised ones.

        A column that the node does not read weighs 0.
        """
        weight = np.where(self.varies[node], beta[..., :-1] / self.spread[node], 0.0)
        bias = beta[..., -1:] - (weight * self.center[node]).sum(axis=-1, keepdims=True)
        if self.columns is not None:
            read, weight = weight, np.zeros((*weight.shape[:-1], self.n_features))
            weight[..., self.columns[node]] = read
        return np.concatenate([weight, bias], axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Training rows of some nodes, sorted by node.

    Parameters
    ----------
    start : int64, (n_nodes + 1,)
        Node j has the rows start[j] ... start[j + 1].
    units : Units
    Z : float32, (n_rows, n_columns + 1)
        [z; 1], z the columns that the row's node reads, standardised there; a column that is
        constant there is 0.
    weight : float64, (n_rows,)
        Positive.
    target : Target
    soft : SoftTarget
        The same for training.
    """

    start: Int64[Array, " n_nodes_plus_1"]
    units: Units
    Z: Tensor
    weight: Float64[Array, " n_rows"]
    target: Target
    soft: SoftTarget

    @property
    def n_nodes(self) -> int:
        """Nodes of the level."""
        return self.start.size - 1

    @property
    def n_rows(self) -> Int64[Array, " n_nodes"]:
        """Rows of each node."""
        return np.diff(self.start)

    @property
    def node(self) -> Int64[Array, " n_rows"]:
        """The node of each row."""
        return np.repeat(np.arange(self.n_nodes), self.n_rows)


def level_of(
    X: Float64[Array, "n n_features"],
    target: Target,
    weight: Float64[Array, " n"],
    rows: Sequence[Int64[Array, " n_of_node"]],
    columns: Int64[Array, "n_nodes n_columns"] | None = None,
    *,
    unit: Unit = "column",
    device: torch.device | None = None,
) -> Level:
    """Return the level of nodes that have these rows and read these columns, all if not given.

    Tensors are on the device, the CPU if not given.
    """
    size = np.array([each.size for each in rows])
    start = np.concatenate([[0], np.cumsum(size)])
    at = np.concatenate(rows)
    node = np.repeat(np.arange(size.size), size)
    raw = X[at] if columns is None else X[at[:, None], columns[node]]
    w, mine = weight[at], target.take(at)
    center, spread, varies = _units(raw, start, w)
    if unit != "column":
        center, spread, varies = _shared(unit, center, np.where(varies, spread, 0.0))
    units = Units(center, spread, varies, X.shape[1], columns)
    scale = np.where(units.varies, 1 / units.spread, 0.0)
    standard = np.ones((len(raw), raw.shape[1] + 1), np.float32)
    standard[:, :-1] = (raw - units.center[node]) * scale[node]
    Z = torch.from_numpy(standard).to(device)
    return Level(start, units, Z, w, mine, mine.soft(start, w, device))


def _units(Z: Array, start: Array, weight: Array) -> tuple[Array, Array, Array]:
    first = start[:-1]
    n = np.add.reduceat(weight, first)[:, None]
    node = np.repeat(np.arange(first.size), np.diff(start))
    origin = Z[first]  # deviations from a row of the node keep digits that raw values lose
    shift = np.add.reduceat((Z - origin[node]) * weight[:, None], first) / n
    center = origin + shift
    square = np.add.reduceat(np.square(Z - center[node]) * weight[:, None], first) / n
    spread = np.sqrt(square)
    varies = spread > CONSTANT * np.abs(center)
    return center, np.where(varies, spread, 1.0), varies


def _shared(unit: Unit, center: Array, spread: Array) -> tuple[Array, Array, Array]:
    """Return one center and spread for all columns of a node, all of which count as varying."""
    mean = center.mean(axis=1, keepdims=True) if unit == "node" else np.zeros((len(center), 1))
    size = np.sqrt((spread**2 + (center - mean) ** 2).mean(axis=1, keepdims=True))
    size = np.ones_like(size) if unit == "none" else np.where(size > 0, size, 1.0)
    ones = np.ones_like(center)
    return mean * ones, size * ones, ones.astype(bool)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of one step.

    Parameters
    ----------
    n_nodes : int
    node : int64, (n_blocks,)
        The node of each block.
    rows : int64, (n_blocks, block)
        Rows of the level.
    Z : float32, (n_blocks, block, n_columns + 1)
    weight : float32, (n_blocks, block)
        Of which a node has 1 in all; 0 fills up a block.
    statistics : float32, (n_blocks, block, n_statistics)
    """

    n_nodes: int
    node: Tensor
    rows: Tensor
    Z: Tensor
    weight: Tensor
    statistics: Tensor

    def by_node(self, value: Tensor) -> Tensor:
        """Return weighted means over rows: (n_restarts, n_blocks, block) -> (…, n_nodes)."""
        of_block = (value * self.weight).sum(-1)
        return of_block.new_zeros((len(of_block), self.n_nodes)).index_add(1, self.node, of_block)


class Blocks:
    """Deals out the rows of a level, some of each node in a step.

    A node of more rows than its share of a step goes through them in an order of its own, so that
    a stump sees the same rows whether it is trained alone or with others, if its share is the same.

    Parameters
    ----------
    level : Level
    batch_size : int, optional
        Rows of a step, all nodes together, though at least `MIN_ROWS_OF_A_STEP` of each node; all
        rows if not given.
    generators : sequence of Generator, optional
        One for each node, which draws its order.

    Attributes
    ----------
    taken : int64, (n_nodes,)
        Rows of each node in a step.
    order : int64, (n_rows,)
        Rows of the level, those of each node in its order, from whose end a step goes on at its
        beginning.
    """

    def __init__(
        self,
        level: Level,
        batch_size: int | None = None,
        generators: Sequence[np.random.Generator] = (),
    ) -> None:
        n = level.n_rows
        taken = n
        if batch_size is not None:
            taken = np.minimum(n, max(-(-batch_size // n.size), MIN_ROWS_OF_A_STEP))
        self.level = level
        self.is_all = bool(np.all(taken == n))
        self.taken, self.order = taken, np.arange(level.start[-1])
        if not self.is_all:
            for j, generator in enumerate(generators):
                if taken[j] < n[j]:
                    own = slice(level.start[j], level.start[j + 1])
                    self.order[own] = generator.permutation(self.order[own])
        block = int(np.clip(2 ** np.round(np.log2(taken.mean() / 2)), 8, 256))
        n_blocks = -(-taken // block)
        node = np.repeat(np.arange(n.size), n_blocks)
        first = np.cumsum(n_blocks) - n_blocks
        place = (np.arange(node.size) - first[node])[:, None] * block + np.arange(block)
        self._filled = place < taken[node][:, None]
        self._node, self._place, self._n, self._taken = node, place, n[node], taken[node]
        self._static: Batch | None = None

    def at(self, step: int) -> Batch:
        """Return the rows of a step."""
        if self._static is not None:
            return self._static
        place = (self._place + step * self._taken[:, None]) % self._n[:, None]
        rows = self.order[self.level.start[self._node][:, None] + place]
        weight = np.where(self._filled, self.level.weight[rows], 0.0)
        total = np.bincount(self._node, weight.sum(axis=1), minlength=self.level.n_nodes)
        weight /= total[self._node][:, None]
        device = self.level.Z.device
        index = torch.from_numpy(rows).to(device)
        batch = Batch(
            self.level.n_nodes,
            torch.from_numpy(self._node).to(device),
            index,
            self.level.Z[index],
            torch.from_numpy(weight.astype(np.float32)).to(device),
            self.level.soft.statistics[index],
        )
        if self.is_all:
            self._static = batch
        return batch

    def spread(self, value: Tensor) -> Tensor:
        """Return values by row of the level from values by place in the blocks of all rows."""
        assert self.is_all
        rows = self.at(0).rows.ravel()
        filled = torch.from_numpy(self._filled.ravel()).to(value.device)
        flat = value.reshape(len(value), -1)[:, filled]
        result = flat.new_empty((len(value), int(self.level.start[-1])))
        result[:, rows[filled]] = flat
        return result
