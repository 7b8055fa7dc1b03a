"""Axis-aligned nodes: the reduced problem solved exactly, over all columns, cuts and both sides."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float64, Int64
from bitvec.learners.tao.candidates import Candidate
from bitvec.learners.tao.training_rows import Rows
from bitvec.learners.tao.tree import NodeKind, Tree
from bitvec.learners.tao.tree_kernels import best_cut
from bitvec.runtime.predict.cpu.kernel_arrays import constant

_NO_ORDER, _NO_PLACE = constant(np.zeros((0, 0), np.int64)), constant(np.zeros(0, np.int64))


def best_axis_test(
    tree: Tree,
    rows: Rows,
    node: int,
    care: Int64[Array, " n"],
    target: Bool[Array, " n"],
    weight: Float64[Array, " n"],
) -> Candidate | None:
    """Return the axis-aligned test that misroutes the least weight, if there is any.

    The threshold lies half way between the two values next to the cut, or at one of them where no
    float lies between. Ties go to the first column and the lowest cut.

    Parameters
    ----------
    care : int64, (n,)
        Rows whose two sides differ in loss.
    target : bool, (n,)
        Whether the right side is the better one.
    weight : float64, (n,)
        By how much.

    Notes
    -----
    With 0/1 losses the sums are exact. The caller compares what the test misroutes, counted anew,
    with what the present one does.
    """
    order, place = _NO_ORDER, _NO_PLACE
    if rows.order.size and rows.n_rows < care.size * (2 + np.log2(care.size + 1)):
        order, place = rows.order, np.full(rows.n_rows, -1, np.int64)
        place[care] = np.arange(care.size)
    found, cut = np.zeros(1), np.zeros(4)
    best_cut(
        rows.Z,
        order,
        constant(care),
        constant(place),
        constant(target),
        constant(weight),
        int(tree.missing_rule[node]),
        bool(tree.missing_right[node]),
        tree.dtype.type(tree.sentinel),
        found,
        cut,
    )
    if not np.isfinite(found[0]):
        return None
    feature, low, high, above = cut
    kind = tree.dtype.type
    threshold = _between(kind(low), kind(high), bool(tree.at_least[node]))
    if not np.isfinite(threshold):
        return None
    return Candidate(NodeKind.AXIS, int(feature), threshold, bool(above), None)


def _between(low: np.floating, high: np.floating, at_least: bool) -> np.floating:
    """Return a threshold with `low` below it and `high` above it; all are above if `low` is NaN."""
    kind = type(high)
    if np.isnan(low):
        return high if at_least else np.nextafter(high, kind(-np.inf))
    with np.errstate(over="ignore", invalid="ignore"):
        middle = kind(low / 2 + high / 2)  # the sum itself might overflow
    if at_least:
        return middle if low < middle <= high else high
    return middle if low <= middle < high else low
