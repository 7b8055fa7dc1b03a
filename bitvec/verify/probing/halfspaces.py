"""The tests of several columns on a path as halfspaces, and the rows nearest to a row in them all.

A path of k independent halfspaces always has such rows, x + A⁺(t - A x) for targets t on the
wanted sides. A sum of softplus is convex: its left side is cut by its tangents or held by bounding
each facet, its right side by making one facet large enough. A missing value settles every test
that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import Activation
from bitvec.core.reference import outcomes
from bitvec.core.shape_annotations import Bool, Float, Float64, Int64
from bitvec.verify.probing.implied_inequalities import softplus_inverse
from bitvec.verify.probing.nearest import nearest
from bitvec.verify.probing.regions import Plan

MARGINS = (2.0**-5, 2.0**-9, 2.0**-13, 2.0**-18, 0.0)
"""Distance inside each halfspace at which a row is put, in units of |b| + sum |weight · x|."""
STEPS = 6
"""Most steps at one margin: one is enough unless a test is curved or rounding is in the way."""
GRIDS = (None, 4.0, 64.0, 4096.0)
"""Without a margin only numbers with few bits meet a tie: the steps of the grids tried."""

Halfspace = tuple[Array, Array, float, float]
"""Columns, gradient, how far gradient · x must grow, and the size of the terms."""


def tests_of_several(
    plan: Plan, node: int, side: int
) -> tuple[Int64[Array, " k"], Bool[Array, " k"]]:
    """Return the tests of several columns on the path to a node, and whether the path turns right.

    `side` 1 or 0 adds the node itself, left to the right or left; -1 does not.
    """
    test, right = ([node], [side == 1]) if side >= 0 and plan.feature[node] < 0 else ([], [])
    while plan.parent[node] >= 0:
        turn, node = bool(plan.from_right[node]), int(plan.parent[node])
        if plan.feature[node] < 0:
            test.append(node)
            right.append(turn)
    return np.array(test, np.int64), np.array(right, bool)


def search(
    plan: Plan,
    x: Float[Array, " n_features"],
    node: int,
    side: int,
    low: Float[Array, " n_features"],
    high: Float[Array, " n_features"],
    *,
    attempt: int = 0,
) -> Float[Array, " n_features"] | None:
    """Return a row near x that passes the tests of several columns on the path to a node, or None.

    The row stays within [low, high]; columns with low == high and missing ones stay as they are.
    Odd attempts hold curved tests otherwise than even ones.
    """
    test, right = tests_of_several(plan, node, side)
    free = ~(np.isnan(x) | (low == high))
    x = np.where(free & np.isinf(x), np.clip(x.dtype.type(0), low, high), x)
    every = np.zeros(test.size, np.int64)
    for margin in MARGINS:
        moved = x
        for step in range(STEPS):
            with np.errstate(all="ignore"):  # the literal tests decide about what overflows
                exact = _approach(plan, moved, test, right, free, low, high, margin, attempt)
            if exact is None:
                break
            grid = GRIDS[min(step, len(GRIDS) - 1)] if margin == 0 else None
            if grid is not None:
                exact = np.where(free, np.round(exact * grid) / grid, exact)
            with np.errstate(over="ignore", invalid="ignore"):
                moved = np.where(free, np.clip(exact.astype(x.dtype), low, high), x)
            if np.array_equal(outcomes(plan.forest, moved[None], every, test), right):
                return moved
    return None


def _approach(
    plan: Plan,
    x: Array,
    test: Array,
    right: Array,
    free: Array,
    low: Array,
    high: Array,
    margin: float,
    attempt: int,
) -> Float64[Array, " n_features"] | None:
    """Return the nearest row with a margin in halfspaces that replace the tests at x."""
    rows: list[Array] = []
    distance: list[float] = []
    for t, turn in zip(test.tolist(), right.tolist(), strict=True):
        settled = True
        for column, gradient, needed, size in _halfspaces(plan, x, t, turn, free, attempt):
            settled = False
            row = np.zeros(x.size)
            np.add.at(row, column, gradient)
            rows.append(row)
            distance.append(needed + margin * max(size, float(np.abs(row).max())))
        if settled and outcomes(plan.forest, x[None], np.zeros(1, int), np.array([t]))[0] != turn:
            return None
    exact = x.astype(np.float64)
    if not rows:
        return exact
    G, h = np.array(rows), np.array(distance)
    used = np.flatnonzero(G.any(axis=0))
    most = np.finfo(x.dtype).max
    below, above = used[low[used] > -most], used[high[used] < most]
    sides = np.zeros((below.size + above.size, x.size))
    sides[np.arange(below.size), below] = 1
    sides[below.size + np.arange(above.size), above] = -1
    G = np.vstack([G, sides])[:, used]
    h = np.concatenate([h, low[below] - exact[below], exact[above] - high[above]])
    # Columns in units of their own: a unit moves a test as much in one column as in another.
    norm = np.linalg.norm(G, axis=1)
    unit = 1 / np.sqrt(np.mean((G / np.where(norm > 0, norm, 1)[:, None]) ** 2, axis=0))
    d, _ = nearest(G * unit, h)
    if d is None:
        return None
    exact[used] += d * unit
    return None if np.isnan(exact[used]).any() else exact


def _halfspaces(
    plan: Plan, x: Array, t: int, right: bool, free: Array, attempt: int
) -> Iterator[Halfspace]:
    """Yield the halfspaces that stand for one side of a test at x; none where x settles it."""
    tests = plan.forest.tests
    part = slice(int(tests.node_ptr[t]), int(tests.node_ptr[t + 1]))
    first, last = int(tests.row_ptr[part.start]), int(tests.row_ptr[part.stop])
    column, weight = tests.column[first:last], tests.weight[first:last].astype(np.float64)
    value, moves = x[column].astype(np.float64), free[column].copy()
    if tests.substitute is not None:
        value = np.where(np.isnan(value), tests.substitute[first:last], value)
    if tests.indicator is not None:
        code = tests.indicator[first:last]
        value, moves = np.where(code >= 0, value == code, value), moves & (code < 0)
    n_rows = part.stop - part.start
    of_row = np.repeat(np.arange(n_rows), np.diff(tests.row_ptr[part.start : part.stop + 1]))
    term = weight * value
    s = np.bincount(of_row, term, minlength=n_rows) - tests.offset[part]
    if not np.all(np.isfinite(s)) or not moves.any():
        return
    column, weight, of_row = column[moves], weight[moves], of_row[moves]
    r, b = tests.r[part].astype(np.float64), float(tests.b[t])
    size = float(np.abs(term).sum()) + abs(b)
    is_soft = tests.activation[part] == Activation.SOFTPLUS
    if is_soft.all() and np.all(r > 0) and (right or attempt % 2):
        # The largest facet decides alone; other attempts take the others in turn.
        share = b / r if right else b / (r * n_rows)
        bound = softplus_inverse(share, tests.dtype)
        order = np.argsort(s - bound)[::-1]
        facets = order[[(attempt // 2) % n_rows]] if right else order
        for k in facets:
            at = of_row == k
            sign = 1.0 if right else -1.0
            yield column[at], sign * weight[at], sign * (bound[k] - s[k]), size + abs(bound[k])
        return
    slope = np.where(is_soft, 1 / (1 + np.exp(-s)), 1.0)
    z = float(np.sum(r * np.where(is_soft, np.logaddexp(0, s), s)))
    gradient = (r * slope)[of_row] * weight
    yield (column, gradient, b - z, size) if right else (column, -gradient, z - b, size)
