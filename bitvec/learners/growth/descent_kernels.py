"""Compiled training of the stumps of a level: each node and restart by itself, all steps at once.

The gradients are in closed form. With s = σ(γ m) the share of a row that goes right, a mean loss of
rows has d loss / dm = γ w · slope:

    impurity     s (1 − s) (impurity of the row on the right − on the left)
    likelihood   s − h, with h the posterior of the right leaf

where the impurity of a row on a side is −ln of its class's share there, or its squared distance
from the mean there.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.float_kernels import (
    adamw,
    add_products,
    add_scaled,
    dot,
    fill_exp,
    fill_softplus,
    fill_turns,
    total,
)

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
TINY = np.float32(1e-12)
"""As in `bitvec.learners.growth.targets`; a kernel takes constants of its own file."""
LEAST_VARIANCE = np.float32(1e-4)
FARTHEST = np.float32(-46)
"""Least of −|γ m|: products of smaller shares would be subnormal numbers, which are slow."""


class LevelRows(NamedTuple):
    """Rows of a level, sorted by node.

    Parameters
    ----------
    start : int64, (n_nodes + 1,)
    order : int64, (n_rows,)
        The rows of each node in the order in which steps take them.
    taken : int64, (n_nodes,)
        Rows of a step.
    columns : float32, (n_columns + 1, n_rows)
        Standardised, the last of them 1.
    weight : float32, (n_rows,)
    code : int64, (n_rows,)
        Class numbers; without a row where values are told.
    value : float32, (n_outputs, n_rows)
        Without an output where labels are told.
    n_classes : int
    """

    start: Any
    order: Any
    taken: Any
    columns: Any
    weight: Any
    code: Any
    value: Any
    n_classes: Any


class Descent(NamedTuple):
    """Options of a descent.

    Parameters
    ----------
    gamma : float32, (n_steps,)
    by_likelihood : bool
    rate, decay : float
    """

    gamma: Any
    by_likelihood: Any
    rate: Any
    decay: Any


class Step(NamedTuple):
    """Rows of a step of one node, by number and what they hold, (..., n) each, and scratch."""

    row: Any
    columns: Any
    weight: Any
    code: Any
    value: Any
    margin: Any
    far: Any
    small: Any
    right: Any
    slope: Any
    other: Any
    bits: Any


@kernel
def descend_linear(rows, descent, theta, mean, square):
    """Train linear tests: theta, (n_restarts, n_nodes, n_columns + 1), and its moments, zeros."""
    for j in range(rows.start.size - 1):
        step = _step(rows, j)
        sums = _sums(rows)
        gradient = np.empty(theta.shape[2], np.float32)
        for t in range(descent.gamma.size):
            _take(rows, j, t, step)
            for r in range(theta.shape[0]):
                own = theta[r, j]
                step.margin[:] = own[own.size - 1]
                add_products(step.margin, own[:-1], step.columns)
                _fill_slope(rows, descent, descent.gamma[t], step, sums)
                for k in range(own.size - 1):
                    gradient[k] = dot(step.slope, step.columns[k])
                gradient[own.size - 1] = total(step.slope)
                _move(own, gradient, mean[r, j], square[r, j], descent, t)


@kernel
def descend_polytopes(rows, descent, numbers, means, squares):
    """Train polytope tests.

    Parameters
    ----------
    numbers : (beta, log_r, tau)
        (n_restarts, n_nodes, n_facets, n_columns + 1), (n_restarts, n_nodes, n_facets) and
        (n_restarts, n_nodes, 1).
    means, squares
        Moments alike, zeros.
    """
    beta, log_r, tau = numbers
    n_restarts, _, n_facets, width = beta.shape
    of_beta, of_r = np.empty((n_facets, width), np.float32), np.empty(n_facets, np.float32)
    of_tau, r = np.empty(1, np.float32), np.empty(n_facets, np.float32)
    for j in range(rows.start.size - 1):
        step, sums = _step(rows, j), _sums(rows)
        term = np.empty((n_facets, step.weight.size), np.float32)
        turn = np.empty((n_facets, step.weight.size), np.float32)
        for t in range(descent.gamma.size):
            _take(rows, j, t, step)
            for restart in range(n_restarts):
                own = beta[restart, j]
                step.margin[:] = -tau[restart, j, 0]
                for k in range(n_facets):
                    r[k] = np.exp(log_r[restart, j, k])
                    _fill_facet(own[k], step, term[k], turn[k])
                    add_scaled(step.margin, r[k], term[k])
                _fill_slope(rows, descent, descent.gamma[t], step, sums)
                for k in range(n_facets):
                    of_r[k] = r[k] * dot(step.slope, term[k])
                    for i in range(step.slope.size):
                        turn[k, i] *= r[k] * step.slope[i]
                    for c in range(width - 1):
                        of_beta[k, c] = dot(turn[k], step.columns[c])
                    of_beta[k, width - 1] = total(turn[k])
                of_tau[0] = -total(step.slope)
                _move(
                    own.ravel(), of_beta.ravel(), means[0][restart, j].ravel(),
                    squares[0][restart, j].ravel(), descent, t,
                )  # fmt: skip
                _move(
                    log_r[restart, j],
                    of_r,
                    means[1][restart, j],
                    squares[1][restart, j],
                    descent,
                    t,
                )
                _move(
                    tau[restart, j],
                    of_tau,
                    means[2][restart, j],
                    squares[2][restart, j],
                    descent,
                    t,
                )


@inner
def _move(own, gradient, mean, square, descent, t):
    """Move by AdamW with the decays of moments and the epsilon that torch has by default."""
    adamw(own, gradient, mean, square, descent.rate, descent.decay, t + 1, 0.9, 0.999, 1e-8)


@inner
def _fill_facet(beta, step, term, turn):
    """Fill softplus(β · [z; 1]), and its slope σ(β · [z; 1])."""
    term[:] = beta[beta.size - 1]
    add_products(term, beta[:-1], step.columns)
    fill_softplus(term, turn, step.far, step.small, step.bits)


@inner
def _step(rows, j):
    """Return room for the rows of a step of node j; those rows themselves where it takes all."""
    n, kind = rows.taken[j], np.float32
    n_columns = rows.columns.shape[0] - 1
    code = np.empty(n if rows.code.size else 0, np.int64)
    value = np.empty((rows.value.shape[0], n), kind)
    room = np.empty((6, n), kind)
    return Step(
        np.empty(n, np.int64), np.empty((n_columns, n), kind), np.empty(n, kind), code, value,
        room[0], room[1], room[2], room[3], room[4], room[5], np.empty(n, np.int32),
    )  # fmt: skip


@inner
def _take(rows, j, t, step):
    """Fill a step's rows and their weights, of which there is 1 in all."""
    first, taken = rows.start[j], rows.taken[j]
    n = rows.start[j + 1] - first
    if t > 0 and taken == n:
        return
    whole = 0.0
    for i in range(taken):
        row = rows.order[first + (i + t * taken) % n]
        step.row[i] = row
        whole += rows.weight[row]
    for i in range(taken):
        step.weight[i] = np.float32(rows.weight[step.row[i]] / whole)
    for i in range(step.code.size):
        step.code[i] = rows.code[step.row[i]]
    for c in range(step.columns.shape[0]):
        for i in range(taken):
            step.columns[c, i] = rows.columns[c, step.row[i]]
    for o in range(step.value.shape[0]):
        for i in range(taken):
            step.value[o, i] = rows.value[o, step.row[i]]


