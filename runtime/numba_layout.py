"""The arrays that the compiled kernels read, packed from a forest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec import structure
from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.node_tests import ZERO_THRESHOLD, Kind, MissingRule, Relation
from bitvec.output import Output

SPARSE = 2
"""Leaf vectors are stored without zeros if fewer than one value in this many is another."""


@dataclass(frozen=True, slots=True, eq=False)
class AxisLayout:
    """Trees of one-hot margin tests with NaN as the only missing value.

    A tree of k leaves has 2k - 1 positions: its root, then the two children of each node side by
    side, nodes in breadth-first order. A leaf is its own left child and never goes right.

    Values are compared as unsigned integers, their keys. A node goes right if the key of its
    plane is above its own: key(b) for the relation `>`, one less for `>=`. A plane is a column of X
    together with the side to which NaN goes, low or high.

    Parameters
    ----------
    nodes : records (key: U, left: uint32, plane: uint32), (n_positions,)
        `left` counts from the tree's first position. U is as wide as the forest's dtype.
    leaf_at : int32, (n_positions,)
        Leaf number within the tree of a position that is a leaf.
    position_ptr : int64, (n_trees + 1,)
    plane_feature : int64, (n_planes,)
    plane_high : bool, (n_planes,)
    bounds : U, (2,)
        The bits of -0.0 and of +inf.
    """

    nodes: Array
    leaf_at: Array
    position_ptr: Array
    plane_feature: Array
    plane_high: Array
    bounds: Array

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What the kernels take."""
        return (
            self.nodes,
            self.leaf_at,
            self.position_ptr,
            self.plane_feature,
            self.plane_high,
            self.bounds,
        )


@dataclass(frozen=True, slots=True, eq=False)
class MixedLayout:
    """Trees of any tests: one record per node, per row of S and per entry of a row.

    Parameters
    ----------
    nodes : records, (n_nodes,)
        Children count from the tree's first node; a child that is a leaf is `~leaf` of its tree.
        `feature` is the one column that the node reads, -1 where its rows of S say more.
    tests : tuple
        Records of rows, records of entries, the words of sets, and one record of scalars.
    node_ptr : int64, (n_trees + 1,)
    """

    nodes: Array
    tests: tuple[Array, Array, Array, Array]
    node_ptr: Array

    @property
    def arrays(self) -> tuple[Array, tuple[Array, ...], Array]:
        """What the kernels take."""
        return self.nodes, self.tests, self.node_ptr


def bits_of(X: Array) -> Array:
    """Return the bits of contiguous values as unsigned integers, without a copy."""
    return X.view(f"u{X.itemsize}")


def keys_of(values: Array) -> Array:
    """Return unsigned integers in the order of the values; both zeros have one, NaN is not read.

    >>> keys_of(np.array([-np.inf, -0.0, 0.0, 5e-324])).tolist()[1:]
    [9223372036854775808, 9223372036854775808, 9223372036854775809]
    """
    bits = bits_of(values)
    sign = bits_of(np.array(-0.0, values.dtype))
    positive = np.where(bits == sign, 0, bits).astype(bits.dtype)
    return np.where(positive & sign, ~positive, positive | sign)


