"""Training a relaxed forest, hardened and scored on the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from bitvec.errors import InvalidForestError
from bitvec.forest import Forest
from bitvec.runtime.torch import leaf_refit
from bitvec.runtime.torch.harden import harden
from bitvec.runtime.torch.module import Rows, SoftForest
from bitvec.runtime.torch.objective import Objective
from bitvec.runtime.torch.recipe import Recipe, batches, cosine, diverged, tell
from bitvec.runtime.torch.selection import Selection
from bitvec.runtime.torch.training_data import Data

LARGEST_RATE = 1e37
"""Beyond it a step of Adam is no float32; training has long diverged there."""


def train_soft(
    module: SoftForest, goal: Objective, data: Data, selection: Selection, recipe: Recipe
) -> str | None:
    """Train the relaxed forest, hardening and scoring it on the way; return why it ended early.

    No flush-to-zero is used: it gained nothing here, and inference needs subnormal numbers.
    """
    forest = module.forest
    module.calibrate(data.X)
    rows = module.prepare(data.X)
    _start_leaves(module, goal, data, rows)
    target = torch.tensor(data.target, device=recipe.device)
    weight = torch.tensor(
        data.weight / data.weight.mean(), dtype=module.dtype, device=recipe.device
    )
    optimizer, rates = _optimizer(module, goal, recipe)
    by_likelihood = module.leaves == "logits" and forest.n_trees == 1
    steps, loss_sum, since = recipe.steps, 0.0, 0
    every = max(1, steps // recipe.evaluations)
    first, last = recipe.gamma
    for step, index in enumerate(batches(len(data.X), recipe)):
        module.gamma = first + (last - first) * step / steps
        cosine(optimizer, rates, step / steps)
        batch, label = rows.take(index), target[index]
        if by_likelihood:
            log_class = torch.log_softmax(module.v, dim=1)[:, label[:, 0]]
            losses = -torch.logsumexp(module.log_memberships(batch) + log_class, dim=0)
        else:
            losses = goal.losses(module(batch), label)
        loss = (losses * weight[index]).mean()
        value = float(loss.detach())
        if not np.isfinite(value):
            return diverged("loss", step + 1, steps)
        if not loss.requires_grad:
            return "Nothing that may move has an effect: no tree has a node that it could change."
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if module.rows is not None and "r" in module.movable:
            module.rows.keep_signs()
        loss_sum, since = loss_sum + value, since + 1
        if (step + 1) % every == 0 or step + 1 == steps:
            try:
                hardened = harden(module)
            except InvalidForestError:
                return diverged("forest", step + 1, steps)
            candidate = _counted(hardened, module, goal, data, rows)
            evaluation = selection.consider(
                candidate, "soft", step + 1, steps, loss=loss_sum / since, gamma=module.gamma
            )
            tell(recipe, evaluation)
            loss_sum, since = 0.0, 0
    return None


def _optimizer(
    module: SoftForest, goal: Objective, recipe: Recipe
) -> tuple[torch.optim.Optimizer, list[float]]:
    # Logits are of order one; other leaf vectors move in their own standard deviation.
    unit = 1.0
    if module.leaves == "values":
        unit = float(module.v.detach().std(correction=0))
        if not 0 < unit < np.inf:
            unit = goal.deviation
    decayed, rates = [module.b], [recipe.learning_rate]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}]
    if module.rows is not None:
        decayed += [module.rows.S, module.rows.offset]
        groups.append({"params": [module.rows.r], "weight_decay": 0.0})
        rates.append(recipe.learning_rate)
    groups.append({"params": [module.v], "weight_decay": 0.0})
    rates.append(recipe.learning_rate * unit)
    rates = [min(rate, LARGEST_RATE) for rate in rates]
    for group in groups:
        group["params"] = [p for p in group["params"] if p.requires_grad]  # type: ignore[attr-defined]
    return torch.optim.AdamW(groups, lr=rates[0]), rates


@torch.no_grad()
def _start_leaves(module: SoftForest, goal: Objective, data: Data, rows: Rows) -> None:
    if module.leaves != "logits" or "v" not in module.movable or module.forest.n_trees != 1:
        return
    counted = _counted(module.forest, module, goal, data, rows)
    # A leaf that no row reaches has the probabilities of the start, which may be 0.
    module.v.copy_(torch.tensor(counted.leaves.v, dtype=module.dtype).clamp_min(1e-3).log())


@torch.no_grad()
def _counted(
    candidate: Forest, module: SoftForest, goal: Objective, data: Data, rows: Rows
) -> Forest:
    """Return a single tree with its leaves counted anew on the training rows, hard routing."""
    if candidate.n_trees != 1 or "v" not in module.movable or candidate.leaves.output is not None:
        return candidate
    v, output = candidate.leaves.v, candidate.output
    if module.leaves == "logits":
        leaf = module.exit_leaves(rows)[0].cpu().numpy()
        counted, reached = leaf_refit.counted_probabilities(
            leaf, data.target[:, 0], data.weight, v.shape
        )
    elif leaf_refit.is_quadratic(goal):
        leaf = module.exit_leaves(rows)[0].cpu().numpy()
        weight = 1.0 if output.tree_weight is None else float(output.tree_weight[0])
        factor = weight / leaf_refit.divisor(candidate)
        if not np.all(factor):
            return candidate
        wanted = (data.target - output.base_score) / factor
        counted, reached = leaf_refit.counted_means(leaf, wanted, data.weight, len(v))
    else:
        return candidate
    with np.errstate(over="ignore"):  # what overflows is rejected by the selection
        new = np.where(reached[:, None], counted, v).astype(v.dtype)
    return replace(candidate, leaves=replace(candidate.leaves, v=new))
