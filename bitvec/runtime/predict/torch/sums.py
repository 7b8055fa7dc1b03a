"""Leaf vectors become raw scores: in the order of the trees and in the forest's dtype.

No device promises an order for its own sums, and a CPU's `torch.sum` and `torch.cumsum` of float32
add in another order or in float64. So on a CPU the order is that of NumPy's reduction over the
first axis, which adds whole rows one after the other, and elsewhere one addition follows the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate

HELD = 1 << 13
"""Elements of leaf vectors that are held at a time on a CPU, in its cache."""
MAX_HELD_TREES = 16
"""Trees whose leaf vectors are held at a time on a CPU."""


def in_order(rows: Array) -> Array:
    """Return the sum of rows (n, m), each added to the sum of those before it.

    >>> in_order(np.array([[1e16], [1.0], [-1e16]])).tolist()
    [0.0]
    """
    if rows.shape[1] == 1:  # a single column would be summed by pairs
        return np.add.accumulate(rows[:, 0])[-1:]
    total: Array = np.add.reduce(rows, axis=0, initial=-0.0)  # -0.0 + x is x, 0.0 + -0.0 is not
    return total


class Sums:
    """The raw scores of one forest from the leaves that rows exit in.

    Parameters
    ----------
    forest : Forest
    device : torch.device

    Attributes
    ----------
    on_host : bool
        Whether sums are NumPy's.
    are_scalars : bool
        Whether each leaf adds one constant, to an output that its tree names: see `of_scalars`.
    need_tensors : bool
        Whether `of_leaves` alone can sum the leaves, not `of_vectors`.
    """

    def __init__(self, forest: Forest, device: torch.device) -> None:
        self.forest, self.device = forest, device
        output, leaves, B = forest.output, forest.leaves, forest.bitvectors
        self.adds = output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        self.dtype: torch.dtype = getattr(torch, str(output.dtype))
        self.on_host = device.type == "cpu" or not self.adds
        self._linear = leaves.linear is not None
        v = leaves.v.astype(output.dtype if self.adds and not self._linear else leaves.v.dtype)
        if output.tree_weight is not None and self.adds and not self._linear:
            # Rounded once, as the product in the sum.
            with np.errstate(over="ignore", invalid="ignore"):
                v *= np.repeat(output.tree_weight, np.diff(B.leaf_ptr))[:, None]
        self._array, self._v = v, self._put(v)
        self._terms: dict[str, Tensor] = {}
        if leaves.linear is not None:
            for name in ("leaf_ptr", "column", "weight", "constant"):
                self._terms[name] = self._put(getattr(leaves.linear, name))
        self._weight = None if output.tree_weight is None else self._put(output.tree_weight)
        self._output: Tensor | None = None
        self._members: list[Any] | None = None
        if leaves.output is not None and B.n_trees:
            self._output = self._put(leaves.output.astype(np.int64))
            lowest, highest = (
                extreme.reduceat(leaves.output, B.leaf_ptr[:-1])
                for extreme in (np.minimum, np.maximum)
            )
            if np.array_equal(lowest, highest):  # a booster's tree adds to one output only
                members = (np.flatnonzero(lowest == k) + 1 for k in range(output.n_outputs))
                self._members = [np.append(0, trees) for trees in members]
                if not self.on_host:
                    self._members = [self._put(rows) for rows in self._members]
        base = output.base_score
        self._base = self._put(base)
        divisor = output.dtype.type(B.n_trees) if output.divisor is None else output.divisor
        # As a tensor: torch multiplies by the inverse of a number where a GPU divides by one.
        self._divisor = self._put(np.full(output.n_outputs, divisor, output.dtype))
        self._scale = None if output.scale is None else self._put(output.scale)
        constant = self.adds and not self._linear
        alone = constant and B.n_trees == 1 and self._output is None and self.on_host
        to_one = self._output is None or self._members is not None
        self.are_scalars = constant and to_one and v.shape[1] == 1 and not alone
        self.need_tensors = not (constant and (self._output is None or self.are_scalars))
        # The raw score of one tree is a function of its leaf.
        self._sums_of_leaves: Array | None = None
        if alone:
            with np.errstate(over="ignore", invalid="ignore"):  # infinite leaves are legal
                self._sums_of_leaves = self.of_vectors(np.arange(B.n_leaves)[None])

    def scalars(self, slot_leaf: Array) -> Tensor:
        """Return what each slot of a traversal adds, (n_slots,), given its leaf."""
        return self._v[:, 0].index_select(0, self._put(slot_leaf))

    def of_scalars(self, values: Tensor | Array) -> Array | Tensor:
        """Return the raw scores, (batch, n_outputs), of what trees add.

        Parameters
        ----------
        values : F, (1 + n_trees, batch)
            The first row is overwritten. An array on the host, a tensor elsewhere.
        """
        output = self.forest.output
        if self._members is None:
            return self._finish(self._sum(values, 0)[:, None])
        shape = (values.shape[1], output.n_outputs)
        total: Any  # array or tensor, as `values`
        if isinstance(values, Tensor):
            total = torch.empty(shape, dtype=values.dtype, device=values.device)
        else:
            total = np.empty(shape, values.dtype)
        for k, rows in enumerate(self._members):
            total[:, k] = self._sum(values[rows], k)
        return self._finish(total)

    def _sum(self, values: Tensor | Array, output: int) -> Tensor | Array:
        first = self.forest.output.base_first
        if not isinstance(values, Tensor):
            base = self.forest.output.base_score
            values[0] = base[output] if first else 0
            return in_order(values)
        total = values[0]
        total.copy_(self._base[output]) if first else total.zero_()
        for row in values[1:]:
            total.add_(row)
        return total

    def of_vectors(self, leaf: Array) -> Array:
        """Return the raw scores, (batch, n_outputs), of leaf indices (n_trees, batch) on the host.

        Rows are taken a few at a time, so that the sums stay in the cache.
        """
        if self._sums_of_leaves is not None:
            sums: Array = self._sums_of_leaves.take(leaf[0], 0)
            return sums
        output, v = self.forest.output, self._array
        n_trees, batch = leaf.shape
        raw = np.empty((batch, output.n_outputs), output.dtype)
        n_held = max(1, min(n_trees, MAX_HELD_TREES))
        n_rows = max(1, min(batch, HELD // ((1 + n_held) * output.n_outputs)))
        scratch = np.empty((1 + n_held, n_rows, output.n_outputs), output.dtype)
        for start in range(0, batch, n_rows):
            part = leaf[:, start : start + n_rows]
            rows = scratch[:, : part.shape[1]]
            rows[0] = output.base_score if output.base_first else 0
            for tree in range(0, n_trees, n_held):
                some = part[tree : tree + n_held]
                n = 1 + len(some)
                for row, at in zip(rows[1:n], some, strict=True):
                    v.take(at, 0, row, "clip")
                rows[0] = in_order(rows[:n].reshape(n, -1)).reshape(rows[0].shape)
            raw[start : start + n_rows] = output.finish(rows[0], n_trees)
        return raw

    def of_leaves(self, leaf: Tensor, X: Tensor) -> Array | Tensor:
        """Return the raw scores, (batch, n_outputs), of leaf indices.

        Parameters
        ----------
        leaf : int64, (n_trees, batch)
            Indices in the forest's leaf arrays.
        X : F, (batch, n_features)
            For leaves that are linear in it.
        """
        output = self.forest.output
        if not self.need_tensors and self.on_host:
            return self.of_vectors(leaf.numpy())
        if not self.adds:
            vectors = [self._vectors(at, X).cpu().numpy() for at in leaf]
            return reference.combine(self.forest, vectors, leaf.T.cpu().numpy())
        shape = (leaf.shape[1], output.n_outputs)
        total = torch.zeros(shape, dtype=self.dtype, device=leaf.device)
        if output.base_first:
            total[:] = self._base
        for tree, at in enumerate(leaf):
            vector = self._vectors(at, X).to(self.dtype)
            if self._weight is not None and self._linear:
                vector = self._weight[tree] * vector
            if self._output is None:
                total.add_(vector)
            else:
                to = self._output[at][:, None]
                total.scatter_(1, to, total.gather(1, to) + vector)
        return self._finish(total.numpy() if self.on_host else total)

    def _vectors(self, leaf: Tensor, X: Tensor) -> Tensor:
        """Return v at leaves (n · batch,), linear terms included, (n · batch, width)."""
        constant = self._v.index_select(0, leaf)
        linear = self.forest.leaves.linear
        if linear is None:
            return constant
        ptr, column, weight = (self._terms[name] for name in ("leaf_ptr", "column", "weight"))
        value = self._terms["constant"].index_select(0, leaf)
        row = torch.arange(len(leaf), device=leaf.device) % max(1, len(X))
        start = ptr[leaf]
        count = ptr[leaf + 1] - start
        missing = count == 0
        for k in range(int(count.max()) if len(count) else 0):
            at = torch.nonzero(k < count)[:, 0]
            term = start[at] + k
            x = X[row[at], column[term].to(torch.int64)].to(value.dtype)
            missing[at] |= torch.isnan(x)
            if linear.zero_threshold:
                small = x.abs() <= x.new_tensor(linear.zero_threshold)
                x = x.masked_fill_(small, 0)
            # Two operations, never a fused multiply-add.
            value[at] += weight[term] * x[:, None]
        return torch.where(missing[:, None], constant, value)

    def _finish(self, total: Array | Tensor) -> Array | Tensor:
        output, n_trees = self.forest.output, self.forest.n_trees
        if not isinstance(total, Tensor):
            return output.finish(total, n_trees)
        if output.aggregate is Aggregate.MEAN and n_trees:
            total = total / self._divisor
        if self._scale is not None:
            total = total * self._scale
        if output.base_first:
            return total
        return (total + self._base).to(total.dtype)

    def _put(self, array: Array) -> Tensor:
        return torch.tensor(array, device=self.device)
