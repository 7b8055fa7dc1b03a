"""Oblique trees, the nodes on a row's path alone: rows walk trees in step, one in each lane.

The lanes stand at different nodes, with other weights each. The products of one lane's entries do
not depend on each other: they are made side by side, then turned, so that the sums of all lanes run
entry by entry, as the reference's. A lane is a row in a tree, so that few rows fill vectors too.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"
# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, Kind, Relation
from bitvec.core.shape_annotations import Float, Int32
from bitvec.runtime.predict.cpu.compiling import Kernel, inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import (
    address_of,
    aligned,
    constant,
    load_int32,
    load_int64,
    room_on_stack,
)
from bitvec.runtime.predict.cpu.kernel_arrays import store as store_number
from bitvec.runtime.predict.cpu.leaves import leaf_vectors
from bitvec.runtime.predict.cpu.oblique.oblique_columns import oblique_columns, read_rows, with_runs
from bitvec.runtime.predict.cpu.oblique.turning import PART, VECTOR, emitted, turned
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    F32,
    F64,
    I32,
    I64,
    address,
    count,
    load,
    number,
    same,
    store,
    vector,
)

BLOCK_BYTES = 1 << 18
"""All trees are run for so many bytes of rows at a time, which stay in the second-level cache."""
MOST_ROWS = 1024
"""Rows of a block at most."""
_NODE = 8.5
_ENTRY = {"avx512": {4: 0.31, 8: 0.55}, "portable": {4: 0.9, 8: 0.7}}
"""Cycles of a node, and of an entry by the bytes of a value, on one core of a Zen 4 processor.

Fitted to forests of 1 to 100 trees of depth 4 to 10 with 10 to 200 entries a node; those of
portable vectors with code for AVX2."""
MOST_POSITIONS = 1 << 30

_GREATER_EQUAL, _MISSING_RIGHT = 1, 2


class Paths:
    """A forest packed for `paths`; see `bitvec.runtime.predict.cpu.protocol.TreeKernel`.

    X holds what S reads: of a forest with a feature map, what that gives.

    A tree of k leaves has 2k - 1 positions: its root, then the two children of each node side by
    side. A leaf is its own left child and never goes right. A position holds b, the position of its
    left child with its way in the lowest bits (1 for the relation >=, plus 2 if NaN goes right),
    and its row of S; that of a leaf is its number in the tree, a row whose sum decides nothing.
    """

    name = "paths"

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        tests, B, dtype = forest.tests, forest.bitvectors, forest.dtype
        columns = oblique_columns(tests, forest.inputs.missing_sentinel)
        width = int(np.diff(tests.row_ptr).max(initial=0))
        order = columns.read[:width]
        # The records stand in the order in which all rows of S read them.
        self.records = with_runs(columns.records[order])
        self.width = padded(width)
        weights = aligned((tests.n_rows + 1) * self.width * dtype.itemsize).view(dtype)
        weights[:] = 0
        rows = weights.reshape(tests.n_rows + 1, -1)
        rows[:-1, :width] = tests.weight.reshape(tests.n_rows, width)
        self.weights = constant(weights)
        self.nodes, self.root = _positions(forest)
        self._leaf_ptr = constant(B.leaf_ptr)
        self._sums = leaf_vectors.pack(forest)

    def __reduce__(self) -> tuple[Callable[..., Paths], tuple[Forest]]:
        return Paths, (self.forest,)

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes while its block is run."""
        return 8 * self.forest.n_features

    @property
    def packed_bytes(self) -> int:
        """Bytes of all arrays that the kernel reads, X apart."""
        arrays = self.records, self.weights, self.nodes, self.root, self._leaf_ptr
        return self._sums.n_bytes + sum(array.nbytes for array in arrays)

    def exit_leaves(
        self, X: Float[Array, "batch n_columns"], out: Int32[Array, "batch n_trees"]
    ) -> None:
        """Fill `out` with leaf numbers within each tree."""
        _exit_kernel(self.forest.dtype.itemsize)(*self._arguments(X), out)

    def add_leaves(
        self, X: Float[Array, "batch n_columns"], total: Float[Array, "batch n_outputs"]
    ) -> None:
        """Add every tree's leaf vector, weighted, to `total`, tree after tree."""
        sums = self._sums
        run = _sum_kernel(self.forest.dtype.itemsize)
        run(*self._arguments(X), self._leaf_ptr, sums.id_of, sums.arrays, total)

    def _arguments(self, X: Array) -> tuple[object, ...]:
        source = address_of(X), X.strides[0], X.strides[1]
        like = X.dtype.type(0)
        return source, like, self.records, (self.weights, self.nodes, self.root), self.width


