"""The paper's own form: h = σ(Sx − b) for every node, one product with B, first argmax."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from bitvec.core import matrices
from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors

MAX_LEAVES = 4096
"""Largest tree whose product is exact: counts times leaves stay below 2**24, the last float32."""
DENSE_B = 1 << 26
"""Elements of dense B held in all; trees beyond it are walked."""


@dataclass(frozen=True, slots=True, eq=False)
class MatrixTrees:
    """Trees that share one relation and a power of two that bounds their leaves.

    Parameters
    ----------
    trees : int64, (n_trees,)
    columns : two of int64, (n_trees · n,)
        What each node reads: among all compared columns, and where no value is missing.
    b : F, (n_trees · n, 1)
    B : float32, (n_trees, L, n)
        0 and 1; a padding node has a column of zeros, a padding leaf a row of zeros. It stands
        last, so it loses to leaf 0.
    first_leaf : int64, (n_trees, 1)
    accepts_equal : bool
        Whether h is x >= b rather than x > b.
    """

    trees: Array
    columns: tuple[Tensor, Tensor]
    b: Tensor
    B: Tensor
    first_leaf: Tensor
    accepts_equal: bool

    def leaves(self, V: Tensor, all_present: bool) -> Tensor:
        """Return the forest's leaf index of every tree and row, flat, int64 (n_trees · batch,).

        One-hot rows of S are gathered and compared, never multiplied. The counts B · h are whole
        numbers, exact in float32 and in tf32, whose inputs are 0 and 1.
        """
        x = V.T.contiguous().index_select(0, self.columns[all_present])
        h = x >= self.b if self.accepts_equal else x > self.b
        n_trees, n_leaves, n_nodes = self.B.shape
        counts = torch.bmm(self.B, h.to(torch.float32).view(n_trees, n_nodes, -1))
        # All different, the first maximum the largest: torch.argmax promises no first one.
        order = torch.arange(n_leaves, device=V.device, dtype=torch.float32)
        exits = counts.mul_(n_leaves).sub_(order[:, None]).argmax(dim=1)
        return (exits + self.first_leaf).view(-1)


def multiply(
    B: Bitvectors,
    trees: Array,
    node_columns: tuple[Array, Array],
    b: Array,
    accepts_equal: bool,
    device: torch.device,
) -> list[MatrixTrees]:
    """Return trees of at most `MAX_LEAVES` leaves as batches of products on a device.

    Parameters
    ----------
    node_columns : two of int, (n_nodes of the forest,)
        What each node reads: among all compared columns, and where no value is missing.
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
            _group(B, part[first:last], node_columns, b, accepts_equal, device)
            for first, last in pairwise(ends)
        ]
    return groups


def _group(
    B: Bitvectors,
    trees: Array,
    node_columns: tuple[Array, Array],
    b: Array,
    accepts_equal: bool,
    device: torch.device,
) -> MatrixTrees:
    n_nodes = np.diff(B.node_ptr)[trees]
    widest = max(1, int(n_nodes.max()))
    number = np.arange(widest)
    is_node = number < n_nodes[:, None]
    node = (B.node_ptr[:-1][trees][:, None] + number)[is_node]
    columns = np.zeros((2, *is_node.shape), np.int64)
    columns[:, is_node] = np.stack([one[node] for one in node_columns])
    threshold = np.zeros(is_node.shape, b.dtype)
    threshold[is_node] = b[node]
    dense = np.zeros((trees.size, widest + 1, widest), np.float32)
    for i, tree in enumerate(trees):
        dense[i, : n_nodes[i] + 1, : n_nodes[i]] = matrices.dense(B.tree(int(tree)))

    def put(array: Array) -> Tensor:
        return torch.tensor(array, device=device)

    return MatrixTrees(
        trees,
        (put(columns[0].ravel()), put(columns[1].ravel())),
        put(threshold.reshape(-1, 1)),
        put(dense),
        put(B.leaf_ptr[:-1][trees][:, None]),
        accepts_equal,
    )
