"""A tree or very few: rows walk straight over X, of which a path reads a few columns only."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import key_of
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule
from bitvec.core.shape_annotations import Float, Int32
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import address_of, constant
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import DOUBLE, ROUNDED, SINGLE, read_rank

LANES = 16
"""Rows that walk a tree in step, so that the waits for memory overlap."""
MOST_TREES = 256
"""With more trees, keys that are made once for all of them cost less."""


@dataclass(frozen=True, slots=True, eq=False)
class DirectTrees:
    """Trees of positions as in `traversal.keyed`, whose nodes name a column.

    Parameters
    ----------
    nodes : uint32, (2 * n_leaves, 4) or uint64, (2 * n_leaves, 4)
        `low`, `width`, the column, and the first child. A row goes to the second child, the one
        after it, if `rank - low < width`, unsigned: NaN has ranks outside those of both infinities,
        so that a range of ranks excludes it. Where missing values go right, the second child is the
        left one. A leaf is its own first child and has no width.
    leaf_at, vector_at : int32, (2 * n_leaves,)
        Of a position that is a leaf, its number in the tree, and its vector.
    """

    nodes: Array
    leaf_at: Int32[Array, " n_positions"]
    vector_at: Int32[Array, " n_positions"]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.nodes.nbytes + self.leaf_at.nbytes + self.vector_at.nbytes


class Single:
    """A forest packed for `single`; see `bitvec.runtime.predict.cpu.protocol.TreeKernel`.

    X holds what S reads: of a forest with a feature map, what that gives.
    """

    name = "single"

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._sums = leaf_vectors.pack(forest)
        self._leaf_ptr = constant(forest.bitvectors.leaf_ptr)
        self._trees: dict[np.dtype, DirectTrees] = {}

    def __reduce__(self) -> tuple[Callable[..., Single], tuple[Forest]]:
        return Single, (self.forest,)

    def trees(self, dtype: np.dtype) -> DirectTrees:
        """Return the trees packed for X of a dtype, made when they are asked for first."""
        dtype = min(np.dtype(dtype), self.forest.dtype, key=lambda each: each.itemsize)
        if dtype in self._trees:
            return self._trees[dtype]
        # Of two threads that come here at once, one wins: addresses of what is kept are in use.
        return self._trees.setdefault(dtype, _direct(self.forest, dtype, self._sums))

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
        rows = (address_of(X), *X.strides)
        _exits(rows, _like(X), trees.nodes, trees.leaf_at, self._leaf_ptr, out)

    def add_leaves(
        self, X: Float[Array, "batch n_columns"], total: Float[Array, "batch n_outputs"]
    ) -> None:
        """Add every tree's leaf vector, weighted, to `total`, tree after tree."""
        trees = self.trees(X.dtype)
        rows, sums = (address_of(X), *X.strides), self._sums.arrays
        _sums(rows, _like(X), trees.nodes, trees.vector_at, self._leaf_ptr, sums, total)


_LIKE = {
    (np.dtype(kind), packed): constant(np.zeros((0, 0) if packed else 0, kind))
    for kind in (np.float32, np.float64)
    for packed in (False, True)
}


def _like(X: Array) -> Array:
    """Return an array that tells the kernels, when they are compiled, what X is.

    Its dtype is that of X, and it has two axes if the values of a row stand side by side.
    """
    return _LIKE[X.dtype, X.strides[1] == X.itemsize]


def unsupported_reason(forest: Forest) -> str | None:
    """Return why the kernel cannot take a forest, in a few words, or None."""
    tests = forest.tests
    if not 1 <= forest.n_trees <= MOST_TREES:
        return f"it has not 1 to {MOST_TREES} trees"
    if tests.n_nodes == 0:
        return "it has no nodes"
    compares = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    if not (np.all(compares) and np.all(tests.is_one_hot)):
        return "a node does not compare one column"
    if np.any(tests.missing_rule != MissingRule.NAN):
        return "more than NaN is missing"
    if forest.n_leaves >= 1 << 30:
        return f"it has more than {1 << 30} leaves"
    return None


def pack(forest: Forest) -> Single:
    """Pack a forest that is not refused."""
    return Single(forest)


