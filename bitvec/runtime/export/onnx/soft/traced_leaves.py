"""Sums over leaves of membership times leaf, as a tracer can follow them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bitvec.runtime.export.onnx.soft.traceable import hold, sums
from bitvec.runtime.train.relax.leaf_functions import LeafFunctions


class WeightedSum(nn.Module):
    """The sum of u · v, (n_outputs, batch): what has a share of 0 adds nothing, even infinity.

    Parameters
    ----------
    vectors : float, (n, width)
    output : int64, (n,), optional
        The one output that each adds to.
    n_outputs : int
    """

    vectors: Tensor
    order: Tensor | None
    infinite: Tensor | None
    extremes: Tensor | None
    extreme_output: Tensor | None

    def __init__(self, vectors: Tensor, output: Tensor | None, n_outputs: int) -> None:
        super().__init__()
        self.n_outputs, self.sizes = n_outputs, [len(vectors)]
        order = None
        if output is not None:
            rising = torch.argsort(output, stable=True)
            self.sizes = torch.bincount(output, minlength=n_outputs).tolist()
            order = None if bool((torch.diff(rising) == 1).all()) else rising
            vectors, output = vectors[rising], output[rising]
        finite = vectors.isfinite()
        at = torch.nonzero(~finite.all(dim=1))[:, 0] if not bool(finite.all()) else None
        hold(
            self,
            vectors=torch.where(finite, vectors, 0.0).T.contiguous(),
            order=order,
            infinite=at,
            extremes=None if at is None else torch.where(finite, 0.0, vectors)[at],
            extreme_output=None if at is None or output is None else output[at][:, None],
        )
        self.by_output = output is not None

    def forward(self, u: Tensor) -> Tensor:
        """Return the sum for u, (n, batch)."""
        if self.order is not None:
            u = u.index_select(0, self.order)
        total = self._finite(u)
        if self.infinite is None or self.extremes is None:
            return total
        share = u.index_select(0, self.infinite)[:, None, :]
        extreme = self.extremes[:, :, None]
        terms = torch.where((share != 0) & (extreme != 0), share * extreme, 0.0)
        if self.extreme_output is not None:
            return total + sums(terms[:, 0], self.extreme_output, self.n_outputs)
        return total + terms.sum(dim=0)

    def _finite(self, u: Tensor) -> Tensor:
        if not self.by_output:
            return self.vectors @ u
        found, start = [], 0
        for size in self.sizes:
            part = slice(start, start + size)
            found.append(self.vectors[:, part] @ u[part] if size else torch.zeros_like(u[:1]))
            start += size
        return torch.cat(found)


class LinearLeaves(nn.Module):
    """The sum over leaves of u · F_l(x), (n_outputs, batch).

    Parameters
    ----------
    functions : LeafFunctions
    """

    column: Tensor
    center: Tensor
    spread: Tensor
    has_terms: Tensor
    term_leaf: Tensor
    leaf_of_term: Tensor
    term_column: Tensor
    zero: Tensor | None

    def __init__(self, functions: LeafFunctions) -> None:
        super().__init__()
        leaves, n_outputs, output = functions.leaves, functions.n_outputs, functions.output
        assert leaves.linear is not None
        self.dtype, self.n_leaves = functions.dtype, leaves.n_leaves
        self.read_dtype = torch.tensor(leaves.v[:0]).dtype
        self.largest = torch.finfo(self.dtype).max
        threshold = leaves.linear.zero_threshold
        term_leaf = functions.term_leaf
        hold(
            self,
            column=torch.tensor(functions.columns),
            center=torch.tensor(functions.center)[:, None],
            spread=torch.tensor(functions.spread)[:, None],
            has_terms=functions.has_terms[:, None],
            term_leaf=term_leaf,
            leaf_of_term=term_leaf[:, None],
            term_column=functions.term_column,
            zero=torch.tensor(threshold, dtype=self.read_dtype) if threshold else None,
        )
        self.constants = WeightedSum(functions.constant.detach(), output, n_outputs)
        self.fallbacks = WeightedSum(functions.v.detach(), output, n_outputs)
        own = None if output is None else output[term_leaf]
        self.terms = WeightedSum(functions.weight.detach(), own, n_outputs)
        self.has_any = len(term_leaf) > 0

    def forward(self, u: Tensor, X: Tensor) -> Tensor:
        """Return the sum for memberships times tree weights, (n_leaves, batch), and rows of X."""
        if not self.has_any:
            return self.fallbacks(u)
        value, missing = self._read(X)
        absent = missing.to(self.dtype).index_select(0, self.term_column)
        gone = sums(absent, self.leaf_of_term, self.n_leaves) > 0
        linear = self.has_terms & ~gone
        reached = torch.where(linear, u, 0.0)
        total = self.constants(reached) + self.fallbacks(torch.where(linear, 0.0, u))
        share = reached.index_select(0, self.term_leaf)
        x = torch.where(share == 0, 0.0, value.index_select(0, self.term_column))
        return total + self.terms(share * x)

    def _read(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Return standardised columns, 0 where missing, and where they are."""
        x = X.T.index_select(0, self.column).to(self.read_dtype)
        if self.zero is not None:
            x = torch.where(x.abs() <= self.zero, 0.0, x)
        missing = x.isnan()
        scaled = (x.to(torch.float64) - self.center) / self.spread
        held = torch.where(x.isinf(), scaled, scaled.clamp(-self.largest, self.largest))
        return torch.where(missing, 0.0, held).to(self.dtype), missing
