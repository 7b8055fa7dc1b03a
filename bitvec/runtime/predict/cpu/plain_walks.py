"""Exits found on a forest's own arrays: nothing is packed, and one call is short.

Small trees are answered by their columns of B, larger ones by walks from root to leaf.
"""

# mypy: disable-error-code="no-untyped-def, call-arg"

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from bitvec.core import reference, structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.remembered import remembered
from bitvec.core.shape_annotations import Bool, Float, Float64, Int32
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant

ONE, ALL = np.uint64(1), ~np.uint64(0)


def column_nodes(forest: Forest) -> Bool[Array, " n_nodes"]:
    """Return which nodes compare one column, where nothing but NaN is missing."""
    tests = forest.tests
    rules = tests.missing_rules(forest.inputs.missing_sentinel)
    found: Array = tests.is_one_hot & (tests.kind == Kind.MARGIN) & (rules == MissingRule.NAN)
    return found


def compares_columns(forest: Forest) -> bool:
    """Return whether every node compares one column of X, and nothing but NaN is missing."""
    return forest.feature_map is None and bool(column_nodes(forest).all())


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class PlainWalks:
    """A forest of which `compares_columns` is true; sums are the reference's."""

    forest: Forest

    @property
    def name(self) -> str:
        """The name of this engine."""
        return "numba"

    def exit_leaves(
        self,
        X: Float[Array, "batch n_features"],
        out: Int32[Array, "batch n_trees"] | None = None,
    ) -> Int32[Array, "batch n_trees"]:
        """Return leaf numbers within each tree."""
        forest = self.forest
        if out is None:
            out = np.empty((len(X), forest.n_trees), np.int32)
        B, columns = forest.bitvectors, constant(X.T.astype(forest.dtype))
        ends = constant(np.stack([B.lo, B.mid, B.hi]).astype(np.int64))
        _fill_exits(columns, constant(B.node_ptr), constant(B.leaf_ptr), ends, *self._tables(), out)
        return out

    def raw(
        self,
        X: Float[Array, "batch n_features"],
        out: Float[Array, "batch n_outputs"] | None = None,
    ) -> Float[Array, "batch n_outputs"]:
        """Return the raw scores."""
        X = self._rows(X)
        found = reference.accumulate(self.forest, X, self.exit_leaves(X).astype(np.int64))
        if out is None:
            return found
        out[:] = found
        return out

    def moments(
        self, X: Float[Array, "batch n_features"], largest: float
    ) -> Float64[Array, "3 n_nodes"]:
        """Return number, sum and sum of squares of x − b at each node, of the rows that reach it.

        What is not finite does not count; what is larger than `largest` counts as that.
        """
        found = np.zeros((3, self.forest.n_nodes))
        _add_moments(self._rows(X), *self._tables(), largest, found)
        return found

    def info(self) -> dict[str, Any]:
        """Return what it does, for `Predictor.info`."""
        return {"kernel": "plain walks"}

    def _rows(self, X: Array) -> Array:
        return constant(X.astype(self.forest.dtype, copy=False))

    @remembered
    def _tables(self) -> tuple[Array, ...]:
        tests, B = self.forest.tests, self.forest.bitvectors
        left, right = structure.children(B)
        root = np.where(np.diff(B.node_ptr) > 0, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
        return (
            *(constant(part.astype(np.int64)) for part in (root, left, right, tests.feature)),
            constant(tests.b),
            constant(tests.relation == Relation.GREATER_EQUAL),
            constant(tests.missing_right),
        )


@inner
def _goes_right(x, b, ties, missing_right):
    if np.isnan(x):
        return missing_right
    return x >= b if ties else x > b


@kernel
def _fill_exits(
    columns, node_ptr, leaf_ptr, ends, root, left, right, feature, b, ties, missing_right, out
):
    """Fill the exit leaves, (batch, n_trees), of rows by column, (n_features, batch).

    Of a tree of up to 64 leaves by its columns of B: a node clears the bits of the leaves on the
    side that a row does not go to, for all rows at once, and the first that is left is its exit.
    """
    n_rows = columns.shape[1]
    left_over = np.empty(n_rows, np.uint64)
    for tree in range(root.size):
        first, last = node_ptr[tree], node_ptr[tree + 1]
        if leaf_ptr[tree + 1] - leaf_ptr[tree] > 64:
            for row in range(n_rows):
                node = root[tree]
                while node >= 0:
                    x = columns[feature[node], row]
                    turn = _goes_right(x, b[node], ties[node], missing_right[node])
                    node = right[node] if turn else left[node]
                out[row, tree] = ~node - leaf_ptr[tree]
            continue
        left_over[:] = ALL
        for node in range(first, last):
            below, above = (
                _between(ends[0, node], ends[1, node]),
                _between(ends[1, node], ends[2, node]),
            )
            missing = below if missing_right[node] else above
            _clear(columns, feature[node], b[node], ties[node], below, above, missing, left_over)
        for row in range(n_rows):
            out[row, tree] = trailing_zeros(left_over[row])


@inner
def _between(first, last):
    """Return all bits but those from the first up to the last."""
    return ~(((ONE << np.uint64(last - first)) - ONE) << np.uint64(first))


@inner
def _clear(columns, feature, b, ties, below, above, missing, left_over):
    """Clear the leaves below where a row goes right, else those above."""
    if ties:
        for row in range(left_over.size):
            x = columns[feature, row]
            kept = below if x >= b else above
            left_over[row] &= kept if x == x else missing
        return
    for row in range(left_over.size):
        x = columns[feature, row]
        kept = below if x > b else above
        left_over[row] &= kept if x == x else missing


@kernel
def _add_moments(X, root, left, right, feature, b, ties, missing_right, largest, found):
    for row in range(X.shape[0]):
        for tree in range(root.size):
            node = root[tree]
            while node >= 0:
                x = X[row, feature[node]]
                margin = np.float64(x) - np.float64(b[node])
                if np.isfinite(margin):
                    m = min(max(margin, -largest), largest)
                    found[0, node] += 1
                    found[1, node] += m
                    found[2, node] += m * m
                turn = _goes_right(x, b[node], ties[node], missing_right[node])
                node = right[node] if turn else left[node]
