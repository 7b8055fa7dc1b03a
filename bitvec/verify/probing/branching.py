"""Rows that pass tests of several columns in a box, or a proof that there are none.

A box is settled by the first of these that can: literal sums at the corners where a margin is
largest and least, which no row's exceeds; every row of a box of few floats, literally; a sum of
linear inequalities that the tests imply (`relaxations`) which no row of the box meets, not even
with all rounding of the literal sums on its side. Its multipliers are found by `nearest` and
verified here, so that a poor multiplier proves nothing. Otherwise the inequalities leave a point.
If the literal tests let it pass, a row is found; if not, the box is cut there: the range of a facet
that lies far from its chord in a side that the point fails, or a column about the point, so that
less can be rounded off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.float_keys import floats, keys
from bitvec.core.node_tests import Activation, MissingRule, NodeTests
from bitvec.core.reference import turns
from bitvec.core.shape_annotations import Bool, Float, Float64, Int64
from bitvec.verify.probing.implied_inequalities import Side, side_of
from bitvec.verify.probing.nearest import nearest

FEW_ROWS = 4096
"""A box of so many rows is looked through."""
ROUNDS = 6
"""Most times that tangents are laid in one box."""
TANGENTS = 12
"""Most tangents of a test that are kept."""
CORE = 1 / 16
"""The part of a column's interval, to either side of a point, that is set apart."""
PRECISION = 1e-12
"""Tolerance of the ranges of facets, in units of one plus their size."""


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The tests of several columns on a path, over the columns that they read.

    A row that comes by passes the tests in `binding` by its values; `sides` are theirs. The others
    it may pass by a missing value instead. `linear` are the binding tests without softplus, each
    entry of which reads a column of its own here, and `slope` is its sign in the margin.
    """

    tests: NodeTests
    right: Bool[Array, " n_tests"]
    binding: Bool[Array, " n_tests"]
    sides: tuple[Side, ...]
    linear: NodeTests
    linear_right: Bool[Array, " n_linear"]
    linear_column: Int64[Array, " n_entries"]
    slope: Float64[Array, " n_entries"]


def path_of(
    tests: NodeTests,
    test: Int64[Array, " n_tests"],
    right: Bool[Array, " n_tests"],
    binding: Bool[Array, " n_tests"],
    columns: Int64[Array, " n_columns"],
) -> Path:
    """Return the tests of a path over some ascending columns, all those that they read."""
    part = tests.take(test)
    column = np.searchsorted(columns, part.column)
    # What a rule besides NaN calls missing fails a binding test: to take it for a value is safe.
    rule = np.full(test.size, MissingRule.NAN, np.uint8)
    part = replace(part, column=column.astype(np.int32), missing_rule=rule)
    is_linear = binding.copy()
    row_test = np.repeat(np.arange(test.size), np.diff(part.node_ptr))
    entry_test = np.repeat(row_test, np.diff(part.row_ptr))
    is_linear[row_test[part.activation != Activation.IDENTITY]] = False
    if part.indicator is not None:
        is_linear[entry_test[part.indicator >= 0]] = False
    linear = part.take(np.flatnonzero(is_linear))
    slope = np.sign(np.repeat(linear.r, np.diff(linear.row_ptr))) * np.sign(linear.weight)
    own = np.arange(linear.column.size, dtype=np.int32)
    sides = (
        side_of(part, t, columns.size, right=bool(right[t]))
        for t in np.flatnonzero(binding).tolist()
    )
    return Path(
        part,
        right,
        binding,
        tuple(side for side in sides if side.least > -np.inf),
        replace(linear, column=own),
        right[is_linear],
        linear.column.astype(np.int64),
        slope.astype(np.float64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Rows within [low, high] whose facets lie within `bottom` and `top`, one array per side."""

    low: Float[Array, " n_columns"]
    high: Float[Array, " n_columns"]
    bottom: tuple[Float64[Array, " _"], ...]
    top: tuple[Float64[Array, " _"], ...]


