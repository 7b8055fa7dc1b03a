"""A tree or very few: rows walk straight over X, of which a path reads a few columns only.

    at = 0;  while it moves:  at = child[at] + (x[column[at]] > threshold[at])

NaN, of which no comparison is true, goes to the first child: where it goes right, the children are
swapped and both sides of the comparison have the other sign.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats, key_of
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule
from bitvec.core.shape_annotations import Float, Int32, Int64
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.cpu import keys
from bitvec.runtime.predict.cpu.compiling import Kernel, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import (
    address_of,
    constant,
    load_int32,
    pointer,
    room_on_stack,
)
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.traversal import keyed
from bitvec.runtime.predict.cpu.traversal.key_columns import DOUBLE, ROUNDED, SINGLE, reading_of
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I32,
    I64,
    address,
    load,
    number,
    settled,
    store,
)

LANES = 16
"""Rows that walk a tree in step, so that the waits for memory overlap."""
MOST_TREES = 256
"""With more trees, keys that are made once for all of them cost less."""


class Form(NamedTuple):
    """Form of a walk, for which it is compiled: how values are read, and if nodes have signs."""

    reading: int
    is_signed: bool

    @property
    def compared(self) -> np.dtype:
        """The dtype of thresholds."""
        return np.dtype(np.float64 if self.reading == DOUBLE else np.float32)

    @property
    def node(self) -> np.dtype:
        """The dtype of a position; a link is the first child above the bits of the column.

        The sign is a word of zeros but for the sign bit, which turns the value's.
        """
        word = f"u{self.compared.itemsize}"
        turned = [("sign", word), ("link", "u8")] if self.is_signed else [("link", word)]
        return np.dtype([("threshold", self.compared), *turned])


FORMS = tuple(Form(way, signed) for way in (SINGLE, ROUNDED, DOUBLE) for signed in (False, True))


@dataclass(frozen=True, slots=True, eq=False)
class DirectTrees:
    """Trees of positions as in `traversal.keyed`, whose nodes name a column of X.

    A leaf is its own first child, and no value is beyond its threshold.

    Parameters
    ----------
    form : Form
    nodes : records `Form.node`, (n_positions,)
        A tree of k leaves has 2k of them; after all trees follow those of second tests.
    column_bits : int
    depth : int64, (n_trees,)
        Nodes on the longest path of each tree.
    leaf_at, vector_at : int32, (n_positions,)
        Of a position that is a leaf, its number in the tree, and its vector.
    """

    form: Form
    nodes: Array
    column_bits: int
    depth: Int64[Array, " n_trees"]
    leaf_at: Int32[Array, " n_positions"]
    vector_at: Int32[Array, " n_positions"]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.nodes, self.depth, self.leaf_at, self.vector_at)
        return sum(array.nbytes for array in arrays)


class Single:
    """A forest packed for `single`; see `bitvec.runtime.predict.cpu.protocol.TreeKernel`.

    X holds what S reads: of a forest with a feature map, what that gives.
    """

    name = "single"

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._sums = leaf_vectors.pack(forest)
        self._leaf_ptr = constant(forest.bitvectors.leaf_ptr)
        self._trees: dict[tuple[int, bool], DirectTrees] = {}

    def __reduce__(self) -> tuple[Callable[..., Single], tuple[Forest]]:
        return Single, (self.forest,)

    def trees(self, dtype: np.dtype, *, finite: bool = False) -> DirectTrees:
        """Return the trees packed for X of a dtype, made when they are asked for first.

        Those for `finite` rows must see no NaN nor infinities.
        """
        kind = reading_of(np.dtype(dtype), self.forest.dtype), finite
        if kind in self._trees:
            return self._trees[kind]
        # Of two threads that come here at once, one wins: addresses of what is kept are in use.
        return self._trees.setdefault(kind, _direct(self.forest, *kind, self._sums))

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
        walked = _walked(trees, trees.leaf_at)
        _kernels(trees.form)[0](_rows(X), walked, self._leaf_ptr, trees.depth, out)

    def add_leaves(
        self, X: Float[Array, "batch n_columns"], total: Float[Array, "batch n_outputs"]
    ) -> None:
        """Add every tree's leaf vector, weighted, to `total`, tree after tree."""
        trees, sums = self.trees(X.dtype), self._sums.arrays
        walked = _walked(trees, trees.vector_at)
        _kernels(trees.form)[1](_rows(X), walked, self._leaf_ptr, trees.depth, sums, total)


