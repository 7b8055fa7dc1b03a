"""Leaves that no row can reach, whatever it holds: what the tests on one column prove."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import keys
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule, Relation
from bitvec.core.shape_annotations import Bool
from bitvec.runtime.train.pruning.nesting import around


def unreachable_leaves(forest: Forest) -> Bool[Array, " n_leaves"]:
    """Return which leaves lie on the side of a node that the nodes above it leave no value for.

    Nodes that compare the same single column are looked at together: of each it is known which
    numbers, and whether NaN, the others let through. Sets, equalities, sums of columns and nodes
    to which more than NaN is missing take no part, so a leaf may be out of reach and not be found.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> B = [[0, 0], [0, 1], [1, 1]]
    >>> unreachable_leaves(Forest.from_matrices([[1], [1]], [0, 5], B, [1, 2, 3])).tolist()
    [False, True, False]

    Notes
    -----
    Intervals of float keys, low < key(x) <= high, hold for infinities and signed zeros as well.
    """
    tests, B = forest.tests, forest.bitvectors
    node = np.flatnonzero(_compares_one_column(forest))
    column = tests.feature[node].astype(np.int64)
    group = B.tree_of_node[node] * (int(column.max(initial=0)) + 1) + column
    _, above = around(group, B.lo[node], B.hi[node])
    # Right where the key is above it, left where it is not.
    bound = keys(tests.b[node]) - (tests.relation[node] == Relation.GREATER_EQUAL)
    missing_right = tests.missing_right[node]
    ends = keys(np.array([-np.inf, np.inf], forest.dtype))
    # What the nearest node above lets through, then the two nearest, the four nearest ...
    right = B.lo[node] >= B.mid[node[above]]
    low = np.where((above >= 0) & right, bound[above], ends[0] - 1)
    high = np.where((above >= 0) & ~right, bound[above], ends[1])
    has_nan = (above < 0) | (missing_right[above] == right)
    while (at := np.flatnonzero(above >= 0)).size:
        further = above[at]
        low[at] = np.maximum(low[at], low[further])
        high[at] = np.minimum(high[at], high[further])
        has_nan[at] &= has_nan[further]
        above[at] = above[further]
    goes_right = (np.maximum(low, bound) < high) | (has_nan & missing_right)
    goes_left = (low < np.minimum(high, bound)) | (has_nan & ~missing_right)
    # Each side that is left out adds 1 to its leaves, by its two ends.
    steps = np.zeros(B.n_leaves + 1, np.int64)
    first_leaf = B.leaf_ptr[:-1][B.tree_of_node]
    for reached, start, stop in ((goes_left, B.lo, B.mid), (goes_right, B.mid, B.hi)):
        out = node[~reached]
        np.add.at(steps, first_leaf[out] + start[out], 1)
        np.add.at(steps, first_leaf[out] + stop[out], -1)
    return np.cumsum(steps)[:-1] > 0


def _compares_one_column(forest: Forest) -> Bool[Array, " n_nodes"]:
    tests = forest.tests
    compares = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    only_nan = tests.missing_rules(forest.inputs.missing_sentinel) == MissingRule.NAN
    return compares & only_nan & tests.is_one_hot
