"""What the kernels that read planes share: buffers of planes and of sums, and their blocks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.arrays import address_of, aligned, constant
from bitvec.runtime.predict.cpu.bins.makers import Planes
from bitvec.runtime.predict.cpu.bins.set_planes import SetPlanes, TreeSets, no_sets
from bitvec.runtime.predict.cpu.leaves.leaf_tables import LeafTables

STEP = 128
"""Rows of a block are a multiple of this."""
MOST_ROOM = 512
"""Rows of a block at most: a tree's states of so many rows fit the registers."""

FIELDS = (
    "nodes", "node_ptr", "n_nodes", "leaf_at", "n_trees", "n_planes", "width",
    "values", "start", "n_leaves", "output", "set_ptr", "long_ptr", "lookups", "tables",
)  # fmt: skip
"""What stands behind the address that a kernel is handed: numbers, and addresses of arrays."""
(
    NODES, NODE_PTR, N_NODES, LEAF_AT, N_TREES, N_PLANES, WIDTH,
    VALUES, START, N_LEAVES, OUTPUT, SET_PTR, LONG_PTR, LOOKUPS, TABLES,
) = range(len(FIELDS))  # fmt: skip


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

    def bind(self, nodes: Array, **arrays: Array) -> None:
        """Put the addresses of all arrays into one, whose own address is all that a call needs."""
        sets, tables = self.tree_sets, self.tables
        arrays |= {"nodes": nodes, "set_ptr": sets.tree_ptr, "long_ptr": sets.long_ptr}
        arrays |= {"lookups": sets.lookups, "tables": sets.tables}
        if tables is not None:
            names = ("values", "start", "n_leaves", "output")
            arrays |= dict(zip(names, tables.arrays, strict=True))
        numbers = {
            "n_nodes": nodes.size,
            "n_trees": sets.long_ptr.size,
            "n_planes": self.n_planes,
            "width": 0 if tables is None else tables.width,
        }
        self._held = {name: constant(array) for name, array in arrays.items()}
        places = {name: address_of(array) for name, array in self._held.items()}
        found = {**dict.fromkeys(FIELDS, 0), **numbers, **places}
        self._fields = constant(np.array([found[name] for name in FIELDS], np.int64))
        self.address = address_of(self._fields)

    @abstractmethod
    def run_exits(self, planes: int, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` (n_rows, n_trees) with leaf numbers, from planes at an address."""

    @abstractmethod
    def run_sums(self, planes: int, room: int, n_blocks: int, totals: int, stride: int) -> None:
        """Add leaf values to the sums at `totals`: (n_outputs, stride), from planes."""

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes while its block is run."""
        return self.n_planes

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the kernel reads, X apart."""
        return self.planes.packed_bytes + sum(array.nbytes for array in self._held.values())

    def exit_leaves(self, X: Array, out: Array) -> None:
        """Fill `out` with leaf numbers within each tree."""
        planes, room = self._fill(X)
        self.run_exits(planes, room, len(X), out)

    def add_leaves(self, X: Array, total: Array) -> None:
        """Add every tree's leaf vector to `total`."""
        planes, room = self._fill(X)
        n_rows, n_outputs = total.shape
        n_blocks = -(-n_rows // room)
        stride = n_blocks * room
        room_for_totals, address = self._room("totals", n_outputs * stride * total.itemsize)
        totals = room_for_totals.view(total.dtype).reshape(n_outputs, stride)[:, :n_rows]
        totals[:] = total.T
        self.run_sums(planes, room, n_blocks, address, stride)
        total[:] = totals.T

    def _fill(self, X: Array) -> tuple[int, int]:
        """Fill this thread's planes; return their address and the rows of a block."""
        room = min(-(-len(X) // STEP) * STEP, MOST_ROOM)
        n_blocks = -(-len(X) // room)
        _, planes = self._room("planes", n_blocks * room * self.n_planes)
        self.planes.fill(X, planes, room)
        return planes, room

    def _room(self, name: str, n_bytes: int) -> tuple[Array, int]:
        """Return bytes of this thread that are used again by its next call, and their address."""
        held: tuple[Array, int] | None = getattr(self._buffers, name, None)
        if held is None or held[0].size < n_bytes:
            room = aligned(n_bytes)
            held = room, address_of(room)
            setattr(self._buffers, name, held)
        return held[0][:n_bytes], held[1]


def _tree_sets(forest: Forest, planes: Planes) -> TreeSets:
    """Return the sets whose planes the kernel itself makes, tree by tree."""
    for maker in planes.makers:
        if isinstance(maker, SetPlanes):
            return maker.in_trees
    return no_sets(forest.n_trees)