def _rows(X: Array) -> tuple[int, int, int]:
    return address_of(X), X.strides[0], X.strides[1]


def _walked(trees: DirectTrees, at_leaf: Array) -> tuple[int, int, int]:
    return address_of(trees.nodes), trees.column_bits, address_of(at_leaf)


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
    if forest.n_leaves >= 1 << 29:
        return f"it has more than {1 << 29} leaves"
    return None


def pack(forest: Forest) -> Single:
    """Pack a forest that is not refused."""
    return Single(forest)


def _direct(forest: Forest, reading: int, finite: bool, sums: leaf_vectors.LeafSums) -> DirectTrees:
    tests, B = forest.tests, forest.bitvectors
    dtype = Form(reading, False).compared
    infinity, minus = key_of(np.inf, dtype), np.array(-0.0, dtype).view(f"u{dtype.itemsize}")
    right = tests.missing_right & (not finite)
    # A row goes to the second child if the key of what is compared is above this. No threshold is
    # below -inf: where that goes to the second child too, and NaN alone to the first, a second
    # test there, of the other sign, tells the two apart.
    first_right = keys.thresholds(tests.b, tests.relation, dtype)
    last = np.where(right, -first_right, first_right - 1)
    twice = np.flatnonzero((last < -infinity) & (not finite))
    first_leaf = np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    places = _places(B, right, twice, first_leaf)
    column_bits = int(tests.feature.max(initial=1)).bit_length()
    fits = int(places.link.max()).bit_length() + column_bits <= 8 * dtype.itemsize
    form = Form(reading, bool(right.any()) or twice.size > 0 or not fits)

    node, ends = places.node, np.flatnonzero(places.leaf >= 0)
    nodes = np.zeros(node.size, form.node)
    nodes["threshold"] = floats(np.maximum(last, -infinity), dtype)[node]
    nodes["threshold"][places.second] = -np.inf
    nodes["threshold"][ends] = np.inf
    column = tests.feature[node]
    column[ends] = 0
    nodes["link"] = (places.link << column_bits) | column
    if form.is_signed:
        turns = right[node] ^ places.second
        nodes["sign"] = np.where(turns & (places.leaf < 0), minus, 0)
    leaf = places.leaf[ends]
    leaf_at, vector_at = np.zeros((2, node.size), np.int32)
    leaf_at[ends] = leaf - first_leaf[leaf]
    vector_at[ends] = sums.vector_of(B.n_leaves)[leaf]
    depth = tree_paths.tree_depth(B) + np.bincount(B.tree_of_node[twice], minlength=B.n_trees)
    arrays = (depth, leaf_at, vector_at)
    return DirectTrees(form, constant(nodes), column_bits, *(constant(each) for each in arrays))


class _Places(NamedTuple):
    """Places of nodes and leaves: at each position what stands there, and where it links to."""

    node: Array
    """The node; 0 at a leaf."""
    leaf: Array
    """The leaf, or -1."""
    second: Array
    """True where it is the second test of a node."""
    link: Array
    """The first child, or the position itself of a leaf, counted from the tree's first."""


def _places(B: Bitvectors, swapped: Array, twice: Array, first_leaf: Array) -> _Places:
    """Return what stands where, with a second test below each of some nodes.

    It takes the place of the node's first child; its own children are that child, and the node's
    second child once more. `first_leaf` is that of each leaf's tree.
    """
    position, leaf_position, child = keyed.positions(B, swapped)
    start, n = 2 * B.leaf_ptr[:-1], 2 * (B.n_leaves + twice.size)
    node, link = np.zeros((2, n), np.int64)
    leaf, second = np.full(n, -1), np.zeros(n, bool)
    node[position], link[position] = np.arange(B.n_nodes), child
    leaf[leaf_position] = np.arange(B.n_leaves)
    tree = start[B.tree_of_node[twice]]
    first, more = tree + child[twice], 2 * B.n_leaves + 2 * np.arange(twice.size)
    for side in (0, 1):
        for held in (node, leaf, link):
            held[more + side] = held[first + side]
    node[first], leaf[first], second[first], link[first] = twice, -1, True, more - tree
    ends = np.flatnonzero(leaf >= 0)
    link[ends] = ends - 2 * first_leaf[leaf[ends]]
    return _Places(node, leaf, second, link)


