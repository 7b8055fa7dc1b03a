"""The split scan of features of few positions: changes are summed by position before the walk.

Values on a grid, such as pixels or counts, have many rows at each position. Their changes of
density are added up there, one pass over the node's rows without any order; then the walk looks at
each position once, at all classes. The thresholds and their gains are those of
`scan.best_threshold` but for the rounding of sums, which stays that of the node's weight as long as
no density is large for the range of the positions: see `events.FLAT`.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.learners.kddt.scan import ENTROPY, LABELS, ROUNDING, between
from bitvec.runtime.predict.cpu.compiling import inner

BEGINS, STAYS, ENDS, JUMPS = 0, 1, 2, 3
"""Columns of `Bins.counts`, by what a density does: `STAYS` less an event's turn, or a jump."""


@inner
def pays(n_positions, n_outputs, n_events):
    """Return whether bins take less time than a walk along the events, as measured."""
    return n_positions > 0 and n_positions * (n_outputs + 8) < 5 * n_events


class Bins(NamedTuple):
    """Changes summed by position.

    Parameters
    ----------
    slope, jump : float64, (n_positions, n_outputs + 1)
        Changes of the slopes of the weights, and the weights that jump: of each class; or of each
        output, and last of all together.
    counts : int64, (n_positions, 4)
        Rows whose density begins, changes, and ends there, and those that jump.
    """

    slope: Array
    jump: Array
    counts: Array


@inner
def fill(bins, rows, change, turn, place, rate, targets, centre):
    """Fill bins with the changes at each position of a feature, of the rows of a node.

    `change`, `turn` and `place` are those of `events.Events`, (n_rows * n_edges,); for `rate` and
    `centre` see `scan`.
    """
    slope, jump, counts = bins.slope, bins.jump, bins.counts
    n_edges = change.size // rate.size
    codes, Y = targets.codes, targets.Y
    slope[:] = 0.0
    jump[:] = 0.0
    counts[:] = 0
    if targets.criterion == LABELS:
        for k in range(rows.size):
            row = rows[k]
            weight, c = rate[row], codes[row]
            for event in range(row * n_edges, (row + 1) * n_edges):
                p, by = place[event], change[event]
                if by == np.inf:
                    counts[p, JUMPS] += 1
                    jump[p, c] += weight
                elif by != 0.0:
                    counts[p, STAYS - turn[event]] += 1
                    slope[p, c] += by * weight
        return
    last = centre.size
    for k in range(rows.size):
        row = rows[k]
        weight = rate[row]
        for event in range(row * n_edges, (row + 1) * n_edges):
            if change[event] == 0.0:
                continue
            p = place[event]
            if change[event] == np.inf:
                counts[p, JUMPS] += 1
                jump[p, last] += weight
                for c in range(last):
                    jump[p, c] += weight * (Y[row, c] - centre[c])
                continue
            step = change[event] * weight
            counts[p, STAYS - turn[event]] += 1
            slope[p, last] += step
            for c in range(last):
                slope[p, c] += step * (Y[row, c] - centre[c])


@inner
def all_of(bin, n_outputs, criterion):
    """Return the weight of all classes together; of outputs it stands last."""
    if criterion != LABELS:
        return bin[n_outputs]
    total = 0.0
    for c in range(n_outputs):
        total += bin[c]
    return total


@inner
def gain_at(S, m, s, w, left, dt, criterion):
    """Return the gain of the children at t + dt, where the weight on the left is `left`."""
    right = w - left
    below_sum, above_sum = 0.0, 0.0
    if criterion == ENTROPY:
        for c in range(s.size):
            below = S[c] + dt * m[c]
            above = s[c] - below
            if below > 0.0:
                below_sum += below * np.log(below / left)
            if above > 0.0:
                above_sum += above * np.log(above / right)
        return below_sum + above_sum
    for c in range(s.size):
        below = S[c] + dt * m[c]
        above = s[c] - below
        below_sum += below * below
        above_sum += above * above
    return below_sum / left + above_sum / right


@inner
def best_of_bins(bins, position, column, criterion, totals, sums):
    """Return the best gain of a threshold within a column's bounds, and it; −inf if none may be.

    Bins are as `fill` leaves them for these positions; for the rest see `scan.best_threshold`.
    """
    low, high = column.low, column.high
    slope, jump, counts = bins.slope, bins.jump, bins.counts
    s, w, least, tie = totals.s, totals.w, totals.least, totals.tie
    S, m = sums[0], sums[1]
    best, threshold = -np.inf, np.nan
    doubt = ROUNDING * least
    fewest, most = least - doubt, w - least + doubt
    S[:] = 0.0
    m[:] = 0.0
    W = MW = 0.0
    n_open = 0
    jumped = pending = False
    t = -np.inf
    n_outputs = s.size
    begins = ends = jumps = 0
    for p in range(position.size + 1):
        here, jumps_here = high, False
        if p < position.size:
            begins, ends, jumps = counts[p, BEGINS], counts[p, ENDS], counts[p, JUMPS]
            if begins + counts[p, STAYS] + ends + jumps == 0:
                continue
            here = max(position[p], low)
            jumps_here = jumps > 0 and position[p] == here
        if here > t:
            if jumped and fewest <= W <= most:
                gain = gain_at(S, m, s, w, W, 0.0, criterion)
                if gain > best + tie:
                    best, threshold, pending = gain, t, True
            if pending and n_open == 0:
                # Anywhere in the gap the children are the same: its middle is farthest from rows.
                threshold = between(t, here)
            jumped = pending = False
            jumps_here = jumps_here and here <= high
            here = min(here, high)
            if n_open > 0:
                dt = here - t
                left = W + dt * MW
                for goal in (least, w - least):
                    if W + doubt < goal < left - doubt and least <= w - least:
                        cut = min((goal - W) / MW, dt)
                        gain = gain_at(S, m, s, w, W + cut * MW, cut, criterion)
                        if gain > best + tie and t < t + cut < high:
                            best, threshold = gain, t + cut
                if fewest <= left <= most and (here < high or jumps_here):
                    gain = gain_at(S, m, s, w, left, dt, criterion)
                    if gain > best + tie:
                        best, threshold = gain, here
                        pending = not jumps_here
                        if jumps_here:
                            threshold = np.nextafter(here, -np.inf)
                W = left
                for c in range(n_outputs):
                    S[c] += dt * m[c]
            t = here
        if here >= high:
            break
        if jumps > 0:
            jumped = True
            W += all_of(jump[p], n_outputs, criterion)
            for c in range(n_outputs):
                S[c] += jump[p, c]
        n_open += begins - ends
        if n_open == 0:
            MW = 0.0
            m[:] = 0.0
        else:
            MW += all_of(slope[p], n_outputs, criterion)
            for c in range(n_outputs):
                m[c] += slope[p, c]
    return best, threshold
