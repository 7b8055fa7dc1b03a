"""Exit leaves by functional tensor operations: products with B, padded trees or level by level."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.runtime.predict.torch.call_modes import is_compiled, is_plain
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


class _Walked(nn.Module):
    """Trees whose tables compiled code reads with int64, and eager calls with int32, both faster.

    The narrow copies are made at the first such call, and anew once the tables are others.
    """

    INDICES: tuple[str, ...]

    def __init__(self, **tables: Tensor) -> None:
        super().__init__()
        wide = {name: tables[name].to(torch.int64) for name in self.INDICES}
        register(self, **(tables | wide))
        self._narrow: tuple[Tensor, list[Tensor]] | None = None
        self.register_load_state_dict_post_hook(_forget)  # type: ignore[no-untyped-call]

    def narrow(self) -> list[Tensor]:
        """Return the tables of indices in int32, where they fit."""
        first = self.get_buffer(self.INDICES[0])
        if self._narrow is None or self._narrow[0] is not first:
            wide = [self.get_buffer(name) for name in self.INDICES]
            fits = all(int(table.max()) < 2**31 for table in wide)
            self._narrow = first, [one.to(torch.int32) if fits else one for one in wide]
        return self._narrow[1]


def _forget(module: _Walked, _: object) -> None:
    module._narrow = None


class _Padded(_Walked):
    """Places 2 i and 2 i + 1 below place i, by `PerfectTrees.places` where a call is plain."""

    column: Tensor
    b: Tensor
    first: Tensor
    leaf: Tensor

    INDICES = ("column", "first")

    def __init__(self, trees: PerfectTrees) -> None:
        # Two tables for all levels: each tensor that a compiled call takes costs time.
        super().__init__(
            column=torch.cat(trees.columns[0]),
            b=torch.cat(trees.b),
            first=trees.first,
            leaf=torch.tensor(trees.slot_leaf),
        )
        self.accepts_equal, self.n_trees = trees.accepts_equal, len(trees.trees)
        self.sizes = [len(level) for level in trees.b]

    def forward(self, V: Tensor) -> Tensor:
        if is_plain(V) and len(V):
            table, first = self.narrow()
            column, b = torch.split(table, self.sizes), torch.split(self.b, self.sizes)
            numbers = np.arange(self.n_trees)  # of which `places` takes the length alone
            trees = PerfectTrees(numbers, (column, column), b, first, numbers, self.accepts_equal)
            place = trees.places(V.contiguous(), False)
            return self.leaf.index_select(0, place).view(self.n_trees, len(V))
        values, start = _flat(V)
        n_trees, level = self.n_trees, 0
        # From the range a compiler knows bounds of all places, and need not check them.
        place = torch.arange(n_trees, device=V.device)[:, None]
        x = _take(values, self.column[:n_trees, None] + start)
        place = 2 * place + _turns(x, self.b[:n_trees, None], self.accepts_equal)
        for size in self.sizes[:-1]:
            level += size
            node = place + level
            x = _take(values, _take(self.column, node) + start)
            place = 2 * place + _turns(x, _take(self.b, node), self.accepts_equal)
        return _take(self.leaf, place)


class _Levels(_Walked):
    """Slots walked until the deepest tree has arrived, by `FlatTrees.places` where it is plain."""

    root_column: Tensor
    root_b: Tensor
    root_first: Tensor
    column: Tensor
    b: Tensor
    first: Tensor
    leaf: Tensor

    INDICES = ("root_column", "root_first", "column", "first")

    def __init__(self, trees: FlatTrees) -> None:
        super().__init__(
            root_column=trees.root_columns[0],
            root_b=trees.root_b,
            root_first=trees.root_first,
            column=trees.columns[0],
            b=trees.b,
            first=trees.first,
            leaf=torch.tensor(trees.slot_leaf),
        )
        self.accepts_equal, self.n_trees = trees.accepts_equal, len(trees.trees)
        self.n_moving = trees.n_moving

    def forward(self, V: Tensor) -> Tensor:
        if is_plain(V) and len(V):
            place = self._tables().places(V.contiguous(), False)
            return self.leaf.index_select(0, place).view(self.n_trees, len(V))
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

    def _tables(self) -> FlatTrees:
        root, root_first, column, first = self.narrow()
        numbers = np.arange(self.n_trees)  # of which `places` takes the length alone
        return FlatTrees(
            numbers,
            self.n_moving,
            (column, column),
            self.b,
            first,
            (root, root),
            self.root_b,
            root_first,
            numbers,
            self.accepts_equal,
        )


def _flat(V: Tensor) -> tuple[Tensor, Tensor]:
    """Return all values on one axis, and where each row of them starts."""
    batch, width = V.shape
    return V.reshape(-1), torch.arange(batch, device=V.device) * width


def _take(table: Tensor, index: Tensor) -> Tensor:
    if is_compiled():  # which checks and turns negative indices, unless they are an embedding's
        return torch.embedding(table[:, None], index).squeeze(-1)
    # On a CPU faster than table[index] for an index of two axes.
    return table.index_select(0, index.reshape(-1)).view(index.shape)


def _turns(x: Tensor, b: Tensor, accepts_equal: bool) -> Tensor:
    return x >= b if accepts_equal else x > b


_MODULES = {MatrixTrees: _Product, PerfectTrees: _Padded, FlatTrees: _Levels}
