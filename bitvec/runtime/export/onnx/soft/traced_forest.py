"""A relaxed forest as a torch module that a tracer can follow: from X to raw scores.

It holds the numbers of a `SoftForest` as they are now. What that prepares in NumPy (standardised
columns, missing values, sets of codes) is computed of X by torch, for any row: nothing branches on
values, nothing is computed again, and nothing has a gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bitvec.core.node_tests import MissingRule
from bitvec.runtime.export.onnx.soft import traced_columns as soft_columns
from bitvec.runtime.export.onnx.soft.fixed import MissingAsNaN
from bitvec.runtime.export.onnx.soft.margins import NodeMargins
from bitvec.runtime.export.onnx.soft.traceable import hold
from bitvec.runtime.export.onnx.soft.traced_leaves import LinearLeaves, WeightedSum
from bitvec.runtime.export.onnx.soft.traced_paths import memberships
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.relax.rows import missing_tests
from bitvec.runtime.train.relax.soft_leaves import Margins, Setting


class TracedForest(nn.Module):
    """From X, F (batch, n_features), to raw scores, (batch, n_outputs), in the module's dtype.

    Parameters
    ----------
    soft : SoftForest
        On the CPU, in float32 or float64.
    """

    center: Tensor
    spread: Tensor
    divisor: Tensor | None
    base_score: Tensor
    leaf_weight: Tensor | None

    def __init__(self, soft: SoftForest) -> None:
        super().__init__()
        forest = soft.forest
        self.relaxation, self.gamma, self.dtype = soft.relaxation, soft.gamma, soft.dtype
        self.row_dtype = torch.tensor(forest.tests.b[:0]).dtype
        self.block, parameters = soft.whole()
        self.phi = _columns(soft)
        rules = missing_tests(forest, soft.device).rules or [MissingRule(0)]
        self.missing = MissingAsNaN(rules, forest.inputs.missing_sentinel, self.row_dtype)
        self.n_copies, self.limit = len(rules), soft.scaling.limit
        self.nodes = None
        if forest.n_nodes:
            self.nodes = NodeMargins(
                self.block,
                parameters,
                soft.plan().shift,
                rules,
                n_columns=len(soft.scaling.center),
                decided=soft.relaxation.gate == "straight_through",
            )
        self.leaves = self.functions = None
        if soft.leaf_functions is not None:
            self.functions = LinearLeaves(soft.leaf_functions)
        else:
            self.leaves = WeightedSum(parameters.vectors, soft.leaf_output, forest.n_outputs)
        weighted = soft.leaf_functions is not None and bool((soft.leaf_weight != 1).any())
        divided = bool((soft.divisor != 1).any())
        hold(
            self,
            center=torch.tensor(soft.scaling.center)[:, None],
            spread=torch.tensor(soft.scaling.spread)[:, None],
            divisor=soft.divisor if divided else None,
            base_score=soft.base_score.detach(),
            leaf_weight=soft.leaf_weight[:, None] if weighted else None,
        )

    def forward(self, X: Tensor) -> Tensor:
        """Return raw scores."""
        u = self.memberships(X)
        if self.functions is not None:
            total = self.functions(u if self.leaf_weight is None else u * self.leaf_weight, X)
        else:
            assert self.leaves is not None
            total = self.leaves(u)
        raw: Tensor = total.T
        return (raw if self.divisor is None else raw / self.divisor) + self.base_score

    def memberships(self, X: Tensor) -> Tensor:
        """Return u, (n_leaves, batch)."""
        layout = self.block.layout
        if self.nodes is None:
            return X.new_ones((layout.n_leaves, X.shape[0]), dtype=self.dtype)
        Z = X if self.phi is None else self.phi(X).to(self.row_dtype)
        raw = Z.T
        readable = self.missing(raw)
        standard = absent = readable
        if self.nodes.dense is not None:
            absent = readable.isnan()
            standard = torch.where(absent, 0.0, self._standard(raw))
        margins = Margins(*self.nodes(readable, standard, absent, self.dtype))
        setting = Setting(layout, self.gamma, self.dtype, self.block.kernel, raw)
        return memberships(self.relaxation, margins, setting)

    def _standard(self, raw: Tensor) -> Tensor:
        scaled = (raw.to(torch.float64) - self.center) / self.spread
        value = scaled.clamp(-self.limit, self.limit).to(self.dtype)
        return value if self.n_copies == 1 else value.repeat(self.n_copies, 1)


def _columns(soft: SoftForest) -> nn.Module | None:
    """Return what makes the columns that S reads, or None where they are those of X."""
    feature_map = soft.forest.feature_map
    if feature_map is None:
        return None
    if soft.phi is not None:
        return soft_columns.moving(feature_map, soft.phi.map, soft.dtype, _inner)
    return soft_columns.fixed(feature_map, torch.tensor(soft.forest.tests.b[:0]).dtype)


def _inner(soft: SoftForest) -> TracedForest:
    return TracedForest(soft)
