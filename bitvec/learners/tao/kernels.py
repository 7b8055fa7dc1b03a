"""Rows on their way through a tree: which way each goes, and where its two sides would end.

Products are added from left to right, each sum rounded, as the native walk of a TAO tree and the
reference add them.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

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
