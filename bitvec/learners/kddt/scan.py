"""The split scan: the threshold of a feature at which the children's loss is least, exactly.

Between two events the weight of each class left of t is linear in t, and the loss of the children
is concave in these weights; so the gain is convex there and greatest at an event. The scan walks
along the sorted events once. It keeps for each class the weight S left of t and its slope m, and
evaluates the loss at each event, and where a child's weight just reaches the least allowed.

For squares (Gini and squared error) it needs of them only the sums over classes of S², S·m, m² and
of their products with the totals s. An event changes one class: O(1) for labels, whose S are
brought up to date when they are touched, and O(q) for distributions and vectors. Entropy needs all
S at each event: O(q).
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.runtime.predict.cpu.compiling import inner

LABELS, VECTORS, ENTROPY = 0, 1, 2
"""Criteria: squares of one class a row, squares of vectors, entropy of distributions."""

ROUNDING = 1e-9
"""Share of the least allowed weight by which a child's weight may fall below it."""
SURE = 1e-12
"""More than rounding, for each unit, when gains are compared without a division."""
DROP = 64.0
"""Factor of a fall of the density beyond which the sums over slopes are taken anew: what cancelled
in them is rounding of the larger ones."""


class Totals(NamedTuple):
    """Sums over a node's rows, and what a split of it must keep to.

    Parameters
    ----------
    s, centre : float64, (n_outputs,)
        Weight of each class, or the sum of the vectors less `centre`, their mean in the node, which
        rounds least.
    w, squares : float
        Weight of all, and the sum of squares of s.
    least : float
        Weight that each child must have.
    tie : float
        By how much the gain of a later threshold must exceed that of an earlier one: less is
        rounding.
    """

    s: Array
    centre: Array
    w: float
    squares: float
    least: float
    tie: float


@inner
def children_gain(S, m, s, w, squares, W, MW, Q, A, M, P, R, dt, criterion):
    """Return the gain of the children at t + dt, up to a constant.

    The loss of the children is a constant minus it.
    """
    left = W + dt * MW
    right = w - left
    if criterion == ENTROPY:
        gain = 0.0
        for c in range(s.size):
            below = S[c] + dt * m[c]
            above = s[c] - below
            if below > 0.0:
                gain += below * np.log(below / left)
            if above > 0.0:
                gain += above * np.log(above / right)
        return gain
    q_left = Q + dt * (2.0 * A + dt * M)
    q_right = squares - 2.0 * (P + dt * R) + q_left
    return q_left / left + q_right / right


@inner
def row_of(event, n_edges):
    """Return the row of an event; of boxes, which have two edges, without a slow division."""
    return event >> 1 if n_edges == 2 else event // n_edges


@inner
def may_win(squares, W, MW, w, Q, A, M, P, R, dt, most, criterion):
    """Return False if the gain at t + dt is surely not above `most`, without a division."""
    if criterion == ENTROPY:
        return True
    left = W + dt * MW
    right = w - left
    q_left = Q + dt * (2.0 * A + dt * M)
    q_right = squares - 2.0 * (P + dt * R) + q_left
    gain, bound = q_left * right + q_right * left, most * (left * right)
    return not gain < bound - SURE * (abs(gain) + abs(bound))


@inner
def between(low, high):
    """Return the middle of two positions, below the second."""
    middle = low + (high - low) / 2.0
    return middle if middle < high else low


@inner
def added(total, rest, step):
    """Return total + step, and the rest that rounding took, carried on: Neumaier's sum."""
    grown = total + step
    if abs(total) >= abs(step):
        rest += (total - grown) + step
    else:
        rest += (step - grown) + total
    return grown, rest


