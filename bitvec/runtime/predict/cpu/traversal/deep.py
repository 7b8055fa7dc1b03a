"""Trees of any depth and width: 16 rows at a time walk a tree, position after position."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float, Int32
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import fill_group, rows_of
from bitvec.runtime.predict.cpu.traversal.keyed import (
    NARROW_COLUMNS,
    NARROW_LEAVES,
    NARROW_VECTORS,
    WIDE_COLUMNS,
    WIDE_LEAVES,
    KeyedTrees,
)

LANES = 16
"""Rows that walk a tree in step, so that the waits for memory overlap."""
KEY_BYTES = 1 << 18
"""Bytes of key columns for which all trees are run at a time, as fit the second-level cache."""
MOST_ROWS = 4096

_LANES = np.uint64(LANES)
_NARROW_MASK, _NARROW_SHIFT = np.uint64((1 << NARROW_COLUMNS) - 1), np.uint64(32 + NARROW_COLUMNS)
_WIDE_MASK, _WIDE_SHIFT = np.uint64((1 << WIDE_COLUMNS) - 1), np.uint64(WIDE_COLUMNS)


class Deep:
    """A forest packed for `deep`; see `bitvec.runtime.predict.cpu.protocol.TreeKernel`.

    X holds what S reads: of a forest with a feature map, what that gives.
    """

    name = "deep"

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._sums = leaf_vectors.pack(forest)
        if self._sums.n_vectors <= 1 << NARROW_VECTORS:
            # All layouts have them in the keys of leaves.
            self._sums = replace(self._sums, id_of=self._sums.id_of[:0])
        self._trees: dict[np.dtype, KeyedTrees] = {}

    def __reduce__(self) -> tuple[Callable[..., Deep], tuple[Forest]]:
        return Deep, (self.forest,)

    def trees(self, dtype: np.dtype) -> KeyedTrees:
        """Return the trees packed for X of a dtype, made when they are asked for first."""
        dtype = min(np.dtype(dtype), self.forest.dtype, key=lambda each: each.itemsize)
        if dtype not in self._trees:
            sums = leaf_vectors.pack(self.forest)
            vectors = sums.vector_of(self.forest.n_leaves)
            packed = keyed.pack(self.forest, dtype, vectors, sums.n_vectors)
            self._trees.setdefault(dtype, packed)
        return self._trees[dtype]

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes while its block is run."""
        return 8 * self.forest.n_features

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the kernel reads, X apart."""
        if not self._trees:
            self.trees(self.forest.dtype)
        return self._sums.n_bytes + sum(part.n_bytes for part in self._trees.values())

    def exit_leaves(
        self, X: Float[Array, "batch n_columns"], out: Int32[Array, "batch n_trees"]
    ) -> None:
        """Fill `out` with leaf numbers within each tree."""
        trees = self.trees(X.dtype)
        _exits(rows_of(X, self.forest.dtype), trees.arrays, out)

    def add_leaves(
        self, X: Float[Array, "batch n_columns"], total: Float[Array, "batch n_outputs"]
    ) -> None:
        """Add every tree's leaf vector, weighted, to `total`, tree after tree."""
        trees, sums = self.trees(X.dtype), self._sums
        rows = rows_of(X, self.forest.dtype)
        _sums(rows, trees.arrays, trees.has_vectors, sums.id_of, sums.arrays, total)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why the kernel cannot take a forest, in a few words, or None."""
    return keyed.unsupported_reason(forest)


def pack(forest: Forest) -> Deep:
    """Pack a forest that is not refused."""
    return Deep(forest)


@inner
def _step(nodes, key_columns, base, lane, at):
    """Return where a row of a group goes from a position; `itemsize` is known when compiling.

    The lane is no bare constant: numba would compile the function for each.
    """
    if key_columns.itemsize == 4:
        word = nodes[at]
        key_column = (word >> np.uint64(32)) & _NARROW_MASK
        right = key_columns[base + key_column * _LANES + lane] >= np.int32(word)
        return (word >> _NARROW_SHIFT) + np.uint64(right)
    key, link = nodes[at + at], nodes[at + at + np.uint64(1)]
    right = key_columns[base + (link & _WIDE_MASK) * _LANES + lane] >= np.int64(key)
    return (link >> _WIDE_SHIFT) + np.uint64(right)


@inner
def _key_at(nodes, key_columns, at):
    return np.int64(np.int32(nodes[at])) if key_columns.itemsize == 4 else np.int64(nodes[at + at])


@inner
def _traverse(nodes, key_columns, n_key_columns, n_groups, codes):
    """Fill `codes` with the key of the leaf that each row of each group reaches in one tree."""
    zero = np.uint64(0)
    for group in range(n_groups):
        base = np.uint64(group * n_key_columns * LANES)
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
        a8 = a9 = a10 = a11 = a12 = a13 = a14 = a15 = zero
        moved = np.uint64(1)
        while moved != zero:
            b0 = _step(nodes, key_columns, base, np.uint64(0), a0)
            b1 = _step(nodes, key_columns, base, np.uint64(1), a1)
            b2 = _step(nodes, key_columns, base, np.uint64(2), a2)
            b3 = _step(nodes, key_columns, base, np.uint64(3), a3)
            b4 = _step(nodes, key_columns, base, np.uint64(4), a4)
            b5 = _step(nodes, key_columns, base, np.uint64(5), a5)
            b6 = _step(nodes, key_columns, base, np.uint64(6), a6)
            b7 = _step(nodes, key_columns, base, np.uint64(7), a7)
            b8 = _step(nodes, key_columns, base, np.uint64(8), a8)
            b9 = _step(nodes, key_columns, base, np.uint64(9), a9)
            b10 = _step(nodes, key_columns, base, np.uint64(10), a10)
            b11 = _step(nodes, key_columns, base, np.uint64(11), a11)
            b12 = _step(nodes, key_columns, base, np.uint64(12), a12)
            b13 = _step(nodes, key_columns, base, np.uint64(13), a13)
            b14 = _step(nodes, key_columns, base, np.uint64(14), a14)
            b15 = _step(nodes, key_columns, base, np.uint64(15), a15)
            a0 = _step(nodes, key_columns, base, np.uint64(0), b0)
            a1 = _step(nodes, key_columns, base, np.uint64(1), b1)
            a2 = _step(nodes, key_columns, base, np.uint64(2), b2)
            a3 = _step(nodes, key_columns, base, np.uint64(3), b3)
            a4 = _step(nodes, key_columns, base, np.uint64(4), b4)
            a5 = _step(nodes, key_columns, base, np.uint64(5), b5)
            a6 = _step(nodes, key_columns, base, np.uint64(6), b6)
            a7 = _step(nodes, key_columns, base, np.uint64(7), b7)
            a8 = _step(nodes, key_columns, base, np.uint64(8), b8)
            a9 = _step(nodes, key_columns, base, np.uint64(9), b9)
            a10 = _step(nodes, key_columns, base, np.uint64(10), b10)
            a11 = _step(nodes, key_columns, base, np.uint64(11), b11)
            a12 = _step(nodes, key_columns, base, np.uint64(12), b12)
            a13 = _step(nodes, key_columns, base, np.uint64(13), b13)
            a14 = _step(nodes, key_columns, base, np.uint64(14), b14)
            a15 = _step(nodes, key_columns, base, np.uint64(15), b15)
            moved = (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) | (a3 ^ b3)
            moved |= (a4 ^ b4) | (a5 ^ b5) | (a6 ^ b6) | (a7 ^ b7)
            moved |= (a8 ^ b8) | (a9 ^ b9) | (a10 ^ b10) | (a11 ^ b11)
            moved |= (a12 ^ b12) | (a13 ^ b13) | (a14 ^ b14) | (a15 ^ b15)
        at = np.uint64(group * LANES)
        codes[at] = _key_at(nodes, key_columns, a0)
        codes[at + np.uint64(1)] = _key_at(nodes, key_columns, a1)
        codes[at + np.uint64(2)] = _key_at(nodes, key_columns, a2)
        codes[at + np.uint64(3)] = _key_at(nodes, key_columns, a3)
        codes[at + np.uint64(4)] = _key_at(nodes, key_columns, a4)
        codes[at + np.uint64(5)] = _key_at(nodes, key_columns, a5)
        codes[at + np.uint64(6)] = _key_at(nodes, key_columns, a6)
        codes[at + np.uint64(7)] = _key_at(nodes, key_columns, a7)
        codes[at + np.uint64(8)] = _key_at(nodes, key_columns, a8)
        codes[at + np.uint64(9)] = _key_at(nodes, key_columns, a9)
        codes[at + np.uint64(10)] = _key_at(nodes, key_columns, a10)
        codes[at + np.uint64(11)] = _key_at(nodes, key_columns, a11)
        codes[at + np.uint64(12)] = _key_at(nodes, key_columns, a12)
        codes[at + np.uint64(13)] = _key_at(nodes, key_columns, a13)
        codes[at + np.uint64(14)] = _key_at(nodes, key_columns, a14)
        codes[at + np.uint64(15)] = _key_at(nodes, key_columns, a15)


@inner
def _block_rows(n_rows, n_key_columns, itemsize):
    block = KEY_BYTES // (n_key_columns * itemsize) // LANES * LANES
    block = min(max(block, 4 * LANES), MOST_ROWS)
    return min(block, (n_rows + LANES - 1) // LANES * LANES)


@inner
def _fill(rows, first, n_rows, key_columns, words, out):
    """Fill the key columns of the rows from `first` on, and return the number of their groups."""
    address, row_stride, column_stride, reading = rows
    n_groups = (n_rows + LANES - 1) // LANES
    keys = np.empty(LANES, np.int64)
    for group in range(n_groups):
        done = group * LANES
        part = (address + (first + done) * row_stride, row_stride, column_stride, reading)
        here = min(LANES, n_rows - done)
        fill_group(part, here, key_columns, words, keys, out, done * key_columns.shape[0])
    return n_groups


@kernel
def _exits(rows, trees, exits):
    """Fill `exits` (batch, n_trees) with leaf numbers within each tree."""
    nodes, leaf_ptr, key_columns, words, no_keys = trees
    n_rows, n_key_columns = exits.shape[0], key_columns.shape[0]
    block = _block_rows(n_rows, n_key_columns, no_keys.itemsize)
    keys = np.empty(block * n_key_columns, no_keys.dtype)
    codes = np.empty(block, no_keys.dtype)
    words_per_leaf = no_keys.itemsize // 2
    mask = (1 << (NARROW_LEAVES if keys.itemsize == 4 else WIDE_LEAVES)) - 1
    for first in range(0, n_rows, block):
        here = min(block, n_rows - first)
        n_groups = _fill(rows, first, here, key_columns, words, keys)
        for tree in range(leaf_ptr.shape[0] - 1):
            part = nodes[words_per_leaf * leaf_ptr[tree] : words_per_leaf * leaf_ptr[tree + 1]]
            _traverse(part, keys, n_key_columns, n_groups, codes)
            for row in range(here):
                exits[first + row, tree] = codes[row] & mask


@kernel
def _sums(rows, trees, has_vectors, id_of, sums, total):
    """Add the exit leaves' vectors of all trees to `total`, tree by tree."""
    nodes, leaf_ptr, key_columns, words, no_keys = trees
    n_rows, n_key_columns = total.shape[0], key_columns.shape[0]
    block = _block_rows(n_rows, n_key_columns, no_keys.itemsize)
    keys = np.empty(block * n_key_columns, no_keys.dtype)
    codes = np.empty(block, no_keys.dtype)
    words_per_leaf = no_keys.itemsize // 2
    shift = NARROW_LEAVES if keys.itemsize == 4 else WIDE_LEAVES
    mask = (1 << shift) - 1
    for first in range(0, n_rows, block):
        here = min(block, n_rows - first)
        n_groups = _fill(rows, first, here, key_columns, words, keys)
        for tree in range(leaf_ptr.shape[0] - 1):
            start = leaf_ptr[tree]
            part = nodes[words_per_leaf * start : words_per_leaf * leaf_ptr[tree + 1]]
            _traverse(part, keys, n_key_columns, n_groups, codes)
            leaf = codes[:here]
            if has_vectors:
                for row in range(here):
                    leaf[row] >>= shift
            elif id_of.shape[0]:
                for row in range(here):
                    leaf[row] = id_of[np.uint64(start + (leaf[row] & mask))]
            else:
                for row in range(here):
                    leaf[row] = start + (leaf[row] & mask)
            leaf_vectors.add(leaf, first, sums, total)
