"""Compiled steps of training one tree: the loss, its gradients and AdamW, for many steps at once.

Products of rows of S and columns come first, then a pass over nodes from the leaves up to the root
for what each row comes to, a pass down for the gradients, and products of these and the columns.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.float_kernels import (
    adamw,
    add_scaled,
    dot,
    fill_softplus,
    fill_turns,
    total,
)

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
LEAST_PROBABILITY = np.float32(1e-17)
"""A label's probability at a leaf counts as at least this."""
LEAST_SHARE, LEAST_SLOPE = np.float32(1e-20), np.float32(1e-30)
"""Shares of a row at a node, and gradients, that are below this count as 0."""


class Tables(NamedTuple):
    """The tree, and all rows.

    Parameters
    ----------
    left, right : int64, (n_nodes,)
        Children, each behind its parent; leaves as `~leaf`.
    row_ptr : int64, (n_nodes + 1,)
        The rows of S of each node.
    at_equal : float32, (n_nodes,)
        Stands for a margin of 0.
    reads : bool, (n_rows, n_columns)
        Where S moves.
    stays_positive : bool, (n_rows,)
        Where r does.
    softplus : bool
        Whether each row of S has an offset, softplus and r; else it is its node's margin.
    moves_r : bool
    columns : float32, (n_columns, batch_of_all)
        Standardised.
    label : int64, (batch_of_all,)
        Class numbers; without a row where values are learned.
    value : float32, (n_outputs, batch_of_all)
        Without an output where labels are learned.
    deviation : float32
        Of values: errors are in units of it.
    weight : float32, (batch_of_all,)
        Of which a step's mean is taken.
    """

    left: Any
    right: Any
    row_ptr: Any
    at_equal: Any
    reads: Any
    stays_positive: Any
    softplus: Any
    moves_r: Any
    columns: Any
    label: Any
    value: Any
    deviation: Any
    weight: Any


class Numbers(NamedTuple):
    """Something for each number that moves: itself, its gradient, or its moments; all float32.

    Parameters
    ----------
    S : (n_rows, n_columns)
    offset, r : (n_rows,)
    b : (n_nodes,)
    v : (n_leaves, width)
        Logits, or values.
    """

    S: Any
    offset: Any
    r: Any
    b: Any
    v: Any


class Course(NamedTuple):
    """The way of some steps.

    Parameters
    ----------
    place : int64, (n_steps, batch)
        The rows of each step.
    gamma : float32, (n_steps,)
    rate : float64, (n_steps, 5)
        Of `Numbers`, in their order.
    decay : float64, (5,)
    adam : float64, (4,)
        Steps done before, both decays of the moments, and epsilon.
    """

    place: Any
    gamma: Any
    rate: Any
    decay: Any
    adam: Any


class Room(NamedTuple):
    """Scratch: `bits`, `far`, `spare` and `weight` (batch,), all else (..., batch)."""

    bits: Any
    far: Any
    spare: Any
    columns: Any
    weight: Any
    term: Any
    small: Any
    margin: Any
    to_left: Any
    to_right: Any
    mixed: Any
    leaf: Any
    slope: Any
    reached: Any
    at_leaf: Any
    wanted: Any