@inner
def _sums(rows):
    """Return room for what is summed on the left and the right, and what follows from it."""
    n = rows.n_classes if rows.code.size else rows.value.shape[0]
    return np.empty((2, n), np.float32)


@inner
def _fill_slope(rows, descent, gamma, step, sums):
    """Fill d loss / dm of each row, for the margins of a step."""
    margin = step.margin
    fill_turns(margin, gamma, step.other, step.right, step.far, step.small, step.bits)
    if rows.code.size:
        _fill_shares(step, sums)
        _slope_of_labels(descent.by_likelihood, step, sums)
    else:
        _slope_of_values(descent.by_likelihood, gamma, step, sums)
    for i in range(margin.size):
        step.slope[i] *= gamma * step.weight[i]


@inner
def _fill_shares(step, sums):
    """Fill the share of each class on both sides."""
    sums[:] = ZERO
    for i in range(step.code.size):
        sums[0, step.code[i]] += step.weight[i] * step.other[i]
        sums[1, step.code[i]] += step.weight[i] * step.right[i]
    for side in range(2):
        whole = max(total(sums[side]), TINY)
        for k in range(sums.shape[1]):
            sums[side, k] = max(sums[side, k] / whole, TINY)


@inner
def _slope_of_labels(by_likelihood, step, shares):
    code, slope, right, left = step.code, step.slope, step.right, step.other
    if by_likelihood:
        for i in range(slope.size):
            on_right, on_left = shares[1, code[i]] * right[i], shares[0, code[i]] * left[i]
            slope[i] = right[i] - on_right / (on_right + on_left)
        return
    for k in range(shares.shape[1]):
        shares[0, k] = np.log(shares[0, k]) - np.log(shares[1, k])
    for i in range(slope.size):
        slope[i] = right[i] * left[i] * shares[0, code[i]]


@inner
def _slope_of_values(by_likelihood, gamma, step, means):
    """As of labels, with means in the place of shares, and leaves of one variance."""
    slope, right, left, value = step.slope, step.right, step.other, step.value
    n_left, n_right = dot(step.weight, left), dot(step.weight, right)
    for i in range(slope.size):
        step.small[i] = step.weight[i] * left[i]
        step.far[i] = step.weight[i] * right[i]
    for o in range(value.shape[0]):
        means[0, o] = dot(step.small, value[o]) / max(n_left, TINY)
        means[1, o] = dot(step.far, value[o]) / max(n_right, TINY)
    slope[:] = ZERO  # how much farther the row is from the mean on the right
    variance = ZERO
    for o in range(value.shape[0]):
        own, on_left, on_right = value[o], means[0, o], means[1, o]
        for i in range(slope.size):
            a, b = own[i] - on_left, own[i] - on_right
            slope[i] += b * b - a * a
        variance += _scatter(own, on_left, step.small) + _scatter(own, on_right, step.far)
    if not by_likelihood:
        for i in range(slope.size):
            slope[i] *= right[i] * left[i]
        return
    variance = max(variance / (max(n_left + n_right, TINY) * value.shape[0]), LEAST_VARIANCE)
    for i in range(slope.size):
        step.far[i] = gamma * step.margin[i] - slope[i] / (TWO * variance)
    for i in range(slope.size):
        slope[i] = step.far[i]
        step.far[i] = max(-abs(slope[i]), FARTHEST)
    fill_exp(step.far, step.small, step.bits)
    for i in range(slope.size):
        h = (ONE if slope[i] > ZERO else step.small[i]) / (ONE + step.small[i])
        slope[i] = right[i] - h


@inner
def _scatter(value, mean, weight):
    """Return the weighted squared error about a mean."""
    result = ZERO
    for i in range(value.size):
        gap = value[i] - mean
        result += weight[i] * gap * gap
    return result