def padded(width: int) -> int:
    """Return how many entries a row of S of so many takes."""
    return max(-(-width // PART) * PART, PART)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why the kernel cannot take a forest, in a few words, or None."""
    tests = forest.tests
    if vectors() == "none":
        return "explicit vectors are turned off"
    if tests.n_nodes == 0:
        return "it has no nodes"
    if not np.all((tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)):
        return "a node is no oblique test"
    if tests.n_rows > tests.n_nodes or np.any(tests.activation != Activation.IDENTITY):
        return "a node has several rows of S, or an activation"
    if np.any(tests.offset != 0) or np.any(tests.r != 1):
        return "a row of S has an offset or a factor"
    if 2 * forest.n_leaves > MOST_POSITIONS:
        return f"more than {MOST_POSITIONS // 2} leaves"
    width = np.diff(tests.row_ptr)
    if np.any(width != width[0]):
        return "rows of S read different columns"
    read = oblique_columns(tests, forest.inputs.missing_sentinel).read.reshape(-1, width[0])
    if np.any(read != read[0]):
        return "rows of S read different columns"
    return None


def pack(forest: Forest) -> Paths:
    """Pack a forest that is not refused."""
    return Paths(forest)


def cycles(forest: Forest) -> float:
    """Return about how many cycles a row of a forest that is not refused takes."""
    width = padded(int(np.diff(forest.tests.row_ptr).max(initial=0)))
    entry = _ENTRY[vectors()][forest.dtype.itemsize]
    return tree_paths.levels(forest.bitvectors, 0.5) * (_NODE + entry * width)


def _positions(forest: Forest) -> tuple[Array, Array]:
    """Return the positions of all trees, and those of their roots."""
    tests, B = forest.tests, forest.bitvectors
    tree, node_ptr = B.tree_of_node, B.node_ptr
    start = 2 * B.leaf_ptr[:-1] - np.arange(B.n_trees)
    left = start[tree] + 1 + 2 * (np.arange(B.n_nodes) - node_ptr[:-1][tree])
    position = np.empty(B.n_nodes, np.int64)
    leaf_position = np.empty(B.n_leaves, np.int64)
    has_nodes = np.diff(B.leaf_ptr) > 1
    position[node_ptr[:-1][has_nodes]] = start[has_nodes]
    leaf_position[B.leaf_ptr[:-1][~has_nodes]] = start[~has_nodes]
    for side, child in enumerate(structure.children(B)):
        inner_child = child >= 0
        position[child[inner_child]] = left[inner_child] + side
        leaf_position[~child[~inner_child]] = left[~inner_child] + side
    nodes = np.zeros(B.n_nodes + B.n_leaves, _record(forest.dtype))
    way = (tests.relation == Relation.GREATER_EQUAL) * _GREATER_EQUAL
    nodes["b"] = np.inf
    nodes["b"][position] = tests.b
    nodes["link"] = 4 * np.arange(nodes.size)
    nodes["link"][position] = 4 * left + way + _MISSING_RIGHT * tests.missing_right
    nodes["row"][position] = tests.node_ptr[:-1]
    leaf_start = np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    nodes["row"][leaf_position] = np.arange(B.n_leaves) - leaf_start
    return constant(nodes), constant(start)


def _record(dtype: np.dtype) -> np.dtype:
    return np.dtype([("b", dtype), ("link", np.uint32), ("row", np.uint32)])


@emitted
def _step(typing_context, at, xs, weights, width, nodes, size):
    """Move a vector of rows on by one position, and return whether any of them moved.

    `at` is the address of their positions, int32, one for each lane, and `xs` of where their values
    stand. `width` is a multiple of `PART`. `size`, the bytes of a value, is a literal.

    Cost: for each square of entries as wide as a vector, two loads and a product for each row,
    log2(lanes) shuffles and one addition for each entry.
    """
    size_type = size
    size = size.literal_value
    element = F32 if size == 4 else F64
    lanes = VECTOR // size
    record = _record(np.dtype(f"f{size}"))

    def generate(context, builder, signature, arguments):
        at, xs, weights, width, nodes = arguments[:5]
        here, links, bounds, rows = [], [], [], []
        stride = builder.mul(width, number(size))
        for k in range(lanes):
            position = load(builder, at, number(4 * k), I32)
            node = builder.add(
                nodes, builder.mul(builder.zext(position, I64), number(record.itemsize))
            )
            row = builder.zext(load(builder, node, number(size + 4), I32), I64)
            here.append(position)
            bounds.append(load(builder, node, number(0), element))
            links.append(load(builder, node, number(size), I32))
            rows.append(builder.add(weights, builder.mul(row, stride)))
        values = [load(builder, xs, number(8 * k), I64) for k in range(lanes)]

        def summed(entries):
            def body(j, totals):
                offset = builder.mul(j, number(size))
                products = []
                for k in range(lanes):
                    weight = load(builder, rows[k], offset, vector(element, entries))
                    value = load(builder, values[k], offset, vector(element, entries))
                    products.append(builder.fmul(weight, value))
                total = totals[0]
                for term in turned(builder, products, lanes):
                    total = builder.fadd(total, term)
                return [total]

            return body

        whole = builder.and_(width, number(-lanes))
        total = [same(element, lanes, -0.0)]
        total = count(builder, number(0), whole, summed(lanes), step=lanes, carried=total)
        (z,) = count(builder, whole, width, summed(PART), step=PART, carried=total)

        def gathered(values, kind):
            result = ir.Constant(vector(kind, lanes), ir.Undefined)
            for k, value in enumerate(values):
                result = builder.insert_element(result, value, ir.Constant(I32, k))
            return result

        b, link = gathered(bounds, element), gathered(links, I32)

        def has(bit):
            return builder.icmp_unsigned(
                "!=", builder.and_(link, same(I32, lanes, bit)), same(I32, lanes, 0)
            )

        right = builder.fcmp_ordered(">", z, b)
        equal = builder.and_(builder.fcmp_ordered("==", z, b), has(_GREATER_EQUAL))
        missing = builder.and_(builder.fcmp_unordered("uno", z, z), has(_MISSING_RIGHT))
        right = builder.or_(right, builder.or_(equal, missing))
        to = builder.lshr(link, same(I32, lanes, 2))
        to = builder.add(to, builder.zext(right, vector(I32, lanes)))
        moved = builder.icmp_unsigned("!=", to, gathered(here, I32))
        store(builder, to, at, number(0))
        bits = builder.bitcast(moved, ir.IntType(lanes))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(lanes), 0))

    return types.boolean(*[address] * 5, size_type), generate


