"""Polytope nodes, those of Convex Polytope Trees: g = Σ_k r_k ln(1 + exp(β_k · [z; 1])) > τ.

The gate that the paper trains, 1 / (1 + ((1 − f) / (1 − p0))^λ) with f = 1 − exp(−g), is
σ(λ (g − τ)) with τ = −ln(1 − p0). f itself is never computed: in floating point it is 1 from
g = 37 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.converters.native.sparse_rows import sum_in_order
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Float64
from bitvec.core.softplus import softplus
from bitvec.learners.growth.cuts import Cuts
from bitvec.learners.growth.level import Level, Unit, Units
from bitvec.learners.growth.stump_test import Rule, exact_cut
from bitvec.learners.growth.targets import Target

WIDE = 10
"""Features from which on facets start less steep: the margins of more columns spread further."""


@dataclass(frozen=True, slots=True, eq=False)
class PolytopeRule:
    """The margin g, which is compared with τ.

    Parameters
    ----------
    beta : float64, (n_facets, n_features + 1)
        β, the bias last.
    r : float64, (n_facets,)
        Positive.
    """

    beta: Float64[Array, "n_facets n_features_plus_1"]
    r: Float64[Array, " n_facets"]

    def terms(self, X: Float64[Array, "batch n_features"]) -> Float64[Array, "batch n_facets"]:
        """Return r_k ln(1 + exp(β_k · [x; 1])) of each facet."""
        result = np.empty((len(X), len(self.r)))
        for k, (beta, r) in enumerate(zip(self.beta, self.r, strict=True)):
            reads = np.flatnonzero(beta[:-1])
            with np.errstate(over="ignore", invalid="ignore"):
                dot = sum_in_order(X[:, reads] * beta[reads]) + beta[-1]
            result[:, k] = r * softplus(dot)
        return result

    def margins(self, X: Float64[Array, "batch n_features"]) -> Float64[Array, " batch"]:
        """Return g, facets added from left to right."""
        return sum_in_order(self.terms(X))

    def without(self, facet: int) -> PolytopeRule:
        """Return the polytope without a facet."""
        return PolytopeRule(np.delete(self.beta, facet, axis=0), np.delete(self.r, facet))


class PolytopeTests:
    """Polytope tests of a level.

    Parameters
    ----------
    beta : float32, (n_restarts, n_nodes, n_facets, n_features + 1)
        β over standardised columns; the bias last.
    log_r : float32, (n_restarts, n_nodes, n_facets)
    tau : float32, (n_restarts, n_nodes)
    """

    def __init__(
        self,
        beta: Float[Tensor, "n_restarts n_nodes n_facets n_features_plus_1"],
        log_r: Float[Tensor, "n_restarts n_nodes n_facets"],
        tau: Float[Tensor, "n_restarts n_nodes"],
    ) -> None:
        self.beta, self.log_r, self.tau = (part.requires_grad_() for part in (beta, log_r, tau))
        self.parameters = (self.beta, self.log_r, self.tau)

    @property
    def numbers_of_a_row(self) -> int:
        """The products with all facets of each restart."""
        return self.beta.shape[0] * self.beta.shape[2]

    def margins(self, Z: Tensor, node: Tensor) -> Tensor:
        """Return g − τ of blocks of rows: (n_restarts, n_blocks, block)."""
        dot = torch.einsum("nbp,rnkp->rnbk", Z, self.beta[:, node])
        r = self.log_r.exp()[:, node]
        g = (torch.nn.functional.softplus(dot) * r[:, :, None]).sum(-1)
        return g - self.tau[:, node, None]

    @torch.no_grad()
    def center(self, by: Tensor, scale: Tensor) -> None:
        """Turn every margin m into (m − by) / scale."""
        self.tau += by
        self.tau /= scale
        self.log_r -= scale.log()[..., None]

    def rule(self, restart: int, node: int, units: Units) -> PolytopeRule:
        """Return β over raw columns, and r."""
        beta = self.beta[restart, node].detach().cpu().numpy().astype(np.float64)
        r = np.exp(self.log_r[restart, node].detach().cpu().numpy().astype(np.float64))
        return PolytopeRule(units.fold(node, beta), r)


@dataclass(frozen=True, slots=True)
class Polytope:
    """The kind of a polytope node.

    Parameters
    ----------
    n_facets : int
        K.
    prune_tol : float or None
        Facets are dropped while the mean impurity of the node's rows rises by no more than this;
        None keeps all.

    Notes
    -----
    A side and its complement have the same impurity, so a polytope and its mirror image, with the
    convex set on the right, are one and the same stump to every loss: nothing is gained by training
    both orientations.
    """

    n_facets: int
    prune_tol: float | None = 0.01

    @property
    def unit(self) -> Unit:
        """Each column has its own unit."""
        return "column"

    @property
    def pace(self) -> float:
        """Facets learn as fast as linear nodes."""
        return 1.0

    def draw(
        self, generators: Sequence[np.random.Generator], level: Level, restarts: int
    ) -> PolytopeTests:
        """Draw steep facets that face all ways.

        With the weights of a linear layer as usual, all facets would have nearly the same gradient
        and collapse into one.
        """
        p, K = level.Z.shape[1] - 1, self.n_facets
        steep = 2.0 if p > WIDE else 4.0
        beta = np.zeros((restarts, len(generators), K, p + 1), np.float32)
        for j, generator in enumerate(generators):
            drawn = generator.standard_normal((restarts, K, p)) * level.units.varies[j]
            drawn /= np.maximum(np.linalg.norm(drawn, axis=-1, keepdims=True), 1e-30)
            beta[:, j, :, :-1] = steep * drawn
            beta[:, j, :, -1] = -steep * generator.random((restarts, K))
        shape, device = beta.shape[:2], level.Z.device
        log_r = torch.full((*shape, K), -float(np.log(K)), device=device)
        tau = torch.zeros(shape, device=device)
        return PolytopeTests(torch.from_numpy(beta).to(device), log_r, tau)

    def finish(
        self, rule: Rule, X: Float64[Array, "n_rows n_features"], target: Target, weight: Array
    ) -> tuple[Rule, Cuts]:
        """Return the rule less the facets that hardly matter, and its best cut."""
        assert isinstance(rule, PolytopeRule)
        rule = PolytopeRule(rule.beta[rule.r > 0], rule.r[rule.r > 0])
        if self.prune_tol is None or not rule.r.size:
            return rule, exact_cut(rule, X, target, weight)
        return prune_facets(rule, X, target, weight, tol=self.prune_tol)


def prune_facets(
    rule: PolytopeRule,
    X: Float64[Array, "n_rows n_features"],
    target: Target,
    weight: Float64[Array, " n_rows"],
    *,
    tol: float,
) -> tuple[PolytopeRule, Cuts]:
    """Drop the facet that matters least, τ chosen anew, as long as impurity hardly rises.

    Parameters
    ----------
    tol : float
        How far the mean impurity of the rows may rise above the least that was met on the way: in
        nats of labels, in shares of the node's own variance of values.

    Notes
    -----
    Stands in for the gamma process prior of the paper, which gives no strength for it and, printed
    as it is, drives every facet to zero. O(K² n log n).
    """
    start = np.array([0, len(X)])
    terms = rule.terms(X)
    cut = target.cuts(sum_in_order(terms), start, weight)
    least = float(cut.cost[0])
    allowed = tol * target.unit(weight)
    while rule.r.size > 1:
        tried = [
            target.cuts(sum_in_order(np.delete(terms, k, axis=1)), start, weight)
            for k in range(rule.r.size)
        ]
        cost = np.array([each.cost[0] for each in tried])
        k = int(cost.argmin())
        if not cost[k] <= least + allowed:
            break
        rule, terms, cut = rule.without(k), np.delete(terms, k, axis=1), tried[k]
        least = min(least, float(cost[k]))
    return rule, cut
