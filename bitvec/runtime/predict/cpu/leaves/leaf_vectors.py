"""Leaf vectors to add: equal ones stored once, zeros left out where no sum shows it."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Output
from bitvec.core.remembered import remembered
from bitvec.core.shape_annotations import Float, Int32, Int64, UInt32
from bitvec.runtime.predict.cpu.compiling import inner
from bitvec.runtime.predict.cpu.kernel_arrays import constant

SPARSE = 2
"""Leaf vectors are stored without zeros if fewer than one value in this many is another."""
GAIN = 2
"""Equal vectors are stored once if that leaves at most one vector for this many leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class LeafSums:
    """The distinct vectors that leaves add, cast and weighted as they are added.

    Vector i adds `v[i]` to all outputs; with `column`, `v[i]` to output `column[i]` alone; with
    `entry_ptr` too, `v[k]` to output `column[k]` for each k of its entries. Empty arrays stand for
    what is not there.

    Parameters
    ----------
    id_of : uint32, (n_leaves,)
        Each leaf's vector; empty if each leaf has its own.
    entry_ptr : int64, (n_vectors + 1,)
    column : int32, (n_vectors,) or (n_entries,)
    v : F, (n_vectors, width) or (n_entries, 1)
        F is the output's dtype.
    """

    id_of: UInt32[Array, " n_leaves"]
    entry_ptr: Int64[Array, " n_vectors_plus_1"]
    column: Int32[Array, " n"]
    v: Float[Array, "n width"]

    @property
    def n_vectors(self) -> int:
        """Number of distinct vectors."""
        return self.entry_ptr.size - 1 if self.entry_ptr.size else len(self.v)

    def vector_of(self, n_leaves: int) -> Array:
        """Return each leaf's vector."""
        return self.id_of if self.id_of.size else np.arange(n_leaves)

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """Arguments of `add`."""
        return self.entry_ptr, self.column, self.v

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.id_of.nbytes + sum(array.nbytes for array in self.arrays)


@remembered
def pack(forest: Forest) -> LeafSums:
    """Return what each leaf of a forest adds; of leaves linear in x, their constant vectors."""
    output, leaves = forest.output, forest.leaves
    with np.errstate(over="ignore", invalid="ignore"):  # infinite leaves are legal
        v = leaves.v.astype(output.dtype)
        if output.tree_weight is not None:
            n_leaves = np.diff(forest.bitvectors.leaf_ptr)
            v = np.repeat(output.tree_weight, n_leaves)[:, None] * v
    first, id_of = _distinct(v, leaves.output)
    column = np.zeros(0, np.int32) if leaves.output is None else leaves.output
    if first.size * GAIN <= len(v):
        v, column = v[first], column[first] if column.size else column
    else:
        id_of = np.zeros(0, np.int64)
    entry_ptr = np.zeros(0, np.int64)
    wide = v.shape[1] > 1 and not _starts_below_zero(output)
    if wide and np.count_nonzero(v) * SPARSE < v.size:
        vector, column = np.nonzero(v)
        if not np.array_equal(vector, np.arange(len(v))):
            entry_ptr = np.searchsorted(vector, np.arange(len(v) + 1))
        v = v[vector, column][:, None]
    return LeafSums(
        constant(id_of.astype(np.uint32)),
        constant(entry_ptr.astype(np.int64)),
        constant(column.astype(np.int32)),
        constant(v),
    )


def _starts_below_zero(output: Output) -> bool:
    """Return whether a sum starts at -0.0, which adding a zero would change."""
    base = output.base_score
    return output.base_first and bool(np.any((base == 0) & np.signbit(base)))


def _distinct(v: Array, output: Array | None) -> tuple[Array, Array]:
    """Return the first of each distinct vector, bit for bit, and which of them each one is.

    By a hash of each vector: sorting whole vectors takes a minute for a large forest. Two vectors
    of one hash are told apart by leaving all as they are.
    """
    columns = [*v.view(f"u{v.itemsize}").T, *([] if output is None else [output])]
    hashes = np.zeros(len(v), np.uint64)
    for column in columns:
        hashes = (hashes ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    _, first, id_of = np.unique(hashes, return_index=True, return_inverse=True)
    if not all(np.array_equal(column[first][id_of], column) for column in columns):
        first = id_of = np.arange(len(v))
    return first, id_of


@inner
def add(ids, first_row, sums, total):
    """Add the vectors `ids` to the rows of `total` from `first_row` on: one addition each."""
    entry_ptr, column, v = sums
    n_rows = min(ids.shape[0], total.shape[0] - first_row)
    if entry_ptr.shape[0]:
        for i in range(n_rows):
            row, vector = np.uint64(first_row + i), np.uint64(ids[i])
            for k in range(entry_ptr[vector], entry_ptr[vector + np.uint64(1)]):
                total[row, np.uint64(column[np.uint64(k)])] += v[np.uint64(k), 0]
    elif column.shape[0]:
        for i in range(n_rows):
            vector = np.uint64(ids[i])
            total[np.uint64(first_row + i), np.uint64(column[vector])] += v[vector, 0]
    elif v.shape[1] == 1:
        for i in range(n_rows):
            total[np.uint64(first_row + i), 0] += v[np.uint64(ids[i]), 0]
    else:
        for i in range(n_rows):
            row, vector = np.uint64(first_row + i), np.uint64(ids[i])
            for k in range(v.shape[1]):
                total[row, np.uint64(k)] += v[vector, np.uint64(k)]
