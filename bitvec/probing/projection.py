"""Rows for nodes whose paths hold tests of several columns: found by projection, not computed.

A row that breaks such a test is moved along the test's gradient onto its wanted side, back into the
box of its other tests, and so on (the relaxation method of Agmon and Motzkin; Newton steps where a
test is a sum of softplus). A row that is not found proves nothing: the caller says so.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int64

from bitvec.arrays import Array, ranges
from bitvec.node_tests import Activation
from bitvec.probing.regions import Plan, ancestors, entries
from bitvec.reference import margins, outcomes

SWEEPS = 40
"""Most sweeps over the path of a row."""
HALVINGS = 80
"""Steps of a bisection: more than the bits of any float."""


def project(
    plan: Plan,
    X: Float[Array, "n n_features"],
    node: Int64[Array, " n"],
    side: Int64[Array, " n"],
    low: Float[Array, "n n_features"],
    high: Float[Array, "n n_features"],
    may_miss: Bool[Array, "n n_features"],
    rng: np.random.Generator,
) -> Float[Array, "n n_features"]:
    """Move rows until each passes the tests of several columns on the path to its node.

    `side` 1 or 0 asks that the node itself is left to the right or left, -1 does not. A column
    with low == high stays as it is.
    """
    X = X.copy()
    moving = np.arange(len(X))
    for sweep in range(SWEEPS):
        broken = np.zeros(len(X), bool)
        for position, test, right in _tests_of_several(plan, node[moving], side[moving]):
            row = moving[position]
            wrong = outcomes(plan.forest, X, row, test) != right
            row, test, right = row[wrong], test[wrong], right[wrong]
            broken[row] = True
            # Late sweeps also try the way of a missing value.
            if sweep > SWEEPS // 2:
                _leave_out(plan, X, row, test, right, low, high, may_miss)
            _step(plan, X, row, test, right, low, high, rng)
        moving = np.flatnonzero(broken)
        if moving.size == 0:
            break
    return X


def _tests_of_several(plan: Plan, node: Array, side: Array) -> list[tuple[Array, Array, Array]]:
    own = np.flatnonzero((side >= 0) & (plan.feature[node] < 0))
    steps = [(own, node[own], side[own] == 1)]
    for position, above, right in ancestors(plan, node):
        several = plan.feature[above] < 0
        steps.append((position[several], above[several], right[several]))
    return steps


def _step(
    plan: Plan,
    X: Array,
    row: Array,
    test: Array,
    right: Array,
    low: Array,
    high: Array,
    rng: np.random.Generator,
) -> None:
    tests = plan.forest.tests
    z, missing = margins(tests, X, row, test, plan.forest.inputs.missing_sentinel)
    gradient, size = _gradient(plan, X, row, test)
    gradient[low[row] == high[row]] = 0
    b = tests.b[test].astype(np.float64)
    # A little further than onto the boundary: by a part of the step, and beyond rounding.
    beyond = np.abs(b - z) * rng.uniform(0, 1, row.size) + 16 * np.finfo(X.dtype).eps * (
        np.abs(b) + size
    )
    with np.errstate(all="ignore"):
        length = (b - z + np.where(right, beyond, -beyond)) / np.sum(gradient**2, axis=1)
        moved = np.clip((X[row] + length[:, None] * gradient).astype(X.dtype), low[row], high[row])
    good = np.isfinite(length) & ~missing
    moved = np.where(np.isnan(X[row]) | (gradient == 0), X[row], moved)
    X[row[good]] = moved[good]


def _gradient(plan: Plan, X: Array, row: Array, test: Array) -> tuple[Array, Array]:
    """Return dz/dx (n, n_features) and the sum of |weight · x| (n,), in float64."""
    tests = plan.forest.tests
    n_rows = tests.node_ptr[test + 1] - tests.node_ptr[test]
    s_row = ranges(tests.node_ptr[test], n_rows)
    pair = np.repeat(np.arange(test.size), n_rows)
    n_entries = tests.row_ptr[s_row + 1] - tests.row_ptr[s_row]
    entry = ranges(tests.row_ptr[s_row], n_entries)
    of_row = np.repeat(np.arange(s_row.size), n_entries)
    column, weight = tests.column[entry], tests.weight[entry].astype(np.float64)
    if tests.indicator is not None:
        weight = np.where(tests.indicator[entry] < 0, weight, 0.0)
    with np.errstate(all="ignore"):
        term = np.nan_to_num(weight * X[row[pair[of_row]], column])
        value = np.bincount(of_row, term, minlength=s_row.size) - tests.offset[s_row]
        slope = np.where(
            tests.activation[s_row] == Activation.SOFTPLUS, 1 / (1 + np.exp(-value)), 1
        )
    gradient = np.zeros((row.size, X.shape[1]))
    np.add.at(gradient, (pair[of_row], column), (tests.r[s_row] * slope)[of_row] * weight)
    return gradient, np.bincount(pair[of_row], np.abs(term), minlength=row.size)


def _leave_out(
    plan: Plan,
    X: Array,
    row: Array,
    test: Array,
    right: Array,
    low: Array,
    high: Array,
    may_miss: Array,
) -> None:
    helps = np.flatnonzero(plan.forest.tests.missing_right[test] == right)
    which, column = entries(plan, test[helps], without_substitute=True)
    at = row[helps][which]
    allowed = may_miss[at, column] & (low[at, column] != high[at, column])
    which, column = which[allowed], column[allowed]
    first = np.unique(which, return_index=True)[1]
    X[row[helps][which[first]], column[first]] = np.nan


def bisect(
    plan: Plan,
    left: Float[Array, "n n_features"],
    right: Float[Array, "n n_features"],
    node: Int64[Array, " n"],
) -> tuple[Float[Array, "n n_features"], Float[Array, "n n_features"]]:
    """Return rows on the segments between rows on both sides of a node, as near as floats allow."""
    left, right = left.copy(), right.copy()
    every = np.arange(len(left))
    for _ in range(HALVINGS):
        middle = left / 2 + right / 2
        goes_right = outcomes(plan.forest, middle, every, node)
        right[goes_right] = middle[goes_right]
        left[~goes_right] = middle[~goes_right]
    return left, right
