"""Compiled loops of TAO: rows on their way through a tree, and the search for an axis-aligned test.

Products are added from left to right, each sum rounded, as the native walk of a TAO tree and the
reference add them.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel

AXIS, OBLIQUE = 0, 1
NAN_OR_ZERO, NAN_OR_SENTINEL = 1, 2
ZERO_THRESHOLD = 1.0000000180025095e-35
"""`bitvec.core.node_tests.ZERO_THRESHOLD`; a kernel takes constants of its own file."""


@inner
def is_missing(x, rule, sentinel):
    """Return whether a value is missing by a rule."""
    if x != x:
        return True
    if rule == NAN_OR_ZERO:
        return abs(x) <= ZERO_THRESHOLD
    return rule == NAN_OR_SENTINEL and x == sentinel


@inner
def goes_right(tests, Z, row, node):
    """Return which way a row goes at a node."""
    kind = tests.kind[node]
    rule = tests.missing_rule[node]
    if kind == AXIS:
        x = Z[row, tests.feature[node]]
        if is_missing(x, rule, tests.sentinel):
            return tests.missing_right[node]
        if tests.at_least[node]:
            return (x >= tests.threshold[node]) == tests.above[node]
        return (x > tests.threshold[node]) == tests.above[node]
    if kind == OBLIQUE:
        z = Z.dtype.type(0)
        for j in range(tests.W.shape[1]):
            w = tests.W[node, j]
            if w != 0:
                x = Z[row, j]
                if is_missing(x, rule, tests.sentinel):
                    return tests.missing_right[node]
                z += w * x
        if z != z:
            return tests.missing_right[node]
        return z >= tests.threshold[node] if tests.at_least[node] else z > tests.threshold[node]
    return tests.outcomes[tests.outcome_row[node], row]


@inner
def exit_leaf(tests, Z, row, at):
    """Return the leaf below a node, or below a leaf as `~leaf`, that a row comes to."""
    while at >= 0:
        at = tests.right[at] if goes_right(tests, Z, row, at) else tests.left[at]
    return ~at


@kernel
def fill_paths(tests, Z, first, last, changed, known, paths):
    """Fill `paths[d, n]` with what row n is at after d steps: a node, or ~leaf from its leaf on.

    With `known`, `paths` holds the paths of a tree that differs in the nodes `changed` alone: tests
    of other nodes are not looked at again until a row leaves its old path. Cost: one test for each
    row and level.
    """
    n_levels = paths.shape[0]
    for row in range(first, last):
        at = paths[0, row]
        same = known
        for level in range(1, n_levels):
            old = paths[level, row]
            if at >= 0:
                if same and not changed[at]:
                    at = old
                elif goes_right(tests, Z, row, at):
                    at = tests.right[at]
                else:
                    at = tests.left[at]
            same = same and at == old
            paths[level, row] = at


@kernel
def fill_sides(tests, Z, rows, nodes, first, last, left_leaf, right_leaf):
    """Fill in the leaves that rows come to from the left and the right child of a node each."""
    for k in range(first, last):
        row, node = rows[k], nodes[k]
        left_leaf[k] = exit_leaf(tests, Z, row, tests.left[node])
        right_leaf[k] = exit_leaf(tests, Z, row, tests.right[node])


@kernel
def fill_turns(tests, Z, rows, node, turns):
    """Fill in which of some rows go right at a node."""
    for k in range(rows.size):
        turns[k] = goes_right(tests, Z, rows[k], node)


@inner
def sorted_places(Z, order, rows, place, feature, sorted_at):
    """Fill in the places among `rows` by rising value of a column."""
    n = rows.size
    if order.shape[0]:
        k = 0
        for row in order[feature]:
            if place[row] >= 0:
                sorted_at[k] = place[row]
                k += 1
    else:
        x = np.empty(n, Z.dtype)
        for k in range(n):
            x[k] = Z[rows[k], feature]
        sorted_at[:] = np.argsort(x, kind="mergesort")


@inner
def totals(Z, rows, target, weight, rule, missing_right, sentinel, feature):
    """Return the weights of missing values lost, of targets left and right, and the least x."""
    lost, to_left, to_right, least = 0.0, 0.0, 0.0, np.nan
    for k in range(rows.size):
        x = Z[rows[k], feature]
        if is_missing(x, rule, sentinel):
            if target[k] != missing_right:
                lost += weight[k]
            continue
        if target[k]:
            to_right += weight[k]
        else:
            to_left += weight[k]
        if not x >= least:
            least = x
    return lost, to_left, to_right, least


@inner
def keep(found, cut, error, feature, low, high, above):
    """Keep a cut if it misroutes less weight than the one that is kept."""
    if error < found[0]:
        found[0] = error
        cut[0], cut[1], cut[2], cut[3] = feature, low, high, above


@kernel
def best_cut(Z, order, rows, place, target, weight, rule, missing_right, sentinel, found, cut):
    """Find the cut between two values of a column that misroutes the least weight.

    For each column its rows are visited by rising value: with what is above going right, the error
    is the weight of right targets below the cut and of left targets above it; else the reverse.
    Missing values go to their own side at any cut. Cuts beyond all values come last, so that a
    test that splits is preferred to one that does not. Cost: O(p n log n), or one pass over the
    global order for each column.

    Parameters
    ----------
    order, place : (n_features, n_rows) and (n_rows,), or empty
        The global order of each column, and the place of each training row among `rows`, or -1;
        empty where sorting anew is cheaper than filtering.
    found : float64, (1,)
        Filled with the least weight.
    cut : float64, (4,)
        Filled with the column, the two values that the cut lies between (the lower one NaN where
        it is below all), and whether what is above goes right.
    """
    sorted_at = np.empty(rows.size, np.int64)
    found[0] = np.inf
    for feature in range(Z.shape[1]):
        lost, to_left, to_right, low = totals(
            Z, rows, target, weight, rule, missing_right, sentinel, feature
        )
        sorted_places(Z, order, rows, place, feature, sorted_at)
        left_below, right_below = 0.0, 0.0
        for k in sorted_at:
            x = Z[rows[k], feature]
            if is_missing(x, rule, sentinel):
                continue
            if x > low:
                above = lost + right_below + (to_left - left_below)
                below = lost + left_below + (to_right - right_below)
                keep(found, cut, above, feature, low, x, 1.0)
                keep(found, cut, below, feature, low, x, 0.0)
                low = x
            if target[k]:
                right_below += weight[k]
            else:
                left_below += weight[k]
    for feature in range(Z.shape[1]):
        lost, to_left, to_right, low = totals(
            Z, rows, target, weight, rule, missing_right, sentinel, feature
        )
        if low == low:
            keep(found, cut, lost + to_left, feature, np.nan, low, 1.0)
            keep(found, cut, lost + to_right, feature, np.nan, low, 0.0)
