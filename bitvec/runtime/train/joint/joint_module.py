"""Complete trees as a torch module: S, b and v in units in which one learning rate suits all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.train.joint.complete_paths import leaf_shares
from bitvec.runtime.train.joint.complete_trees import CompleteTrees
from bitvec.runtime.train.relax.moments import column_units

FLOOR = 0.1
"""Least unit of a margin, in its deviation over all rows: few rows may reach a node, and alike."""
SMALLEST = 1e-3
"""Least unit of a margin, in the length of the node's row over standardised columns."""

CHUNK = 256
"""Rows whose shares at all leaves are held at once."""

Rows = Literal["dense", "fixed"]


class SoftTrees(torch.nn.Module):
    """The sum of soft complete trees: raw = base score + sum over leaves of share · v.

    Columns are standardised, and each row of S and its threshold are divided by the standard
    deviation of the margin S x − b over the rows that reach the node. `to_trees` is the way back,
    so that the hard trees answer rows as they are.

    Parameters
    ----------
    trees : CompleteTrees
        The start.
    X : float64, (batch, n_features)
        Rows to measure the units on.
    rows : "dense" or "fixed"
        Whether S may move. Rows that are fixed and read one column each gather it.
    dtype : torch.dtype

    Attributes
    ----------
    S : (n_nodes, n_features)
    b : (n_nodes,)
    v : (n_leaves, n_outputs)
    """

    def __init__(
        self,
        trees: CompleteTrees,
        X: Float64[Array, "batch n_features"],
        *,
        rows: Rows = "dense",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.start, self.n_trees = trees, trees.n_trees
        self.center, self.spread = column_units(X)
        S = trees.S * self.spread
        b = trees.b - trees.S @ self.center
        self.unit = _margin_units(trees, X, np.linalg.norm(S, axis=1))
        S, b = S / self.unit[:, None], b / self.unit
        self.S = torch.nn.Parameter(torch.tensor(S, dtype=dtype), requires_grad=rows == "dense")
        self.b = torch.nn.Parameter(torch.tensor(b, dtype=dtype))
        self.v = torch.nn.Parameter(torch.tensor(trees.v, dtype=dtype))
        self.register_buffer("base_score", torch.tensor(trees.base_score, dtype=dtype))
        one = rows == "fixed" and bool(np.all((S != 0).sum(axis=1) <= 1))
        column = np.abs(S).argmax(axis=1)
        self._column = torch.tensor(column) if one else None
        self._weight = torch.tensor(S[np.arange(len(S)), column], dtype=dtype)[:, None]

    if TYPE_CHECKING:
        base_score: Tensor

        def __call__(self, Z: Tensor, gamma: float, root: Tensor | None = None) -> Tensor: ...

    @property
    def rows(self) -> Rows:
        """Kind of rows: "dense" ones move, "fixed" ones do not."""
        return "dense" if self.S.requires_grad else "fixed"

    def standardised(self, X: Float64[Array, "batch n_features"]) -> Tensor:
        """Return rows as `forward` reads them, (batch, n_features)."""
        return torch.tensor((X - self.center) / self.spread, dtype=self.b.dtype)

    def margins(self, Z: Tensor, gamma: float) -> Tensor:
        """Return gamma · (S z − b), (n_nodes, batch)."""
        b = self.b[:, None]
        if self._column is None:
            return torch.addmm(b, self.S, Z.T, beta=-gamma, alpha=gamma)
        return torch.addcmul(b * -gamma, Z.T.contiguous()[self._column], self._weight, value=gamma)

    def forward(self, Z: Tensor, gamma: float, root: Tensor | None = None) -> Tensor:
        """Return soft raw scores, (batch, n_outputs).

        Parameters
        ----------
        Z : (batch, n_features)
            As `standardised` gives them.
        gamma : float
            Steepness, in units of each node's margin.
        root : (n_trees, batch), optional
            What each tree counts for each row, 1 if not given.
        """
        m = self.margins(Z, gamma)
        if root is None:
            root = m.new_ones((self.n_trees, len(Z)))
        share = leaf_shares(m.view(self.n_trees, -1, len(Z)), root)
        return self.base_score + share.view(-1, len(Z)).T @ self.v

    @torch.no_grad()
    def to_trees(self, gamma: float | None = None) -> CompleteTrees:
        """Return the trees in the units of the rows; S that may not move comes back as it was.

        With `gamma`, rows of S and b are multiplied by gamma over the unit of their margin: the
        hard trees are the same, and sigmoid(S x − b) is the share that goes right at that
        steepness.
        """
        b = self.b.double().numpy() * self.unit
        if self.rows == "fixed":
            S = self.start.S
        else:
            S = self.S.double().numpy() * self.unit[:, None] / self.spread
        b = b + S @ self.center
        if gamma is not None:
            S, b = S * (gamma / self.unit)[:, None], b * gamma / self.unit
        return CompleteTrees(self.n_trees, S, b, self.v.double().numpy(), self.start.base_score)


def soft_scores(
    trees: CompleteTrees, X: Float64[Array, "batch n_features"]
) -> Float64[Array, "batch n_outputs"]:
    """Return the raw scores of soft trees whose shares are sigmoid(S x − b), by runs of rows."""
    found = np.empty((len(X), trees.v.shape[1]))
    for first in range(0, len(X), CHUNK):
        rows = X[first : first + CHUNK]
        margin = torch.tensor(trees.S @ rows.T - trees.b[:, None])
        margin = margin.view(trees.n_trees, -1, len(rows))
        share = leaf_shares(margin, margin.new_ones((trees.n_trees, len(rows))))
        found[first : first + CHUNK] = share.view(-1, len(rows)).numpy().T @ trees.v
    return found + trees.base_score


def _margin_units(
    trees: CompleteTrees, X: Array, length: Float64[Array, " n_nodes"]
) -> Float64[Array, " n_nodes"]:
    """Return the standard deviation of each node's margin over the rows that reach it."""
    unit = np.empty(len(trees.b))
    n = (1 << trees.depth) - 1
    for tree in range(trees.n_trees):
        own = slice(tree * n, (tree + 1) * n)
        margin = X @ trees.S[own].T - trees.b[own]
        place = np.zeros(len(X), np.int64)
        for node in range(n):
            level = (node + 1).bit_length() - 1
            if node + 1 == 1 << level and node:  # a new level: go down once
                place = 2 * place + 1 + (margin[np.arange(len(X)), place] > 0)
            reached = margin[place == node, node]
            whole = margin[:, node].std()
            unit[tree * n + node] = max(reached.std() if reached.size else 0.0, FLOOR * whole)
    unit = np.maximum(unit, SMALLEST * length)
    return np.where(unit > 0, unit, 1.0)