def _direct(forest: Forest, dtype: np.dtype, sums: leaf_vectors.LeafSums) -> DirectTrees:
    tests, B = forest.tests, forest.bitvectors
    position, leaf_position, child = keyed.positions(B, tests.missing_right)
    infinity = key_of(np.inf, dtype)
    least = keys.thresholds(tests.b, tests.relation, dtype)
    first = keys.rank_of_threshold(np.where(tests.missing_right, -infinity, least))
    beyond = keys.rank_of_threshold(np.where(tests.missing_right, least, infinity + 1))
    leaf_start = np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    nodes = np.zeros((2 * B.n_leaves, 4), f"u{dtype.itemsize}")
    nodes[position, 0] = first.astype(nodes.dtype)
    nodes[position, 1] = (beyond - first).astype(nodes.dtype)  # modulo 2 ** 32 or 2 ** 64
    nodes[position, 2] = tests.feature
    nodes[position, 3] = child
    nodes[leaf_position, 3] = leaf_position - 2 * leaf_start
    leaf_at, vector_at = np.zeros((2, 2 * B.n_leaves), np.int32)
    leaf_at[leaf_position] = np.arange(B.n_leaves) - leaf_start
    vector_at[leaf_position] = sums.vector_of(B.n_leaves)
    return DirectTrees(constant(nodes), constant(leaf_at), constant(vector_at))


@inner
def _step(nodes, like, row, stride, at):
    """Return where a row goes; dimensions and item sizes are known when compiling."""
    column = np.int64(nodes[at, 2]) * (like.itemsize if like.ndim == 2 else stride)
    first = np.uint64(nodes[at, 3])
    if nodes.itemsize == 4:
        rank = read_rank(row + column, SINGLE if like.itemsize == 4 else ROUNDED)
        return first + np.uint64(np.uint32(rank - np.int64(nodes[at, 0])) < nodes[at, 1])
    rank = read_rank(row + column, DOUBLE)
    return first + np.uint64(np.uint64(rank) - nodes[at, 0] < nodes[at, 1])


