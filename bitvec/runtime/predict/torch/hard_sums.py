"""Raw scores of exit leaves by functional tensor operations, in the source's order and dtype.

A sum is a chain of additions, tree after tree, that starts from a buffer: a compiler may drop the
addition of a literal 0, which turns -0.0 into 0.0.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.forest import Forest
from bitvec.core.leaves import LinearTerms
from bitvec.core.output import Aggregate
from bitvec.runtime.predict.torch.host_arrays import register


class HardSums(nn.Module):
    """Raw scores F (batch, n_outputs) of leaves int64 (n_trees, batch) and rows.

    Parameters
    ----------
    forest : Forest
    """

    v: Tensor
    start: Tensor
    base: Tensor
    divisor: Tensor
    scale: Tensor
    weight: Tensor
    leaf_output: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        output, leaves, B = forest.output, forest.leaves, forest.bitvectors
        self.aggregate, self.n_trees = output.aggregate, B.n_trees
        self.n_outputs = output.n_outputs
        self.dtype = getattr(torch, str(output.dtype))
        self.base_first = output.base_first
        self.is_mean = output.aggregate is Aggregate.MEAN and B.n_trees > 0
        self.is_scaled = output.scale is not None
        adds = output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        self.weighs_rows = adds and leaves.linear is not None and output.tree_weight is not None
        self.linear = None if leaves.linear is None else _LinearTerms(leaves.linear)
        v = leaves.v
        if self.linear is None:
            v = v.astype(output.dtype)
            if adds and output.tree_weight is not None:  # rounded once, as the product in the sum
                with np.errstate(over="ignore", invalid="ignore"):
                    v *= np.repeat(output.tree_weight, np.diff(B.leaf_ptr))[:, None]
        zeros = np.zeros(output.n_outputs, output.dtype)
        divisor = np.full(output.n_outputs, B.n_trees, output.dtype)
        register(
            self,
            v=v,
            start=output.base_score if output.base_first else zeros,
            base=output.base_score,
            divisor=divisor if output.divisor is None else output.divisor,
        )
        if output.scale is not None:
            register(self, scale=output.scale)
        if output.tree_weight is not None:
            register(self, weight=output.tree_weight)
        # The output that each tree adds to, where its leaves name but one, as in boosters.
        self.output_of_tree: list[int] | None = None
        self.is_named = leaves.output is not None
        if leaves.output is not None:
            register(self, leaf_output=leaves.output.astype(np.int64))
            first = leaves.output[B.leaf_ptr[:-1]]
            if B.n_trees and np.array_equal(np.repeat(first, np.diff(B.leaf_ptr)), leaves.output):
                self.output_of_tree = first.tolist()

    def forward(self, leaf: Tensor, x: Tensor) -> Tensor:
        """Return the raw scores of leaf indices in the forest; x is F (batch, n_features)."""
        values = self.v[leaf] if self.linear is None else self.linear(self.v[leaf], leaf, x)
        values = values.to(self.dtype)
        if self.weighs_rows:
            values = self.weight[:, None, None] * values
        if self.aggregate is Aggregate.WEIGHTED_MEDIAN and self.n_trees:
            total = self._weighted_median(self._spread(values, leaf))
        elif self.aggregate in (Aggregate.MIN, Aggregate.MAX) and self.n_trees:
            total, *others = self._spread(values, leaf).unbind()
            for other in others:  # of equal zeros the later, as NumPy; torch.minimum may take any
                first = total < other if self.aggregate is Aggregate.MIN else total > other
                total = torch.where(first | torch.isnan(total), total, other)
        else:
            total = self._sum(values, leaf)
        return self._finish(total)

    def _sum(self, values: Tensor, leaf: Tensor) -> Tensor:
        batch = leaf.shape[1]
        if self.output_of_tree is not None:
            totals = [start.expand(batch) for start in self.start.unbind()]
            for tree, k in enumerate(self.output_of_tree):
                totals[k] = totals[k] + values[tree, :, 0]
            return torch.stack(totals, dim=1)
        total = self.start.expand(batch, -1)
        for tree in range(self.n_trees):
            added = total + values[tree]
            if self.is_named:
                added = torch.where(self._is_output(leaf[tree]), added, total)
            total = added
        return total

    def _is_output(self, leaf: Tensor) -> Tensor:
        number = torch.arange(self.n_outputs, device=leaf.device)
        return self.leaf_output[leaf][..., None] == number

    def _spread(self, values: Tensor, leaf: Tensor) -> Tensor:
        return torch.where(self._is_output(leaf), values, 0) if self.is_named else values

    def _weighted_median(self, values: Tensor) -> Tensor:
        order = torch.argsort(values, dim=0, stable=True)
        weight = self.weight[order]
        sums = [weight[0]]
        for one in weight[1:].unbind():
            sums.append(sums[-1] + one)
        reached = torch.stack(sums) >= 0.5 * sums[-1]
        # The first that reaches it; none where a NaN is among the weights, then the first of all.
        before = (~reached).to(torch.int64).cumprod(dim=0).sum(dim=0, keepdim=True)
        pick = order.gather(0, torch.where(before == self.n_trees, 0, before))
        return values.gather(0, pick)[0]

    def _finish(self, total: Tensor) -> Tensor:
        if self.is_mean:
            total = total / self.divisor
        if self.is_scaled:
            total = total * self.scale
        return total if self.base_first else (total + self.base).to(self.dtype)


class _LinearTerms(nn.Module):
    """Leaf vectors with their terms in x added, one after the other."""

    start: Tensor
    count: Tensor
    column: Tensor
    weight: Tensor
    constant: Tensor

    def __init__(self, linear: LinearTerms) -> None:
        super().__init__()
        count = np.diff(linear.leaf_ptr)
        self.n_terms = int(count.max(initial=0))
        dtype = linear.constant.dtype
        self.zero_threshold = float(dtype.type(linear.zero_threshold))
        register(
            self,
            start=linear.leaf_ptr[:-1],
            count=count,
            column=linear.column.astype(np.int64),
            weight=linear.weight,
            constant=linear.constant,
        )

    def forward(self, v: Tensor, leaf: Tensor, x: Tensor) -> Tensor:
        """Return (n_trees, batch, width); v is what a leaf holds where a value is missing."""
        value, start, count = self.constant[leaf], self.start[leaf], self.count[leaf]
        missing = count == 0
        row = torch.arange(x.shape[0], device=x.device) * x.shape[1]
        for k in range(self.n_terms):
            has_term = count > k
            term = torch.where(has_term, start + k, 0)
            z = x.reshape(-1)[self.column[term] + row].to(value.dtype)
            if self.zero_threshold:
                z = torch.where(z.abs() <= self.zero_threshold, 0, z)
            added = value + self.weight[term] * z[..., None]
            value = torch.where(has_term[..., None], added, value)
            missing = missing | (has_term & torch.isnan(z))
        return torch.where(missing[..., None], v, value)
