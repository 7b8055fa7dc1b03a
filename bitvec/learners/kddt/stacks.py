"""Stacks of a depth-first traversal: the nodes from the root down, their rows, weights and events.

What a node puts on a stack lies behind what those above it put there, and is dropped as the
traversal leaves it. NamedTuples hold the arrays; an array that has to grow is another one, so that
functions which push return the stacks anew.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.learners.kddt.scan import row_of
from bitvec.learners.kddt.weights import part_between
from bitvec.runtime.predict.cpu.compiling import inner, phase

FRAME = np.dtype(
    [
        ("node", np.int64),
        ("n_entered", np.int64),
        ("first", np.int64),
        ("n", np.int64),
        ("bound", np.float64),
    ]
)
"""A node on the way down: its number, how many of its children were entered, its n rows from the
first on the stack, and the bound of the box that the child at hand has replaced."""

LINE = np.dtype([("start", np.int64), ("count", np.int64)])
"""Events of a frame and a feature: where they lie, and how many; −1 if they were not filtered."""


class Stacks(NamedTuple):
    """Frames, and the rows of each with their weights u in its node.

    Parameters
    ----------
    frames : FRAME, (capacity,)
    rows : int32, (capacity,)
    u : float64, (capacity,)
    """

    frames: Array
    rows: Array
    u: Array


class EventStack(NamedTuple):
    """Events of the frames' rows, feature by feature as they were filtered.

    Parameters
    ----------
    events : int32, (capacity,)
    lines : LINE, (n_frames * n_features,)
    tops : int64, (n_frames + 1,)
        Where a frame's begin, and all end.
    """

    events: Array
    lines: Array
    tops: Array


@inner
def doubled(array, size):
    """Return an array of at least `size`, with what it held first, and 0 beyond.

    The loop compiles in a quarter of the time of the assignment of a slice.
    """
    if array.size >= size:
        return array
    larger = np.zeros(max(2 * array.size, size), array.dtype)
    for k in range(array.size):
        larger[k] = array[k]
    return larger


@phase
def entered(stacks, depth, j, t, at, share, box, smallest):
    """Return the stacks with a frame for the next child of the node at `depth`, split by x_j > t.

    bounds = box
    box = its half at or below t for the first child, above t for the second
    for row, weight in the node:
        weight *= part of the row's density within bounds that lies in the box
        push row and weight if weight > smallest
    """
    frames = doubled(stacks.frames, depth + 2)
    frame, child = frames[depth], frames[depth + 1]
    if frame.n_entered == 1:
        box.high[j] = frame.bound
    old_low, old_high = box.low[j], box.high[j]
    if frame.n_entered == 0:
        frame.bound, box.high[j] = box.high[j], min(box.high[j], t)
    else:
        frame.bound, box.low[j] = box.low[j], max(box.low[j], t)
    frame.n_entered += 1
    top = child.first = frame.first + frame.n
    rows, u = doubled(stacks.rows, top + frame.n + 1), doubled(stacks.u, top + frame.n + 1)
    low, high = box.low[j], box.high[j]
    for k in range(frame.first, child.first):
        row = rows[k]
        weight = u[k] * part_between(at, share, row, old_low, old_high, low, high)
        rows[top], u[top] = row, weight
        top += weight > smallest
    child.n, child.n_entered = top - child.first, 0
    return Stacks(frames, rows, u)


@phase
def with_frame(stack, depth, n_features):
    """Return the stack of events with room for the frame at `depth`, and none of its events."""
    lines = doubled(stack.lines, (depth + 1) * n_features)
    tops = doubled(stack.tops, depth + 2)
    for line in range(depth * n_features, (depth + 1) * n_features):
        lines[line].count = -1
    tops[depth + 1] = tops[depth]
    return EventStack(stack.events, lines, tops)


@phase
def closest(lines, line, n_features):
    """Return the line of the closest frame above that has the feature's events, −1 if none has."""
    above = line - n_features
    while above >= 0 and lines[above].count < 0:
        above -= n_features
    return above


@phase
def with_events(stack, depth, line, order, n_edges, stamp, node):
    """Return the stack with one line more: the events in `order` of rows with the node's stamp."""
    start = top = stack.tops[depth + 1]
    events, lines = doubled(stack.events, top + order.size + 1), stack.lines
    for k in range(order.size):
        event = order[k]
        events[top] = event
        top += stamp[row_of(event, n_edges)] == node
    lines[line].start, lines[line].count = start, top - start
    stack.tops[depth + 1] = top
    return EventStack(events, lines, stack.tops)
