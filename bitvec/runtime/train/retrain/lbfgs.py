"""L-BFGS with a diagonal scale and a line search, in float64: smooth problems to their optimum."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array

Problem = Callable[[Array], tuple[float, Array]]
"""From a point to the value there and the gradient, of the point's shape."""

MEMORY = 20
"""Steps remembered."""
DECREASE = 1e-4
"""Part of the first-order decrease that a step must bring (Armijo)."""
SHRINK = 0.5
SMALLEST_STEP = 1e-9
CALLS = 3
"""Evaluations at most, for each step allowed: a kink takes many."""
ROUNDING = 1e-13
"""Relative error of a value, within which only the slope tells whether a step is good."""


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """End of a minimisation.

    Parameters
    ----------
    point, gradient : float64
    value : float
    norm : float
        Of the gradient, sqrt(sum of gradient² / scale).
    calls : int
        How often the problem was evaluated.
    converged : bool
        Whether `norm` is within the tolerance.
    """

    point: Array
    gradient: Array
    value: float
    norm: float
    calls: int
    converged: bool


def minimise(
    problem: Problem, start: Array, scale: Array, *, tolerance: float, iterations: int
) -> Minimum:
    """Minimise a smooth function; the value never rises.

    Parameters
    ----------
    scale : positive, of the start's shape
        About the diagonal of the Hessian.
    tolerance : float
        Of the gradient's norm sqrt(sum of gradient² / scale), whose square is about twice the
        distance from the least value.
    iterations : int
        Steps at most.

    Notes
    -----
    Two-loop recursion, Algorithm 7.4 of Nocedal and Wright, Numerical Optimization, 2006; the
    initial Hessian is the scale, times the factor that fits the last step.
    """
    point = start
    value, gradient = problem(point)
    calls, steps = 1, deque[tuple[Array, Array, float]](maxlen=MEMORY)
    for _ in range(iterations):
        if not np.isfinite(value) or _norm(gradient, scale) <= tolerance:
            break
        if calls > CALLS * iterations:
            break
        found = _search(problem, point, value, gradient, _direction(gradient, scale, steps))
        if found is None and steps:  # what is remembered misleads: go on without it
            steps.clear()
            found = _search(problem, point, value, gradient, -gradient / scale)
        if found is None:
            break
        step, value, new_gradient, n_calls = found
        calls += n_calls
        change = new_gradient - gradient
        product = float((step * change).sum())
        if product > 1e-14 * float((step * step * scale).sum()):
            steps.append((step, change, product))
        point, gradient = point + step, new_gradient
    norm = _norm(gradient, scale)
    return Minimum(point, gradient, value, norm, calls, bool(norm <= tolerance))


def _search(
    problem: Problem, point: Array, value: float, gradient: Array, direction: Array
) -> tuple[Array, float, Array, int] | None:
    """Return a step that is long enough, the value and the gradient there, and the calls made."""
    slope = float((gradient * direction).sum())
    if not slope < 0:  # rounding, or not a number
        return None
    length, calls = 1.0, 0
    while length >= SMALLEST_STEP:
        step = length * direction
        new_value, new_gradient = problem(point + step)
        calls += 1
        new_slope = float((new_gradient * direction).sum())
        falls = new_value <= value + DECREASE * length * slope
        is_level = new_value <= value + ROUNDING * abs(value)
        if falls or (is_level and abs(new_slope) <= 0.9 * abs(slope)):
            return step, new_value, new_gradient, calls
        length *= SHRINK
    return None


def _norm(gradient: Array, scale: Array) -> float:
    return float(np.sqrt((gradient * gradient / scale).sum()))


def _direction(gradient: Array, scale: Array, steps: deque[tuple[Array, Array, float]]) -> Array:
    q, parts = gradient.copy(), []
    for step, change, product in reversed(steps):
        part = float((step * q).sum()) / product
        parts.append(part)
        q -= part * change
    q /= scale
    if steps:
        _, change, product = steps[-1]
        q *= product / float((change * change / scale).sum())
    for (step, change, product), part in zip(steps, reversed(parts), strict=True):
        q += (part - float((change * q).sum()) / product) * step
    return -q