def settle(
    path: Path, low: Float[Array, " n_columns"], high: Float[Array, " n_columns"], boxes: int
) -> tuple[bool, Float[Array, " n_columns"] | None, int]:
    """Return whether no row of [low, high] passes, else a row that does, and the boxes it took.

    Where neither is known after so many boxes, the answer is False and None. low and high are
    finite and in the dtype of the tests.
    """
    if any(side.least == np.inf for side in path.sides):
        return True, None, 0
    unbounded = tuple(np.full(side.c.size, np.inf) for side in path.sides)
    stack = [Box(low, high, tuple(-top for top in unbounded), unbounded)]
    middle = low.astype(np.float64) / 2 + high.astype(np.float64) / 2
    laid = [side.values(middle)[None] for side in path.sides]
    for count in range(boxes):
        if not stack:
            return True, None, count
        box = stack.pop()
        if _is_outside(path, box):
            continue
        rows = _few_rows(box)
        if rows is not None:
            binds, passed = _passes(path, rows)
            if passed.any():
                return False, rows[passed.argmax()], count + 1
            if binds.any():
                return False, None, count + 1
            continue
        point = _point(path, box, laid)
        if point is None:
            continue
        row = np.clip(point.astype(low.dtype), box.low, box.high)
        if _passes(path, row[None])[1][0]:
            return False, row, count + 1
        parts = _cut(path, box, point)
        if not parts:
            return False, None, count + 1
        stack.extend(parts)
    return not stack, None, boxes


def _passes(path: Path, X: Array) -> tuple[Array, Array]:
    """Return which rows without missing values pass the binding tests, and which pass all."""
    n_tests = path.right.size
    row, test = np.divmod(np.arange(len(X) * n_tests), n_tests)
    passed = turns(path.tests, X, row, test).reshape(len(X), n_tests) == path.right
    return passed[:, path.binding].all(axis=1), passed.all(axis=1)


def _is_outside(path: Path, box: Box) -> bool:
    """Return whether some linear test fails even at the corner that favours it most.

    Products and sums keep their order when they are rounded, so no row does better.
    """
    every = np.arange(path.linear_right.size)
    low, high = box.low[path.linear_column], box.high[path.linear_column]
    up = path.slope > 0
    corners = np.stack([np.where(up, low, high), np.where(up, high, low)])
    best = turns(path.linear, corners, path.linear_right.astype(np.int64), every)
    return bool(np.any(best != path.linear_right))


def _few_rows(box: Box) -> Float[Array, "n n_columns"] | None:
    """Return all rows of a box, None if they are many."""
    first, last = keys(box.low), keys(box.high)
    steps = last.astype(np.uint64) - first.astype(np.uint64)  # exact, where int64 may overflow
    if np.log(1 + steps.astype(np.float64)).sum() > np.log(FEW_ROWS):
        return None
    axes = [floats(np.arange(a, b + 1), box.low.dtype) for a, b in zip(first, last, strict=True)]
    if not axes:
        return np.zeros((1, 0), box.low.dtype)
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)


def _point(path: Path, box: Box, laid: list[Array]) -> Float64[Array, " n_columns"] | None:
    """Return a point that the inequalities leave in a box, None if it is proven that none is left.

    Tangents are laid where they cut the point off; the latest are kept for the next box.
    """
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    point = low / 2 + high / 2
    for _ in range(ROUNDS):
        lines = _lines(path, box, laid)
        if lines is None:
            return None
        G, h, slack = lines
        if h.size == 0:
            return point
        d, u = _nearest_to_middle(G, h - slack, low, high)
        if d is None and _is_proof(G, h - slack, u, low, high):
            return None
        if d is None:
            return point
        point = d
        is_cut = False
        for i, side in enumerate(path.sides):
            s = side.values(point)
            if side.bends and side.excess(s) < 0:
                laid[i] = np.vstack([laid[i][-TANGENTS:], s])
                is_cut = True
        if not is_cut:
            break
    # With the rounding on the other side the literal tests are met as well.
    inner, _ = _nearest_to_middle(G, h + slack, low, high)
    return point if inner is None else inner


def _lines(
    path: Path, box: Box, laid: list[Array]
) -> tuple[Float64[Array, "n n_columns"], Float64[Array, " n"], Float64[Array, " n"]] | None:
    """Return rows, least values and what rounding takes; None if a facet has no value left."""
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    parts = [(np.zeros((0, low.size)), np.zeros(0), np.zeros(0))]
    for side, bottom, top, at in zip(path.sides, box.bottom, box.top, laid, strict=True):
        ranges = _facet_ranges(side, low, high, bottom, top)
        if ranges is None:
            return None
        tops, doubt = side.tops(low, high)
        over, under, below = (np.flatnonzero(np.isfinite(limits)) for limits in (bottom, top, tops))
        lines = side.linear(*ranges, at[: 0 if side.asks_for_zero else None])
        rounding = np.full(lines[1].size, side.rounding(low, high, ranges[1]))
        parts += [
            (*lines, rounding),
            (*side.at_least(over, bottom[over]), np.zeros(over.size)),
            (*side.at_most(under, top[under]), np.zeros(under.size)),
            (*side.at_most(below, tops[below]), doubt[below]),
        ]
    rows, least, slack = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(least), np.concatenate(slack)


