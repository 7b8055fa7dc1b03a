"""Leaf boxes: what the axis-aligned tests on a path say of each column."""

from __future__ import annotations

import math

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, Relation

Box = list[tuple[int, float, float]]
"""(column, low, high) for each column that the path compares: low < x <= high, for finite x."""


def leaf_boxes(forest: Forest) -> list[Box]:
    """Return the box of each leaf, only the columns that its path compares listed.

    Only margin and kernel nodes of one column count; other tests bound no interval. A test x >= b
    counts as x > the float before b in the forest's dtype, so that every box is open below and
    closed above. An unreachable leaf has an empty box, low >= high.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> leaf_boxes(Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20]))
    [[(0, -inf, 0.5)], [(0, 0.5, inf)]]
    """
    tests = forest.tests
    interval = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    feature = np.where(interval, tests.feature, -1)
    with np.errstate(over="ignore"):
        before = np.nextafter(tests.b, tests.dtype.type(-np.inf))
    b = np.where(tests.relation == Relation.GREATER, tests.b, before)
    ptr, node, goes_right = tree_paths.path_table(forest.bitvectors)
    boxes: list[Box] = []
    for leaf in range(forest.n_leaves):
        bounds: dict[int, tuple[float, float]] = {}
        for at in range(ptr[leaf], ptr[leaf + 1]):
            column, threshold = int(feature[node[at]]), float(b[node[at]])
            if column < 0:
                continue
            low, high = bounds.get(column, (-math.inf, math.inf))
            if goes_right[at]:
                low = max(low, threshold)
            else:
                high = min(high, threshold)
            bounds[column] = (low, high)
        boxes.append([(column, *bound) for column, bound in sorted(bounds.items())])
    return boxes
