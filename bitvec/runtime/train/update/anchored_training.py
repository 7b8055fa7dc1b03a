"""Thresholds and leaves trained together on new rows, pulled to where they were."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.train.relax import probability_leaves
from bitvec.runtime.train.relax.module import Rows, SoftForest
from bitvec.runtime.train.retrain import schedules
from bitvec.runtime.train.retrain.batches import ArrayBatches, Batch, Batches
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.preparation import training_dtype
from bitvec.runtime.train.retrain.processes import Workers
from bitvec.runtime.train.retrain.recipe import Progress, Recipe, few_threads
from bitvec.runtime.train.retrain.regularisers import Regularisers
from bitvec.runtime.train.retrain.soft_training import Goal, train_soft
from bitvec.runtime.train.retrain.training_data import Data
from bitvec.runtime.train.update.update_choice import Choice

GAMMA, RATE, BATCH, DECAY = (4.0, 30.0), 0.05, 256, 0.1
"""Measured on synthetic drifts: less steep and faster than retraining, since the start is near.
The decay pulls thresholds, held as distances from the old ones, back to these."""
STEPS, ROWS_A_STEP, MOST_STEPS = 60, 50, 120
"""Steps: one for so many rows, at least and at most so many."""
EVALUATIONS, PATIENCE = 8, 4
"""Evaluations, and those in a row that are no better, after which training ends."""


def steps_for(n_rows: int) -> int:
    """Return the number of steps by default."""
    return min(max(STEPS, n_rows // ROWS_A_STEP), MOST_STEPS)


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    """R = strength · distance of the leaves from the old ones.

    Half the sum of squares, or for class probabilities KL(old || new), as in `leaf_charts`.
    """

    strength: float

    def penalty(self, module: SoftForest) -> Tensor:
        """Return R."""
        old, new = module.start_v, module.v
        if module.leaves == "logits":
            log_old, log_new = old.log_softmax(dim=1), new.log_softmax(dim=1)
            return self.strength * (log_old.exp() * (log_old - log_new)).sum()
        away = torch.where(old.isfinite(), new - old, 0.0)
        return self.strength * 0.5 * away.square().sum()


class EndingBatches:
    """Batches that end after so many steps, or when time is over."""

    def __init__(self, inner: Batches, last: int, deadline: float) -> None:
        self.workers = inner.workers
        self._inner, self._last, self._deadline = inner, last, deadline

    def sample(self) -> Array:
        """Return rows to measure margins on."""
        return self._inner.sample()

    def start(self, module: SoftForest) -> None:
        """Make rows ready."""
        self._inner.start(module)

    def steps(self, first: int) -> Iterator[Batch]:
        """Yield the batches from step `first` on, to the end."""
        for step, batch in enumerate(self._inner.steps(first), start=first):
            if step >= self._last or time.monotonic() > self._deadline:
                return
            yield batch

    def chunks(self) -> Iterator[tuple[Rows, Data]]:
        """Yield all rows once."""
        return self._inner.chunks()


@dataclass(frozen=True, slots=True, eq=False)
class AnchoredTraining:
    """A recipe of joint training, the same for any rows.

    Parameters
    ----------
    trainable : tuple of str
        "b", or "b" and "v".
    strength : float
        Of the anchor of leaves, in units of the sum of losses.
    steps : int
        Of the whole schedule.
    """

    forest: Forest
    objective: Objective
    trainable: tuple[str, ...]
    strength: float
    steps: int
    seed: int
    device: torch.device
    progress: Progress | None

    def run(
        self, data: Data, choice: Choice, *, until: int | None = None, deadline: float = torch.inf
    ) -> str | None:
        """Offer forests on the way to the choice; return why training ended early, if it did.

        Parameters
        ----------
        until : int, optional
            The step to end at, on the way of the whole schedule.
        deadline : float
            Of `time.monotonic`.
        """
        recipe = Recipe(
            "sigmoid",
            self.steps,
            BATCH,
            "adamw",
            RATE,
            DECAY,
            schedules.steepness(GAMMA, "linear"),
            schedules.rate("cosine", 0, self.steps),
            min(EVALUATIONS, self.steps),
            PATIENCE,
            self.seed,
            self.device,
            self.progress,
        )
        probabilities = probability_leaves.has_probability_leaves(self.forest)
        module = SoftForest.from_forest(
            self.forest,
            recipe.relaxation,
            trainable=self.trainable,
            gamma=recipe.gamma(0.0),
            dtype=training_dtype(self.forest),
            leaves="logits" if probabilities else "values",
            device=self.device,
        )
        added = (Anchor(self.strength / len(data)),) if "v" in self.trainable else ()
        goal = Goal(self.objective, None, Regularisers(added), recounts=False)
        batches = EndingBatches(
            ArrayBatches(data, recipe, Workers()), self.steps if until is None else until, deadline
        )
        with few_threads(self.forest.n_nodes * BATCH, self.device):
            return train_soft(module, goal, batches, choice, recipe, Workers())
