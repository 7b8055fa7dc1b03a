"""The search for a node's split: its features in turn, each by events, by bins, or at random."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.learners.kddt.bins import Bins, best_of_bins, fill, pays
from bitvec.learners.kddt.scan import ENTROPY, LABELS, VECTORS, Totals, best_threshold
from bitvec.learners.kddt.stacks import closest, with_events, with_frame
from bitvec.learners.kddt.weights import (
    Column,
    densities_differ,
    part_between,
    share_of,
    support,
)
from bitvec.runtime.predict.cpu.compiling import inner, phase

LEAST = 1e-12
"""A leaf has at least this share of the weight of its parent: less is rounding of the sums."""
TIE = 1e-3
"""Share of the least gain by which a later split must gain more than an earlier one to be taken."""
FAR = 4
"""Events of a feature are filtered anew where those above are so many times as many: then all that
filtering takes is a share of what the nodes above took."""


class Node(NamedTuple):
    """A node whose split is sought.

    Parameters
    ----------
    number, depth : int
    rows : int32, (n,)
    u : float64, (n,)
        Their weights in the node.
    s : float64, (n_outputs,)
        Weight of each class, or the sum of vectors.
    w, loss : float
        Weight, and weight times impurity.
    least_gain : float
        What a split must gain to be more than rounding.
    """

    number: int
    depth: int
    rows: Array
    u: Array
    s: Array
    w: float
    loss: float
    least_gain: float


class Split(NamedTuple):
    """A split: x_feature > threshold goes right. Its gain is the loss that it takes off."""

    feature: int
    threshold: float
    gain: float


class Room(NamedTuple):
    """Arrays for all searches of a tree.

    Parameters
    ----------
    state : uint64, (1,)
        Of the random numbers.
    shuffled : int64, (n_features,)
        The features, in the order in which they were drawn last.
    stamp : int64, (n_rows,)
        The last node that looked at the events of each row.
    rate : float64, (n_rows,)
        See `scan.best_threshold`.
    sums : float64, (6, n_outputs)
        Four for `scan.best_threshold`, then `s` and `centre` of `scan.Totals`.
    open_rows : int64, (n_outputs,)
        For `scan.best_threshold`.
    bins : Bins
    """

    state: Array
    shuffled: Array
    stamp: Array
    rate: Array
    sums: Array
    open_rows: Array
    bins: Bins


@phase
def room_for(data, n_outputs, seed):
    """Return room for the searches of a tree."""
    n_rows, n_positions = data.weight.size, data.events.n_positions.max()
    changes = np.zeros((2, n_positions, n_outputs + 1))
    bins = Bins(changes[0], changes[1], np.zeros((n_positions, 4), np.int64))
    state, shuffled = np.array([seed], np.uint64), np.arange(len(data.share))
    sums, open_rows = np.zeros((6, n_outputs)), np.zeros(n_outputs, np.int64)
    return Room(state, shuffled, np.full(n_rows, -1), np.zeros(n_rows), sums, open_rows, bins)


@inner
def uniform(state):
    """Return a random number in [0, 1), by splitmix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@phase
def best_split(node, data, targets, limits, box, room, stack):
    """Return the stack of events with those that were filtered, and the split of greatest gain.

        for feature in features, in random order unless all are looked at:
            if the rows' densities differ in it:
                gain, threshold = a random threshold, or the best along events or bins
                keep the best; stop after max_features of them

    The gain is −inf where no threshold may be.
    """
    totals = totals_of(node, targets.criterion, limits.min_weight, room)
    state, shuffled = room.state, room.shuffled
    n_features = shuffled.size
    if not limits.random_thresholds:
        stack = with_frame(stack, node.depth, n_features)
        room.stamp[node.rows] = node.number
    best = Split(-1, 0.0, -np.inf)
    n_looked, rates_are_weights = 0, False
    for number in range(n_features):
        if limits.max_features < n_features:
            other = number + int(uniform(state) * (n_features - number))
            shuffled[number], shuffled[other] = shuffled[other], shuffled[number]
        j = shuffled[number]
        column = Column(data.at[j], data.share[j], box.low[j], box.high[j])
        if not densities_differ(node.rows, column):
            continue
        n_looked += 1
        if limits.random_thresholds:
            gain, threshold = random_threshold(node, column, targets, totals, room)
        else:
            rates_are_weights = fill_rates(room.rate, node, column, rates_are_weights)
            stack, gain, threshold = exact_threshold(
                node, data.events, j, column, targets, totals, room, stack
            )
        if gain > best.gain + totals.tie:
            best = Split(j, threshold, gain)
        if n_looked >= limits.max_features and best.gain > -np.inf:
            break
    unsplit = -node.loss if targets.criterion == ENTROPY else totals.squares / node.w
    return stack, Split(best.feature, best.threshold, best.gain - unsplit)


