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

    The rounds of the least variance on some rows are dropped, as long as the root of the sum of
    their variances stays below `FADED` of the deviation of what all trees together answer. Where
    trees do not add to the outputs in turn, none is.

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
    mean, variance = np.zeros((n, v.shape[1])), np.zeros(n)
    for tree in range(n):
        part = weighted[reached.leaf[tree]]
        mean[tree], variance[tree] = part.mean(axis=0), part.var(axis=0).sum()
    by_round = variance.reshape(-1, a_round).sum(axis=1)
    order = np.argsort(by_round, kind="stable")
    whole = (reached.raw(v) * reached.divisor).var(axis=0).sum()
    n_dropped = int(np.sum(np.cumsum(by_round[order]) <= FADED**2 * whole))
    drop = np.zeros(len(by_round), bool)
    drop[order[:n_dropped]] = True
    drop = np.repeat(drop, a_round)
    lost = mean[drop]
    if v.shape[1] == 1 and k > 1:
        lost = lost.reshape(-1, k)
    return drop, lost.sum(axis=0) / reached.divisor
