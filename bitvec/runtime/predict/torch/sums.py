"""Leaf vectors become raw scores: in the order of the trees and in the forest's dtype.

No device promises an order for its own sums, and a CPU's `torch.sum` and `torch.cumsum` of float32
add in another order or in float64. So plain sums on a CPU take the order of NumPy's reduction over
the first axis, which adds whole rows one after the other; all else is `HardSums`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.runtime.predict.torch.hard_sums import HardSums

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
        Whether they are, and each leaf adds one constant, to an output that its tree names: see
        `of_scalars`.
    """

    def __init__(self, forest: Forest, device: torch.device) -> None:
        self.forest = forest
        output, leaves, B = forest.output, forest.leaves, forest.bitvectors
        self.dtype: torch.dtype = getattr(torch, str(output.dtype))
        self._hard = HardSums(forest).to(device)
        self._v: Array = self._hard.v.numpy() if device.type == "cpu" else leaves.v
        self._members: list[Array] | None = None
        if self._hard.output_of_tree is not None:  # a booster's tree adds to one output only
            tree_output = np.array(self._hard.output_of_tree)
            members = (np.flatnonzero(tree_output == k) + 1 for k in range(output.n_outputs))
            self._members = [np.append(0, trees) for trees in members]
        adds = output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        to_one = leaves.output is None or self._members is not None
        alone = B.n_trees == 1 and leaves.output is None
        constant = device.type == "cpu" and adds and leaves.linear is None
        self.are_scalars = constant and to_one and leaves.v.shape[1] == 1 and not alone
        self.on_host = constant and (leaves.output is None or self.are_scalars)
        self._sums_of_leaves: Array | None = None
        if alone and self.on_host:
            assert self._hard.raw_of_leaf is not None
            self._sums_of_leaves = self._hard.raw_of_leaf.numpy()

    def scalars(self, slot_leaf: Array) -> Tensor:
        """Return what each slot of a traversal adds, (n_slots,), given its leaf."""
        return torch.from_numpy(self._v[:, 0][slot_leaf])

    def of_scalars(self, values: Array) -> Array:
        """Return the raw scores, (batch, n_outputs), of what trees add.

        Parameters
        ----------
        values : F, (1 + n_trees, batch)
            The first row is overwritten.
        """
        output = self.forest.output
        base = output.base_score if output.base_first else np.zeros(output.n_outputs, output.dtype)
        if self._members is None:
            values[0] = base[0]
            return output.finish(in_order(values)[:, None], self.forest.n_trees)
        total = np.empty((values.shape[1], output.n_outputs), values.dtype)
        for k, rows in enumerate(self._members):
            values[0] = base[k]
            total[:, k] = in_order(values[rows])
        return output.finish(total, self.forest.n_trees)

    def of_vectors(self, leaf: Array) -> Array:
        """Return the raw scores, (batch, n_outputs), of leaf indices (n_trees, batch) on the host.

        Rows are taken a few at a time, so that the sums stay in the cache.
        """
        if self._sums_of_leaves is not None:
            sums: Array = self._sums_of_leaves.take(leaf[0], 0)
            return sums
        output, v = self.forest.output, self._v
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
        if self.on_host:
            return self.of_vectors(leaf.numpy())
        sums: Tensor = self._hard(leaf, X)
        return sums
