"""Trees of any depth and width: 16 rows at a time walk a tree, position after position."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numba import types
from numba.extending import intrinsic

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float, Int32
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import fill_group, rows_of
from bitvec.runtime.predict.cpu.traversal.keyed import (
    NARROW_LEAVES,
    NARROW_VECTORS,
    WIDE_LEAVES,
    KeyedTrees,
)
from bitvec.runtime.predict.cpu.vectors import I32, I64, address, load, number, settled, store

LANES = 16
"""Rows that walk a tree in step, so that the waits for memory overlap."""
KEY_BYTES = 1 << 18
"""Bytes of key columns for which all trees are run at a time, as fit the second-level cache."""
MOST_ROWS = 4096


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


@intrinsic
def _traverse_group(typing_context, nodes, depth, keys, codes, like):
    """Fill `codes` with the keys of the leaves that a group's rows reach in a tree of a depth.

    `like` is a number of the type of keys.
    """
    key_bytes = like.bitwidth // 8
    key_type, node_bytes = (I32 if key_bytes == 4 else I64), 2 * key_bytes

    def generate(context, builder, signature, arguments):
        nodes, depth, keys, codes = arguments[:4]

        def node_of(at):
            return builder.add(nodes, builder.mul(at, number(node_bytes)))

        def moved(at, lane):
            own = builder.add(keys, number(key_bytes * lane))
            return keyed.step(builder, node_of(at), own, key_bytes, key_bytes * LANES)

        for lane, place in enumerate(settled(builder, LANES, moved, depth)):
            key = load(builder, node_of(place), number(0), key_type)
            store(builder, key, codes, number(key_bytes * lane))
        return context.get_dummy_value()

    return types.void(*[address] * 4, like), generate


@inner
def _traverse(nodes, depth, keys, n_key_columns, n_groups, codes):
    """Fill `codes` with the key of the leaf that each row of each group reaches in one tree."""
    tree, like = np.int64(nodes.ctypes.data), codes.dtype.type(0)
    of_group, own = np.int64(keys.ctypes.data), np.int64(codes.ctypes.data)
    for group in range(n_groups):
        done = group * LANES * codes.itemsize
        _traverse_group(tree, depth, of_group + done * n_key_columns, own + done, like)


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
    nodes, leaf_ptr, depth, key_columns, words, no_keys = trees
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
            _traverse(part, depth[tree], keys, n_key_columns, n_groups, codes)
            for row in range(here):
                exits[first + row, tree] = codes[row] & mask


@kernel
def _sums(rows, trees, has_vectors, id_of, sums, total):
    """Add the exit leaves' vectors of all trees to `total`, tree by tree."""
    nodes, leaf_ptr, depth, key_columns, words, no_keys = trees
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
            _traverse(part, depth[tree], keys, n_key_columns, n_groups, codes)
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
