"""Nodes whose rows of S have become zeros: tests that every row of X answers alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, NodeTests


def zero_nodes(tests: NodeTests) -> Array:
    """Return the margin nodes whose weights are all 0, int64."""
    row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))
    node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    n_weights = np.bincount(node[row], tests.weight != 0, minlength=tests.n_nodes)
    return np.flatnonzero((n_weights == 0) & (tests.kind == Kind.MARGIN))


def settled(forest: Forest) -> Forest:
    """Return the forest with what is missing or infinite at such a node going where all else goes.

    Of finite values its z is a constant. 0 · NaN and 0 · infinity are undefined and go in the
    direction of missing values, which is made the same: the test is then a constant.
    """
    tests = forest.tests
    nodes = zero_nodes(tests)
    if not len(nodes):
        return forest
    n_columns = 1 + int(tests.column.max(initial=0))
    ones = np.ones((1, n_columns), tests.dtype)  # missing by no rule, where there is no sentinel
    right = reference.turns(tests, ones, np.zeros(len(nodes), np.int64), nodes)
    missing_right = tests.missing_right.copy()
    missing_right[nodes] = right
    return replace(forest, tests=replace(tests, missing_right=missing_right))