@cache
def walker(form: Form, lanes: int = LANES) -> Any:
    """Return the walk of so many rows in step, for a kernel."""
    reading, is_signed = form
    read, compared = F32 if reading == SINGLE else F64, F64 if reading == DOUBLE else F32
    word = I64 if reading == DOUBLE else I32
    node_bytes, word_bytes = form.node.itemsize, form.compared.itemsize
    link_type = I64 if is_signed else word

    @intrinsic
    def walk(
        typing_context, x, row_step, column_step, n, nodes, depth, column_bits, at_leaf, found
    ):
        """Fill `found`, int32, with what `at_leaf` holds of the leaves that n rows reach.

        Rows and columns are so many bytes apart. Lanes beyond the n rows repeat the last of them.
        """

        def generate(context, builder, signature, arguments):
            x, row_step, column_step, n, nodes, depth, column_bits, at_leaf, found = arguments
            mask = builder.sub(builder.shl(number(1), column_bits), number(1))
            last = builder.sub(n, number(1))
            rows = []
            for lane in range(lanes):
                within = builder.icmp_signed("<", number(lane), last)
                row = builder.select(within, number(lane), last)
                rows.append(builder.add(x, builder.mul(row, row_step)))

            def moved(at, lane):
                node = builder.add(nodes, builder.mul(at, number(node_bytes)))
                link = load(builder, node, number(node_bytes - link_type.width // 8), link_type)
                link = link if link_type is I64 else builder.zext(link, I64)
                column = builder.mul(builder.and_(link, mask), column_step)
                value = load(builder, rows[lane], column, read)
                value = builder.fptrunc(value, F32) if reading == ROUNDED else value
                if is_signed:
                    sign = load(builder, node, number(word_bytes), word)
                    turned = builder.xor(builder.bitcast(value, word), sign)
                    value = builder.bitcast(turned, compared)
                threshold = load(builder, node, number(0), compared)
                right = builder.zext(builder.fcmp_ordered(">", value, threshold), I64)
                return builder.add(builder.lshr(link, column_bits), right)

            for lane, place in enumerate(settled(builder, lanes, moved, depth)):
                leaf = load(builder, at_leaf, builder.mul(place, number(4)), I32)
                store(builder, leaf, found, number(4 * lane))
            return context.get_dummy_value()

        return types.void(*[address] * 9), generate

    return walk


@cache
def _kernels(form: Form) -> tuple[Kernel, Kernel]:
    """Return the kernels of exit leaves and of sums."""
    walk, node_bytes = walker(form), form.node.itemsize

    @kernel
    def single_exits(rows, trees, leaf_ptr, depth, exits):
        """Fill `exits` (batch, n_trees) with leaf numbers within each tree."""
        x, step, size = rows
        nodes, bits, leaf_at = trees
        n_rows, n_trees = exits.shape
        found = room_on_stack(4 * LANES)
        for tree in range(n_trees):
            first = 2 * leaf_ptr[tree]
            own, at = nodes + first * node_bytes, leaf_at + 4 * first
            for done in range(0, n_rows, LANES):
                n = min(LANES, n_rows - done)
                walk(x + done * step, step, size, n, own, depth[tree], bits, at, found)
                for i in range(n):
                    exits[np.uint64(done + i), np.uint64(tree)] = load_int32(found + 4 * i)

    @kernel
    def single_sums(rows, trees, leaf_ptr, depth, sums, total):
        """Add the exit leaves' vectors of all trees to `total`, tree by tree."""
        x, step, size = rows
        nodes, bits, vector_at = trees
        n_rows = total.shape[0]
        place = room_on_stack(4 * LANES)
        found = carray(pointer(place), (LANES,), np.int32)
        for tree in range(leaf_ptr.shape[0] - 1):
            first = 2 * leaf_ptr[tree]
            own, at = nodes + first * node_bytes, vector_at + 4 * first
            for done in range(0, n_rows, LANES):
                n = min(LANES, n_rows - done)
                walk(x + done * step, step, size, n, own, depth[tree], bits, at, place)
                leaf_vectors.add(found, done, sums, total)

    return single_exits, single_sums
