"""Exit leaves by functional tensor operations: products with B, padded trees or level by level."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.runtime.predict.torch.flat_trees import FlatTrees
from bitvec.runtime.predict.torch.groups import Tables
from bitvec.runtime.predict.torch.host_arrays import register
from bitvec.runtime.predict.torch.matrix import MatrixTrees
from bitvec.runtime.predict.torch.padded_trees import PerfectTrees


class HardTrees(nn.Module):
    """Exit leaves of all trees: compared columns to int64 (n_trees, batch).

    Parameters
    ----------
    parts : list of tables, which together hold each tree once
    """

    order: Tensor

    def __init__(self, parts: list[Tables]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(_MODULES[type(part)](part) for part in parts)
        trees = np.concatenate([np.zeros(0, np.int64), *(part.trees for part in parts)])
        self.in_order = bool(np.all(trees == np.arange(trees.size)))
        register(self, order=np.argsort(trees))

    def forward(self, V: Tensor) -> Tensor:
        """Return the forest's leaf index of every tree and row."""
        if not self.parts:
            return self.order[:, None].expand(0, V.shape[0])
        leaves = torch.cat([part(V) for part in self.parts])
        return leaves if self.in_order else leaves.index_select(0, self.order)


class _Product(nn.Module):
    """First argmax of B · h, as `MatrixTrees.leaves`."""

    columns: Tensor
    b: Tensor
    B: Tensor
    first_leaf: Tensor
    number: Tensor

    def __init__(self, trees: MatrixTrees) -> None:
        super().__init__()
        self.accepts_equal = trees.accepts_equal
        register(
            self,
            columns=trees.columns[0],
            b=trees.b.view(-1),
            B=trees.B,
            first_leaf=trees.first_leaf,
            number=torch.arange(trees.B.shape[1], dtype=torch.float32)[:, None],
        )

    def forward(self, V: Tensor) -> Tensor:
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


class _Padded(nn.Module):
    """Places 2 i and 2 i + 1 below place i, as `PerfectTrees.places`."""

    first: Tensor
    leaf: Tensor

    def __init__(self, trees: PerfectTrees) -> None:
        super().__init__()
        self.accepts_equal, self.n_levels = trees.accepts_equal, trees.n_levels
        for level, (column, b) in enumerate(zip(trees.columns[0], trees.b, strict=True)):
            register(self, **{f"column_{level}": column, f"b_{level}": b})
        register(self, first=trees.first, leaf=trees.slot_leaf)

    def forward(self, V: Tensor) -> Tensor:
        values, start = _flat(V)
        column, b = self.get_buffer("column_0")[:, None], self.get_buffer("b_0")[:, None]
        place = self.first + _turns(_take(values, column + start), b, self.accepts_equal)
        for level in range(1, self.n_levels):
            column, b = self.get_buffer(f"column_{level}"), self.get_buffer(f"b_{level}")
            x = _take(values, _take(column, place) + start)
            turns = _turns(x, _take(b, place), self.accepts_equal)
            place = torch.add(turns, place, alpha=2)
        return _take(self.leaf, place)


class _Levels(nn.Module):
    """Slots walked until the deepest tree has arrived, as `FlatTrees.places`."""

    root_column: Tensor
    root_b: Tensor
    root_first: Tensor
    column: Tensor
    b: Tensor
    first: Tensor
    leaf: Tensor

    def __init__(self, trees: FlatTrees) -> None:
        super().__init__()
        self.accepts_equal, self.n_moving = trees.accepts_equal, trees.n_moving
        register(
            self,
            root_column=trees.root_columns[0],
            root_b=trees.root_b,
            root_first=trees.root_first,
            column=trees.columns[0],
            b=trees.b,
            first=trees.first,
            leaf=trees.slot_leaf,
        )

    def forward(self, V: Tensor) -> Tensor:
        values, start = _flat(V)
        x = _take(values, self.root_column + start)
        place = self.root_first + _turns(x, self.root_b, self.accepts_equal)
        arrived = []
        for n_moving in self.n_moving[1:]:
            if n_moving < place.shape[0]:
                arrived.append(place[n_moving:])
                place = place[:n_moving]
            x = _take(values, _take(self.column, place) + start)
            place = _take(self.first, place) + _turns(x, _take(self.b, place), self.accepts_equal)
        return _take(self.leaf, torch.cat([place, *reversed(arrived)]))


def _flat(V: Tensor) -> tuple[Tensor, Tensor]:
    """Return all values on one axis, and where each row of them starts."""
    batch, width = V.shape
    return V.reshape(-1), torch.arange(batch, device=V.device) * width


def _take(table: Tensor, index: Tensor) -> Tensor:
    # On a CPU faster than table[index] for an index of two axes.
    return table.index_select(0, index.reshape(-1)).view(index.shape)


def _turns(x: Tensor, b: Tensor, accepts_equal: bool) -> Tensor:
    return x >= b if accepts_equal else x > b


_MODULES = {MatrixTrees: _Product, PerfectTrees: _Padded, FlatTrees: _Levels}
