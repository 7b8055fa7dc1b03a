"""Leaf boxes: what the axis-aligned tests on a path say of each column."""

from __future__ import annotations

import math

from bitvec import structure
from bitvec.arrays import Array
from bitvec.structure import Bitvectors

Box = list[tuple[int, float, float]]
"""(column, low, high) for each column that the path tests; low < x <= high for strict tests."""


def leaf_boxes(B: Bitvectors, feature: Array, b: Array) -> list[Box]:
    """Return the box of each leaf, only the columns on its path listed.

    Parameters
    ----------
    feature : int32, (n_nodes,)
        Column of each node that counts, -1 at nodes to pass over.
    b : F, (n_nodes,)

    Notes
    -----
    Lo is the largest b of the right turns on a column, Hi the smallest of its left turns. An
    unreachable leaf has an empty box, Lo >= Hi.
    """
    ptr, node, goes_right = structure.path_table(B)
    boxes: list[Box] = []
    for leaf in range(B.n_leaves):
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
