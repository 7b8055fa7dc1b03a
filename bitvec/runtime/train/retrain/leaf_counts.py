"""The best leaf vectors of a single tree, each from the rows that reach it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.runtime.train.relax import probability_leaves
from bitvec.runtime.train.relax.aggregation import divisor
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.training_data import Data

Vectors = Callable[[Array, Array, Array], tuple[Array, Array]]
"""From leaf, target and weight of each row to leaf vectors and which leaves any row reached."""


def best_vectors(forest: Forest, objective: Objective) -> Vectors | None:
    """Return what gives a single tree's best leaves, if they can be had leaf by leaf."""
    leaves, output = forest.leaves, forest.output
    if forest.n_trees != 1 or leaves.output is not None or leaves.linear is not None:
        return None
    if objective.is_likelihood and probability_leaves.has_probability_leaves(forest):
        return partial(_probabilities, leaves.v.shape)
    if output.is_classifier or output.post_transform is not PostTransform.IDENTITY:
        return None
    if output.tree_weight is not None and not output.tree_weight[0] > 0:
        return None
    if objective.loss == "squared":
        return partial(_values, forest, counted_means)
    if objective.loss == "quantile":
        levels = objective.shape.quantile
        return partial(_values, forest, partial(counted_quantiles, quantile=levels))
    if objective.loss == "absolute":
        levels = (0.5,) * forest.n_outputs
        return partial(_values, forest, partial(counted_quantiles, quantile=levels))
    return None


def recounted(forest: Forest, objective: Objective, leaf: Array, rows: Data) -> Forest:
    """Return a single tree with its leaves counted anew on some rows.

    Other forests, and trees whose loss is not minimised leaf by leaf by a count, a mean or a
    quantile, are returned as they are. A leaf that no row reaches keeps its vector.

    Parameters
    ----------
    leaf : int64, (n_rows,)
        Exit leaves.
    """
    count = best_vectors(forest, objective)
    if count is None:
        return forest
    vectors, reached = count(leaf, rows.target, rows.weight)
    if not np.all(np.isfinite(vectors[reached])):
        return forest
    v = forest.leaves.v
    with np.errstate(over="ignore"):  # what overflows is rejected by the selection
        new = np.where(reached[:, None], vectors, v).astype(v.dtype)
    return replace(forest, leaves=replace(forest.leaves, v=new))


def _probabilities(
    shape: tuple[int, int], leaf: Array, target: Array, weight: Array
) -> tuple[Array, Array]:
    # The smoothing counts in rows of mean weight, so that the unit of weights does not matter.
    return counted_probabilities(leaf, target[:, 0], weight / weight.mean(), shape)


def _values(
    forest: Forest,
    count: Callable[[Array, Array, Array, int], tuple[Array, Array]],
    leaf: Array,
    target: Array,
    weight: Array,
) -> tuple[Array, Array]:
    """Count values and turn them into leaf vectors that give these raw scores."""
    output = forest.output
    factor = 1.0 if output.tree_weight is None else float(output.tree_weight[0])
    values, reached = count(leaf, target, weight, forest.n_leaves)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (values - output.base_score) / (factor / divisor(forest)), reached


def counted_probabilities(
    leaf: Array, label: Array, sample_weight: Array, shape: tuple[int, int], smoothing: float = 0.1
) -> tuple[Array, Array]:
    """Return (count + smoothing) / sum per leaf and class, and which leaves any row reached.

    Parameters
    ----------
    label : int64, (batch,), or float64, (batch, n_classes)
        Class numbers, or the probabilities of the classes.
    """
    counts = np.zeros(shape)
    if label.ndim == 1:
        np.add.at(counts, (leaf, label), sample_weight)
    else:
        np.add.at(counts, leaf, sample_weight[:, None] * label)
    total = counts.sum(axis=1, keepdims=True)
    return (counts + smoothing) / (total + smoothing * shape[1]), total[:, 0] > 0


def counted_means(
    leaf: Array, target: Array, sample_weight: Array, n_leaves: int
) -> tuple[Array, Array]:
    """Return the weighted mean of the targets per leaf, and which leaves any row reached."""
    total = np.bincount(leaf, sample_weight, minlength=n_leaves)
    sums = np.zeros((n_leaves, target.shape[1]))
    np.add.at(sums, leaf, sample_weight[:, None] * target)
    reached = total > 0
    return sums / np.where(reached, total, 1.0)[:, None], reached


def counted_quantiles(
    leaf: Array,
    target: Array,
    sample_weight: Array,
    n_leaves: int,
    quantile: tuple[float, ...],
) -> tuple[Array, Array]:
    """Return the weighted quantiles of the targets per leaf, and which leaves any row reached.

    Each is the least target up to which the weights sum to at least that part of all; it minimises
    the quantile loss.
    """
    total = np.bincount(leaf, sample_weight, minlength=n_leaves)
    reached = total > 0
    result = np.zeros((n_leaves, len(quantile)))
    for column, level in enumerate(quantile if reached.any() else ()):
        order = np.lexsort((target[:, column], leaf))
        order = order[sample_weight[order] > 0]
        at, cumulative = leaf[order], np.cumsum(sample_weight[order])
        first = np.flatnonzero(np.r_[True, at[1:] != at[:-1]])
        before = np.r_[0.0, cumulative][first]
        # Rounding of the sum must not push a place past its leaf.
        place = np.searchsorted(cumulative, before + level * total[at[first]] * (1 - 1e-12))
        last = np.r_[first[1:], len(at)] - 1
        result[at[first], column] = target[order[np.clip(place, first, last)], column]
    return result, reached
