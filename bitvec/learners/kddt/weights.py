"""Weights of rows in a node: of their densities, of their classes, and what they lose there.

Loops read the arrays of a NamedTuple once, before they begin: each access counts a reference.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.learners.kddt.scan import ENTROPY, LABELS
from bitvec.runtime.predict.cpu.compiling import inlined, inner, phase


@inner
def share_below(t, at, share):
    """Return the share of a density in (-inf, t]."""
    last = at.size - 1
    if t >= at[last]:
        return 1.0
    if t <= at[0]:
        return 0.0
    k = 0
    while t > at[k + 1]:
        k += 1
    return share[k] + (t - at[k]) / (at[k + 1] - at[k]) * (share[k + 1] - share[k])


@inner
def share_between(at, low, high, share):
    """Return the share of a density in (low, high]."""
    return max(share_below(high, at, share) - share_below(low, at, share), 0.0)


class Box(NamedTuple):
    """The box of a node: x_j lies in (low[j], high[j]]; both float64, (n_features,)."""

    low: Array
    high: Array


class Column(NamedTuple):
    """The densities of one feature, and the bounds of a node's box there.

    Parameters
    ----------
    at : float64, (n_rows * n_edges,)
        See `events.Densities`.
    share : float64, (n_edges,)
    low, high : float
    """

    at: Array
    share: Array
    low: float
    high: float


@phase
def everywhere(n_features):
    """Return the box of a root."""
    return Box(np.full(n_features, -np.inf), np.full(n_features, np.inf))


@inlined
def part_between(at, share, row, old_low, old_high, low, high):
    """Return the part of a row's weight in (old_low, old_high] that lies in (low, high], within it.

    The share of a box is its length there: one division instead of five.
    """
    n_edges = share.size
    if n_edges == 2:
        begin, end = at[2 * row], at[2 * row + 1]
        if begin == end:
            return 1.0 if low < begin <= high else 0.0
        begin = begin if begin > old_low else old_low
        end = end if end < old_high else old_high
        whole = end - begin
        begin = begin if begin > low else low
        end = end if end < high else high
        return (end - begin) / whole if end > begin else 0.0
    own = at[row * n_edges : (row + 1) * n_edges]
    return share_between(own, low, high, share) / share_between(own, old_low, old_high, share)


@inlined
def share_of(at, share, row, low, high):
    """Return the share of a row's weight that lies in (low, high], where it is known to be."""
    n_edges = share.size
    if n_edges == 2:
        begin, end = at[2 * row], at[2 * row + 1]
        if begin == end:
            return 1.0
        whole = end - begin
        begin = begin if begin > low else low
        end = end if end < high else high
        return (end - begin) / whole
    own = at[row * n_edges : (row + 1) * n_edges]
    return share_between(own, low, high, share)


@phase
def total_of(rows, u, targets, s):
    """Fill s with the weight of each class, or the sum of vectors, and return the weight."""
    codes, Y = targets.codes, targets.Y
    s[:] = 0.0
    w = 0.0
    for k in range(rows.size):
        row = rows[k]
        w += u[k]
        if targets.criterion == LABELS:
            s[codes[row]] += u[k]
        else:
            for c in range(s.size):
                s[c] += u[k] * Y[row, c]
    return w


@phase
def loss_of(rows, u, targets, s, w):
    """Return the weight of a node times its impurity.

    Impurity is 1 − sum p² for labels, the entropy in nats, and for vectors the variance summed over
    outputs.
    """
    loss, Y = 0.0, targets.Y
    if targets.criterion == LABELS:
        for c in range(s.size):
            loss += s[c] * (1.0 - s[c] / w)
    elif targets.criterion == ENTROPY:
        for c in range(s.size):
            if s[c] > 0.0:
                loss -= s[c] * np.log(s[c] / w)
    else:
        for k in range(rows.size):
            for c in range(s.size):
                gap = Y[rows[k], c] - s[c] / w
                loss += u[k] * gap * gap
    return loss


@phase
def support(rows, column):
    """Return where the rows' density begins and ends within the bounds."""
    at, n_edges = column.at, column.share.size
    last = n_edges - 1
    first = rows[0] * n_edges
    begin, end = at[first], at[first + last]
    for k in range(1, rows.size):
        own = rows[k] * n_edges
        begin, end = min(begin, at[own]), max(end, at[own + last])
    return max(begin, column.low), min(end, column.high)


@phase
def densities_differ(rows, column):
    """Return whether not all rows have the same density."""
    at, n_edges = column.at, column.share.size
    last = n_edges - 1
    first = rows[0] * n_edges
    for k in range(1, rows.size):
        own = rows[k] * n_edges
        if at[own] != at[first] or at[own + last] != at[first + last]:
            return True
    return False
