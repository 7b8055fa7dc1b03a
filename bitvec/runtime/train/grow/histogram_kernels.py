"""Kernels that grow one tree on binned columns, the leaf of the largest gain first."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel

MOST_BINS = 64
"""Bins of a column, about: missing values have one more, and values of many rows may add some."""
SMOOTH = 10.0
"""Added to the second derivatives of a category where categories are put in order."""
LEAST_HESSIAN = 1e-3
"""Sum of second derivatives on each side of a split, as LightGBM has it."""


class Columns(NamedTuple):
    """Binned rows; the last bin of a column is that of missing values and of other categories.

    Parameters
    ----------
    code : uint8, (n_rows, n_columns)
    start : int64, (n_columns + 1,)
        Where the bins of each column begin in a histogram.
    is_set : bool, (n_columns,)
        Whether bins are categories.
    sign : int8, (n_columns,)
        1, 0 or -1: how leaf values go where the column rises.
    """

    code: Any
    start: Any
    is_set: Any
    sign: Any


class Limits(NamedTuple):
    """Limits of a tree: leaves, rows of a leaf, and what is added to second derivatives."""

    leaves: int
    rows: float
    ridge: float


class Tree(NamedTuple):
    """A tree to be filled, of up to `leaves` leaves; children are nodes, or leaves as `~leaf`.

    Parameters
    ----------
    feature, cut : int32, (leaves - 1,)
        A bin above `cut` goes right.
    left, right : int32, (leaves - 1,)
    missing_right : bool, (leaves - 1,)
    goes_right : bool, (leaves - 1, MOST_BINS)
        At a node of categories, the bins that go right.
    value : float64, (leaves, width)
    exit : int32, (n_rows,)
        The leaf of each row.
    """

    feature: Any
    cut: Any
    left: Any
    right: Any
    missing_right: Any
    goes_right: Any
    value: Any
    exit: Any


@inner
def _gather(columns, reads, gradient, order, first, last, out):
    """Fill a histogram, (n_bins, 2 width + 1), with derivatives and rows of those that count."""
    width = gradient.shape[1] // 2
    for column in reads:
        out[columns.start[column] : columns.start[column + 1]] = 0.0
    for at in range(first, last):
        row = order[at]
        if gradient[row, width] == 0.0:
            continue
        if width == 1:
            G, H = gradient[row, 0], gradient[row, 1]
            for column in reads:
                bin_ = columns.start[column] + columns.code[row, column]
                out[bin_, 0] += G
                out[bin_, 1] += H
                out[bin_, 2] += 1.0
            continue
        for column in reads:
            bin_ = columns.start[column] + columns.code[row, column]
            for k in range(2 * width):
                out[bin_, k] += gradient[row, k]
            out[bin_, 2 * width] += 1.0


@inner
def _sum(gradient, order, first, last, out):
    """Add up derivatives and rows of those that count."""
    width = gradient.shape[1] // 2
    for at in range(first, last):
        row = order[at]
        if gradient[row, width] != 0.0:
            for k in range(2 * width):
                out[k] += gradient[row, k]
            out[2 * width] += 1.0


@inner
def _best_value(total, k, width, ridge, low, high):
    """Return the leaf value of least loss within bounds."""
    value = -total[k] / (total[width + k] + ridge)
    return min(max(value, low), high)


@inner
def _gain(total, width, ridge, low, high):
    """Return twice what a leaf of these derivatives takes off the loss."""
    gain = 0.0
    for k in range(width):
        value = _best_value(total, k, width, ridge, low, high)
        gain -= value * (2.0 * total[k] + (total[width + k] + ridge) * value)
    return gain


@inner
def _side_gain(left, total, width, limits, low, high, sign):
    """Return the gain of both sides of a split, -1 where it may not be."""
    count = left[2 * width]
    if count < limits.rows or total[2 * width] - count < limits.rows:
        return -1.0
    gain = 0.0
    for k in range(width):
        G, H = left[k], left[width + k]
        other_G, other_H = total[k] - G, total[width + k] - H
        if H < LEAST_HESSIAN or other_H < LEAST_HESSIAN:
            return -1.0
        below = min(max(-G / (H + limits.ridge), low), high)
        above = min(max(-other_G / (other_H + limits.ridge), low), high)
        if sign * (above - below) < 0:
            return -1.0
        gain -= below * (2.0 * G + (H + limits.ridge) * below)
        gain -= above * (2.0 * other_G + (other_H + limits.ridge) * above)
    return gain


@inner
def _category_order(part, n, width):
    """Return the bins of a column's categories in the order of their Newton steps."""
    largest, main = -1.0, 0
    for k in range(width):
        size = 0.0
        for bin_ in range(n):
            size += abs(part[bin_, k])
        if size > largest:
            largest, main = size, k
    step = np.empty(n)
    for bin_ in range(n):
        step[bin_] = part[bin_, main] / (part[bin_, width + main] + SMOOTH)
    return np.argsort(step)


