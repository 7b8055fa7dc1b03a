"""Growth of one tree, depth first: nodes keep their rows' weights and their sorted events."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from bitvec.learners.kddt.scan import ROUNDING, VECTORS
from bitvec.learners.kddt.split_search import Node, best_split, room_for
from bitvec.learners.kddt.stacks import FRAME, LINE, EventStack, Stacks, doubled, entered
from bitvec.learners.kddt.weights import everywhere, loss_of, total_of
from bitvec.runtime.predict.cpu.compiling import kernel, phase
from bitvec.runtime.predict.cpu.kernel_arrays import borrowed

SMALLEST = 1e-9
"""A row with less of the least weight of a leaf in a node is left out there."""
GAIN = 1e-9
"""Least gain of a split, beyond rounding: a share of a node's weight, for vectors of its loss."""
EPSILON = np.finfo(np.float64).eps
NODE = np.dtype(
    [
        ("left", np.int64),
        ("right", np.int64),
        ("feature", np.int64),
        ("threshold", np.float64),
        ("weight", np.float64),
        ("loss", np.float64),
    ]
)
"""A grown node: children and feature are −1 for a leaf; `loss` is the weight times the impurity."""


@kernel
def grow(data, targets, limits, seed, stop):
    """Grow a tree; its nodes come each before its children, and the left before the right.

        def grow(rows, box):
            node = weight, totals and loss of rows
            split = best_split(rows, box) unless the node is final
            if split gains enough:
                left = grow(rows, box below the threshold)
                right = grow(rows, box above the threshold)

    The calls are frames on `Stacks`. Memory is O(n_features · rows) for each node on the way down:
    a frame holds the node's rows, their weights u in it, and their events of each feature that is
    looked at, in order.

    Parameters
    ----------
    data : Data
    targets : Targets
    limits : Limits
        With a number of features to look at.
    seed : uint64
    stop : int8, (1,)
        Looked at in each node; growth ends where it is not 0.

    Returns
    -------
    nodes : NODE, (n,)
    total : float64, (n, n_outputs)
        Weight of each class, or the sum of vectors.
    """
    data, targets = borrowed(data), borrowed(targets)
    n_features, n_outputs = len(data.share), targets.centre.size
    nodes, total, n_nodes = np.zeros(64, NODE), np.zeros(64 * n_outputs), 0
    stacks, events = stacks_of(data.weight), event_stack(n_features)
    box, room = everywhere(n_features), room_for(data, n_outputs, seed)
    scale = np.abs(targets.Y).max() if targets.criterion == VECTORS else 0.0
    smallest = SMALLEST * limits.min_weight
    depth = 0
    while depth >= 0 and stop[0] == 0:
        n_entered = stacks.frames[depth].n_entered
        if n_entered == 0:
            nodes, total = doubled(nodes, n_nodes + 1), doubled(total, (n_nodes + 1) * n_outputs)
            s = total[n_nodes * n_outputs : (n_nodes + 1) * n_outputs]
            node = opened(nodes, n_nodes, s, stacks, depth, targets)
            n_nodes += 1
            is_split = False
            if not is_final(node, limits, targets.criterion, scale):
                events, split = best_split(node, data, targets, limits, box, room, events)
                enough = limits.min_gain * nodes[0].weight
                is_split = split.gain > node.least_gain and not split.gain < enough
            if not is_split:
                depth -= 1
                continue
            nodes[node.number].feature = split.feature
            nodes[node.number].threshold = split.threshold
        parent = nodes[stacks.frames[depth].node]
        if n_entered == 2:
            box.low[parent.feature] = stacks.frames[depth].bound
            depth -= 1
            continue
        j = parent.feature
        stacks = entered(
            stacks, depth, j, parent.threshold, data.at[j], data.share[j], box, smallest
        )
        depth += 1
    return nodes[:n_nodes], total[: n_nodes * n_outputs].reshape(n_nodes, n_outputs)


@phase
def stacks_of(weight):
    """Return stacks that hold the root: the rows of a positive weight."""
    frames = np.zeros(64, FRAME)
    rows, u = np.zeros(2 * weight.size, np.int32), np.zeros(2 * weight.size)
    n = 0
    for row in range(weight.size):
        if weight[row] > 0.0:
            rows[n], u[n] = row, weight[row]
            n += 1
    frames[0].n = n
    return Stacks(frames, rows, u)


@phase
def event_stack(n_features):
    """Return a stack without events."""
    lines, tops = np.zeros(64 * n_features, LINE), np.zeros(65, np.int64)
    return EventStack(np.zeros(1, np.int32), lines, tops)


@phase
def opened(nodes, number, s, stacks, depth, targets):
    """Return the node of a frame with its rows, written down as a leaf and below its parent.

    s, (n_outputs,), is filled with its totals.
    """
    frame = stacks.frames[depth]
    frame.node = number
    own = slice(frame.first, frame.first + frame.n)
    rows, u = stacks.rows[own], stacks.u[own]
    w = total_of(rows, u, targets, s)
    loss = loss_of(rows, u, targets, s, w)
    leaf = nodes[number]
    leaf.left = leaf.right = leaf.feature = -1
    leaf.weight, leaf.loss = w, loss
    if depth > 0:
        above = stacks.frames[depth - 1]
        if above.n_entered == 1:
            nodes[above.node].left = number
        else:
            nodes[above.node].right = number
    least_gain = GAIN * (loss if targets.criterion == VECTORS else w)
    return Node(number, depth, rows, u, s, w, loss, least_gain)


@phase
def is_final(node, limits, criterion, scale):
    """Return whether a node is a leaf without a look at its features: too deep, light or pure.

    `scale` is the largest entry of vectors: below rounding of it they do not differ.
    """
    pure = node.least_gain
    if criterion == VECTORS:
        pure = node.w * (4.0 * EPSILON * scale) ** 2
    too_light = node.w < 2.0 * limits.min_weight * (1.0 - ROUNDING)
    return node.depth >= limits.max_depth or too_light or node.loss <= pure