@inner
def best_threshold(order, change, turn, column, rate, targets, totals, sums, open_rows):
    """Return the best gain of a threshold within a column's bounds, and it; −inf if none may be.

        for event in order:
            S, W = weights at its position, by their slopes
            gain = that of S and W; keep the best
            slopes or weights += the change of density at the event

    Parameters
    ----------
    order : int32, (n,)
        Events of the node's rows, by position.
    change, turn : (n_rows * n_edges,)
        Of the feature, see `events.Events`.
    column : Column
    rate : float64, (n_rows,)
        Density factor of each row: its weight in the node over the share of its density there.
    targets : Targets
    totals : Totals
    sums : float64, (4 or more, n_outputs)
        Overwritten with weights S left of t, their slopes m, what rounding took of these, and where
        the weight of a class was brought up to date.
    open_rows : int64, (n_outputs,)
        Overwritten with the number of rows of each class that have a density at t.
    """
    at, low, high, n_edges = column.at, column.low, column.high, column.share.size
    criterion, codes, Y = targets.criterion, targets.codes, targets.Y
    s, centre, w, squares, least, tie = totals
    S, m, rest, since = sums[0], sums[1], sums[2], sums[3]
    best, threshold = -np.inf, np.nan
    doubt = ROUNDING * least
    fewest, most = least - doubt, w - least + doubt
    S[:] = 0.0
    m[:] = 0.0
    rest[:] = 0.0
    open_rows[:] = 0
    W = MW = MW_rest = Q = A = M = P = R = peak = 0.0
    n_open = 0
    jumped = pending = False
    t = -np.inf
    n_outputs = s.size
    for number in range(order.size + 1):
        here, event, is_jump = high, np.int32(0), False
        if number < order.size:
            event = order[number]
            here = max(at[event], low)
            is_jump = change[event] == np.inf
        if here > t:
            if jumped and fewest <= W <= most:
                gain = children_gain(S, m, s, w, squares, W, MW, Q, A, M, P, R, 0.0, criterion)
                if gain > best + tie:
                    best, threshold, pending = gain, t, True
            if pending and n_open == 0:
                # Anywhere in the gap the children are the same: its middle is farthest from rows.
                threshold = between(t, here)
            jumped = pending = False
            here = min(here, high)
            if n_open > 0:
                dt, slope = here - t, MW + MW_rest
                left = W + dt * slope
                for goal in (least, w - least):
                    if W + doubt < goal < left - doubt and least <= w - least:
                        cut = min((goal - W) / slope, dt)
                        gain = children_gain(
                            S, m, s, w, squares, W, slope, Q, A, M, P, R, cut, criterion
                        )
                        if gain > best + tie and t < t + cut < high:
                            best, threshold = gain, t + cut
                if fewest <= left <= most and may_win(
                    squares, W, slope, w, Q, A, M, P, R, dt, best + tie, criterion
                ):
                    gain = children_gain(
                        S, m, s, w, squares, W, slope, Q, A, M, P, R, dt, criterion
                    )
                    before_jump = is_jump and at[event] == here
                    if gain > best + tie and (here < high or before_jump):
                        best, threshold = gain, here
                        pending = not before_jump
                        if before_jump:
                            threshold = np.nextafter(here, -np.inf)
                W = left
                Q += dt * (2.0 * A + dt * M)
                A += dt * M
                P += dt * R
                if criterion != LABELS:
                    for c in range(n_outputs):
                        S[c] += dt * (m[c] + rest[c])
            t = here
        if here >= high:
            break
        row = row_of(event, n_edges)
        c = 0
        if criterion == LABELS:
            c = codes[row]
            if open_rows[c] > 0:
                S[c] += (m[c] + rest[c]) * (t - since[c])
            since[c] = t
        if is_jump:
            weight = rate[row]
            W += weight
            jumped = True
            if criterion == LABELS:
                Q += weight * (2.0 * S[c] + weight)
                A += weight * m[c]
                P += weight * s[c]
                S[c] += weight
                continue
            for output in range(n_outputs):
                part = weight * (Y[row, output] - centre[output])
                Q += part * (2.0 * S[output] + part)
                A += part * m[output]
                P += part * s[output]
                S[output] += part
            continue
        step = change[event] * rate[row]
        MW, MW_rest = added(MW, MW_rest, step)
        if criterion == LABELS:
            M += step * (2.0 * m[c] + step)
            A += step * S[c]
            R += step * s[c]
            m[c], rest[c] = added(m[c], rest[c], step)
        else:
            for output in range(n_outputs):
                part = step * (Y[row, output] - centre[output])
                M += part * (2.0 * m[output] + part)
                A += part * S[output]
                R += part * s[output]
                m[output], rest[output] = added(m[output], rest[output], part)
        n_open += turn[event]
        open_rows[c] += turn[event]
        if open_rows[c] == 0 and criterion == LABELS:
            m[c] = rest[c] = 0.0
        if n_open == 0:
            MW = MW_rest = A = M = R = peak = 0.0
            if criterion != LABELS:
                m[:] = 0.0
                rest[:] = 0.0
        elif peak < MW:
            peak = MW
        elif peak > MW * DROP:
            MW += MW_rest
            peak, MW_rest, A, M, R = MW, 0.0, 0.0, 0.0, 0.0
            for k in range(n_outputs):
                m[k] += rest[k]
                rest[k] = 0.0
                if criterion == LABELS and open_rows[k] > 0:
                    S[k] += m[k] * (t - since[k])
                    since[k] = t
                A += S[k] * m[k]
                M += m[k] * m[k]
                R += s[k] * m[k]
    return best, threshold
