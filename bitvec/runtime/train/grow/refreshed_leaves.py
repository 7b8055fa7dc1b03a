"""Leaves of old trees given anew, tree after tree: one Newton step each, pulled to the old ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.predict.cpu.compiling import kernel
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
    named = reached.output
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
        outputs = np.arange(n_outputs) if output is None else np.array([output])
        factor = reached.weight[at.start] / reached.divisor[outputs]
        _refresh(both, outputs, leaf - at.start, v[at], raw, factor, rate, RIDGE, pull)
    return v, raw


@kernel
def _refresh(
    both: Any,
    outputs: Any,
    leaf: Any,
    v: Any,
    raw: Any,
    factor: Any,
    rate: float,
    ridge: float,
    pull: float,
) -> None:
    """Give a tree new leaf vectors, and add what it answers to the raw scores.

    Parameters
    ----------
    both : float64, (n_rows, 2 n_outputs)
        First derivatives, then second ones.
    outputs : int64, (width,)
        That the tree adds to.
    leaf : int64, (n_rows,)
    v : float64, (n_leaves, width)
    raw : float64, (n_rows, n_outputs)
    factor : float64, (width,)
        Of a leaf value in raw scores.
    rate, ridge, pull : float
    """
    n_rows, n_outputs = raw.shape
    for place in range(len(outputs)):
        k = outputs[place]
        G, H, total = np.zeros(len(v)), np.zeros(len(v)), 0.0
        for row in range(n_rows):
            G[leaf[row]] += both[row, k]
            H[leaf[row]] += both[row, n_outputs + k]
            total += both[row, n_outputs + k]
        for one in range(len(v)):
            if H[one] > 0.0:
                step = -rate * G[one] / (H[one] + ridge) / factor[place]
                share = H[one] / (H[one] + pull * total / n_rows)
                v[one, place] += share * (step - v[one, place])
        for row in range(n_rows):
            raw[row, k] += factor[place] * v[leaf[row], place]