@inner
def _best_split(columns, reads, histogram, total, limits, low, high, right_bins):
    """Return the gain, column, cut and side of missing values of a leaf's best split.

    The gain is that over the leaf itself; `right_bins` is filled for a column of categories.
    """
    width = (total.size - 1) // 2
    own = _gain(total, width, limits.ridge, low, high)
    best, best_column, best_cut, best_missing = 0.0, -1, 0, False
    left = np.empty(total.size)
    for column in reads:
        first, n = columns.start[column], columns.start[column + 1] - columns.start[column] - 1
        part = histogram[first : first + n + 1]
        if columns.is_set[column]:
            order = _category_order(part, n, width)
            for way in range(2):
                left[:] = total
                for at in range(n):
                    bin_ = order[at] if way == 0 else order[n - 1 - at]
                    left -= part[bin_]
                    gain = _side_gain(left, total, width, limits, low, high, 0) - own
                    if gain > best:
                        best, best_column, best_cut, best_missing = gain, column, at, False
                        right_bins[:] = False
                        for other in range(at + 1):
                            right_bins[order[other] if way == 0 else order[n - 1 - other]] = True
            continue
        for way in range(2 if part[n, 2 * width] > 0 else 1):
            # Missing values go left the second time.
            left[:] = 0.0
            if way == 1:
                left[:] = part[n]
            for cut in range(n - 1):
                if part[cut, 2 * width] == 0.0:
                    continue
                for k in range(total.size):
                    left[k] += part[cut, k]
                gain = _side_gain(left, total, width, limits, low, high, columns.sign[column]) - own
                if gain > best:
                    best, best_column, best_cut = gain, column, cut
                    best_missing = way == 0 and part[n, 2 * width] > 0
    return best, best_column, best_cut, best_missing


@kernel
def grow(
    columns: Any,
    reads: Any,
    gradient: Any,
    limits: Any,
    least_gain: float,
    order: Any,
    tree: Any,
    scratch: Any,
) -> int:
    """Grow a tree and return the number of its leaves.

    Parameters
    ----------
    columns : Columns
    reads : int64, (n_read,)
        Columns that the tree may read.
    gradient : float64, (n_rows, 2 width)
        First derivatives, then second ones. Rows whose first second derivative is 0 do not count,
        but are led to their leaf.
    limits : Limits
    least_gain : float
    order : int32, (n_rows,)
        The rows, which come back in the order of leaves.
    tree : Tree
    scratch : float64, (leaves, n_bins, 2 width + 1)
        Histograms.

    Notes
    -----
    Gains and leaf values are those of Eq. (5) and (7) of XGBoost (Chen and Guestrin, 2016), trees
    grow leaf by leaf as those of LightGBM (Ke et al., 2017), and the smaller of two children has
    its histogram counted, the other by subtraction.
    """
    width = gradient.shape[1] // 2
    size = 2 * width + 1
    most = limits.leaves
    first, last = np.zeros(most, np.int64), np.zeros(most, np.int64)
    total = np.zeros((most, size))
    low, high = np.full(most, -np.inf), np.full(most, np.inf)
    gain, cut = np.zeros(most), np.zeros(most, np.int64)
    column, missing = np.full(most, -1, np.int64), np.zeros(most, np.bool_)
    bins = np.zeros((most, tree.goes_right.shape[1]), np.bool_)
    parent, is_right = np.full(most, -1, np.int64), np.zeros(most, np.bool_)
    last[0] = order.size
    _gather(columns, reads, gradient, order, 0, order.size, scratch[0])
    _sum(gradient, order, 0, order.size, total[0])
    gain[0], column[0], cut[0], missing[0] = _best_split(
        columns, reads, scratch[0], total[0], limits, low[0], high[0], bins[0]
    )
    moved = np.empty(order.size, np.int32)
    n = 1
    while n < most:
        leaf = int(np.argmax(gain[:n]))
        if not gain[leaf] > least_gain:
            break
        node, new, by = n - 1, n, column[leaf]
        n_bins = columns.start[by + 1] - columns.start[by] - 1
        tree.feature[node], tree.cut[node], tree.missing_right[node] = by, cut[leaf], missing[leaf]
        tree.goes_right[node] = bins[leaf]
        if parent[leaf] >= 0:
            if is_right[leaf]:
                tree.right[parent[leaf]] = node
            else:
                tree.left[parent[leaf]] = node
        tree.left[node], tree.right[node] = ~leaf, ~new
        # Rows that go left come first, both in the order they had.
        at, n_right = first[leaf], 0
        for place in range(first[leaf], last[leaf]):
            row = order[place]
            code = columns.code[row, by]
            if code == n_bins:
                right = missing[leaf]
            elif columns.is_set[by]:
                right = bins[leaf, code]
            else:
                right = code > cut[leaf]
            if right:
                moved[n_right] = row
                n_right += 1
            else:
                order[at] = row
                at += 1
        order[at : last[leaf]] = moved[:n_right]
        first[new], last[new], last[leaf] = at, last[leaf], at
        parent[leaf], is_right[leaf], parent[new], is_right[new] = node, False, node, True
        both = total[leaf].copy()
        small, large = (leaf, new) if at - first[leaf] < n_right else (new, leaf)
        if small == leaf:
            scratch[new] = scratch[leaf]
        _gather(columns, reads, gradient, order, first[small], last[small], scratch[small])
        scratch[large] -= scratch[small]
        total[small] = 0.0
        _sum(gradient, order, first[small], last[small], total[small])
        total[large] = both - total[small]
        low[new], high[new] = low[leaf], high[leaf]
        if columns.sign[by] != 0:
            sign = columns.sign[by]
            below = _best_value(total[leaf], 0, width, limits.ridge, low[leaf], high[leaf])
            above = _best_value(total[new], 0, width, limits.ridge, low[new], high[new])
            middle = below / 2 + above / 2
            if sign > 0:
                high[leaf], low[new] = middle, middle
            else:
                low[leaf], high[new] = middle, middle
        n += 1
        for one in (leaf, new):
            gain[one], column[one], cut[one], missing[one] = _best_split(
                columns, reads, scratch[one], total[one], limits, low[one], high[one], bins[one]
            )
    for leaf in range(n):
        for k in range(width):
            tree.value[leaf, k] = _best_value(
                total[leaf], k, width, limits.ridge, low[leaf], high[leaf]
            )
        for place in range(first[leaf], last[leaf]):
            tree.exit[order[place]] = leaf
    return n