@inner
def traverse(rows, like, n_rows, done, nodes, at_leaf, found):
    """Fill `found` with what `at_leaf` holds of the leaves that rows from `done` on reach.

    The last row stands in for those beyond it.
    """
    first_row, row_stride, stride = rows
    last = n_rows - 1
    r0 = first_row + min(done + 0, last) * row_stride
    r1 = first_row + min(done + 1, last) * row_stride
    r2 = first_row + min(done + 2, last) * row_stride
    r3 = first_row + min(done + 3, last) * row_stride
    r4 = first_row + min(done + 4, last) * row_stride
    r5 = first_row + min(done + 5, last) * row_stride
    r6 = first_row + min(done + 6, last) * row_stride
    r7 = first_row + min(done + 7, last) * row_stride
    r8 = first_row + min(done + 8, last) * row_stride
    r9 = first_row + min(done + 9, last) * row_stride
    r10 = first_row + min(done + 10, last) * row_stride
    r11 = first_row + min(done + 11, last) * row_stride
    r12 = first_row + min(done + 12, last) * row_stride
    r13 = first_row + min(done + 13, last) * row_stride
    r14 = first_row + min(done + 14, last) * row_stride
    r15 = first_row + min(done + 15, last) * row_stride
    zero = np.uint64(0)
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = zero
    a8 = a9 = a10 = a11 = a12 = a13 = a14 = a15 = zero
    moved = np.uint64(1)
    while moved != zero:
        b0 = _step(nodes, like, r0, stride, a0)
        b1 = _step(nodes, like, r1, stride, a1)
        b2 = _step(nodes, like, r2, stride, a2)
        b3 = _step(nodes, like, r3, stride, a3)
        b4 = _step(nodes, like, r4, stride, a4)
        b5 = _step(nodes, like, r5, stride, a5)
        b6 = _step(nodes, like, r6, stride, a6)
        b7 = _step(nodes, like, r7, stride, a7)
        b8 = _step(nodes, like, r8, stride, a8)
        b9 = _step(nodes, like, r9, stride, a9)
        b10 = _step(nodes, like, r10, stride, a10)
        b11 = _step(nodes, like, r11, stride, a11)
        b12 = _step(nodes, like, r12, stride, a12)
        b13 = _step(nodes, like, r13, stride, a13)
        b14 = _step(nodes, like, r14, stride, a14)
        b15 = _step(nodes, like, r15, stride, a15)
        a0 = _step(nodes, like, r0, stride, b0)
        a1 = _step(nodes, like, r1, stride, b1)
        a2 = _step(nodes, like, r2, stride, b2)
        a3 = _step(nodes, like, r3, stride, b3)
        a4 = _step(nodes, like, r4, stride, b4)
        a5 = _step(nodes, like, r5, stride, b5)
        a6 = _step(nodes, like, r6, stride, b6)
        a7 = _step(nodes, like, r7, stride, b7)
        a8 = _step(nodes, like, r8, stride, b8)
        a9 = _step(nodes, like, r9, stride, b9)
        a10 = _step(nodes, like, r10, stride, b10)
        a11 = _step(nodes, like, r11, stride, b11)
        a12 = _step(nodes, like, r12, stride, b12)
        a13 = _step(nodes, like, r13, stride, b13)
        a14 = _step(nodes, like, r14, stride, b14)
        a15 = _step(nodes, like, r15, stride, b15)
        moved = (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) | (a3 ^ b3)
        moved |= (a4 ^ b4) | (a5 ^ b5) | (a6 ^ b6) | (a7 ^ b7)
        moved |= (a8 ^ b8) | (a9 ^ b9) | (a10 ^ b10) | (a11 ^ b11)
        moved |= (a12 ^ b12) | (a13 ^ b13) | (a14 ^ b14) | (a15 ^ b15)
    found[0] = at_leaf[a0]
    found[1] = at_leaf[a1]
    found[2] = at_leaf[a2]
    found[3] = at_leaf[a3]
    found[4] = at_leaf[a4]
    found[5] = at_leaf[a5]
    found[6] = at_leaf[a6]
    found[7] = at_leaf[a7]
    found[8] = at_leaf[a8]
    found[9] = at_leaf[a9]
    found[10] = at_leaf[a10]
    found[11] = at_leaf[a11]
    found[12] = at_leaf[a12]
    found[13] = at_leaf[a13]
    found[14] = at_leaf[a14]
    found[15] = at_leaf[a15]


@kernel
def _exits(rows, like, nodes, leaf_at, leaf_ptr, exits):
    """Fill `exits` (batch, n_trees) with leaf numbers within each tree."""
    n_rows = exits.shape[0]
    found = np.empty(LANES, np.int32)
    for tree in range(leaf_ptr.shape[0] - 1):
        part = slice(2 * leaf_ptr[tree], 2 * leaf_ptr[tree + 1])
        tree_nodes, tree_leaf_at = nodes[part], leaf_at[part]
        for done in range(0, n_rows, LANES):
            traverse(rows, like, n_rows, done, tree_nodes, tree_leaf_at, found)
            for i in range(min(LANES, n_rows - done)):
                exits[np.uint64(done + i), np.uint64(tree)] = found[np.uint64(i)]


@kernel
def _sums(rows, like, nodes, vector_at, leaf_ptr, sums, total):
    """Add the exit leaves' vectors of all trees to `total`, tree by tree."""
    n_rows = total.shape[0]
    found = np.empty(LANES, np.int32)
    for tree in range(leaf_ptr.shape[0] - 1):
        part = slice(2 * leaf_ptr[tree], 2 * leaf_ptr[tree + 1])
        tree_nodes, tree_vector_at = nodes[part], vector_at[part]
        for done in range(0, n_rows, LANES):
            traverse(rows, like, n_rows, done, tree_nodes, tree_vector_at, found)
            leaf_vectors.add(found, done, sums, total)


@inner
def exit_position(X, nodes):
    """Return the position of the leaf that the first row of X reaches in a lone tree."""
    row, zero = np.int64(X.ctypes.data), np.uint64(0)
    at, to = np.uint64(1), zero
    while to != at:
        at = to
        to = _step(nodes, X, row, X.itemsize, at)
    return at
