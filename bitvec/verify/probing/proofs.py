"""Proofs that no row reaches a node below tests of several columns, or rows that do.

The path's tests of one column bound a box, and those of several columns are settled within it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind, MissingRule
from bitvec.core.shape_annotations import Bool, Float, Float64, Int64
from bitvec.verify.probing.branching import path_of, settle
from bitvec.verify.probing.halfspaces import tests_of_several
from bitvec.verify.probing.regions import Plan, entries
from bitvec.verify.probing.same_margins import contradict

MAGNITUDE = 1024.0
"""Proofs hold for values of up to so many times a column's thresholds and given rows."""
BOXES = 2048
"""Most boxes that are looked at to decide one side of a node."""
FEW_COLUMNS = 8
"""A box of more columns counts as several, by the square of its columns."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """Knowledge of the rows that reach a node: there are `none`, or one such `row`, or neither.

    `row` holds no missing value; of its columns only `columns` matter. `cost` is in boxes of few
    columns.
    """

    none: bool
    row: Float[Array, " n_columns"] | None
    columns: Int64[Array, " n_columns"]
    cost: int


def decide(
    plan: Plan,
    node: int,
    side: int,
    low: Float[Array, " n_features"],
    high: Float[Array, " n_features"],
    may_miss: Bool[Array, " n_features"],
    magnitude: Float64[Array, " n_features"],
    *,
    boxes: int = BOXES,
) -> Verdict:
    """Decide at a cost of about `boxes` whether a finite row within `magnitude` comes by.

    The row may hold values within [low, high], none where low > high, and NaN where `may_miss`;
    `side` 1 or 0 asks that it leaves the node itself to the right or left, -1 does not.
    """
    tests = plan.forest.tests
    test, right = tests_of_several(plan, node, side)
    nowhere = np.zeros(0, np.int64)
    if contradict(tests, plan.margin[test], plan.factor[test], test, right):
        return Verdict(True, None, nowhere, 0)
    if side >= 0 and plan.feature[node] < 0 and tests.missing_right[node] != side:
        may_miss = may_miss.copy()
        may_miss[entries(plan, np.array([node]), without_substitute=True)[1]] = False
    binding = np.array(
        [
            not _may_be_settled(plan, t, turn, may_miss)
            for t, turn in zip(test.tolist(), right.tolist(), strict=True)
        ],
        bool,
    )
    has_value = low <= high
    if not np.all(has_value[entries(plan, test[binding])[1]]):
        return Verdict(True, None, nowhere, 0)
    columns = np.unique(entries(plan, test)[1]).astype(np.int64)
    dtype = plan.forest.dtype
    floor = np.where(has_value, np.maximum(low, -magnitude), 0)[columns].astype(dtype)
    ceiling = np.where(has_value, np.minimum(high, magnitude), 0)[columns].astype(dtype)
    is_beyond = np.any(floor > ceiling)  # a value beyond the magnitude may be asked for
    if not binding.any() or is_beyond:
        return Verdict(False, None, nowhere, 0)
    path = path_of(tests, test, right, binding, columns)
    work = max(1.0, (columns.size / FEW_COLUMNS) ** 2)
    none, values, cost = settle(path, floor, ceiling, max(1, int(boxes / work)))
    return Verdict(none, values, columns, int(cost * work))


def _may_be_settled(plan: Plan, t: int, right: bool, may_miss: Array) -> bool:
    """Return whether a row may pass a test by a missing value, or by what stands for one."""
    tests = plan.forest.tests
    _, part = tests.part_of(t)
    column = tests.column[part]
    absent = may_miss[column] | (tests.missing_rule[t] != MissingRule.NAN)
    if tests.substitute is not None and np.any(absent & ~np.isnan(tests.substitute[part])):
        return True
    return bool(tests.missing_right[t] == right and absent.any())
