"""The oblivious kernel: trees in which all nodes of a level share one test, as in CatBoost.

A tree of depth d is d tests, whose answers are the bits of a place among 2 ** d: the first test's
is the highest, so that places rise from the leftmost leaf to the rightmost. A leaf above the full
depth stands for all the places below it, whatever the further tests answer.

Trees run in groups of 8 that add to the same output: the places of a block's rows in each tree go
to scratch, and `grouped_values` adds what stands there. Memory: d records (binned column, least
byte) for each tree, those of a group side by side, and the tables of each group.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-arg, unreachable"

from __future__ import annotations

from functools import cache

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.runtime.predict.cpu.bins.binners import BinnedColumns
from bitvec.runtime.predict.cpu.bins.set_kernels import look_up
from bitvec.runtime.predict.cpu.bitvector import grouped_values
from bitvec.runtime.predict.cpu.bitvector.binned_trees import (
    FIELDS,
    LEAF_AT,
    LOOKUPS,
    N_BINNED,
    N_NODES,
    N_TREES,
    NODES,
    OUTPUT,
    RECORD,
    SET_PTR,
    SLOT,
    START,
    TABLES,
    TREE,
    VALUES,
    WIDTH,
    BinnedTrees,
    padding_reason,
)
from bitvec.runtime.predict.cpu.bitvector.grouped_values import GROUP, LANES
from bitvec.runtime.predict.cpu.compiling import Kernel, int64s, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import pointer, room_on_stack
from bitvec.runtime.predict.cpu.leaves import leaf_tables
from bitvec.runtime.predict.cpu.target import vectors
from bitvec.runtime.predict.cpu.vectors import (
    I8,
    I16,
    I64,
    address,
    count,
    load,
    number,
    same,
    splat,
    store,
    vector,
)

MOST_DEPTH = 16
"""Levels whose answers fit a place of two bytes."""


@intrinsic(prefer_literal=True)
def _places(typing_context, binned, room, n, nodes, place, depth):
    """Fill the places at which n rows of a block leave a tree, bytes up to depth 8, a literal."""
    levels = depth.literal_value

    def generate(context, builder, signature, arguments):
        binned, room, n, nodes, place = arguments[:5]
        tests = []
        for level in range(levels):
            node = builder.add(nodes, number(level * RECORD.itemsize))
            bin_column = builder.zext(load(builder, node, number(0), I16), I64)
            least = splat(builder, load(builder, node, number(2), I8), LANES)
            tests.append((builder.add(binned, builder.mul(bin_column, room)), least))

        def answers(row, some):
            found = same(I8, LANES, 0)
            for column, least in some:
                byte = load(builder, column, row, vector(I8, LANES))
                right = builder.icmp_unsigned(">=", byte, least)
                found = builder.add(found, found)
                found = builder.sub(found, builder.sext(right, vector(I8, LANES)))
            return found

        def body(row, _):
            low = answers(row, tests[-8:])
            if levels <= 8:
                store(builder, low, place, row)
                return
            wide = vector(I16, LANES)
            high = builder.zext(answers(row, tests[:-8]), wide)
            high = builder.shl(high, same(I16, LANES, 8))
            both = builder.or_(high, builder.zext(low, wide))
            store(builder, both, place, builder.mul(row, number(2)))

        count(builder, number(0), n, body, step=LANES)
        return context.get_dummy_value()

    literal = types.IntegerLiteral(levels)
    return types.void(*[address] * 5, literal), generate


@cache
def _sum_kernel(depth: int, size: int, sets: bool, sums_of_row: int) -> Kernel:
    tree_bytes, stride_bytes = depth * RECORD.itemsize, grouped_values.stride(depth)
    table_size = GROUP * grouped_values.table_places(depth)

    @kernel
    def oblivious_sums(fields, binned, room, n_rows, totals, stride):
        at = int64s(fields, len(FIELDS))
        n_groups, n_binned, width = at[N_NODES] // (GROUP * depth), at[N_BINNED], at[WIDTH]
        tree, set_ptr = int64s(at[TREE], n_groups * GROUP), int64s(at[SET_PTR], at[N_TREES] + 1)
        start, output = int64s(at[START], n_groups), int64s(at[OUTPUT], n_groups)
        place: int = room_on_stack(np.int64(GROUP * stride_bytes))
        for group in range(n_groups):
            n_trees = np.int64(GROUP)
            if sums_of_row:  # whose last group has the trees that are left
                n_trees = min(n_trees, at[N_TREES] - group * GROUP)
            for block in range(stride // room):
                q = binned + block * n_binned * room
                n = min(room, n_rows - block * room)
                for k in range(n_trees):
                    slot = group * GROUP + k
                    if sets:
                        first, last = set_ptr[tree[slot]], set_ptr[tree[slot] + 1]
                        look_up(q, room, at[LOOKUPS], first, last, at[TABLES])
                    node = at[NODES] + slot * tree_bytes
                    _places(q, room, n, node, place + k * stride_bytes, depth)
                if sums_of_row:
                    table = at[VALUES] + start[group] * size
                    total = totals + block * room * sums_of_row * size
                    grouped_values.add_vectors(
                        table, place, total, n, n_trees, sums_of_row, size, depth
                    )
                    continue
                for k in range(width):
                    table = at[VALUES] + (start[group] + k * table_size) * size
                    total = totals + ((output[group] + k) * stride + block * room) * size
                    grouped_values.add(table, place, total, n, size, depth)

    return oblivious_sums


@cache
def _exit_kernel(depth: int, sets: bool) -> Kernel:
    tree_bytes, stride_bytes = depth * RECORD.itemsize, grouped_values.stride(depth)
    place_type = np.uint8 if grouped_values.place_bytes(depth) == 1 else np.uint16

    @kernel
    def oblivious_exits(fields, binned, room, n_rows, exits):
        at = int64s(fields, len(FIELDS))
        n_trees, n_binned = at[N_TREES], at[N_BINNED]
        slot, set_ptr = int64s(at[SLOT], n_trees), int64s(at[SET_PTR], n_trees + 1)
        leaf_at = numba.carray(pointer(at[LEAF_AT]), (n_trees << depth,), np.uint16)
        places = room_on_stack(np.int64(stride_bytes))
        place = numba.carray(pointer(places), (room,), place_type)
        for block in range((n_rows + room - 1) // room):
            q = binned + block * n_binned * room
            first_row = block * room
            for tree in range(n_trees):
                if sets:
                    look_up(q, room, at[LOOKUPS], set_ptr[tree], set_ptr[tree + 1], at[TABLES])
                node = at[NODES] + slot[tree] * tree_bytes
                _places(q, room, room, node, places, depth)
                for row in range(min(room, n_rows - first_row)):
                    exits[first_row + row, tree] = leaf_at[(tree << depth) + np.int64(place[row])]

    return oblivious_exits


class Oblivious(BinnedTrees):
    """A forest packed for the oblivious kernel; see `protocol.TreeKernel`."""

    name = "oblivious"

    def __init__(self, forest: Forest, binned: BinnedColumns) -> None:
        depth = _depth(forest)
        node, leaf = _levels(forest, depth)
        tables, slot = None, np.arange(forest.n_trees)
        tree = np.zeros(-(-forest.n_trees // GROUP) * GROUP, np.int64)
        if leaf_tables.adds(forest):
            own = leaf_tables.leaf_tables(forest, leaf.ravel(), np.full(forest.n_trees, 1 << depth))
            slot, n_slots = grouped_values.slots_of(own.output)
            tree = np.zeros(n_slots, np.int64)
            if own.width >= grouped_values.LEAST_VECTOR:
                tables = grouped_values.side_by_side(own, slot, n_slots, depth)
                self.sums_of_row = tables.width
            else:
                tables = grouped_values.grouped(own, slot, n_slots, depth)
        tree[slot] = np.arange(forest.n_trees)
        super().__init__(forest, binned, tables)
        sets = self.tree_sets.lookups.size > 0
        nodes = np.zeros((tree.size, depth), RECORD)
        real = node >= 0
        for name, values in (("bin_column", binned.bin_column), ("least", binned.least)):
            of_tree = np.zeros(node.shape, values.dtype)
            of_tree[real] = values[node[real]]
            nodes[name][slot] = of_tree
        first = forest.bitvectors.leaf_ptr[:-1]
        leaf_at = (leaf - first[:, None]).astype(np.uint16)
        self.bind(nodes, leaf_at=leaf_at, tree=tree, slot=slot.astype(np.int64))
        self._exits = _exit_kernel(depth, sets)
        size = forest.output.dtype.itemsize
        self.sums = _sum_kernel(depth, size, sets, self.sums_of_row)

    def run_exits(self, binned: int, room: int, n_rows: int, out: Array) -> None:
        """Fill `out` from binned columns: see `BinnedTrees`."""
        self._exits(self.address, binned, room, n_rows, out)


def unsupported_reason(forest: Forest) -> str | None:
    """Return why a forest cannot be packed, or None; its binned columns may refuse it too."""
    if vectors() == "none":
        return "explicit vectors are turned off"
    if not forest.tests.is_one_hot.all():
        return "a node reads several columns"
    depth = _depth(forest)
    if depth > MOST_DEPTH:
        return f"a tree is {depth} deep, more than {MOST_DEPTH}"
    reason = padding_reason(forest, depth)
    if reason is None and not _levels_share_tests(forest):
        reason = "nodes of one level test differently"
    return reason


def _depth(forest: Forest) -> int:
    """Return the depth of the deepest tree, at least 1."""
    return max(1, int(tree_paths.leaf_depth(forest.bitvectors).max(initial=1)))


def _levels_share_tests(forest: Forest) -> bool:
    tests, B = forest.tests, forest.bitvectors
    depth, tree = tree_paths.node_depth(B), B.tree_of_node
    # A level's nodes stand side by side, so that each is compared with the one before it.
    inside = (np.diff(depth) == 0) & (np.diff(tree) == 0)
    is_set = tests.kind == Kind.SET
    size = np.diff(tests.set_ptr)
    parts = [tests.feature, tests.kind, tests.missing_rule, tests.missing_right]
    of_sets = [tests.code_rule, tests.other_right, size]
    others = [tests.b, tests.relation]
    for part, counts in ((parts, None), (of_sets, is_set), (others, ~is_set)):
        for values in part:
            differs = values[1:] != values[:-1]
            if np.any(differs & inside & (True if counts is None else counts[1:])):
                return False
    owner = np.repeat(np.arange(size.size), size)
    held = np.append(False, inside)[owner] & is_set[owner]
    word = np.flatnonzero(held)
    return bool(np.all(tests.set_words[word] == tests.set_words[word - size[owner[word]]]))


def _levels(forest: Forest, depth: int) -> tuple[Array, Array]:
    """Return a node of each level, (n_trees, depth), -1 below all, and the leaf at each place."""
    B = forest.bitvectors
    node = np.full((B.n_trees, depth), -1, np.int64)
    of_node = tree_paths.node_depth(B)
    node[B.tree_of_node, of_node] = np.arange(B.n_nodes)
    leaf_depth = tree_paths.leaf_depth(B)
    # Leaves rise from left to right, so each fills as many places as a subtree in its stead has.
    leaf = np.repeat(np.arange(B.n_leaves), 1 << (depth - leaf_depth.astype(np.int64)))
    return node, leaf.reshape(B.n_trees, 1 << depth)
