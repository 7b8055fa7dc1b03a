"""Leaves of old trees given anew, tree after tree: one Newton step each, pulled to the old ones."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.train.grow.loss_derivatives import derivatives
from bitvec.runtime.train.retrain.leaf_design import LeafDesign
from bitvec.runtime.train.retrain.objective import Objective

REACH, RIDGE = 6.0, 1.0
"""Rate times rounds of a booster, which tells the rate of one whose rate is not known; and what is
added to the second derivatives of a leaf."""


def refreshed(
    forest: Forest,
    reached: LeafDesign,
    goal: Objective,
    target: Array,
    weight: Float64[Array, " n_rows"],
    pull: float,
) -> tuple[Float64[Array, "n_leaves width"], Float64[Array, "n_rows n_outputs"]]:
    """Return new leaf vectors, and the raw scores of all rows under them.

    Each tree's leaves are those that boosting would give it behind the refreshed trees before it;
    as many rows of mean second derivative as `pull` move a leaf half of its way there.

    Notes
    -----
    With a pull of 0 this is xgboost's updater `refresh`.
    """
    v = forest.leaves.v.astype(np.float64)
    n_rows, n_outputs = reached.leaf.shape[1], reached.n_outputs
    raw = np.tile(forest.output.base_score.astype(np.float64), (n_rows, 1))
    named, width = reached.output, reached.width
    ptr = forest.bitvectors.leaf_ptr
    rounds = max(forest.n_trees / (1 if named is None else n_outputs), 1)
    rate = min(1.0, REACH / rounds)
    weight = weight / weight[weight > 0].mean()
    both: Array | None = None
    seen: set[int | None] = set()
    for tree in range(forest.n_trees):
        at, leaf = slice(ptr[tree], ptr[tree + 1]), reached.leaf[tree]
        output = None if named is None else int(named[at.start])
        if both is None or output is None or output in seen:
            both, seen = derivatives(goal, raw, target) * weight[:, None], set()
        seen.add(output)
        which = range(n_outputs) if output is None else [output]
        own, n = leaf - at.start, at.stop - at.start
        for place, k in enumerate(which):
            G = np.bincount(own, both[:, k], n)
            H = np.bincount(own, both[:, n_outputs + k], n)
            factor = reached.weight[at.start] / reached.divisor[k]
            step = -rate * G / (H + RIDGE) / factor
            mean = both[:, n_outputs + k].mean()
            share = np.divide(H, H + pull * mean, out=np.zeros(n), where=H > 0)
            column = v[at, place if width > 1 else 0]
            column += share * (step - column)
            raw[:, k] += factor * column[own]
    return v, raw