def constant(array: Array) -> Array:
    """Return a contiguous read-only view: one array type, and so one compiled kernel, for all."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def is_axis_aligned(forest: Forest) -> bool:
    """Whether there are nodes, each compares one column with b, and only NaN is missing."""
    tests = forest.tests
    return bool(
        tests.n_nodes  # the kernels read at least one column
        and np.all((tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL))
        and np.all(tests.missing_rule == MissingRule.NAN)
        and np.all(tests.is_one_hot)
    )


def axis_layout(forest: Forest) -> AxisLayout:
    """Pack a forest for which `is_axis_aligned` holds."""
    tests, B = forest.tests, forest.bitvectors
    position_ptr = 2 * B.leaf_ptr - np.arange(B.n_trees + 1)
    tree, node_ptr = B.tree_of_node, B.node_ptr
    left = 1 + 2 * (np.arange(B.n_nodes) - node_ptr[:-1][tree])
    position = np.empty(B.n_nodes, np.int64)
    has_nodes = np.diff(B.leaf_ptr) > 1
    position[node_ptr[:-1][has_nodes]] = position_ptr[:-1][has_nodes]
    leaf_position = np.empty(B.n_leaves, np.int64)
    leaf_position[B.leaf_ptr[:-1][~has_nodes]] = position_ptr[:-1][~has_nodes]
    for side, child in enumerate(structure.children(B)):
        at = position_ptr[:-1][tree] + left + side
        inner = child >= 0
        position[child[inner]] = at[inner]
        leaf_position[~child[~inner]] = at[~inner]

    pairs = 2 * tests.column.astype(np.int64) + tests.missing_right
    planes, plane = np.unique(pairs, return_inverse=True)
    bounds = bits_of(np.array([-0.0, np.inf], forest.dtype))
    record = np.dtype([("key", bounds.dtype), ("left", np.uint32), ("plane", np.uint32)])
    nodes = np.zeros(int(position_ptr[-1]), record)
    nodes["key"] = np.iinfo(bounds.dtype).max
    nodes["left"] = np.arange(nodes.size) - np.repeat(position_ptr[:-1], np.diff(position_ptr))
    nodes["key"][position] = keys_of(tests.b) - (tests.relation == Relation.GREATER_EQUAL)
    nodes["left"][position] = left
    nodes["plane"][position] = plane
    leaf_at = np.zeros(nodes.size, np.int32)
    n_leaves = np.diff(B.leaf_ptr)
    leaf_at[leaf_position] = np.arange(B.n_leaves) - np.repeat(B.leaf_ptr[:-1], n_leaves)
    return AxisLayout(
        constant(nodes),
        constant(leaf_at),
        constant(position_ptr),
        constant(planes // 2),
        constant(planes % 2 == 1),
        constant(bounds),
    )


def mixed_layout(forest: Forest) -> MixedLayout:
    """Pack any forest."""
    tests, B, dtype = forest.tests, forest.bitvectors, forest.dtype
    tree = B.tree_of_node
    node_start, leaf_start = B.node_ptr[:-1][tree], B.leaf_ptr[:-1][tree]
    left, right = (
        np.where(child >= 0, child - node_start, ~(~child - leaf_start))
        for child in structure.children(B)
    )
    nodes = _records(
        tests.n_nodes,
        [
            ("first_row", np.int64, tests.node_ptr[:-1]),
            ("last_row", np.int64, tests.node_ptr[1:]),
            ("first_word", np.int64, tests.set_ptr[:-1]),
            ("last_word", np.int64, tests.set_ptr[1:]),
            ("left", np.int64, left),
            ("right", np.int64, right),
            ("b", dtype, tests.b),
            ("feature", np.int32, tests.feature),
            ("kind", np.uint8, tests.kind),
            ("relation", np.uint8, tests.relation),
            ("missing_rule", np.uint8, tests.missing_rule),
            ("code_rule", np.uint8, tests.code_rule),
            ("missing_right", np.uint8, tests.missing_right),
            ("other_right", np.uint8, tests.other_right),
        ],
    )
    rows = _records(
        tests.n_rows,
        [
            ("first_entry", np.int64, tests.row_ptr[:-1]),
            ("last_entry", np.int64, tests.row_ptr[1:]),
            ("offset", dtype, tests.offset),
            ("r", dtype, tests.r),
            ("activation", np.uint8, tests.activation),
        ],
    )
    entries = _records(
        tests.column.size,
        [
            ("column", np.int64, tests.column),
            ("indicator", np.int64, -1 if tests.indicator is None else tests.indicator),
            ("weight", dtype, tests.weight),
            ("substitute", dtype, np.nan if tests.substitute is None else tests.substitute),
        ],
    )
    sentinel = forest.inputs.missing_sentinel
    scalars = _records(
        1,
        [
            ("zero", dtype, 0.0),
            ("one", dtype, 1.0),
            ("log_two", dtype, np.log(2.0)),
            ("zero_threshold", dtype, ZERO_THRESHOLD),
            # Nothing equals NaN: a forest without a sentinel has no other missing value.
            ("sentinel", dtype, np.nan if sentinel is None else sentinel),
        ],
    )
    return MixedLayout(
        nodes, (rows, entries, constant(tests.set_words), scalars), constant(B.node_ptr)
    )


def leaf_values(forest: Forest) -> tuple[Array, Array, Array]:
    """Return (value_ptr, output, v), what each leaf adds, cast and weighted as it is added.

    Empty arrays stand for what is not there: see `numba_kernels.sum_axis`. Wide vectors that are
    mostly zeros, as of a deep classification forest, are stored without them.
    """
    output, leaves = forest.output, forest.leaves
    v = leaves.v.astype(output.dtype)
    if output.tree_weight is not None:
        n_leaves = np.diff(forest.bitvectors.leaf_ptr)
        v = np.repeat(output.tree_weight, n_leaves)[:, None] * v
    value_ptr: Array = np.zeros(0, np.int64)
    column: Array = np.zeros(0, np.int32)
    if leaves.output is not None:
        column = leaves.output
    elif (
        v.shape[1] > 1 and np.count_nonzero(v) * SPARSE < v.size and not _starts_below_zero(output)
    ):
        leaf, column = np.nonzero(v)
        value_ptr = np.searchsorted(leaf, np.arange(len(v) + 1))
        v = v[leaf, column][:, None]
    return constant(value_ptr.astype(np.int64)), constant(column.astype(np.int32)), constant(v)


def _starts_below_zero(output: Output) -> bool:
    """Whether a sum starts at -0.0, which adding a zero would change."""
    base = output.base_score
    return output.base_first and base is not None and bool(np.any((base == 0) & np.signbit(base)))


def _records(size: int, fields: list[tuple[str, object, object]]) -> Array:
    """Return one aligned record per position, from (name, dtype, values) of each field."""
    record = np.dtype([(name, dtype) for name, dtype, _ in fields], align=True)
    records = np.zeros(size, record)
    for name, _, values in fields:
        records[name] = values
    return constant(records)