@inner
def _address(array):
    return np.int64(array.ctypes.data)  # unsigned, it would make sums of addresses floats


@inner
def _first(first_leaf, tree):
    return np.int32(load_int64(first_leaf + 8 * tree)) if first_leaf else np.int32(0)


@cache
def walker(size: int) -> Any:
    """Return the walk of rows whose values take so many bytes, for a kernel."""
    lanes, record = VECTOR // size, _record(np.dtype(f"f{size}")).itemsize

    @inner
    def walk(rows, n_rows, trees, n_trees, found, row_step, tree_step):
        """Fill in the leaf numbers of rows, int32, so many bytes apart for rows and trees.

        `rows` are the address of the first and the bytes from one to the next; `trees` those of the
        weights, the entries of a row of them, the positions, that of the first root, and, or 0,
        of the first leaf of each tree, which is added to numbers.
        """
        x, x_step = rows
        weights, width, nodes, root, first_leaf = trees
        at, xs = room_on_stack(4 * lanes), room_on_stack(8 * lanes)
        row = tree = 0
        n = n_rows * n_trees
        for first in range(0, n, lanes):
            first_row, first_tree = row, tree
            start, value = np.int32(load_int64(root + 8 * tree)), x + row * x_step
            for k in range(lanes):
                store_number(at + 4 * k, start)
                store_number(xs + 8 * k, value)
                row, value = row + 1, value + x_step
                if row == n_rows:  # beyond the last tree, once more through it
                    row, value, tree = 0, x, min(tree + 1, n_trees - 1)
                    start = np.int32(load_int64(root + 8 * tree))
            while _step(at, xs, weights, width, nodes, size):
                pass
            row, tree = first_row, first_tree
            to = found + row * row_step + tree * tree_step
            more = _first(first_leaf, tree)
            for k in range(min(lanes, n - first)):
                node = nodes + record * np.int64(load_int32(at + 4 * k))
                store_number(to, np.int32(load_int32(node + size + 4) + more))
                row, to = row + 1, to + row_step
                if row == n_rows and tree + 1 < n_trees:
                    row, tree = 0, tree + 1
                    to = found + tree * tree_step
                    more = _first(first_leaf, tree)

    return walk


