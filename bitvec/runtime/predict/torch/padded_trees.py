"""Trees padded to one full depth: the children of place i are 2 i and 2 i + 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.torch.host_arrays import as_array

MAX_DEPTH = 12
"""Deeper trees are not padded, whoever asks for it."""


@dataclass(frozen=True, slots=True, eq=False)
class PerfectTrees:
    """Trees that share one relation, padded to one depth d.

    Level l holds 2**l places for each tree, tree by tree. A place without a node has the threshold
    NaN, which nothing exceeds, so that a row passes on to the left; all places below a leaf stand
    for it.

    Parameters
    ----------
    trees : int64, (n_trees,)
    columns : two tuples of int32, (n_trees · 2**l,) each
        Where level l reads its values: among all compared columns, and where no value is missing.
    b : tuple of F, (n_trees · 2**l,)
    first : int32, (n_trees, 1)
        The left place of each tree at level 1.
    slot_leaf : int64, (n_trees · 2**d,)
        The forest's leaf index of each place at the bottom.
    accepts_equal : bool
        Whether h is x >= b rather than x > b.
    """

    trees: Array
    columns: tuple[tuple[Any, ...], tuple[Any, ...]]
    b: tuple[Any, ...]
    first: Any
    slot_leaf: Array
    accepts_equal: bool

    @property
    def n_levels(self) -> int:
        """Tests that every row takes in every tree."""
        return len(self.b)

    def as_arrays(self) -> PerfectTrees:
        """Return the same tables as arrays for NumPy."""
        columns = tuple(tuple(as_array(level) for level in which) for which in self.columns)
        return PerfectTrees(
            self.trees,
            (columns[0], columns[1]),
            tuple(as_array(level) for level in self.b),
            as_array(self.first),
            self.slot_leaf,
            self.accepts_equal,
        )

    def places(self, V: Tensor, all_present: bool) -> Tensor:
        """Return the place at the bottom of every tree and row, flat, (n_trees · batch,).

        Parameters
        ----------
        V : F, (batch, n_compared), contiguous
        all_present : bool
            Whether V holds the columns only, because no value is missing.

        Notes
        -----
        About 2.5 ns per (tree, row, level) on one core, most of it three gathers.
        """
        batch, width = V.shape
        columns, index, device = self.columns[all_present], self.first.dtype, V.device
        compare = torch.ge if self.accepts_equal else torch.gt
        shape = (len(self.trees), batch)
        places, addresses, turns = torch.empty((3, *shape), dtype=index, device=device)
        place, address, turn = places.view(-1), addresses.view(-1), turns.view(-1)
        x, b = torch.empty((2, len(place)), dtype=V.dtype, device=device)
        values = V.view(-1)
        start = torch.arange(0, batch * width, width, dtype=index, device=device)
        torch.add(columns[0][:, None], start, out=addresses)
        torch.index_select(values, 0, address, out=x)
        compare(x.view(shape), self.b[0][:, None], out=turns)
        torch.add(self.first, turns, out=places)
        for column, threshold in zip(columns[1:], self.b[1:], strict=True):
            torch.index_select(column, 0, place, out=address)
            addresses.add_(start)
            torch.index_select(values, 0, address, out=x)
            torch.index_select(threshold, 0, place, out=b)
            compare(x, b, out=turn)  # into integers, which are added faster than booleans
            place.add_(place).add_(turn)
        return place

    def places_of_few(self, V: Array, all_present: bool) -> Array:
        """Return the same by NumPy, (n_trees, batch), if this is `as_arrays()`.

        Few rows are nothing but calls, of which NumPy's take a third of the time of torch's.
        """
        batch, width = V.shape
        columns = self.columns[all_present]
        compare = np.greater_equal if self.accepts_equal else np.greater
        values, start = V.reshape(-1), np.arange(0, batch * width, width)
        at = columns[0][:, None] + start
        place = self.first + compare(values[at], self.b[0][:, None])
        for column, threshold in zip(columns[1:], self.b[1:], strict=True):
            at = column[place]
            at += start
            turn = compare(values[at], threshold[place])
            place += place
            place += turn
        return place


def pad(
    B: Bitvectors,
    trees: Array,
    depth: Array,
    node_columns: tuple[Array, Array],
    b: Array,
    accepts_equal: bool,
    device: torch.device,
) -> PerfectTrees:
    """Return trees, padded to the depth of the deepest (1 at least), as tables on a device.

    Parameters
    ----------
    depth : int, (n_trees of the forest,)
    node_columns : two of int, (n_nodes of the forest,)
        What each node reads: among all compared columns, and where no value is missing.
    b : F, (n_nodes of the forest,)
    """
    n_levels = max(1, int(depth[trees].max(initial=0)))
    left, right = structure.children(B)
    single = np.diff(B.leaf_ptr)[trees] == 1
    at = np.where(single, ~B.leaf_ptr[:-1][trees], B.node_ptr[:-1][trees])
    tables: list[tuple[Array, Array, Array]] = []
    for _ in range(n_levels):
        is_node = at >= 0
        node = np.where(is_node, at, 0)
        if B.n_nodes == 0:
            column = np.zeros((2, at.size), np.int32)
            threshold, children = np.full(at.size, np.nan, b.dtype), np.stack([at, at], axis=1)
        else:
            column = np.where(is_node, np.stack([one[node] for one in node_columns]), 0)
            threshold = np.where(is_node, b[node], b.dtype.type(np.nan))
            children = np.where(
                is_node[:, None], np.stack([left[node], right[node]], 1), at[:, None]
            )
        tables.append((column[0], column[1], threshold))
        at = children.reshape(-1)

    def put(array: Array, dtype: type | np.dtype) -> Tensor:
        return torch.tensor(array.astype(dtype), device=device)

    index = np.int32 if at.size < 2**31 else np.int64
    present = all(np.array_equal(every, some) for every, some, _ in tables)
    every = tuple(put(level[0], index) for level in tables)
    return PerfectTrees(
        trees,
        (every, every if present else tuple(put(level[1], index) for level in tables)),
        tuple(put(level[2], b.dtype) for level in tables),
        put(2 * np.arange(trees.size)[:, None], index),
        ~at,
        accepts_equal,
    )