@kernel
def train_tree(tables, numbers, gradients, means, squares, course, losses):
    """Move a tree's numbers step by step; return how many steps have a finite loss.

    Parameters
    ----------
    losses : float64, (n_steps,)
        Filled with the mean loss of each step. After one that is not finite nothing moves.
    """
    n_steps, batch = course.place.shape
    room = _room(tables, numbers, batch)
    shares = np.empty_like(numbers.v)
    for at in range(n_steps):
        place, gamma = course.place[at], course.gamma[at]
        for j in range(tables.columns.shape[0]):
            for i in range(batch):
                room.columns[j, i] = tables.columns[j, place[i]]
        for i in range(batch):
            room.weight[i] = tables.weight[place[i]] / batch
        _fill_margins(tables, numbers, gamma, room)
        _fill_leaves(tables, numbers, place, shares, room)
        _mix(tables, room)
        losses[at] = _fill_wanted(tables, place, room)
        if not np.isfinite(losses[at]):
            return at
        _fill_slopes(tables, gamma, room)
        _fill_leaf_gradients(tables, place, shares, gradients.v, room)
        _fill_row_gradients(tables, numbers, gradients, room)
        step, first, second = course.adam[0] + at + 1, course.adam[1], course.adam[2]
        rate, decay, epsilon = course.rate[at], course.decay, course.adam[3]
        parts = (
            (numbers.S.ravel(), gradients.S.ravel(), means.S.ravel(), squares.S.ravel()),
            (numbers.offset, gradients.offset, means.offset, squares.offset),
            (numbers.r, gradients.r, means.r, squares.r),
            (numbers.b, gradients.b, means.b, squares.b),
            (numbers.v.ravel(), gradients.v.ravel(), means.v.ravel(), squares.v.ravel()),
        )
        for k in range(5):
            is_row = k == 1 or k == 2
            if (is_row and not tables.softplus) or (k == 2 and not tables.moves_r):
                continue
            own = parts[k]
            adamw(own[0], own[1], own[2], own[3], rate[k], decay[k], step, first, second, epsilon)
        if tables.moves_r:
            for row in range(numbers.r.size):
                if tables.stays_positive[row]:
                    numbers.r[row] = max(numbers.r[row], ZERO)
    return n_steps


@inner
def _room(tables, numbers, batch):
    kind = np.float32
    n_columns, n_nodes = tables.columns.shape[0], numbers.b.size
    n_rows, n_leaves = numbers.S.shape[0], numbers.v.shape[0]
    n_outputs = max(tables.value.shape[0], 1)
    return Room(
        np.empty(batch, np.int32),
        np.empty(batch, kind),
        np.empty(batch, kind),
        np.empty((n_columns, batch), kind),
        np.empty(batch, kind),
        np.empty((n_rows, batch), kind),
        np.empty((n_rows, batch), kind),
        np.empty((n_nodes, batch), kind),
        np.empty((n_nodes, batch), kind),
        np.empty((n_nodes, batch), kind),
        np.empty((n_nodes, n_outputs, batch), kind),
        np.empty((n_leaves, n_outputs, batch), kind),
        np.empty((n_nodes, batch), kind),
        np.empty((n_nodes, batch), kind),
        np.empty((n_leaves, batch), kind),
        np.empty((n_outputs, batch), kind),
    )


@inner
def _fill_margins(tables, numbers, gamma, room):
    """Fill terms of rows of S, margins of nodes, and what share of a row turns left and right."""
    far, spare = room.far, room.spare
    for row in range(numbers.S.shape[0]):
        term = room.term[row]
        term[:] = -numbers.offset[row]
        for j in range(room.columns.shape[0]):
            if numbers.S[row, j] != ZERO:
                add_scaled(term, numbers.S[row, j], room.columns[j])
        if tables.softplus:
            fill_softplus(term, room.small[row], far, spare, room.bits)
    for node in range(numbers.b.size):
        margin, to_left, to_right = room.margin[node], room.to_left[node], room.to_right[node]
        margin[:] = -numbers.b[node]
        for row in range(tables.row_ptr[node], tables.row_ptr[node + 1]):
            add_scaled(margin, numbers.r[row], room.term[row])
        at_equal = tables.at_equal[node]
        for i in range(margin.size):
            margin[i] = at_equal if margin[i] == ZERO else margin[i]
        fill_turns(margin, gamma, to_left, to_right, far, spare, room.bits)


@inner
def _fill_leaves(tables, numbers, place, shares, room):
    """Fill what each row finds at each leaf: the probability of its label, or the leaf's values."""
    v = numbers.v
    if not tables.label.size:
        for leaf in range(v.shape[0]):
            for o in range(v.shape[1]):
                room.leaf[leaf, o, :] = v[leaf, o]
        return
    for leaf in range(v.shape[0]):
        top = v[leaf].max()
        whole = ZERO
        for k in range(v.shape[1]):
            shares[leaf, k] = np.exp(v[leaf, k] - top)
            whole += shares[leaf, k]
        for k in range(v.shape[1]):
            shares[leaf, k] /= whole
        found = room.leaf[leaf, 0]
        for i in range(place.size):
            found[i] = max(shares[leaf, tables.label[place[i]]], LEAST_PROBABILITY)


