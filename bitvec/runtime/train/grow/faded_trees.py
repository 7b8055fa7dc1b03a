"""Old trees that hardly tell rows apart, which are dropped."""

from __future__ import annotations

import numpy as np

from bitvec.converters.writable import output_of_tree
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Bool, Float64
from bitvec.runtime.train.retrain.leaf_design import LeafDesign

FADED = 0.02
"""Part of the standard deviation of raw scores that all dropped rounds together may have."""


def faded(
    forest: Forest, reached: LeafDesign | None, v: Float64[Array, "n_leaves width"]
) -> tuple[Bool[Array, " n_trees"], Float64[Array, " n_outputs"]]:
    """Return which trees to drop, whole rounds of them, and what raw scores lack by it on average.

    The rounds of the least variance on some rows are dropped, as long as the deviation of their sum
    stays below `FADED` of that of what all trees together answer. Where trees do not add to the
    outputs in turn, none is.

    Parameters
    ----------
    reached : LeafDesign, optional
        Not needed where all leaves are 0.
    v : float64, (n_leaves, width)
        Leaves that stand for those of the forest; where all are 0 all trees are dropped.
    """
    n, k = forest.n_trees, forest.n_outputs
    lacks = np.zeros(k)
    if reached is None or not np.any(v):
        return np.ones(n, bool), lacks
    a_round = 1 if forest.leaves.output is None else k
    in_turn = output_of_tree(forest)
    if a_round > 1 and (in_turn is None or not np.array_equal(in_turn, np.arange(n) % k)):
        return np.zeros(n, bool), lacks
    weighted = v * reached.weight[:, None]

    def answers(number: int) -> Array:
        found = np.zeros((reached.leaf.shape[1], k))
        for tree in range(number * a_round, (number + 1) * a_round):
            part = weighted[reached.leaf[tree]]
            found[:, slice(None) if part.shape[1] == k else [tree % k]] += part
        return found

    variance = np.array([_variance(answers(number)) for number in range(n // a_round)])
    limit = FADED**2 * _variance(reached.raw(v) * reached.divisor)
    drop, lost = np.zeros(len(variance), bool), np.zeros((reached.leaf.shape[1], k))
    for number in np.argsort(variance, kind="stable").tolist():
        more = lost + answers(number)
        if _variance(more) > limit:
            break
        drop[number], lost = True, more
    return np.repeat(drop, a_round), lost.mean(axis=0) / reached.divisor


def _variance(scores: Array) -> float:
    return float(scores.var(axis=0).sum())
