"""Trees padded to one full depth: the children of place i are 2 i and 2 i + 1."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.torch.call_modes import is_plain
from bitvec.runtime.predict.torch.walked_trees import Source, WalkedTrees, flat, take

MAX_DEPTH = 12
"""Deeper trees are not padded, whoever asks for it."""


class PaddedTrees(WalkedTrees):
    """Trees that share one relation, padded to one depth d.

    Level l holds 2**l places for each tree, tree by tree. A place without a node has the threshold
    NaN, which nothing exceeds, so that a row passes on to the left; all places below a leaf stand
    for it. There is one table for all levels: each tensor that a compiled call takes costs time.

    Parameters
    ----------
    trees : int64, (n_trees,)
    accepts_equal : bool
    sizes : list of int
        Places of each level, n_trees · 2**l.
    column : int64, (sum of sizes,)
        The compared columns that places read.
    b : F, (sum of sizes,)
    first : int64, (n_trees, 1)
        The left place of each tree at level 1.
    leaf : int64, (n_trees · 2**d,)
        The forest's leaf index of each place at the bottom.
    """

    column: Tensor
    b: Tensor
    first: Tensor
    leaf: Tensor

    INDICES = ("column", "first")

    def __init__(
        self, trees: Array, accepts_equal: bool, sizes: list[int], **tables: Array
    ) -> None:
        super().__init__(trees, accepts_equal, **tables)
        self.sizes = sizes

    def forward(self, V: Tensor, source: Source | None = None) -> Tensor:
        """Return the forest's leaf index of every tree and row, (n_trees, batch).

        V holds the compared columns, or, in a plain call of some rows, those of a source.
        """
        if is_plain(V) and len(V):
            return self.leaf.index_select(0, self._places(V, source)).view(self.n_trees, len(V))
        values, start = flat(V)
        n_trees, level = self.n_trees, 0
        # From the range a compiler knows bounds of all places, and need not check them.
        place = torch.arange(n_trees, device=V.device)[:, None]
        x = take(values, self.column[:n_trees, None] + start)
        place = 2 * place + self.exceeds(x, self.b[:n_trees, None])
        for size in self.sizes[:-1]:
            level += size
            node = place + level
            x = take(values, take(self.column, node) + start)
            place = 2 * place + self.exceeds(x, take(self.b, node))
        return take(self.leaf, place)

    def made_ready(self, tables: list[Tensor]) -> list[Tensor]:
        """Return `first` and the columns of each level."""
        column, first = tables
        return [first, *torch.split(column, self.sizes)]

    def _places(self, V: Tensor, source: Source | None) -> Tensor:
        """Return the place at the bottom of every tree and row, flat, by int32 and in place.

        About 2.5 ns per (tree, row, level) on one core, most of it three gathers.
        """
        batch, width = V.shape
        first, *columns = self.narrow(source)
        thresholds = torch.split(self.b, self.sizes)
        shape = (self.n_trees, batch)
        places, addresses, turns = torch.empty((3, *shape), dtype=first.dtype)
        place, address, turn = places.view(-1), addresses.view(-1), turns.view(-1)
        x, b = torch.empty((2, len(place)), dtype=V.dtype)
        values = V.reshape(-1)
        start = torch.arange(0, batch * width, width, dtype=first.dtype)
        torch.add(columns[0][:, None], start, out=addresses)
        torch.index_select(values, 0, address, out=x)
        self.exceeds(x.view(shape), thresholds[0][:, None], turns)
        torch.add(first, turns, out=places)
        for level, threshold in zip(columns[1:], thresholds[1:], strict=True):
            torch.index_select(level, 0, place, out=address)
            if batch > 1:
                addresses.add_(start)
            torch.index_select(values, 0, address, out=x)
            torch.index_select(threshold, 0, place, out=b)
            self.exceeds(x, b, turn)
            torch.add(turn, place, alpha=2, out=place)
        return place


def pad(
    B: Bitvectors,
    trees: Array,
    depth: Array,
    node_column: Array,
    b: Array,
    accepts_equal: bool,
) -> PaddedTrees:
    """Return trees, padded to the depth of the deepest (1 at least).

    Parameters
    ----------
    depth : int, (n_trees of the forest,)
    node_column : int, (n_nodes of the forest,)
        The compared column of each node.
    b : F, (n_nodes of the forest,)
    """
    n_levels = max(1, int(depth[trees].max(initial=0)))
    left, right = structure.children(B)
    single = np.diff(B.leaf_ptr)[trees] == 1
    at = np.where(single, ~B.leaf_ptr[:-1][trees], B.node_ptr[:-1][trees])
    columns, thresholds = [], []
    for _ in range(n_levels):
        is_node = at >= 0
        node = np.where(is_node, at, 0)
        if B.n_nodes == 0:
            columns.append(np.zeros(at.size, np.int64))
            thresholds.append(np.full(at.size, np.nan, b.dtype))
            children = np.stack([at, at], axis=1)
        else:
            columns.append(np.where(is_node, node_column[node], 0).astype(np.int64))
            thresholds.append(np.where(is_node, b[node], b.dtype.type(np.nan)))
            children = np.where(
                is_node[:, None], np.stack([left[node], right[node]], 1), at[:, None]
            )
        at = children.reshape(-1)
    return PaddedTrees(
        trees,
        accepts_equal,
        [level.size for level in columns],
        column=np.concatenate(columns),
        b=np.concatenate(thresholds),
        first=2 * np.arange(trees.size)[:, None],
        leaf=~at,
    )
