"""New leaf vectors for unchanged tests, as candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core import reference
from bitvec.core.forest import Forest
from bitvec.core.source import retrained_source
from bitvec.runtime.predict.torch.engine import TorchEngine
from bitvec.runtime.train.retrain import leaf_refit
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.recipe import Recipe, tell
from bitvec.runtime.train.retrain.selection import Selection
from bitvec.runtime.train.retrain.training_data import Data

PATIENCE = 2
"""Solutions in a row that score no better than one before, after which the path is left: the
weakest pulls take longest."""


def refit_leaves(
    forest: Forest,
    goal: Objective,
    data: Data,
    held_out: Data,
    selection: Selection,
    recipe: Recipe,
) -> str | None:
    """Offer forests with other leaves, the solutions along a path of penalties.

    Returns why there were none, if so. The device only finds the exit leaves: leaves are solved
    for on the host, in float64.
    """
    exits = TorchEngine(forest, recipe.device).exit_leaves(data.X)
    held_out_exits = TorchEngine(forest, recipe.device).exit_leaves(held_out.X).astype(np.int64)
    table = leaf_refit.design(forest, exits)
    fits = leaf_refit.fits(forest, table, goal, data.target, data.weight)
    n_fits, step, since = len(leaf_refit.PENALTIES), 0, 0
    best = -np.inf
    for step, (_, v) in enumerate(fits, start=1):
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
