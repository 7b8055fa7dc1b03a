"""New leaf vectors for a forest whose tests stay: convex, and most of what retraining gains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.source import retrained_source
from bitvec.runtime.predict.engine import for_one_call
from bitvec.runtime.train.relax.probability_leaves import has_probability_leaves
from bitvec.runtime.train.retrain import lbfgs
from bitvec.runtime.train.retrain.leaf_charts import Chart, chart
from bitvec.runtime.train.retrain.leaf_counts import counted_means, counted_probabilities
from bitvec.runtime.train.retrain.leaf_design import LeafDesign, design
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.recipe import Recipe, tell
from bitvec.runtime.train.retrain.selection import Selection
from bitvec.runtime.train.retrain.training_data import Data

__all__ = [
    "PENALTIES",
    "LeafLoss",
    "counted_means",
    "counted_probabilities",
    "design",
    "fits",
    "has_probability_leaves",
    "least_loss",
    "refit_leaves",
    "ridge",
]

PENALTIES = (3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0)
"""Pulls toward the old leaves that are tried, in rows: of mean curvature of the loss, in a tree of
mean weight, so many rows at a leaf move it half of its way."""
PATIENCE = 2
"""Solutions in a row that score no better than one before, after which the path is left: the
weakest pulls take longest."""
TOLERANCE = 1e-2
"""Tolerance of the scaled gradient's norm, per square root of a row: the mean loss is then within
about half its square of the least."""
ITERATIONS = 200
RIDGE_TOLERANCE = 1e-6
"""Tolerance of the scaled residual of the normal equations, relative to that at the old leaves."""


def refit_leaves(
    forest: Forest,
    goal: Objective,
    data: Data,
    held_out: Data,
    selection: Selection,
    recipe: Recipe,
) -> str | None:
    """Offer forests with other leaves, the solutions along a path of penalties.

    Returns why there were none, if so. Leaves are solved for on the host, in float64.
    """
    engine = for_one_call(forest, len(data.X))
    exits = engine.exit_leaves(data.X)
    held_out_exits = engine.exit_leaves(held_out.X).astype(np.int64)
    table = design(forest, exits)
    solutions = fits(forest, table, goal, data.target, data.weight)
    n_fits, step, since = len(PENALTIES), 0, 0
    best = -np.inf
    for step, (_, v) in enumerate(solutions, start=1):
        with np.errstate(over="ignore"):  # what overflows is rejected by the selection
            leaves = replace(forest.leaves, v=v.astype(forest.leaves.v.dtype))
        candidate = replace(forest, leaves=leaves, source=retrained_source(forest.source))
        raw = reference.accumulate(candidate, held_out.X, held_out_exits)
        evaluation = selection.consider(candidate, "leaves", step, n_fits, raw=raw)
        tell(recipe, evaluation)
        best, since = (evaluation.score, 0) if evaluation.score > best else (best, since + 1)
        if since == PATIENCE:
            break
    if step == 0:
        return (
            "The leaves were not refitted, since the loss of the forest as it was is not finite on "
            "the training rows: choose another loss, or bring y into the range of the forest."
        )
    return None


def with_leaves(forest: Forest, goal: Objective, data: Data, step: int) -> Forest:
    """Return the forest with the leaves of one of the penalties, counted from 1, on some rows."""
    table = design(forest, for_one_call(forest, len(data.X)).exit_leaves(data.X))
    for number, (_, v) in enumerate(fits(forest, table, goal, data.target, data.weight), start=1):
        if number == step:
            leaves = replace(forest.leaves, v=v.astype(forest.leaves.v.dtype))
            return replace(forest, leaves=leaves, source=retrained_source(forest.source))
    return forest


def fits(
    forest: Forest, table: LeafDesign, goal: Objective, target: Array, sample_weight: Array
) -> Iterator[tuple[float, Array]]:
    """Return (penalty, v) along the path of `PENALTIES`, each solved from where the last one ended.

    v minimises the weighted loss of the rows plus the penalty times the distance from the old
    leaves (see `leaf_charts`). With the squared error of an identity link that is solved as the
    linear system that it is (`ridge`), else by L-BFGS (`least_loss`). The kinks of "absolute" and
    "quantile" are smoothed, see `objective.SMOOTHING`. Nothing is yielded where the loss of the
    old leaves is not finite.
    """
    if goal.is_quadratic:
        yield from ridge(forest, table, target, sample_weight)
        return
    place, goal = chart(forest), goal.smoothed()
    problem = LeafLoss(forest, table, goal, target, sample_weight)
    theta = place.start()
    curvature = problem.curvature(place.at(theta).v)
    for penalty in PENALTIES:
        found = least_loss(problem, place, theta, penalty * curvature * table.entry(), curvature)
        if not np.isfinite(found.value):
            return
        theta = found.point
        yield penalty, place.at(theta).v


class LeafLoss:
    """The weighted loss of the training rows as a function of leaf vectors, float64."""

    def __init__(
        self,
        forest: Forest,
        table: LeafDesign,
        goal: Objective,
        target: Array,
        sample_weight: Array,
    ) -> None:
        self.table, self._goal = table, goal
        self._base = forest.output.base_score.astype(np.float64)
        self._target = torch.tensor(target)
        self.sample_weight = sample_weight / sample_weight.mean()
        self._weight = torch.tensor(self.sample_weight)

    def __call__(self, v: Array) -> tuple[float, Array]:
        """Return the loss and its gradient with respect to v."""
        with np.errstate(over="ignore", invalid="ignore"):
            raw = torch.tensor(self.table.raw(v) + self._base, requires_grad=True)
            total = self._total(raw)
            (gradient,) = torch.autograd.grad(total, raw)
            return float(total.detach()), self.table.transposed(gradient.numpy())

    def _total(self, raw: Tensor) -> Tensor:
        with torch.enable_grad():
            return (self._goal.losses(raw, self._target) * self._weight).sum()

    def curvature(self, v: Array) -> float:
        """Return the mean second derivative of a row's loss by one of its raw scores."""
        with np.errstate(over="ignore", invalid="ignore"):
            raw = torch.tensor(self.table.raw(v) + self._base, requires_grad=True)
        (gradient,) = torch.autograd.grad(self._total(raw), raw, create_graph=True)
        size = float(gradient.detach().square().mean())
        # Signs drawn at random: the mean of sign · Hessian · sign is the trace.
        sign = torch.tensor(np.random.default_rng(0).choice([-1.0, 1.0], raw.shape))
        try:
            (product,) = torch.autograd.grad(gradient, raw, sign)
        except RuntimeError:  # a caller's loss that is linear or has no second derivative
            trace = np.nan
        else:
            trace = float((product * sign).mean())
        if np.isfinite(trace):
            size = max(trace, 1e-3 * size)
        return size if 0 < size < np.inf else 1.0