@phase
def totals_of(node, criterion, min_weight, room):
    """Return the totals that scans compare with; those of vectors are about the node's mean."""
    s, centre = room.sums[4], room.sums[5]
    s[:] = node.s
    if criterion == VECTORS:
        centre[:] = s / node.w
        s[:] = 0.0
    squares = 0.0
    for c in range(s.size):
        squares += s[c] * s[c]
    least = max(min_weight, LEAST * node.w)
    return Totals(s, centre, node.w, squares, least, TIE * node.least_gain)


@phase
def fill_rates(rate, node, column, are_weights):
    """Fill in each row's weight over the share of its density within bounds; return if that is 1.

    Nothing is done where rates are weights already, and the bounds cut off no density.
    """
    rows, u = node.rows, node.u
    at, share, low, high = column
    if low > -np.inf or high < np.inf:
        for k in range(rows.size):
            rate[rows[k]] = u[k] / share_of(at, share, rows[k], low, high)
        return False
    if not are_weights:
        for k in range(rows.size):
            rate[rows[k]] = u[k]
    return True


@phase
def exact_threshold(node, events, j, column, targets, totals, room, stack):
    """Return the stack of events, and the gain and threshold that are best in a feature.

    filter the node's events from the closest node above that has them, if they are walked
        along, or far fewer than those
    walk along the events, or along the positions where these are few
    """
    n_edges, n_features = column.share.size, room.shuffled.size
    n_events, n_positions = node.rows.size * n_edges, events.n_positions[j]
    line = node.depth * n_features + j
    above = closest(stack.lines, line, n_features)
    order = events.order[j, : events.n_events[j]]
    if above >= 0:
        start = stack.lines[above].start
        order = stack.events[start : start + stack.lines[above].count]
    by_position = pays(n_positions, totals.s.size, n_events)
    if not by_position or order.size > FAR * n_events:
        stack = with_events(stack, node.depth, line, order, n_edges, room.stamp, node.number)
    change, turn = events.change[j], events.turn[j]
    if by_position:
        position, place = events.position[j, :n_positions], events.place[j]
        slope, jump, counts = room.bins
        bins = Bins(slope[:n_positions], jump[:n_positions], counts[:n_positions])
        fill(bins, node.rows, change, turn, place, room.rate, targets, totals.centre)
        gain, threshold = best_of_bins(bins, position, column, targets.criterion, totals, room.sums)
    else:
        start = stack.lines[line].start
        order = stack.events[start : start + stack.lines[line].count]
        gain, threshold = best_threshold(
            order, change, turn, column, room.rate, targets, totals, room.sums, room.open_rows
        )
    return stack, gain, threshold


@phase
def random_threshold(node, column, targets, totals, room):
    """Return the gain of a threshold drawn where the rows have density, and the threshold.

    The gain is −inf if a child would have too little weight.
    """
    begin, end = support(node.rows, column)
    threshold = begin + uniform(room.state) * (end - begin)
    at, share, low, high = column
    criterion, codes, Y = targets.criterion, targets.codes, targets.Y
    s, centre, w, least = totals.s, totals.centre, totals.w, totals.least
    rows, u, S = node.rows, node.u, room.sums[0]
    S[:] = 0.0
    left = 0.0
    for k in range(rows.size):
        row = rows[k]
        weight = u[k] * part_between(at, share, row, low, high, low, min(threshold, high))
        left += weight
        if criterion == LABELS:
            S[codes[row]] += weight
        else:
            for c in range(S.size):
                S[c] += weight * (Y[row, c] - centre[c])
    right = w - left
    if not (left >= least and right >= least):
        return -np.inf, threshold
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
    return gain, threshold
