"""Check that trees are monotone: exact, over the boxes of values that lead to their leaves.

A tree rises along a column if and only if no leaf is above another whose rows differ from its own
in that column alone, and there by larger values. Two such leaves part ways at a test of that
column, so that pairs of subtrees are compared, from each such test down: a pair whose leaves are in
order is done with, any other is split, and what no row of both sides shares is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.key_intervals import (
    Values,
    complement,
    everything,
    intersection,
    joined,
    right_values,
)
from bitvec.core.shape_annotations import Bool, Int8
from bitvec.core.structure import children
from bitvec.core.tree_paths import parents
from bitvec.core.value_sets import missing_values
from bitvec.runtime.train.monotone.leaf_order import MOST_LEAVES, LeafOrder
from bitvec.runtime.train.monotone.monotone_leaves import (
    node_directions,
    orientation,
    overlapping,
)


class Pair(NamedTuple):
    """Two subtrees, each a node or the complement of a leaf, of which one must not be above.

    Parameters
    ----------
    below, above : int
    low, high : Values
        Of the column at hand, the values that lead to each of them.
    shared : dict
        Of other columns, the values that lead to both.
    """

    below: int
    above: int
    low: Values
    high: Values
    shared: dict[int, Values]


def trees_out_of_order(
    forest: Forest, signs: Int8[Array, " n_features"]
) -> Bool[Array, " n_trees"]:
    """Return which trees fall along a column that they must rise along, or the other way round.

    Values that count as missing at a test of the column are left out of its order. Sums of trees
    that are in order are in order, rounded or not.

    Parameters
    ----------
    signs : int8, (n_features,)
        1, 0 or -1: how the raw scores go where the column rises.

    Raises
    ------
    UnsupportedModelError
        See `node_directions`.

    Examples
    --------
    >>> stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0.0, 1.0])
    >>> [trees_out_of_order(stump, np.array([s], np.int8)).tolist() for s in (1, -1)]
    [[False], [True]]

    Notes
    -----
    Boxes are sets of float keys, so that thresholds are exact; sums of several columns bound no
    box, which may find a tree out of order that is not.
    """
    directions = node_directions(forest, signs)
    result = np.zeros(forest.n_trees, bool)
    nodes = overlapping(forest, directions)
    tree = forest.bitvectors.tree_of_node[nodes]
    if not nodes.size:
        return result
    order, boxes = LeafOrder(forest, directions), Boxes(forest)
    sign = np.broadcast_to(orientation(forest), forest.leaves.v.shape)
    for number in np.unique(tree).tolist():
        at = slice(*forest.bitvectors.leaf_ptr[number : number + 2].tolist())
        if at.stop - at.start <= MOST_LEAVES:
            v = forest.leaves.v[at] * sign[at]
            result[number] = bool(((v[:, None] > v).any(axis=2) & order.of(number)).any())
            if order.is_exact(number) or not result[number]:
                continue
        result[number] = any(
            boxes.clash(node, rises=bool(directions[node] > 0))
            for node in nodes[tree == number].tolist()
        )
    return result


class Boxes:
    """Boxes of values that lead to the leaves of a forest."""

    def __init__(self, forest: Forest) -> None:
        B, tests = forest.bitvectors, forest.tests
        self._tests, self._sentinel = tests, forest.inputs.missing_sentinel
        self._feature = tests.feature.tolist()
        self._parent, self._is_right = parents(B)
        self._children = [side.tolist() for side in children(B)]
        self._first = (B.leaf_ptr[:-1][B.tree_of_node] + B.lo).tolist()
        self._end = (B.leaf_ptr[:-1][B.tree_of_node] + B.hi).tolist()
        self._v = forest.leaves.v * orientation(forest)
        self._right: dict[int, Values] = {}
        self._entry = tests.row_ptr[tests.node_ptr]

    def clash(self, node: int, *, rises: bool) -> bool:
        """Return whether a leaf on the lower side of a node is above one on the upper side."""
        column = int(self._tests.column[self._entry[node]])
        inside = self._without_missing(column)
        shared: dict[int, Values] = {}
        child, up = node, int(self._parent[node])
        while up >= 0:
            part = self._part(up, right=bool(self._is_right[child]))
            read = self._feature[up]
            if part is not None and read == column:
                inside = intersection(inside, part)
            elif part is not None:
                shared[read] = intersection(shared.get(read, self._all), part)
            child, up = up, int(self._parent[up])
        sides = (side[node] for side in self._children)
        parts = (self._part(node, right=right) for right in (False, True))
        ends = [
            (side, inside if part is None else intersection(inside, part))
            for side, part in zip(sides, parts, strict=True)
        ]
        (below, low), (above, high) = ends if rises else ends[::-1]
        empty = not low.intervals or not high.intervals or not all(shared.values())
        pairs = [] if empty else [Pair(below, above, low, high, shared)]
        while pairs:
            pair = pairs.pop()
            if self._in_order(pair):
                continue
            if pair.below < 0 and pair.above < 0:
                return True
            pairs += self._split(pair, column)
        return False

    @property
    def _all(self) -> Values:
        return everything(self._tests.dtype)

    def _without_missing(self, column: int) -> Values:
        """Return the values of a column that count as missing at none of its tests."""
        tests = self._tests
        node = np.repeat(np.arange(tests.n_nodes), np.diff(self._entry))
        nodes = np.unique(node[tests.column == column])
        missing = missing_values(tests, nodes, tests.dtype, self._sentinel)
        numbers = joined(zip(missing.first.tolist(), missing.last.tolist(), strict=True))
        return complement(Values(numbers, True), tests.dtype)

    def _part(self, node: int, *, right: bool) -> Values | None:
        """Return the values that go to one side; None of a node that bounds no column."""
        if self._feature[node] < 0:
            return None
        if node not in self._right:
            (self._right[node],) = right_values(self._tests, np.array([node]), self._sentinel)
        values = self._right[node]
        return values if right else complement(values, self._tests.dtype)

    def _leaves(self, subtree: int) -> slice:
        if subtree < 0:
            return slice(~subtree, ~subtree + 1)
        return slice(self._first[subtree], self._end[subtree])

    def _in_order(self, pair: Pair) -> bool:
        top = self._v[self._leaves(pair.below)].max(axis=0)
        return bool(np.all(top <= self._v[self._leaves(pair.above)].min(axis=0)))

    def _split(self, pair: Pair, column: int) -> list[Pair]:
        """Return the pairs of the larger side's children, without those that no rows share."""
        below, above = self._leaves(pair.below), self._leaves(pair.above)
        is_above = above.stop - above.start > below.stop - below.start
        node, values = (pair.above, pair.high) if is_above else (pair.below, pair.low)
        found = []
        for right, side in enumerate(self._children):
            part, read = self._part(node, right=bool(right)), self._feature[node]
            here, shared = values, pair.shared
            if part is not None and read == column:
                here = intersection(here, part)
            elif part is not None:
                shared = {**shared, read: intersection(shared.get(read, self._all), part)}
            if not here.intervals or not shared.get(read, self._all):
                continue
            if is_above:
                found.append(pair._replace(above=side[node], high=here, shared=shared))
            else:
                found.append(pair._replace(below=side[node], low=here, shared=shared))
        return found
