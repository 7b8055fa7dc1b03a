"""Offers of new leaves for the tests as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from bitvec import reference
from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.runtime.torch import leaf_refit
from bitvec.runtime.torch.engine import TorchEngine
from bitvec.runtime.torch.harden import retrained_source
from bitvec.runtime.torch.objective import Objective
from bitvec.runtime.torch.recipe import Recipe, batches, cosine, diverged, tell
from bitvec.runtime.torch.selection import Selection
from bitvec.runtime.torch.training_data import Data


def refit_leaves(
    forest: Forest,
    goal: Objective,
    data: Data,
    held_out: Data,
    selection: Selection,
    recipe: Recipe,
) -> str | None:
    """Offer forests with other leaves: ridge solutions, or steps of a descent on the loss.

    Returns why the descent ended early, if it did.
    """
    exits = TorchEngine(forest, recipe.device).exit_leaves(data.X)
    held_out_exits = TorchEngine(forest).exit_leaves(held_out.X).astype(np.int64)
    table = leaf_refit.design(forest, exits, recipe.device)

    def offer(v: Array, step: int, steps: int, loss: float = np.nan) -> None:
        with np.errstate(over="ignore"):  # what overflows is rejected by the selection
            leaves = replace(forest.leaves, v=v.astype(forest.leaves.v.dtype))
        candidate = replace(forest, leaves=leaves, source=retrained_source(forest))
        raw = reference.accumulate(candidate, held_out.X, held_out_exits)
        tell(recipe, selection.consider(candidate, "leaves", step, steps, loss=loss, raw=raw))

    if leaf_refit.is_quadratic(goal):
        fits = leaf_refit.ridge(forest, table, data.target, data.weight)
        for step, (_, v) in enumerate(fits, start=1):
            offer(v, step, len(leaf_refit.PENALTIES))
        return None
    return _descend_leaves(forest, table, goal, data, recipe, offer)


def _descend_leaves(
    forest: Forest,
    table: leaf_refit.LeafDesign,
    goal: Objective,
    data: Data,
    recipe: Recipe,
    offer: Callable[[Array, int, int, float], None],
) -> str | None:
    device = recipe.device
    logits = leaf_refit.has_probability_leaves(forest)
    start = torch.tensor(forest.leaves.v, dtype=torch.float32, device=device)
    if logits:
        start = start.clamp_min(1e-2).log()
    unit = float(start.std())
    unit = unit if 0 < unit < np.inf else 1.0
    v = start.clone().requires_grad_()
    base = torch.tensor(forest.output.base_score, dtype=torch.float32, device=device)
    target = torch.tensor(data.target, device=device)
    weight = torch.tensor(data.weight / data.weight.mean(), dtype=torch.float32, device=device)
    optimizer = torch.optim.Adam([v], lr=0.05 * unit)
    steps, loss_sum, since = recipe.steps, 0.0, 0
    every = max(1, steps // recipe.evaluations)
    for step, rows in enumerate(batches(len(data.X), recipe)):
        cosine(optimizer, [0.05 * unit], step / steps)
        vectors = torch.softmax(v, dim=1) if logits else v
        raw = table.raw(vectors, rows) + base
        loss = (goal.losses(raw, target[rows]) * weight[rows]).mean()
        value = float(loss.detach())
        if not np.isfinite(value):
            return diverged("loss", step + 1, steps)
        pull = leaf_refit.PULL * ((v - start) / unit).square().mean()
        optimizer.zero_grad(set_to_none=True)
        (loss + pull).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss_sum, since = loss_sum + value, since + 1
        if (step + 1) % every == 0 or step + 1 == steps:
            with torch.no_grad():
                vectors = torch.softmax(v, dim=1) if logits else v
                offer(vectors.cpu().numpy(), step + 1, steps, loss_sum / since)
            loss_sum, since = 0.0, 0
    return None
