"""Training a relaxed forest, hardened and scored on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InvalidForestError
from bitvec.runtime.train.relax.harden import harden
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.retrain import checkpoint, leaf_counts, optimizers, zero_rows
from bitvec.runtime.train.retrain.batches import Batch, Batches
from bitvec.runtime.train.retrain.checkpoint import Checkpoint, State
from bitvec.runtime.train.retrain.compiled_tree import compiled_tree
from bitvec.runtime.train.retrain.distillation import Distillation
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.processes import Workers
from bitvec.runtime.train.retrain.recipe import Recipe, diverged, tell
from bitvec.runtime.train.retrain.regularisers import Regularisers
from bitvec.runtime.train.retrain.schedules import evaluated_steps
from bitvec.runtime.train.retrain.selection import Latest, Selection
from bitvec.runtime.train.retrain.training_data import Data

SMALLEST = 1e-6
"""Added to probabilities that may be exactly 0 before their logarithm is taken."""
NOTHING_MOVES = "Nothing that may move has an effect: no tree has a node that it could change."


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """Goal of the training of a soft forest.

    Parameters
    ----------
    objective : Objective
    distillation : Distillation, optional
        The pull towards another model's answers.
    regularisers : Regularisers
    recounts : bool
        Whether the leaves of a single tree are counted anew after each hardening.
    """

    objective: Objective
    distillation: Distillation | None = None
    regularisers: Regularisers = field(default_factory=Regularisers)
    recounts: bool = True

    def by_likelihood(self, module: SoftForest) -> bool:
        """Return whether the loss is the likelihood of one tree, taken in log space."""
        return (
            module.leaves == "logits"
            and module.forest.n_trees == 1
            and self.objective.is_likelihood
            and self.distillation is None
        )

    def losses(self, module: SoftForest, batch: Batch) -> Tensor:
        """Return the loss of each row, (n,)."""
        if self.by_likelihood(module):
            label = batch.target[:, 0]
            if module.relaxation.has_logarithms:
                log_class = torch.log_softmax(module.v, dim=1)[:, label]
                return -torch.logsumexp(module.log_memberships(batch.rows) + log_class, dim=0)
            share = module.memberships(batch.rows) @ module.leaf_vectors()
            return -torch.log(share.gather(1, label[:, None])[:, 0] + SMALLEST)
        raw = module(batch.rows)
        losses = self.objective.losses(raw, batch.target)
        if self.distillation is None:
            return losses
        assert batch.teacher is not None
        return self.distillation.mixed(losses, raw, batch.teacher)


@dataclass(eq=False)
class Training:
    """The state of a run between two steps."""

    module: SoftForest
    optimizer: torch.optim.Optimizer
    rates: list[float]
    step: int = 0
    loss_sum: float = 0.0
    n_losses: int = 0


def train_soft(
    module: SoftForest,
    goal: Goal,
    batches: Batches,
    selection: Selection | Latest,
    recipe: Recipe,
    workers: Workers,
    kept: Checkpoint | None = None,
    state: State | None = None,
    *,
    first: int = 0,
    deadline: float = np.inf,
    until: int | None = None,
    search: Mapping[str, Any] | None = None,
) -> str | None:
    """Train the relaxed forest, hardening and scoring it on the way; return why it ended early.

    No flush-to-zero is used: it gained nothing here, and inference needs subnormal numbers.

    Parameters
    ----------
    kept : Checkpoint, optional
        Where the state is written at each evaluation.
    state : State, optional
        The state to go on from; `selection` has been restored from it already.
    first : int
        Where this training's evaluations begin in the history.
    deadline : float
        On the clock of `time.monotonic`, looked at with each evaluation.
    until : int, optional
        The step to end at, of a schedule for all of them.
    search : mapping, optional
        Record of the search that this training belongs to, kept with its state.
    """
    module.calibrate(batches.sample())
    batches.start(module)
    if goal.recounts:
        _start_leaves(module, goal.objective, batches)
    optimizer, rates = optimizers.build(module, goal.objective, recipe)
    run = Training(module, optimizer, rates)
    if state is not None:
        checkpoint.take_training(state, module, optimizer)
        run.step = state.record["step"]
    steps, waited = recipe.steps, _evaluations_without_gain(selection, first)
    evaluated = evaluated_steps(steps, recipe.evaluations)
    if _out_of_patience(recipe, run.step, waited):
        return _no_gain(run.step, steps, waited)
    end = steps if until is None else until
    advance = _advance_of(run, goal, batches, recipe, workers)
    for stop in sorted(at for at in evaluated | {end} if run.step < at <= end):
        stopped = advance(stop)
        if stopped is not None:
            return stopped
        try:
            candidate = zero_rows.settled(harden(module))
            if goal.recounts:
                candidate = recounted(candidate, module, goal.objective, batches)
        except InvalidForestError:
            return diverged("forest", run.step, steps)
        evaluation = selection.consider(
            candidate, "soft", run.step, steps,
            loss=run.loss_sum / max(run.n_losses, 1), gamma=module.gamma,
        )  # fmt: skip
        run.loss_sum, run.n_losses = 0.0, 0
        tell(recipe, evaluation)
        waited = 0 if evaluation.accepted else waited + 1
        if kept is not None and workers.is_first and isinstance(selection, Selection):
            kept.save(snapshot(run, selection, search))
        if time.monotonic() > deadline and run.step < steps:
            return f"Training stopped at step {run.step} of {steps}: the budget was spent."
        if _out_of_patience(recipe, run.step, waited):
            return _no_gain(run.step, steps, waited)
    return None


def _out_of_patience(recipe: Recipe, step: int, waited: int) -> bool:
    return recipe.patience is not None and waited >= recipe.patience and step < recipe.steps


def _no_gain(step: int, steps: int, waited: int) -> str:
    return (
        f"Training stopped at step {step} of {steps}: the hard forest had not become better in "
        f"{waited} evaluations."
    )


def snapshot(run: Training, selection: Selection, search: Mapping[str, Any] | None = None) -> State:
    """Return all that the rest of the run depends on."""
    arrays, record = selection.state()
    state = State(
        {f"selection/{name}": array for name, array in arrays.items()},
        {"stage": "soft", "step": run.step, "selection": record, "search": dict(search or {})},
    )
    checkpoint.put_forest(state, "best", selection.best)
    checkpoint.put_training(state, run.module, run.optimizer)
    return state


def _advance_of(
    run: Training, goal: Goal, batches: Batches, recipe: Recipe, workers: Workers
) -> Callable[[int], str | None]:
    """Return what takes all steps up to one, and says why training cannot go on, if so."""
    steps, compiled = batches.steps(run.step), None
    if goal.distillation is None and not goal.regularisers and workers.size == 1:
        compiled = compiled_tree(
            run.module, goal.objective, batches, recipe, run.optimizer, run.rates
        )

    def in_torch(stop: int) -> str | None:
        for batch in islice(steps, stop - run.step):
            stopped = _step(run, goal, batch, recipe, workers)
            if stopped is not None:
                return stopped
        return None

    def in_loops(stop: int) -> str | None:
        assert compiled is not None
        losses, done = compiled.advance(run.step, stop)
        is_whole = done == stop - run.step
        run.step += done + (not is_whole)
        run.module.gamma = recipe.gamma((run.step - 1) / recipe.steps)
        run.loss_sum, run.n_losses = run.loss_sum + sum(losses), run.n_losses + done
        return None if is_whole else diverged("loss", run.step, recipe.steps)

    return in_torch if compiled is None else in_loops


def _step(run: Training, goal: Goal, batch: Batch, recipe: Recipe, workers: Workers) -> str | None:
    """Take one step; return why training cannot go on, if so."""
    module, steps = run.module, recipe.steps
    part = run.step / steps
    module.gamma = recipe.gamma(part)
    for group, rate in zip(run.optimizer.param_groups, run.rates, strict=True):
        group["lr"] = rate * recipe.rate(part)
    loss = (goal.losses(module, batch) * batch.weight).sum()
    if not loss.requires_grad:
        return NOTHING_MOVES
    if goal.regularisers.added:
        loss = loss + goal.regularisers.penalty(module) / workers.size
    run.optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    total = loss.detach()
    if workers.size > 1:
        moving = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for parameter in moving:
            if parameter.grad is None:  # a share without rows still takes part in the sum
                parameter.grad = torch.zeros_like(parameter)
        total = total.to(module.dtype).reshape(1)
        workers.add_up([total, *(p.grad for p in moving if p.grad is not None)])
    value = float(total)
    run.step += 1
    if not np.isfinite(value):
        return diverged("loss", run.step, steps)
    run.optimizer.step()
    goal.regularisers.after_step(module, run.optimizer.param_groups[0]["lr"], run.optimizer)
    if module.rows is not None and "r" in module.trainable:
        module.rows.keep_signs()
    run.loss_sum, run.n_losses = run.loss_sum + value, run.n_losses + 1
    return None


def _evaluations_without_gain(selection: Selection | Latest, first: int) -> int:
    waited = 0
    for evaluation in reversed(selection.history[first:]):
        if evaluation.accepted or evaluation.stage != "soft":
            break
        waited += 1
    return waited


@torch.no_grad()
def _start_leaves(module: SoftForest, objective: Objective, batches: Batches) -> None:
    if module.leaves != "logits" or "v" not in module.trainable or module.forest.n_trees != 1:
        return
    counted = recounted(module.forest, module, objective, batches)
    # A leaf that no row reaches has the probabilities of the start, which may be 0.
    module.v.copy_(torch.tensor(counted.leaves.v, dtype=module.v.dtype).clamp_min(1e-3).log())


def recounted(
    candidate: Forest, module: SoftForest, objective: Objective, batches: Batches
) -> Forest:
    """Return a single tree with its leaves counted anew on the training rows, hard routing."""
    if leaf_counts.best_vectors(candidate, objective) is None or not module.may_move.v.all():
        return candidate
    leaf, target, weight = _exits(module, batches)
    return leaf_counts.recounted(candidate, objective, leaf, Data(target, target, weight))


@torch.no_grad()
def _exits(module: SoftForest, batches: Batches) -> tuple[Array, Array, Array]:
    """Return the exit leaf, the target and the weight of every row of every process."""
    parts = [
        (module.exit_leaves(rows)[0].cpu().numpy(), data.target, data.weight)
        for rows, data in batches.chunks()
    ]
    leaf, target, weight = (
        batches.workers.joined(np.concatenate(column)) for column in zip(*parts, strict=True)
    )
    return leaf, target, weight