def least_loss(
    problem: LeafLoss,
    place: Chart,
    theta: Array,
    pull: float,
    curvature: float,
    *,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
) -> lbfgs.Minimum:
    """Minimise the loss plus `pull` times the distance from the old leaves, from θ on."""

    def total(theta: Array) -> tuple[float, Array]:
        here = place.at(theta)
        loss, gradient = problem(here.v)
        return loss + pull * here.distance, here.pulled_back(gradient) + pull * here.away

    table = problem.table
    scale = place.scale(theta, pull, curvature * table.squared_columns(problem.sample_weight))
    within = tolerance * float(np.sqrt(len(problem.sample_weight)))
    with np.errstate(over="ignore", invalid="ignore"):  # a step that is too long is shortened
        return lbfgs.minimise(total, theta, scale, tolerance=within, iterations=iterations)


def ridge(
    forest: Forest, table: LeafDesign, target: Array, sample_weight: Array
) -> Iterator[tuple[float, Array]]:
    """Yield (penalty, v) that minimise the weighted squared error + penalty · ||v − old v||².

    Penalties are `PENALTIES`, in rows. Conjugate gradients on the normal equations,
    preconditioned by their diagonal, in float64.
    """
    old = forest.leaves.v.astype(np.float64)
    w = sample_weight[:, None] / sample_weight.mean()
    with np.errstate(over="ignore", invalid="ignore"):
        residual = target - table.raw(old) - forest.output.base_score
        right = table.transposed(w * residual)
        diagonal = table.squared_columns(w[:, 0])
        step = np.zeros_like(right)
        for penalty in PENALTIES:
            shrink = penalty * table.entry()

            def normal(v: Array, shrink: float = shrink) -> Array:
                return table.transposed(w * table.raw(v)) + shrink * v

            step = _conjugate_gradients(normal, right, diagonal + shrink, step)
            yield penalty, old + step


def _conjugate_gradients(
    normal: Callable[[Array], Array], right: Array, diagonal: Array, start: Array
) -> Array:
    """Solve normal(x) = right, preconditioned by a diagonal, from a start."""
    x = start.copy()
    r = right - normal(x)
    stop = RIDGE_TOLERANCE**2 * float((right * right / diagonal).sum())
    z = r / diagonal
    p, square = z, float((r * z).sum())
    for _ in range(10 * ITERATIONS):
        if not square > stop:  # reached, or not finite
            break
        q = normal(p)
        length = square / float((p * q).sum())
        x += length * p
        r -= length * q
        z = r / diagonal
        last, square = square, float((r * z).sum())
        p = z + (square / last) * p
    return x
