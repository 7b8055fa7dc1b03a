"""What the kernels that read planes share: buffers of planes and of sums, and their blocks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.runtime.cpu.arrays import aligned
from bitvec.runtime.cpu.leaf_tables import LeafTables
from bitvec.runtime.cpu.planes import Planes
from bitvec.runtime.cpu.set_planes import SetPlanes, TreeSets, no_sets

STEP = 128
"""Rows of a block are a multiple of this."""
MOST_ROOM = 512
"""Rows of a block at most: a tree's states of so many rows fit the registers."""
MOST_PLANES = 1 << 16


class RankTrees(ABC):
    """A forest whose trees read planes.

    Parameters
    ----------
    forest : Forest
    planes : Planes
    tables : LeafTables, optional
        What leaves add; None where they cannot be added from tables.
    """

    name: str

    def __init__(self, forest: Forest, planes: Planes, tables: LeafTables | None) -> None:
        self.planes = planes
        self.n_planes = max(planes.n_planes, 1)
        self.tables = tables
        self.tree_sets = _tree_sets(forest, planes)
        self._buffers = threading.local()

    @property
    @abstractmethod
    def tree_bytes(self) -> int:
        """Bytes of the packed trees."""

    @abstractmethod
    def run_exits(self, planes: Array, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` (n_rows, n_trees) with leaf numbers."""

    @abstractmethod
    def run_sums(self, planes: Array, room: int, n_blocks: int, totals: Array) -> None:
        """Add leaf values to `totals` (n_outputs, n_blocks * room)."""

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the kernel reads, X apart."""
        leaves = 0 if self.tables is None else self.tables.packed_bytes
        return self.tree_bytes + self.planes.packed_bytes + leaves

    def exit_leaves(self, X: Array, out: Array) -> None:
        """Fill `out` with leaf numbers within each tree."""
        planes, room = self._fill(X)
        self.run_exits(planes, room, len(X), out)

    def add_leaves(self, X: Array, total: Array) -> None:
        """Add every tree's leaf vector to `total`."""
        planes, room = self._fill(X)
        n_blocks = -(-len(X) // room)
        totals = self._room("totals", total.shape[1] * n_blocks * room * total.itemsize)
        totals = totals.view(total.dtype).reshape(total.shape[1], n_blocks * room)
        totals[:, : len(X)] = total.T
        self.run_sums(planes, room, n_blocks, totals)
        total[:] = totals[:, : len(X)].T

    def _fill(self, X: Array) -> tuple[Array, int]:
        room = min(-(-len(X) // STEP) * STEP, MOST_ROOM)
        n_blocks = -(-len(X) // room)
        planes = self._room("planes", n_blocks * room * self.n_planes)
        self.planes.fill(X, planes, room)
        return planes, room

    def _room(self, name: str, n_bytes: int) -> Array:
        """Return bytes of this thread that are used again by its next call."""
        held: Array | None = getattr(self._buffers, name, None)
        if held is None or held.size < n_bytes:
            held = aligned(n_bytes)
            setattr(self._buffers, name, held)
        return held[:n_bytes]


def _tree_sets(forest: Forest, planes: Planes) -> TreeSets:
    """Return the sets whose planes the kernel itself makes, tree by tree."""
    for maker in planes.makers:
        if isinstance(maker, SetPlanes):
            return maker.in_trees
    return no_sets(forest.n_trees)
