"""Bandwidths of features: given, or by Silverman's rule or leave-one-out conditional likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.kernels import FeatureKernel
from bitvec.core.shape_annotations import Float
from bitvec.errors import InputError
from bitvec.learners.kddt.search import Search
from bitvec.learners.kddt.shapes import deviation

GRID = np.logspace(-2, 0, 7)
"""Bandwidths that are tried, in standard deviations of each feature (section 5 of the paper)."""
RULES: Final = ("cv", "silverman", "likelihood")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Bandwidths, and what each of the grid scored where they come from cross-validation."""

    bandwidth: Float[Array, " n_features"]
    search: Search | None = None


def given_bandwidth(name: str, value: Any, n_features: int) -> Float[Array, " n_features"]:
    """Return bandwidths that were given as numbers, in the features' own units.

    Raises
    ------
    InputError
        If they are not one finite number, or one for each feature, none negative.
    """
    found = options.numbers(0.0 if value is None else value)
    if (
        found is None
        or found.shape not in ((), (n_features,))
        or not np.all(np.isfinite(found))
        or np.any(found < 0)
    ):
        rules = f"one of {', '.join(RULES)}, " if name == "bandwidth" else ""
        raise InputError(
            f"`{name}` must be {rules}a number that is not negative, or one for each of the "
            f"{n_features} features, got {value!r}."
        )
    return np.broadcast_to(found, n_features).copy()


def checked_grid(grid: Any) -> Float[Array, " n_bandwidths"]:
    """Return the bandwidths to try, ascending: the smallest have the smallest trees.

    Raises
    ------
    InputError
        If they are not finite numbers, or any is negative.
    """
    given = options.numbers(grid)
    if given is None or not given.size or not np.all(np.isfinite(given)) or given.min() < 0:
        raise InputError(
            "`bandwidths` must be finite numbers that are not negative, in standard deviations of "
            f"each feature, got {grid!r}."
        )
    return np.unique(given)


def spread(
    X: Float[Array, "n_rows n_features"], weight: Float[Array, " n_rows"]
) -> Float[Array, " n_features"]:
    """Return the weighted standard deviation of each feature, 0 for a constant one."""
    mean = np.average(X, axis=0, weights=weight)
    found = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    return np.where(np.ptp(X, axis=0) == 0, 0.0, found)


def silverman(
    X: Float[Array, "n_rows n_features"],
    weight: Float[Array, " n_rows"],
    shapes: Sequence[FeatureKernel],
) -> Float[Array, " n_features"]:
    """Return Silverman's bandwidth of each feature.

    The kernel's standard deviation becomes 0.9 · min(σ, IQR / 1.349) · n^(−1/5); n is the sum of
    weights. A feature whose middle half is one value goes by σ alone.

    Notes
    -----
    "Density Estimation for Statistics and Data Analysis" (Silverman, 1986), Eq. (3.31).
    """
    sigma = spread(X, weight)
    between = np.array([_middle_half(column, weight) for column in X.T]) / 1.349
    width = np.where(between > 0, np.minimum(sigma, between), sigma)
    rule = 0.9 * width * weight.sum() ** -0.2
    return rule / np.array([deviation(shape) for shape in shapes])


def _middle_half(x: Float[Array, " n_rows"], weight: Float[Array, " n_rows"]) -> float:
    """Return the distance of the quartiles of weighted numbers."""
    order = np.argsort(x, kind="stable")
    below = np.cumsum(weight[order])
    low, high = np.searchsorted(below, np.array([0.25, 0.75]) * below[-1])
    return float(x[order[high]] - x[order[low]])


def likelihood(
    X: Float[Array, "n_rows n_features"],
    Y: Float[Array, "n_rows n_outputs"],
    weight: Float[Array, " n_rows"],
    shapes: Sequence[FeatureKernel],
    *,
    is_classifier: bool,
    grid: Float[Array, " n_bandwidths"] = GRID,
) -> Float[Array, " n_features"]:
    """Return for each feature the bandwidth of the grid by which the others best tell a row's y.

    Maximises Σ w_i log f_−i(x_i, y_i) / f_−i(x_i), with densities of all rows but i; for a
    regression, where y has no density, it minimises the squared error of the mean of the others.
    So that a row without neighbours counts, all densities have one row more, of mean y, spread
    evenly over the kernel's width at x_i: a deviation from the paper, which leaves 0 / 0 open.

    Parameters
    ----------
    Y : float64, (n_rows, n_outputs)
        Shares of classes, or values.
    grid : float64, (n_bandwidths,)
        In standard deviations of each feature.
    """
    sigma = spread(X, weight)
    best = np.zeros(X.shape[1])
    prior = np.average(Y, axis=0, weights=weight)
    for feature, shape in enumerate(shapes):
        if sigma[feature] == 0:
            continue
        order = np.argsort(X[:, feature], kind="stable")
        x, own, rows = X[order, feature], Y[order], weight[order]
        scores = [
            _told(x, own, rows, shape, width * sigma[feature], prior, is_classifier)
            for width in grid
        ]
        best[feature] = grid[int(np.argmax(scores))] * sigma[feature]
    return best


def _told(
    x: Array,
    Y: Array,
    weight: Array,
    shape: FeatureKernel,
    bandwidth: float,
    prior: Array,
    is_classifier: bool,
) -> float:
    """Return how well the others tell Y at each x, ascending: a sum of logs, or minus squares."""
    h = bandwidth * shape.bandwidth[np.searchsorted(shape.location, x, side="right")]
    if np.all(h == h[0]):
        groups = [(float(h[0]), np.ones(x.size, bool))]
    else:
        groups = [(float(width), h == width) for width in np.unique(h)]
    total, norm = np.zeros_like(Y), np.zeros(x.size)
    density = shape.mass / np.diff(shape.edges)
    for width, at in groups:
        if width == 0:
            continue
        sums = np.vstack([np.zeros(Y.shape[1]), np.cumsum((weight * at)[:, None] * Y, axis=0)])
        weights = np.concatenate([[0.0], np.cumsum(weight * at)])
        for piece, height in enumerate(density):
            # The rows around which this piece lies over x.
            first = np.searchsorted(x, x - width * shape.edges[piece + 1], side="right")
            last = np.searchsorted(x, x - width * shape.edges[piece], side="right")
            total += (sums[last] - sums[first]) * (height / width)
            norm += (weights[last] - weights[first]) * (height / width)
    here = np.searchsorted(shape.edges, 0.0, side="right") - 1
    at_zero = density[here] if 0 <= here < density.size else 0.0
    divisor = np.where(h > 0, h, 1.0)
    itself = np.where(h > 0, weight * at_zero / divisor, 0.0)
    one = 1.0 / (divisor * (shape.edges[-1] - shape.edges[0]))
    total = total - itself[:, None] * Y
    if is_classifier:
        total = np.maximum(total, 0.0)
    norm = np.maximum(norm - itself, 0.0)
    mean = (total + one[:, None] * prior) / (norm + one)[:, None]
    if is_classifier:
        return float(weight @ np.sum(Y * np.log(np.maximum(mean, np.finfo(float).tiny)), axis=1))
    return -float(weight @ np.sum((Y - mean) ** 2, axis=1))
