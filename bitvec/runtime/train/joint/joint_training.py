"""Joint training of complete trees: all of them at once, by the loss of their sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.inputs import Inputs
from bitvec.core.output import Output
from bitvec.runtime.train.joint.adamw_steps import AdamW
from bitvec.runtime.train.joint.complete_trees import CompleteTrees
from bitvec.runtime.train.joint.joint_module import SoftTrees
from bitvec.runtime.train.retrain import schedules
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.recipe import Progress, few_threads
from bitvec.runtime.train.retrain.selection import Selection
from bitvec.runtime.train.retrain.training_data import Data

FIRST_LOOK = 20
"""Step of the first look at the hard trees: a start that is good may be left soon."""
WARMUP = 20
"""Steps in which the learning rate rises."""
CUT = 0.5
"""Part of the way at which rows of S are cut to the columns that they may read."""
L1 = 0.01
"""Pull of the weights of S towards 0 before rows are cut."""


@dataclass(frozen=True, slots=True)
class JointRecipe:
    """The choices of one joint training.

    Parameters
    ----------
    steps, batch_size : int
    learning_rate : float
        Of S and b in their units, of leaf vectors as logits, and of a regressor's leaf vectors in
        the standard deviation of its targets; it rises over 20 steps and falls by a cosine to 0.
    weight_decay : float
        Of S and b.
    gamma : (float, float)
        First and last steepness, geometric on the way. It must end steep, where soft and hard trees
        agree.
    dropout : float
        Probability that a tree does not count for a row of a batch, drawn for each of both.
    columns : int or "fixed", optional
        Most columns that a row of S reads: those of the largest weights half of the way, until
        where all of them move under an L1 penalty. With "fixed", S stays as it is, and b and v
        move. By default all columns.
    seed : int
        Of the batches and of the dropout.
    """

    steps: int = 1500
    batch_size: int = 256
    learning_rate: float = 0.01
    weight_decay: float = 0.05
    gamma: tuple[float, float] = (4.0, 150.0)
    dropout: float = 0.4
    columns: int | Literal["fixed"] | None = None
    seed: int = 0


class Look(NamedTuple):
    """The trees on the way.

    Parameters
    ----------
    step : int
        Counted from 1.
    trees : CompleteTrees
        The hard ones.
    soft : CompleteTrees
        The same, scaled so that sigmoid(S x − b) is the share that goes right; see `soft_scores`.
    loss : float
        Mean since the look before.
    gamma : float
    """

    step: int
    trees: CompleteTrees
    soft: CompleteTrees
    loss: float
    gamma: float


def train_jointly(
    start: CompleteTrees,
    data: Data,
    objective: Objective,
    recipe: JointRecipe,
    *,
    looks: int = 10,
    until: int | None = None,
) -> Iterator[Look]:
    """Train all trees at once through their soft paths, and yield the trees on the way.

    Of a binary forest the loss is that of its one logit, of more classes that of a softmax. The
    iteration ends early where the loss is no longer finite.

    Parameters
    ----------
    data : Data
        X as float64; targets as the objective reads them, class numbers or probabilities or values.
    objective : Objective
        Of which the loss is used.
    looks : int
        How many times the trees are yielded on the way, beside once at about step 20. Rows of S
        that have still to be cut to `columns` are not yielded.
    until : int, optional
        The last step to be made, of the schedule of `recipe.steps`; these trees are yielded last.

    Yields
    ------
    Look
    """
    module = SoftTrees(start, data.X, rows="fixed" if recipe.columns == "fixed" else "dense")
    training = _Training(module, data, objective, recipe)
    last = recipe.steps if until is None else min(until, recipe.steps)
    stops = schedules.evaluated_steps(recipe.steps, looks) | {min(FIRST_LOOK, recipe.steps)}
    first = training.cut_at if training.cuts else 0
    for stop in sorted({step for step in stops if first < step < last} | {last}):
        with few_threads(len(start.b) * recipe.batch_size, torch.device("cpu")):
            loss, gamma = training.run(stop)
        if not np.isfinite(loss):
            return
        yield Look(stop, module.to_trees(), module.to_trees(gamma), loss, gamma)


def offer(
    looks: Iterable[Look],
    selection: Selection,
    output: Output,
    inputs: Inputs,
    recipe: JointRecipe,
    progress: Progress | None = None,
) -> int:
    """Offer the hard trees on the way to a selection; return the step of the best, 0 for none."""
    best = 0
    for look in looks:
        candidate = look.trees.to_forest(output, inputs)
        evaluation = selection.consider(
            candidate, "soft", look.step, recipe.steps, loss=look.loss, gamma=look.gamma
        )
        best = look.step if evaluation.accepted else best
        if progress is not None:
            progress(evaluation)
    return best


class _Training:
    """The state of a joint training between two steps."""

    def __init__(
        self, module: SoftTrees, data: Data, objective: Objective, recipe: JointRecipe
    ) -> None:
        self.module, self._objective, self._recipe = module, objective, recipe
        dtype = module.b.dtype
        self._Z = module.standardised(data.X)
        target = torch.tensor(data.target)
        self._target = target.to(dtype) if target.is_floating_point() else target
        self._weight = torch.tensor(data.weight / data.weight.mean(), dtype=dtype)
        self._random = np.random.default_rng(recipe.seed)
        self._generator = torch.Generator().manual_seed(recipe.seed)
        self._order = np.empty(0, np.int64)
        self._gamma = schedules.steepness(recipe.gamma, "exponential")
        warmup = min(WARMUP, recipe.steps - 1)
        self._rate = schedules.rate("cosine", warmup, recipe.steps)
        moving = [(module.b, recipe.weight_decay, 1.0), (module.v, 0.0, objective.deviation)]
        if recipe.columns != "fixed":
            moving.append((module.S, recipe.weight_decay, 1.0))
        self._moving = [tensor for tensor, _, _ in moving]
        self._optimizer = AdamW(moving)
        self._kept: Tensor | None = None
        self._step = 0
        self.cuts = isinstance(recipe.columns, int) and recipe.columns < module.S.shape[1]
        self.cut_at = round(CUT * recipe.steps)

    def run(self, stop: int) -> tuple[float, float]:
        """Make the steps up to `stop`; return their mean loss and the last steepness."""
        total, first, gamma = 0.0, self._step, 0.0
        while self._step < stop:
            if self.cuts and self._step == self.cut_at:
                self._cut()
            part = self._step / self._recipe.steps
            gamma = self._gamma(part)
            total += self._advance(gamma, self._recipe.learning_rate * self._rate(part))
            if not np.isfinite(total):
                break
        return total / max(self._step - first, 1), gamma

    def _advance(self, gamma: float, rate: float) -> float:
        module, rows = self.module, torch.from_numpy(self._batch())
        raw = module(self._Z[rows], gamma, self._root(len(rows)))
        loss = (self._objective.losses(raw, self._target[rows]) * self._weight[rows]).mean()
        value = float(loss.detach())
        if self.cuts and self._kept is None:
            loss = loss + L1 * module.S.abs().mean()
        gradients = torch.autograd.grad(loss, self._moving)
        self._step += 1
        if np.isfinite(value):
            self._optimizer.step(gradients, rate)
            if self._kept is not None:
                module.S.data.mul_(self._kept)
        return value

    def _batch(self) -> Array:
        """Return the rows of the next step, of one order of all rows after the other."""
        n, size = len(self._Z), min(self._recipe.batch_size, len(self._Z))
        if len(self._order) < size:
            self._order = self._random.permutation(n)
        rows, self._order = self._order[:size], self._order[size:]
        return rows

    def _root(self, n_rows: int) -> Tensor | None:
        p = self._recipe.dropout
        if p == 0:
            return None
        shape = (self.module.n_trees, n_rows)
        kept = torch.rand(shape, generator=self._generator, dtype=self._Z.dtype) >= p
        return kept.to(self._Z.dtype).div_(1 - p)

    @torch.no_grad()
    def _cut(self) -> None:
        """Keep the largest weights of each row of S, and no others from here on."""
        S = self.module.S
        assert isinstance(self._recipe.columns, int)
        largest = S.abs().topk(self._recipe.columns, dim=1).indices
        self._kept = torch.zeros_like(S).scatter_(1, largest, 1.0)
        S.mul_(self._kept)