@cache
def _exit_kernel(size: int) -> Kernel:
    lanes, walk = VECTOR // size, walker(size)

    @kernel
    def path_exits(source, like, records, trees, width, exits):
        address, row_stride, column_stride = source
        weights, nodes, root = trees
        n_rows, n_trees = exits.shape
        block = block_rows(n_rows, width, size, lanes)
        x = np.zeros((block, width), weights.dtype)
        w, p, r = _address(weights), _address(nodes), _address(root)
        forest, rows = (w, width, p, r, 0), (_address(x), width * size)
        for first in range(0, n_rows, block):
            here = min(block, n_rows - first)
            part = (address + first * row_stride, row_stride, column_stride)
            read_rows(part, records, here, x, like)
            to = _address(exits) + 4 * first * n_trees
            walk(rows, here, forest, n_trees, to, 4 * n_trees, 4)

    return path_exits


@cache
def _sum_kernel(size: int) -> Kernel:
    lanes, walk = VECTOR // size, walker(size)

    @kernel
    def path_sums(source, like, records, trees, width, leaf_ptr, id_of, sums, total):
        address, row_stride, column_stride = source
        weights, nodes, root = trees
        n_rows, n_trees = total.shape[0], root.shape[0]
        block = block_rows(n_rows, width, size, lanes)
        x = np.zeros((block, width), weights.dtype)
        at_once = 1 if block > lanes else n_trees
        leaf = np.empty((at_once, block), np.int32)
        w, p, r = _address(weights), _address(nodes), _address(root)
        rows = (_address(x), width * size)
        for first in range(0, n_rows, block):
            here = min(block, n_rows - first)
            part = (address + first * row_stride, row_stride, column_stride)
            read_rows(part, records, here, x, like)
            for tree in range(0, n_trees, at_once):
                some = (w, width, p, r + 8 * tree, _address(leaf_ptr) + 8 * tree)
                walk(rows, here, some, at_once, _address(leaf), 4, 4 * block)
                for k in range(at_once):
                    _add(leaf[k, :here], id_of, first, sums, total)

    return path_sums


@inner
def _add(leaf, id_of, first_row, sums, total):
    if id_of.shape[0]:
        for k in range(leaf.shape[0]):
            leaf[k] = id_of[np.uint64(leaf[k])]
    leaf_vectors.add(leaf, first_row, sums, total)


@inner
def block_rows(n_rows, width, size, lanes):
    """Return how many rows are read at a time: whole vectors of rows."""
    most = min(max(BLOCK_BYTES // (width * size), lanes), MOST_ROWS)
    return (min(most, n_rows) + lanes - 1) // lanes * lanes