def _facet_ranges(
    side: Side, low: Array, high: Array, bottom: Array, top: Array
) -> tuple[Array, Array] | None:
    least, most = side.ranges(low, high)
    tops, doubt = side.tops(low, high)
    least, most = np.maximum(least, bottom), np.minimum(np.minimum(most, top), tops + doubt)
    if np.any(np.isneginf(most)) or np.any(least - most > PRECISION * (1 + np.abs(most))):
        return None
    return least, np.maximum(least, most)


def _nearest_to_middle(
    G: Array, h: Array, low: Array, high: Array
) -> tuple[Float64[Array, " n_columns"] | None, Float64[Array, " n"]]:
    """Return a point of the box with G x >= h, and multipliers of these rows."""
    # In units in which the box is about 1 wide and centred, so that all of it may take part.
    centre, half = low / 2 + high / 2, np.maximum(high / 2 - low / 2, 1e-300)
    sides = np.eye(low.size)
    bounds = -np.ones(2 * low.size)
    d, u = nearest(np.vstack([G * half, sides, -sides]), np.append(h - G @ centre, bounds))
    return None if d is None else np.clip(centre + half * d, low, high), u[: h.size]


def _is_proof(G: Array, h: Array, u: Array, low: Array, high: Array) -> bool:
    """Return whether the rows' sum with multipliers u >= 0 is met nowhere in the box."""
    combined = u @ G
    most = float(np.sum(np.maximum(combined * low, combined * high)))
    size = float(u @ (np.abs(G) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(h)))
    # Twice what so many roundings can amount to.
    doubt = (sum(G.shape) + 4) * float(np.finfo(np.float64).eps) * size
    return most + doubt < float(u @ h)


def _cut(path: Path, box: Box, point: Float64[Array, " n_columns"]) -> list[Box]:
    """Return parts of a box, the most promising last; none if there is nothing to cut."""
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    blur = np.zeros(low.size)
    best, chosen = 0.0, (-1, -1, 0.0)
    for i, (side, bottom, top) in enumerate(zip(path.sides, box.bottom, box.top, strict=True)):
        ranges = _facet_ranges(side, low, high, bottom, top)
        if ranges is None:
            continue
        blur += np.abs(side.c) @ np.abs(side.A) * (high - low)
        s = np.clip(side.values(point), *ranges)
        if side.excess(s) >= 0:
            continue  # the point meets this side: a closer chord would not cut the point off
        gap = side.chord_gaps(*ranges, s)
        k = int(gap.argmax())
        relative = float(gap[k]) / side.rounding(low, high, ranges[1])
        if relative > max(best, 1.0):
            best, chosen = relative, (i, k, _knot(float(s[k]), ranges[0][k], ranges[1][k]))
    i, k, value = chosen
    if i >= 0:
        bottom, top = box.bottom[i].copy(), box.top[i].copy()
        bottom[k] = top[k] = value
        over, under = list(box.bottom), list(box.top)
        over[i], under[i] = bottom, top
        return [replace(box, bottom=tuple(over)), replace(box, top=tuple(under))]
    return _about(box, int(blur.argmax()), point) if blur.any() else []


def _knot(s: float, bottom: float, top: float) -> float:
    """Return where to part a facet's range so that both chords come near softplus."""
    if bottom < -1 and top > 1:
        return 0.0  # where softplus bends
    margin = (top - bottom) / 8
    return min(max(s, bottom + margin), top - margin)


def _about(box: Box, j: int, point: Array) -> list[Box]:
    """Cut the interval of a column below, about and above a point."""
    low, high, dtype = box.low, box.high, box.low.dtype
    reach = CORE * (float(high[j]) - float(low[j]))
    ends = np.array([point[j] - reach, point[j] + reach]).astype(dtype)
    a, b = keys(np.clip(ends, low[j], high[j])).tolist()
    first, last = int(keys(low)[j]), int(keys(high)[j])
    if (a, b) == (first, last):
        a = b = first + (last - first) // 2
    parts = []
    for start, stop in ((first, a - 1), (b + 1, last), (a, b)):
        if start <= stop:
            start_stop = floats(np.array([start, stop]), dtype)
            low_j, high_j = low.copy(), high.copy()
            low_j[j], high_j[j] = start_stop
            parts.append(replace(box, low=low_j, high=high_j))
    return parts
