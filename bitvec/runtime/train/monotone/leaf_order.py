"""Order of the leaves of one tree: which must not be above which, and the nearest leaves in order.

A leaf must not be above another if a row of the one becomes a row of the other as a constrained
column alone moves in its direction. Boxes are those of thresholds: sets, sums of columns and
numbers that count as missing bound none, so that a few more pairs may be held to an order.
"""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import keys
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Bool, Float, Int8

MOST_LEAVES = 256
"""Leaves of a tree up to which all pairs are compared: memory and time grow by their square."""


class LeafOrder:
    """Order of the leaves of each tree of a forest.

    Parameters
    ----------
    forest : Forest
    directions : int8, (n_nodes,)
        See `node_directions`.
    """

    def __init__(self, forest: Forest, directions: Int8[Array, " n_nodes"]) -> None:
        tests = forest.tests
        self._forest, self._directions = forest, directions
        self._feature = tests.feature
        rules = tests.missing_rules(forest.inputs.missing_sentinel)
        self._bounds = (tests.kind == Kind.MARGIN) & (self._feature >= 0)
        self._bounds &= rules == MissingRule.NAN
        self._bound = keys(tests.b) - (tests.relation == Relation.GREATER_EQUAL)
        self._column = tests.column[
            tests.row_ptr[tests.node_ptr[:-1]].clip(0, tests.column.size - 1)
        ]

    def is_exact(self, tree: int) -> bool:
        """Return whether all tests of a tree bound boxes, so that no more pairs are held."""
        return bool(self._bounds[slice(*self._forest.bitvectors.node_ptr[tree : tree + 2])].all())

    def of(self, tree: int) -> Bool[Array, "n_leaves n_leaves"]:
        """Return whether each leaf of a tree (a row) must not be above each other (a column).

        Two leaves part ways at one node. They are held to an order if that has a direction and
        their boxes share values of every column but its own, of which each has a number.
        """
        B = self._forest.bitvectors
        nodes = slice(*B.node_ptr[tree : tree + 2].tolist())
        n = int(np.diff(B.leaf_ptr[tree : tree + 2])[0])
        lo, mid, hi = (end[nodes].tolist() for end in (B.lo, B.mid, B.hi))
        ends = list(zip(lo, mid, hi, strict=True))
        feature, bounds = self._feature[nodes], self._bounds[nodes]
        missing_right = self._forest.tests.missing_right[nodes]
        pairs = {
            column: _pairs(
                n, ends, self._bound[nodes], missing_right,
                np.flatnonzero(bounds & (feature == column)),
            )
            for column in np.unique(feature[bounds]).tolist()
        }  # fmt: skip
        n_apart = np.zeros((n, n), np.int32)
        for apart, _ in pairs.values():
            n_apart += apart
        result = np.zeros((n, n), bool)
        directions, read = self._directions[nodes], self._column[nodes]
        for at in np.flatnonzero(directions).tolist():
            below, above = slice(lo[at], mid[at]), slice(mid[at], hi[at])
            if directions[at] < 0:
                below, above = above, below
            shared = n_apart[below, above] == 0
            own = pairs.get(int(read[at]))
            if own is not None:
                apart, has_number = own
                shared = n_apart[below, above] == apart[below, above]
                shared &= has_number[below, None] & has_number[above]
            result[below, above] = shared
        return result


def _pairs(
    n: int, ends: list[tuple[int, int, int]], bound: Array, missing_right: Array, at: Array
) -> tuple[Bool[Array, "n_leaves n_leaves"], Bool[Array, " n_leaves"]]:
    """Return whether no value of a column leads to both of two leaves, by some of the nodes.

    And whether a number leads to each of them.
    """
    low, high = np.full(n, np.iinfo(np.int64).min), np.full(n, np.iinfo(np.int64).max)
    has_nan = np.ones(n, bool)
    for node in at.tolist():
        (lo, mid, hi), right = ends[node], bool(missing_right[node])
        np.minimum(high[lo:mid], bound[node], out=high[lo:mid])
        np.maximum(low[mid:hi], bound[node] + 1, out=low[mid:hi])
        has_nan[lo:mid] &= not right
        has_nan[mid:hi] &= right
    lowest, highest = np.maximum(low[:, None], low), np.minimum(high[:, None], high)
    return (lowest > highest) & ~(has_nan[:, None] & has_nan), low <= high


def in_order(
    v: Float[Array, "n_leaves width"], order: Bool[Array, "n_leaves n_leaves"]
) -> Float[Array, "n_leaves width"]:
    """Return leaves in order: the middle between the highest below each and the lowest above it.

    Leaves that are in order already stay as they are. Where one alone is above another, both become
    the middle of the two.

    Examples
    --------
    >>> order = np.array([[False, True, False], [False, False, True], [False, False, False]])
    >>> in_order(np.array([[0.0], [3.0], [1.0]]), order)[:, 0].tolist()
    [0.0, 2.0, 2.0]
    """
    columns = [_middle(column, order) for column in v.T]
    return np.stack(columns, axis=1)


def _middle(v: Float[Array, " n_leaves"], order: Bool[Array, "n_leaves n_leaves"]) -> Array:
    up, down = v.copy(), v.copy()
    while True:
        higher = np.maximum(up, np.where(order, up[:, None], -np.inf).max(axis=0))
        lower = np.minimum(down, np.where(order, down, np.inf).min(axis=1))
        if np.array_equal(higher, up) and np.array_equal(lower, down):
            return np.where(up == down, v, up / 2 + down / 2)
        up, down = higher, lower
