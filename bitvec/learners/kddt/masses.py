"""Masses of rows in a node: of their densities, of their classes, and what they lose there."""

from __future__ import annotations

import numpy as np

from bitvec.learners.kddt.scan import ENTROPY, LABELS
from bitvec.runtime.predict.cpu.compiling import inlined, inner


@inner
def share_below(t, at, share):  # type: ignore[no-untyped-def]
    """Return the mass of a density in (-inf, t]."""
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
def share_between(at, low, high, share):  # type: ignore[no-untyped-def]
    """Return the mass of a density in (low, high]."""
    return max(share_below(high, at, share) - share_below(low, at, share), 0.0)


@inlined
def part_between(at, row, n_edges, old_low, old_high, low, high, share):  # type: ignore[no-untyped-def]
    """Return how much of a row's mass in (old_low, old_high] lies in (low, high], a part of it.

    The mass of a box is its length there: one division instead of five.
    """
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
def share_of(at, row, n_edges, low, high, share):  # type: ignore[no-untyped-def]
    """Return the share of a row's mass that lies in (low, high], where the row is known to be."""
    if n_edges == 2:
        begin, end = at[2 * row], at[2 * row + 1]
        if begin == end:
            return 1.0
        whole = end - begin
        begin = begin if begin > low else low
        end = end if end < high else high
        return (end - begin) / whole
    return share_between(at[row * n_edges : (row + 1) * n_edges], low, high, share)


@inner
def total_of(rows, u, codes, Y, criterion, s):  # type: ignore[no-untyped-def]
    """Fill s with the mass of each class, or the sum of vectors, and return the mass."""
    s[:] = 0.0
    w = 0.0
    for k in range(rows.size):
        row = rows[k]
        w += u[k]
        if criterion == LABELS:
            s[codes[row]] += u[k]
        else:
            for c in range(s.size):
                s[c] += u[k] * Y[row, c]
    return w


@inner
def loss_of(rows, u, Y, s, w, criterion):  # type: ignore[no-untyped-def]
    """Return the mass of a node times its impurity.

    Impurity is 1 − sum p² for labels, the entropy in nats, and for vectors the variance summed over
    outputs.
    """
    loss = 0.0
    if criterion == LABELS:
        for c in range(s.size):
            loss += s[c] * (1.0 - s[c] / w)
    elif criterion == ENTROPY:
        for c in range(s.size):
            if s[c] > 0.0:
                loss -= s[c] * np.log(s[c] / w)
    else:
        for k in range(rows.size):
            for c in range(s.size):
                gap = Y[rows[k], c] - s[c] / w
                loss += u[k] * gap * gap
    return loss


@inner
def drawn_gain(  # type: ignore[no-untyped-def]
    rows, u, at, n_edges, share, low, high, t, codes, Y, centre, s, w, least, criterion, S
):
    """Return the gain of a given threshold; -inf if a child would have too little mass."""
    S[:] = 0.0
    left = 0.0
    for k in range(rows.size):
        row = rows[k]
        mass = u[k] * part_between(at, row, n_edges, low, high, low, min(t, high), share)
        left += mass
        if criterion == LABELS:
            S[codes[row]] += mass
        else:
            for c in range(S.size):
                S[c] += mass * (Y[row, c] - centre[c])
    right = w - left
    if not (left >= least and right >= least):
        return -np.inf
    gain = 0.0
    for c in range(S.size):
        above = s[c] - S[c]
        if criterion == ENTROPY:
            if S[c] > 0.0:
                gain += S[c] * np.log(S[c] / left)
            if above > 0.0:
                gain += above * np.log(above / right)
        else:
            gain += S[c] * S[c] / left + above * above / right
    return gain


@inner
def support(rows, at, n_edges, low, high):  # type: ignore[no-untyped-def]
    """Return where the rows' density begins and ends in (low, high)."""
    last = n_edges - 1
    first = rows[0] * n_edges
    begin, end = at[first], at[first + last]
    for k in range(1, rows.size):
        own = rows[k] * n_edges
        begin, end = min(begin, at[own]), max(end, at[own + last])
    return max(begin, low), min(end, high)


@inner
def densities_differ(rows, at, n_edges):  # type: ignore[no-untyped-def]
    """Return whether not all rows have the same density."""
    last = n_edges - 1
    first = rows[0] * n_edges
    for k in range(1, rows.size):
        own = rows[k] * n_edges
        if at[own] != at[first] or at[own + last] != at[first + last]:
            return True
    return False
