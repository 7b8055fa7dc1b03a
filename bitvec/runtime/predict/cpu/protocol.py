"""The protocol of the CPU engine's kernels: one forest, packed, that rows are run through."""

from __future__ import annotations

from typing import Protocol

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Int32

BLOCK_BYTES = 1 << 19
"""Bytes of the second-level cache that a block of rows may take."""
MOST_ROWS = 16384
LEAST_ROWS = 512
"""Rows of a block: a tree's nodes are read once for each block."""


class TreeKernel(Protocol):
    """A forest packed for one way to run it.

    Made from a forest by its module's `pack`; the module's `unsupported_reason(forest)` says in a
    few words why a forest cannot be packed so, or is None. Methods may be called from several
    threads at once and write nothing but what they are given to fill.

    X is a block of rows: a float32 or float64 array of any strides with the forest's number of
    columns, at least one row. It is compared as if cast to the forest's dtype.
    """

    @property
    def name(self) -> str:
        """The name by which the kernel is asked for."""
        ...

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the kernel reads, X apart."""
        ...

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes while its block is run, which bounds the rows of a block."""
        ...

    def exit_leaves(
        self, X: Float[Array, "batch n_features"], out: Int32[Array, "batch n_trees"]
    ) -> None:
        """Fill `out` (C-contiguous) with leaf numbers within each tree."""
        ...

    def add_leaves(
        self, X: Float[Array, "batch n_features"], total: Float[Array, "batch n_outputs"]
    ) -> None:
        """Add every tree's leaf vector, weighted, to `total` (C-contiguous, of the output's dtype).

        Tree after tree, one rounding for each addition: the order and dtype of the source.
        """
        ...


def rows_of_block(trees: TreeKernel) -> int:
    """Return how many rows are run through the trees together, at most."""
    rows = BLOCK_BYTES // max(trees.row_bytes, 1) // 128 * 128
    return min(max(LEAST_ROWS, rows), MOST_ROWS)
