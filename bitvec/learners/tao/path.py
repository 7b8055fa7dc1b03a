"""The path of sparse oblique trees over the strength of their penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitvec.core.options import numbers
from bitvec.errors import InputError
from bitvec.learners.tao.fit import TAOResult, fit_tao


@dataclass(frozen=True, slots=True, eq=False)
class PathPoint:
    """One tree of a path.

    Parameters
    ----------
    lambda_ : float
    result : TAOResult
    objective : float
    n_weights, n_leaves, n_parameters : int
        Of the pruned tree.
    mean_operations : float
        Multiplications and comparisons of a training row, on average.
    """

    lambda_: float
    result: TAOResult
    objective: float
    n_weights: int
    n_leaves: int
    n_parameters: int
    mean_operations: float


def tao_path(
    X: Any, y: Any, lambdas: Sequence[float], *, start: Any = "cart", **options: Any
) -> tuple[PathPoint, ...]:
    """Fit sparse oblique trees for rising penalties, each from the one before.

    Parameters
    ----------
    X, y
        See `fit_tao`.
    lambdas : sequence of float
        Above 0; they are taken in rising order.
    start
        Of the first tree.
    **options
        Of `fit_tao`, besides `oblique`, `penalty` and `lambda_`.

    Returns
    -------
    tuple of PathPoint
        By rising penalty.

    Notes
    -----
    The next tree starts from the one before pruning, so that a node without weights may find some
    again.
    """
    given = numbers(lambdas)
    if given is None or given.ndim != 1 or not given.size or not np.all(given > 0):
        raise InputError(
            f"`lambdas` must be a list of at least one number above 0, got {lambdas!r}."
        )
    values = np.sort(given).tolist()
    points: list[PathPoint] = []
    for value in values:
        result = fit_tao(X, y, start=start, oblique=True, penalty="l1", lambda_=value, **options)
        points.append(
            PathPoint(
                value,
                result,
                result.objective,
                result.n_weights,
                result.tree.n_leaves,
                result.n_parameters,
                result.mean_operations,
            )
        )
        start = result.optimised
    return tuple(points)