@inner
def _below(mixed, leaf, child, output):
    """Return what rows come to below a turn."""
    return mixed[child, output] if child >= 0 else leaf[~child, output]


@inner
def _mix(tables, room):
    """Fill what each row comes to below each node, from the last node up to the root."""
    for node in range(tables.left.size - 1, -1, -1):
        to_left, to_right = room.to_left[node], room.to_right[node]
        for o in range(room.mixed.shape[1]):
            low = _below(room.mixed, room.leaf, tables.left[node], o)
            high = _below(room.mixed, room.leaf, tables.right[node], o)
            both = room.mixed[node, o]
            for i in range(both.size):
                both[i] = to_left[i] * low[i] + to_right[i] * high[i]


@inner
def _fill_wanted(tables, place, room):
    """Fill the gradient to what the root comes to, and return the mean loss."""
    loss = 0.0
    weight = room.weight
    if tables.label.size:
        root, wanted = room.mixed[0, 0], room.wanted[0]
        for i in range(root.size):
            loss -= weight[i] * np.log(root[i])
            wanted[i] = -weight[i] / root[i]
        return loss
    for o in range(tables.value.shape[0]):
        root, wanted = room.mixed[0, o], room.wanted[o]
        for i in range(root.size):
            error = (root[i] - tables.value[o, place[i]]) / tables.deviation
            loss += weight[i] * error * error
            wanted[i] = TWO * weight[i] * error / tables.deviation
    return loss


@inner
def _fill_slopes(tables, gamma, room):
    """Fill the gradient to each margin, and how far each row reaches each leaf.

    d / dm of a node is gamma · reached · share left · share right · (what is on the right less what
    is on the left).
    """
    room.reached[0, :] = ONE
    for node in range(tables.left.size):
        a, b = tables.left[node], tables.right[node]
        here, slope = room.reached[node], room.slope[node]
        to_left, to_right = room.to_left[node], room.to_right[node]
        slope[:] = ZERO
        for o in range(room.mixed.shape[1]):
            low = _below(room.mixed, room.leaf, a, o)
            high = _below(room.mixed, room.leaf, b, o)
            wanted = room.wanted[o]
            for i in range(slope.size):
                slope[i] += wanted[i] * (high[i] - low[i])
        # One array filled in each loop: of more, compilers make no vector instructions.
        for i in range(slope.size):
            steep = slope[i] * (gamma * here[i] * (to_left[i] * to_right[i]))
            slope[i] = steep if abs(steep) > LEAST_SLOPE else ZERO
        _take_turn(here, to_left, room.reached[a] if a >= 0 else room.at_leaf[~a])
        _take_turn(here, to_right, room.reached[b] if b >= 0 else room.at_leaf[~b])


@inner
def _take_turn(here, share, below):
    """Fill how far each row reaches what is below a turn."""
    for i in range(here.size):
        part = here[i] * share[i]
        below[i] = part if part > LEAST_SHARE else ZERO


@inner
def _fill_leaf_gradients(tables, place, shares, gradient, room):
    for leaf in range(gradient.shape[0]):
        own, reached = gradient[leaf], room.at_leaf[leaf]
        if not tables.label.size:
            for o in range(own.size):
                own[o] = dot(reached, room.wanted[o])
            continue
        own[:] = ZERO
        for i in range(place.size):
            own[tables.label[place[i]]] += reached[i] * room.wanted[0, i]
        inside = dot(own, shares[leaf])
        for k in range(own.size):
            own[k] = shares[leaf, k] * (own[k] - inside)


@inner
def _fill_row_gradients(tables, numbers, gradients, room):
    for node in range(numbers.b.size):
        of_node = room.slope[node]
        gradients.b[node] = -total(of_node)
        for row in range(tables.row_ptr[node], tables.row_ptr[node + 1]):
            slope = of_node
            if tables.softplus:
                gradients.r[row] = dot(of_node, room.term[row])
                slope = room.spare
                for i in range(slope.size):
                    slope[i] = numbers.r[row] * of_node[i] * room.small[row, i]
                gradients.offset[row] = -total(slope)
            for j in range(room.columns.shape[0]):
                if tables.reads[row, j]:
                    gradients.S[row, j] = dot(slope, room.columns[j])
