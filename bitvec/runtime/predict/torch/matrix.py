"""The paper's own form: h = σ(Sx − b) for every node, one product with B, first argmax."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core import matrices
from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.torch.host_arrays import register

MAX_LEAVES = 4096
"""Largest tree whose product is exact: counts times leaves stay below 2**24, the last float32."""
DENSE_B = 1 << 26
"""Elements of dense B held in all; trees beyond it are walked."""


class MatrixTrees(nn.Module):
    """Trees that share one relation and a power of two that bounds their leaves.

    Parameters
    ----------
    trees : int64, (n_trees,)
    accepts_equal : bool
        Whether h is x >= b rather than x > b.
    columns : int64, (n_trees · n,)
        The compared column of each node.
    b : F, (n_trees · n,)
    B : float32, (n_trees, L, n)
        0 and 1; a padding node has a column of zeros, a padding leaf a row of zeros. It stands
        last, so it loses to leaf 0.
    first_leaf : int64, (n_trees, 1)
    """

    columns: Tensor
    b: Tensor
    B: Tensor
    first_leaf: Tensor
    number: Tensor

    def __init__(self, trees: Array, accepts_equal: bool, B: Array, **tables: Array) -> None:
        super().__init__()
        self.trees, self.accepts_equal = trees, accepts_equal
        register(self, **tables, B=B, number=np.arange(B.shape[1], dtype=np.float32)[:, None])

    def forward(self, V: Tensor) -> Tensor:
        """Return the forest's leaf index of every tree and row, int64 (n_trees, batch).

        One-hot rows of S are gathered and compared, never multiplied. The counts B · h are whole
        numbers, exact in float32 and in tf32, whose inputs are 0 and 1.
        """
        x = V.index_select(1, self.columns)
        h = x >= self.b if self.accepts_equal else x > self.b
        n_trees, n_leaves, n_nodes = self.B.shape
        h = h.T.reshape(n_trees, n_nodes, V.shape[0]).to(torch.float32)
        if torch.is_autocast_enabled(V.device.type):  # bfloat16 has no place for large counts
            with torch.autocast(V.device.type, enabled=False):
                counts = torch.bmm(self.B, h)
        else:
            counts = torch.bmm(self.B, h)
        # All different, the first maximum the largest: torch.argmax promises no first one.
        return (counts * n_leaves - self.number).argmax(dim=1) + self.first_leaf


def multiply(
    B: Bitvectors,
    trees: Array,
    node_column: Array,
    b: Array,
    accepts_equal: bool,
) -> list[MatrixTrees]:
    """Return trees of at most `MAX_LEAVES` leaves as batches of products.

    Parameters
    ----------
    node_column : int, (n_nodes of the forest,)
        The compared column of each node.
    b : F, (n_nodes of the forest,)
    """
    n_leaves = np.diff(B.leaf_ptr)[trees]
    size = 1 << np.ceil(np.log2(np.maximum(n_leaves, 2))).astype(int)
    groups = []
    for width in np.unique(size):
        part = trees[size == width]
        n_trees = max(1, (1 << 22) // int(width) ** 2)
        ends = [*range(0, part.size, n_trees), part.size]
        groups += [
            _group(B, part[first:last], node_column, b, accepts_equal)
            for first, last in pairwise(ends)
        ]
    return groups


def _group(
    B: Bitvectors,
    trees: Array,
    node_column: Array,
    b: Array,
    accepts_equal: bool,
) -> MatrixTrees:
    n_nodes = np.diff(B.node_ptr)[trees]
    widest = max(1, int(n_nodes.max()))
    number = np.arange(widest)
    is_node = number < n_nodes[:, None]
    node = (B.node_ptr[:-1][trees][:, None] + number)[is_node]
    columns = np.zeros(is_node.shape, np.int64)
    columns[is_node] = node_column[node]
    threshold = np.zeros(is_node.shape, b.dtype)
    threshold[is_node] = b[node]
    dense = np.zeros((trees.size, widest + 1, widest), np.float32)
    for i, tree in enumerate(trees):
        dense[i, : n_nodes[i] + 1, : n_nodes[i]] = matrices.dense(B.tree(int(tree)))
    return MatrixTrees(
        trees,
        accepts_equal,
        dense,
        columns=columns.ravel(),
        b=threshold.ravel(),
        first_leaf=B.leaf_ptr[:-1][trees][:, None],
    )
