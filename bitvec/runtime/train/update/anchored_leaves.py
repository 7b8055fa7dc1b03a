"""Leaves solved for anew on new rows, pulled to where they were: convex, and quick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.source import retrained_source
from bitvec.runtime.predict.engine import for_one_call
from bitvec.runtime.train.retrain import leaf_refit
from bitvec.runtime.train.retrain.leaf_design import LeafDesign, design
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.training_data import Data

PULLS = leaf_refit.PENALTIES
"""Strengths that are tried, from the strongest on: so many rows at a leaf of a tree of mean weight
move it half of its way."""


def table(forest: Forest, data: Data) -> LeafDesign:
    """Return which leaves some rows reach."""
    return design(forest, for_one_call(forest, len(data.X)).exit_leaves(data.X))


def anchored(
    forest: Forest, objective: Objective, data: Data, reached: LeafDesign
) -> Iterator[tuple[float, Forest]]:
    """Yield (pull, forest) along the path of `PULLS`, each from where the last one ended.

    Leaves minimise the weighted loss of the rows plus the pull times the distance from the leaves
    of `forest`; see `leaf_refit.fits`.
    """
    for pull, v in leaf_refit.fits(forest, reached, objective, data.target, data.weight):
        with np.errstate(over="ignore"):  # what overflows is rejected by the choice
            leaves = replace(forest.leaves, v=v.astype(forest.leaves.v.dtype))
        yield pull, replace(forest, leaves=leaves, source=retrained_source(forest.source))


def unit(forest: Forest, objective: Objective, data: Data, reached: LeafDesign) -> float:
    """Return by what a pull, in rows, is multiplied to be a penalty on the sum of losses."""
    problem = leaf_refit.LeafLoss(forest, reached, objective.smoothed(), data.target, data.weight)
    return problem.curvature(forest.leaves.v.astype(np.float64)) * reached.entry()
