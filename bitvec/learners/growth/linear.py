"""Linear nodes, those of End-to-End Decision Trees: s = σ(γ (θ · z + bias))."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.converters.native.sparse_rows import sum_in_order
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Float64
from bitvec.learners.growth.cuts import Cuts
from bitvec.learners.growth.level import Level, Unit, Units
from bitvec.learners.growth.stump_test import Rule, exact_cut
from bitvec.learners.growth.targets import Target


@dataclass(frozen=True, slots=True, eq=False)
class LinearRule:
    """The margin θ · x, which is compared with −bias.

    Parameters
    ----------
    theta : float64, (n_features,)
    """

    theta: Float64[Array, " n_features"]

    def margins(self, X: Float64[Array, "batch n_features"]) -> Float64[Array, " batch"]:
        """Return θ · x, products added from left to right."""
        reads = np.flatnonzero(self.theta)
        return sum_in_order(X[:, reads] * self.theta[reads])


class LinearTests:
    """Linear tests of a level.

    Parameters
    ----------
    theta : float32, (n_restarts, n_nodes, n_features + 1)
        θ over standardised columns; the bias last.
    """

    def __init__(self, theta: Float[Tensor, "n_restarts n_nodes n_features_plus_1"]) -> None:
        self.theta = theta.requires_grad_()
        self.parameters = (self.theta,)

    @property
    def numbers_of_a_row(self) -> int:
        """One margin of each restart."""
        return len(self.theta)

    def margins(self, Z: Tensor, node: Tensor) -> Tensor:
        """Return θ · [z; 1] of blocks of rows: (n_restarts, n_blocks, block)."""
        return torch.einsum("nbp,rnp->rnb", Z, self.theta[:, node])

    @torch.no_grad()
    def center(self, by: Tensor, scale: Tensor) -> None:
        """Turn every margin m into (m − by) / scale."""
        self.theta[..., -1] -= by
        self.theta /= scale[..., None]

    def rule(self, restart: int, node: int, units: Units) -> LinearRule:
        """Return θ over raw columns."""
        theta = self.theta[restart, node].detach().cpu().numpy().astype(np.float64)
        return LinearRule(units.fold(node, theta)[:-1])


class Linear:
    """The kind of a linear node."""

    @property
    def unit(self) -> Unit:
        """Each column has its own unit."""
        return "column"

    @property
    def pace(self) -> float:
        """The learning rate is that of linear nodes."""
        return 1.0

    def draw(
        self, generators: Sequence[np.random.Generator], level: Level, restarts: int
    ) -> LinearTests:
        """Draw directions uniformly from the sphere, of the columns that vary at the node."""
        p = level.Z.shape[1] - 1
        drawn = np.stack([generator.standard_normal((restarts, p)) for generator in generators], 1)
        drawn *= level.units.varies
        drawn /= np.maximum(np.linalg.norm(drawn, axis=-1, keepdims=True), 1e-30)
        theta = np.zeros((restarts, len(generators), p + 1), np.float32)
        theta[..., :-1] = drawn
        return LinearTests(torch.from_numpy(theta).to(level.Z.device))

    def finish(
        self, rule: Rule, X: Float64[Array, "n_rows n_features"], target: Target, weight: Array
    ) -> tuple[Rule, Cuts]:
        """Return the rule and its best cut."""
        return rule, exact_cut(rule, X, target, weight)
