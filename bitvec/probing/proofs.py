"""Proofs that no row comes by a node below tests of several columns.

The tests on the path, as linear inequalities that every row there satisfies, are summed with
multipliers >= 0. Where the sum cannot hold anywhere in the box of the path's one-column tests, not
even with all rounding of the literal sums on its side, no row of the box comes by. The multipliers
are found by `nearest`; the sum is verified here, so that a poor multiplier proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Float64

from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.node_tests import Activation, Kind, MissingRule
from bitvec.probing.halfspaces import softplus_inverse, tests_of_several
from bitvec.probing.nearest import nearest
from bitvec.probing.regions import Plan, entries

MAGNITUDE = 1024.0
"""Proofs hold for values of up to so many times a column's thresholds and given rows."""


def magnitudes(forest: Forest, X: Array | None) -> Float64[Array, " n_features"]:
    """Return how large the values of each column may be for which proofs hold.

    Far beyond a forest's thresholds the rounding of a sum decides its test, and nothing could be
    proven.
    """
    tests = forest.tests
    largest = np.ones(forest.n_features)
    if X is not None:
        largest = np.maximum(largest, np.abs(X, where=np.isfinite(X), out=np.ones(X.shape)).max(0))
    row_node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    entry_row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))
    steepest = np.zeros(tests.n_rows)
    np.maximum.at(steepest, entry_row, np.abs(tests.weight.astype(np.float64)))
    far = np.abs(tests.offset.astype(np.float64)) + np.abs(tests.b.astype(np.float64))[row_node]
    far[(tests.kind == Kind.SET)[row_node] | ~np.isfinite(far)] = 0
    far = np.divide(far, steepest, out=np.zeros(far.shape), where=steepest > 0)
    np.maximum.at(largest, tests.column, far[entry_row])
    # Sums and products of values beyond this part of the range may overflow.
    most = np.sqrt(float(np.finfo(tests.dtype).max)) / 2**20
    magnitude: Array = MAGNITUDE * np.minimum(largest, most / MAGNITUDE)
    return magnitude


def is_empty(
    plan: Plan,
    node: int,
    side: int,
    low: Float[Array, " n_features"],
    high: Float[Array, " n_features"],
    may_miss: Bool[Array, " n_features"],
    magnitude: Float64[Array, " n_features"],
) -> bool:
    """Return whether it is proven that no finite row within `magnitude` comes by.

    The row may hold values within [low, high], and NaN where `may_miss`; `side` 1 or 0 asks that it
    leaves the node itself to the right or left, -1 does not.
    """
    rows: list[Array] = []
    needed: list[float] = []
    slack: list[float] = []
    test, right = tests_of_several(plan, node, side)
    if side >= 0 and plan.feature[node] < 0 and plan.forest.tests.missing_right[node] != side:
        may_miss = may_miss.copy()
        may_miss[entries(plan, np.array([node]), without_substitute=True)[1]] = False
    for t, turn in zip(test.tolist(), right.tolist(), strict=True):
        if _may_be_settled(plan, t, turn, may_miss):
            continue
        for row, least in _inequalities(plan, t, turn):
            size = float(np.abs(row) @ magnitude) + abs(least)
            steps = (
                np.count_nonzero(row)
                + plan.forest.tests.node_ptr[t + 1]
                - plan.forest.tests.node_ptr[t]
                + 4
            )
            rows.append(row)
            needed.append(least)
            slack.append(steps * 0.5 * float(np.finfo(plan.forest.dtype).eps) * size)
    if not rows:
        return False
    if np.any(np.isposinf(needed)):
        return True
    G, h = np.array(rows), np.array(needed) - np.array(slack)
    floor, ceiling = np.maximum(low, -magnitude), np.minimum(high, magnitude)
    used = np.flatnonzero(G.any(axis=0))
    G, floor, ceiling = G[:, used], floor[used], ceiling[used]
    if np.any(floor > ceiling):
        return False  # a value beyond the magnitude is asked for
    box = np.eye(used.size)
    # In units in which the box is about 1 wide and centred, so that all of it may take part.
    centre, half = (floor + ceiling) / 2, np.maximum(ceiling - floor, 1e-300) / 2
    bounds = -np.ones(2 * used.size)
    point, u = nearest(np.vstack([G * half, box, -box]), np.append(h - G @ centre, bounds))
    if point is not None:
        return False
    u = u[: len(h)]
    combined = u @ G
    most = float(np.sum(np.maximum(combined * floor, combined * ceiling)))
    rounding = 1e-12 * (float(np.abs(u) @ (np.abs(G) @ (np.abs(centre) + half) + np.abs(h))))
    return most + rounding < float(u @ h)


def _entries(plan: Plan, t: int) -> slice:
    tests = plan.forest.tests
    return slice(int(tests.row_ptr[tests.node_ptr[t]]), int(tests.row_ptr[tests.node_ptr[t + 1]]))


def _may_be_settled(plan: Plan, t: int, right: bool, may_miss: Array) -> bool:
    """Return whether a row may pass a test by a missing value, or by what stands for one."""
    tests, part = plan.forest.tests, _entries(plan, t)
    column = tests.column[part]
    absent = may_miss[column] | (tests.missing_rule[t] != MissingRule.NAN)
    if tests.substitute is not None and np.any(absent & ~np.isnan(tests.substitute[part])):
        return True
    return bool(tests.missing_right[t] == right and absent.any())


def _inequalities(plan: Plan, t: int, right: bool) -> Iterator[tuple[Array, float]]:
    """Yield row and least value of row · x that one side of a test implies for values."""
    tests = plan.forest.tests
    part = slice(int(tests.node_ptr[t]), int(tests.node_ptr[t + 1]))
    n_rows = part.stop - part.start
    entry = _entries(plan, t)
    column, weight = tests.column[entry], tests.weight[entry].astype(np.float64)
    of_row = np.repeat(np.arange(n_rows), np.diff(tests.row_ptr[part.start : part.stop + 1]))
    r, offset = tests.r[part].astype(np.float64), tests.offset[part].astype(np.float64)
    b, sign = float(tests.b[t]), 1.0 if right else -1.0
    is_soft = tests.activation[part] == Activation.SOFTPLUS
    if not is_soft.any():
        yield _one(plan, entry, column, sign * r[of_row] * weight, sign * (b + float(r @ offset)))
    elif is_soft.all() and np.all(r > 0) and not right:
        # No term exceeds the sum; the rounding of softplus is far below this part.
        bound = softplus_inverse(b / r * (1 + 1e-4), tests.dtype)
        for k in range(n_rows):
            row = np.where(of_row == k, -weight, 0.0)
            least = np.inf if b < 0 else -(float(bound[k]) + 3 + float(offset[k]))
            least = least if b <= 0 else -(float(bound[k]) + float(offset[k]))
            yield _one(plan, entry, column, row, least)


def _one(
    plan: Plan, entry: slice, column: Array, weight: Array, least: float
) -> tuple[Array, float]:
    """Add up a row by columns; an indicator's term takes whichever value helps."""
    indicator = plan.forest.tests.indicator
    if indicator is not None:
        reads_code = indicator[entry] >= 0
        least -= float(np.maximum(weight[reads_code], 0).sum())
        weight = np.where(reads_code, 0.0, weight)
    row = np.zeros(plan.forest.n_features)
    np.add.at(row, column, weight)
    return row, least
