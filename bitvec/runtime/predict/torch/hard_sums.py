"""Raw scores of exit leaves by functional tensor operations, in the source's order and dtype.

A sum is a chain of additions, tree after tree, that starts from a buffer: a compiler may drop the
addition of a literal 0, which turns -0.0 into 0.0. On a CPU some operations of torch add in that
order too: `index_add` in eager calls, and, where a compiler calls them as they are, `embedding_bag`
in float32 and `segment_reduce` in float64. Whether those of this torch do is tried once.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.forest import Forest
from bitvec.core.leaves import LinearTerms
from bitvec.core.output import Aggregate
from bitvec.runtime.predict.torch.call_modes import is_compiled
from bitvec.runtime.predict.torch.host_arrays import register


class HardSums(nn.Module):
    """Raw scores F (batch, n_outputs) of leaves int64 (n_trees, batch) and rows.

    Parameters
    ----------
    forest : Forest

    Attributes
    ----------
    scatters : bool
        Whether a program adds all trees by one `scatter_add`, for a runtime whose kernel adds in
        the order of its source; its graph is then as large for many trees as for one.
    raw_of_leaf : F (n_leaves, n_outputs), or None
        Raw scores of a lone tree, which are a function of its leaf.
    """

    v: Tensor
    start: Tensor
    base: Tensor
    divisor: Tensor
    scale: Tensor
    weight: Tensor
    leaf_output: Tensor
    tree_output: Tensor
    bag_order: Tensor
    bag_ends: Tensor
    raw_of_leaf: Tensor | None

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        output, leaves, B = forest.output, forest.leaves, forest.bitvectors
        self.aggregate, self.n_trees = output.aggregate, B.n_trees
        self.n_outputs = output.n_outputs
        self.dtype = getattr(torch, str(output.dtype))
        self.base_first = output.base_first
        self.scatters = self.indexes = False
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
        start = output.base_score if output.base_first else zeros
        if output.scale is not None:
            register(self, scale=output.scale)
        if output.tree_weight is not None:
            register(self, weight=output.tree_weight)
        # The output that each tree adds to, where its leaves name but one, as in boosters.
        self.output_of_tree: list[int] | None = None
        tree_output = np.zeros(B.n_trees, np.int64)
        self.is_named = leaves.output is not None
        if leaves.output is not None:
            register(self, leaf_output=leaves.output.astype(np.int64))
            first = leaves.output[B.leaf_ptr[:-1]]
            if B.n_trees and np.array_equal(np.repeat(first, np.diff(B.leaf_ptr)), leaves.output):
                self.output_of_tree, tree_output = first.tolist(), first.astype(np.int64)
        adds_all = adds and (not self.is_named or self.output_of_tree is not None)
        self.adds_constants = (
            adds_all
            and self.linear is None
            and start.dtype == v.dtype
            and B.n_trees > 1
            and not np.any(np.signbit(start) & (start == 0))  # bags start from 0.0
            and _bags_add_in_order(self.dtype)
        )
        # A bag is the start of an output with the leaves of its trees, the starts numbered after
        # all leaves; where each tree adds to all outputs there is one bag of whole vectors.
        self.n_leaves = len(v)
        if self.adds_constants:
            v = np.concatenate([v, start[None] if self.output_of_tree is None else start[:, None]])
        n_bags = 1 if self.output_of_tree is None else output.n_outputs
        bag = np.append(np.arange(n_bags), tree_output)
        bag_ends = np.append(0, np.bincount(bag, minlength=n_bags).cumsum())
        register(
            self,
            bag_ends=bag_ends,
            tree_output=tree_output,
            bag_order=np.argsort(bag, kind="stable"),
            v=v,
            start=start,
            base=output.base_score,
            divisor=divisor if output.divisor is None else output.divisor,
            raw_of_leaf=None,
        )
        if B.n_trees == 1 and self.linear is None:
            rows = torch.zeros((B.n_leaves, 0))
            self.raw_of_leaf = self(torch.arange(B.n_leaves)[None], rows)

    def add_by_index(self) -> None:
        """Make programs add all trees by one `index_add` of `v`, from leaves up."""
        self.indexes, self.adds_constants = True, False
        register(self, v=self.v[: self.n_leaves], raw_of_leaf=None)

    def forward(self, leaf: Tensor, x: Tensor) -> Tensor:
        """Return the raw scores of leaf indices in the forest; x is F (batch, n_features)."""
        if self.raw_of_leaf is not None:
            return rows_of(self.raw_of_leaf, leaf[0])
        if self.adds_constants and is_compiled() and leaf.device.type == "cpu":
            return self.finish(self._sum_of_bags(leaf))
        if torch.compiler.is_compiling():
            values = self.v[leaf]
        else:  # faster on a CPU, above all of numbers
            v = self.v if self.v.shape[1] > 1 else self.v.view(-1)
            values = v.index_select(0, leaf.reshape(-1)).view(*leaf.shape, self.v.shape[1])
        if self.linear is not None:
            values = self.linear(values, leaf, x)
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
        return self.finish(total)

    def _sum(self, values: Tensor, leaf: Tensor) -> Tensor:
        batch = leaf.shape[1]
        on_cpu = leaf.device.type == "cpu" and not torch.compiler.is_compiling()
        if (on_cpu or self.indexes) and self.n_trees and self.start.dtype == values.dtype:
            if self.output_of_tree is not None:
                total = self.start[:, None].repeat(1, batch)
                return total.index_add(0, self.tree_output, values[..., 0]).T.contiguous()
            if not self.is_named:
                total = self.start.repeat(batch)[None]
                flat = values.flatten(1)
                return total.index_add(0, self.tree_output, flat).view(batch, self.n_outputs)
        if self.scatters and self.n_trees and self.start.dtype == values.dtype:
            if self.output_of_tree is not None:
                total = self.start[:, None].repeat(1, batch)
                index = self.tree_output[:, None].expand(-1, batch)
                return total.scatter_add(0, index, values[..., 0]).T
            if not self.is_named:
                total = self.start.repeat(batch, 1)[None]
                return total.scatter_add(0, torch.zeros_like(values, dtype=torch.int64), values)[0]
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

    def _sum_of_bags(self, leaf: Tensor) -> Tensor:
        batch, n_bags = leaf.shape[1], len(self.bag_ends) - 1
        start = self.n_leaves + torch.arange(n_bags, device=leaf.device)
        members = torch.cat([start.expand(batch, -1), leaf.T], dim=1)
        if n_bags > 1:
            members = members.index_select(1, self.bag_order)
        return _sums_of_bags(self.v, members, self.bag_ends)

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

    def finish(self, total: Tensor) -> Tensor:
        """Return the raw scores F (batch, n_outputs) of sums over trees: see `Output.finish`."""
        if self.is_mean:
            total = total / self.divisor
        if self.is_scaled:
            total = total * self.scale
        return total if self.base_first else (total + self.base).to(self.dtype)


def rows_of(table: Tensor, leaf: Tensor) -> Tensor:
    """Return the rows, or elements, of a table by leaves (batch,)."""
    if is_compiled():  # which checks the indices of other operations
        flat = table.view(len(table), -1)
        return torch.embedding(flat, leaf).view(leaf.shape[0], *table.shape[1:])
    return table.index_select(0, leaf)


def _sums_of_bags(v: Tensor, members: Tensor, ends: Tensor) -> Tensor:
    """Return sums of rows of v, (batch, n_bags · width), in the order of members.

    Parameters
    ----------
    v : F, (n, width)
    members : int64, (batch, m)
    ends : int64, (n_bags + 1,)
        From 0 to m, where each bag of a row's members begins and ends.
    """
    batch, m = members.shape
    n_bags = len(ends) - 1
    if n_bags == 1:  # no sum of tensors, each of which a call takes time for
        begin = torch.arange(0, batch * m + 1, m, device=v.device)
    else:
        first = torch.arange(0, batch * m, m, device=v.device)[:, None]
        begin = torch.cat([(first + ends[:-1]).reshape(-1), ends.new_full((1,), batch * m)])
    if v.dtype == torch.float32:
        total = torch.embedding_bag(v, members.reshape(-1), begin, include_last_offset=True)[0]
    else:
        rows = torch.embedding(v, members.reshape(-1))
        total = torch.segment_reduce(rows, "sum", offsets=begin, unsafe=True)
    return total.view(batch, n_bags * v.shape[1])


@cache
def _bags_add_in_order(dtype: torch.dtype) -> bool:
    """Return whether this torch adds the rows of a bag one after the other, in their dtype."""
    for width in (1, 2, 3, 4, 8, 10, 17, 32, 100):
        rows = np.random.default_rng(0).normal(size=(64, width))
        rows *= 10.0 ** (np.arange(64)[::-1, None] % 9)  # of all sizes
        v = torch.tensor(rows, dtype=dtype)
        members, ends = torch.arange(64).expand(3, -1), torch.tensor([0, 64])
        total = v[0]
        for one in v[1:]:
            total = total + one
        if not torch.equal(_sums_of_bags(v, members, ends), total.expand(3, -1)):
            return False
    return True


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
