"""Schedules of the steepness, which rises, and the learning rate, which falls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bitvec.core import options
from bitvec.errors import InputError

Course = Callable[[float], float]
"""From the part of the way that is done, 0 to 1, to a value."""

CURVES: dict[str, Callable[[float, float, float], float]] = {
    "linear": lambda first, last, part: first + (last - first) * part,
    "exponential": lambda first, last, part: first * (last / first) ** part,
    "cosine": lambda first, last, part: (
        last + (first - last) * 0.5 * (1 + math.cos(math.pi * part))
    ),
    "constant": lambda first, last, part: first,
}
"""Ways from a first value to a last one."""


def steepness(gamma: Any, curve: Any, *, name: str = "gamma") -> Course:
    """Return the steepness on the way, from (first, last) and a curve, or from a function of it.

    Raises
    ------
    InputError
        If `gamma` is neither two numbers above 0 nor a function, or the curve is unknown.
    """
    if not isinstance(curve, str) or curve not in CURVES:
        raise InputError(
            f"`gamma_schedule` must be one of {', '.join(CURVES)}, got {curve!r}: choose one, or "
            f"pass a function of the part done as `{name}`."
        )
    if callable(gamma):
        _require_steepness_of_part(gamma, name)
        return lambda part: options.positive(f"{name}(part)", gamma(part))
    first, last = options.steepness(gamma, name=name)
    return lambda part: CURVES[curve](first, last, part)


def _require_steepness_of_part(gamma: Callable[..., Any], name: str) -> None:
    try:
        first = gamma(0.0)
    except TypeError as error:
        raise InputError(
            f"`{name}` must be a function of the part done, 0 to 1, got one that fails: {error}."
        ) from error
    options.positive(f"{name}(part)", first)


def rate(curve: Any, warmup: int, steps: int) -> Course:
    """Return what learning rates are multiplied by: a rise over `warmup` steps, then the curve.

    Raises
    ------
    InputError
        If the curve is unknown or the warm-up is not shorter than the training.
    """
    if curve not in ("cosine", "linear", "constant"):
        raise InputError(
            f"`rate_schedule` must be cosine, linear or constant, got {curve!r}: choose one."
        )
    if warmup and warmup >= steps:
        raise InputError(f"`warmup` must be below the {steps} steps, got {warmup}.")

    def factor(part: float) -> float:
        done = part * steps
        rise = min(1.0, (done + 1) / (warmup + 1))
        return rise * CURVES[curve](1.0, 0.0, part)

    return factor


FIRST_LOOK = 20
"""Step from which on the hard forest is scored, again each time the step has doubled."""


def evaluated_steps(steps: int, n_evaluations: int) -> frozenset[int]:
    """Return the steps, counted from 1, after which the hard forest is scored.

    >>> sorted(evaluated_steps(600, 3))
    [20, 40, 80, 160, 200, 400, 600]
    """
    even = {part * steps // n_evaluations for part in range(1, n_evaluations + 1)}
    first, early = min(even - {0}), set()
    look = FIRST_LOOK
    while look < first:
        early.add(look)
        look *= 2
    return frozenset(even | early) - {0}
