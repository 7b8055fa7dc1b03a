"""Sets of the values of one column: closed intervals of float keys, and whether NaN is among them.

The keys are those of `bitvec.core.float_keys`, of one dtype, so that all operations are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import key_of, keys
from bitvec.core.node_tests import NodeTests
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.core.value_sets import missing_values, told_values

Interval = tuple[int, int]


class Values(NamedTuple):
    """Keys [first, last], rising and apart, and whether NaN belongs to the set."""

    intervals: tuple[Interval, ...]
    nan: bool

    def __bool__(self) -> bool:
        return bool(self.intervals) or self.nan

    def holds(self, x: Float[Array, " batch"]) -> Bool[Array, " batch"]:
        """Return which values, of the dtype of the keys, are in the set."""
        key, is_nan = keys(x), np.isnan(x)
        inside = np.zeros(x.shape, bool)
        for first, last in self.intervals:
            inside |= (first <= key) & (key <= last)
        return np.where(is_nan, self.nan, inside)


def everything(dtype: np.dtype, *, nan: bool = True, infinite: bool = True) -> Values:
    """Return the set of all values of a dtype, NaN and infinities if they are asked for."""
    top = key_of(np.inf, dtype) - (not infinite)
    return Values(((-top, top),), nan)


def joined(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return intervals in any order as rising ones that are apart.

    >>> joined([(4, 5), (0, 1), (2, 3), (9, 9)])
    ((0, 5), (9, 9))
    """
    result: list[Interval] = []
    for first, last in sorted(intervals):
        if result and first <= result[-1][1] + 1:
            result[-1] = result[-1][0], max(last, result[-1][1])
        else:
            result.append((first, last))
    return tuple(result)


def complement(values: Values, dtype: np.dtype) -> Values:
    """Return all other values of the dtype."""
    top = key_of(np.inf, dtype)
    ends = [-top - 1, *(end for interval in values.intervals for end in interval), top + 1]
    gaps = ((ends[i] + 1, ends[i + 1] - 1) for i in range(0, len(ends), 2))
    return Values(tuple(gap for gap in gaps if gap[0] <= gap[1]), not values.nan)


def intersection(a: Values, b: Values) -> Values:
    """Return what two sets share."""
    result: list[Interval] = []
    i = j = 0
    while i < len(a.intervals) and j < len(b.intervals):
        (first, last), (other_first, other_last) = a.intervals[i], b.intervals[j]
        if max(first, other_first) <= min(last, other_last):
            result.append((max(first, other_first), min(last, other_last)))
        i, j = (i + 1, j) if last < other_last else (i, j + 1)
    return Values(tuple(result), a.nan and b.nan)


def union(a: Values, b: Values) -> Values:
    """Return what either of two sets holds."""
    return Values(joined((*a.intervals, *b.intervals)), a.nan or b.nan)


def right_values(
    tests: NodeTests, nodes: Int64[Array, " n"], sentinel: float | None
) -> Iterator[Values]:
    """Yield the values that go right at each of some axis-aligned nodes."""
    told, others_right = told_values(tests, nodes, tests.dtype)
    special = missing_values(tests, nodes, tests.dtype, sentinel)
    order = np.argsort(told.which, kind="stable")
    which = np.searchsorted(told.which[order], np.arange(nodes.size + 1)).tolist()
    pieces = list(zip(told.first[order].tolist(), told.last[order].tolist(), strict=True))
    absent = {
        at: (first, last)
        for at, first, last in zip(*(part.tolist() for part in special), strict=True)
    }
    missing_right = tests.missing_right[nodes].tolist()
    for at, swapped in enumerate(others_right.tolist()):
        values = Values(tuple(pieces[which[at] : which[at + 1]]), swapped != missing_right[at])
        if swapped:
            values = complement(values, tests.dtype)
        if at in absent:
            here = Values((absent[at],), True)
            if missing_right[at]:
                values = union(values, here)
            else:
                values = intersection(values, complement(here, tests.dtype))
        yield values


def missing_of(
    tests: NodeTests, nodes: Int64[Array, " n"], sentinel: float | None
) -> tuple[Interval, ...] | None:
    """Return the values that count as missing at all of some nodes, None if they differ in that."""
    special = missing_values(tests, nodes, tests.dtype, sentinel)
    found = {
        (first, last)
        for first, last in zip(special.first.tolist(), special.last.tolist(), strict=True)
    }
    if len(found) > 1 or (found and special.which.size != nodes.size):
        return None
    return tuple(found)
