"""Base of the kernels that read binned columns: buffers of columns and sums, and their blocks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.bins.binners import BinnedColumns
from bitvec.runtime.predict.cpu.bins.set_bins import SetBinner, TreeSets, no_sets
from bitvec.runtime.predict.cpu.compiling import Kernel
from bitvec.runtime.predict.cpu.kernel_arrays import address_of, aligned, constant, on_lines
from bitvec.runtime.predict.cpu.leaves.leaf_tables import LeafTables

STEP = 128
"""Rows of a block are a multiple of this."""
_MOST_PADDED = 8
"""Places for each leaf of a forest padded to a full depth, at most, ..."""
_FREE_PLACES = 1 << 16
"""... beyond these, which any forest may have."""
MOST_ROOM = 512
"""Rows of a block at most: a tree's states of so many rows fit the registers."""

RECORD = np.dtype([("bin_column", "u2"), ("least", "u1"), ("_", "u1")])
"""A node: a row goes right where the byte of its binned column reaches its own."""

FIELDS = (
    "nodes", "node_ptr", "n_nodes", "leaf_at", "n_trees", "n_binned", "width",
    "values", "start", "n_leaves", "output", "set_ptr", "long_ptr", "lookups", "tables",
    "tree", "slot", "lower",
)  # fmt: skip
"""Fields at the address that a kernel is handed: numbers, and addresses of arrays."""
(
    NODES, NODE_PTR, N_NODES, LEAF_AT, N_TREES, N_BINNED, WIDTH,
    VALUES, START, N_LEAVES, OUTPUT, SET_PTR, LONG_PTR, LOOKUPS, TABLES,
    TREE, SLOT, LOWER,
) = range(len(FIELDS))  # fmt: skip


def blocks_of(n_rows: int, most_room: int) -> tuple[int, int]:
    """Return into how many blocks rows are put, and the room of each: `STEP` doubled so often."""
    room = STEP
    while room < min(n_rows, most_room):
        room *= 2
    return -(-n_rows // room), room


def padding_reason(forest: Forest, depth: int) -> str | None:
    """Return why trees are not padded to a full depth, or None."""
    n_places, n_leaves = forest.n_trees << depth, forest.n_leaves
    if n_places > _FREE_PLACES + _MOST_PADDED * n_leaves:
        return f"its {n_leaves} leaves would take {n_places} places"
    return None


class BinnedTrees(ABC):
    """A forest whose trees read binned columns.

    Parameters
    ----------
    forest : Forest
    binned : BinnedColumns
    tables : LeafTables, optional
        What leaves add; None where they cannot be added from tables.
    """

    name: str
    most_room = MOST_ROOM
    sums: Kernel
    """Adds leaf values to sums, (n_outputs, stride) or (stride, `sums_of_row`), at an address.

    It is handed `address`, binned columns, the room of a block, how many rows there are, the sums
    and `stride`, the room of all blocks. What stands behind the last row may be added to, too.
    """
    sums_of_row = 0
    """Sums that a row has side by side; 0 where those of one output stand side by side."""

    def __init__(self, forest: Forest, binned: BinnedColumns, tables: LeafTables | None) -> None:
        self.binned = binned
        self.n_binned = max(binned.n_binned, 1)
        self.tables = tables
        self.tree_sets = _tree_sets(forest, binned)
        output = forest.output
        self.n_sums = self.sums_of_row or output.n_outputs
        self._sums_bytes = self.n_sums * output.dtype.itemsize
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
            "n_binned": self.n_binned,
            "width": 0 if tables is None else tables.width,
        }
        self._held = {name: on_lines(array) for name, array in arrays.items()}
        places = {name: address_of(array) for name, array in self._held.items()}
        found = {**dict.fromkeys(FIELDS, 0), **numbers, **places}
        self._fields = constant(np.array([found[name] for name in FIELDS], np.int64))
        self.address = address_of(self._fields)

    @abstractmethod
    def run_exits(self, binned: int, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` (n_rows, n_trees) with leaf numbers, from binned columns at an address."""

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes while its block is run."""
        return self.n_binned + self._sums_bytes

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the kernel reads, X apart."""
        return self.binned.packed_bytes + sum(array.nbytes for array in self._held.values())

    def exit_leaves(self, X: Array, out: Array) -> None:
        """Fill `out` with leaf numbers within each tree."""
        binned, room = self._fill(X)
        self.run_exits(binned, room, len(X), out)

    def add_leaves(self, X: Array, total: Array) -> None:
        """Add every tree's leaf vector to `total`."""
        binned, room = self._fill(X)
        n_rows, n_outputs = total.shape
        stride = -(-n_rows // room) * room
        width = self.n_sums
        held, address = self._room("totals", width * stride * total.itemsize)
        sums = held.view(total.dtype)
        by_row = sums.reshape(stride, width) if self.sums_of_row else sums.reshape(width, stride).T
        by_row[:n_rows, :n_outputs] = total
        self.sums(self.address, binned, room, n_rows, address, stride)
        total[:] = by_row[:n_rows, :n_outputs]

    def _fill(self, X: Array) -> tuple[int, int]:
        """Fill this thread's binned columns; return their address and the rows of a block."""
        n_blocks, room = blocks_of(len(X), self.most_room)
        _, binned = self._room("binned", n_blocks * room * self.n_binned)
        self.binned.fill(X, binned, room)
        return binned, room

    def _room(self, name: str, n_bytes: int) -> tuple[Array, int]:
        """Return bytes of this thread that are used again by its next call, and their address."""
        held: tuple[Array, int] | None = getattr(self._buffers, name, None)
        if held is None or held[0].size < n_bytes:
            room = aligned(n_bytes)
            held = room, address_of(room)
            setattr(self._buffers, name, held)
        return held[0][:n_bytes], held[1]


def _tree_sets(forest: Forest, binned: BinnedColumns) -> TreeSets:
    """Return the sets whose binned columns the kernel itself makes, tree by tree."""
    for binner in binned.binners:
        if isinstance(binner, SetBinner):
            return binner.in_trees
    return no_sets(forest.n_trees)
