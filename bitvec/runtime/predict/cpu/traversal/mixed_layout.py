"""Trees of any tests, packed for a traversal that evaluates each test where a row meets it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import ZERO_THRESHOLD
from bitvec.runtime.predict.cpu.kernel_arrays import constant


@dataclass(frozen=True, slots=True, eq=False)
class MixedTrees:
    """One record per node, per row of S and per entry of a row.

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
        """Arguments of the kernels."""
        return self.nodes, self.tests, self.node_ptr

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (self.nodes, *self.tests, self.node_ptr))


def pack(forest: Forest) -> MixedTrees:
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
    with np.errstate(over="ignore"):
        scalars = _records(
            1,
            [
                ("zero", dtype, 0.0),
                ("one", dtype, 1.0),
                ("zero_threshold", dtype, ZERO_THRESHOLD),
                # Nothing equals NaN: a forest without a sentinel has no other missing value.
                ("sentinel", dtype, np.nan if sentinel is None else sentinel),
            ],
        )
    words = constant(tests.set_words)
    return MixedTrees(nodes, (rows, entries, words, scalars), constant(B.node_ptr))


def _records(size: int, fields: list[tuple[str, object, object]]) -> Array:
    """Return one aligned record per position, from (name, dtype, values) of each field."""
    record = np.dtype([(name, dtype) for name, dtype, _ in fields], align=True)
    records = np.zeros(size, record)
    for name, _, values in fields:
        records[name] = values
    return constant(records)
