"""Nested intervals: how many lie around each one, and which is the nearest of them."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int, Int64


def around(
    group: Int[Array, " n"], lo: Int[Array, " n"], hi: Int[Array, " n"]
) -> tuple[Int64[Array, " n"], Int64[Array, " n"]]:
    """Return how many intervals of its own group lie around each interval, and the nearest.

    Any two intervals [lo, hi) of a group are distinct, and disjoint or one within the other, as the
    leaf intervals of a tree's nodes are. Sorted, so O(n log n) whatever the depth.

    Parameters
    ----------
    group : integers, (n,)
        Not negative.
    lo, hi : integers, (n,)

    Returns
    -------
    depth, nearest : int64, (n,)
        `nearest` is an index into these arrays, -1 where no interval lies around.

    Examples
    --------
    >>> depth, nearest = around(np.zeros(3, int), np.array([0, 0, 2]), np.array([4, 2, 4]))
    >>> depth.tolist(), nearest.tolist()
    ([0, 1, 1], [-1, 0, 0])
    """
    n = len(lo)
    _, group = np.unique(group, return_inverse=True)
    lo, hi = np.asarray(lo, np.int64), np.asarray(hi, np.int64)
    order = np.lexsort((-hi, lo, group))  # an interval stands behind those around it
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    span = int(hi.max(initial=0)) + 1
    ended = np.searchsorted(np.sort(group * span + hi), group * span + lo, side="right")
    depth = rank - ended  # begun before it, less ended before it; other groups cancel
    # Of the intervals one step further out, the nearest is the last that begins before this one.
    level = np.lexsort((rank, depth, group))
    is_new = np.ones(n, bool)
    is_new[1:] = (np.diff(group[level]) != 0) | (np.diff(depth[level]) != 0)
    number = np.empty(n, np.int64)
    number[level] = np.cumsum(is_new)
    place = np.searchsorted((number * n + rank)[level], (number - 1) * n + rank) - 1
    nearest = np.where(depth > 0, level[place], -1)
    return depth, nearest
