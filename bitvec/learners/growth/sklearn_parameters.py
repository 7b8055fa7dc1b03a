"""Parameters of the estimators of grown trees, and the settings that they make."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch

from bitvec.core import options
from bitvec.errors import InputError
from bitvec.learners.growth.columns import Columns
from bitvec.learners.growth.grow import GrowthOptions
from bitvec.learners.growth.penalties import Penalty
from bitvec.learners.growth.refinement import Refinement
from bitvec.learners.growth.stump_losses import LOSSES
from bitvec.learners.growth.stump_test import Kind
from bitvec.learners.growth.stumps import StumpTraining
from bitvec.learners.growth.targets import Target
from bitvec.learners.parameters import estimator, parameter
from bitvec.learners.sklearn_base import NativeEstimator
from bitvec.runtime.predict.torch import devices
from bitvec.runtime.train.retrain import Evaluation
from bitvec.runtime.train.retrain.schedules import steepness


@estimator
class GrowthParameters(NativeEstimator):
    """Parameters of growth and refinement; a kind of tree says what its nodes test."""

    max_depth: int | None = parameter("Most levels.", default=6)
    max_leaves: int | None = parameter("Most leaves.", default=None)
    growth: Literal["level", "best"] = parameter(
        "Whole levels at a time, or the leaf of largest gain first.", default="level"
    )
    steps: int = parameter("Steps of Adam for each level.", default=200)
    learning_rate: float = parameter("For margins of deviation 1.", default=0.05)
    gamma: tuple[float, float] | Callable[[float], float] = parameter(
        "First and last steepness γ on the way, in units of margins; or a function of the part of "
        "the way.",
        default=(1.0, 8.0),
    )
    gamma_schedule: Literal["linear", "exponential", "cosine", "constant"] = parameter(
        "Way from the first γ to the last.", default="linear"
    )
    restarts: int = parameter(
        "Starts of each node, trained side by side on the same columns; the least exact impurity "
        "wins.",
        default=2,
    )
    batch_size: int = parameter(
        "Rows of a step, all nodes of a level together, though at least 256 of each node.",
        default=4096,
    )
    min_rows: int | None = parameter(
        "Rows of a node that is split; 4 if not given. Noisy labels want more.", default=None
    )
    min_gain: float = parameter(
        "Decrease of the mean impurity, over all rows, that a split must exceed.", default=0.0
    )
    refine: int | None = parameter(
        "Steps of the joint refinement by `bitvec.retrain`, 0 for none; if not given, 1,500, and "
        "4,000 from 10,000 rows on.",
        default=None,
    )
    refine_learning_rate: float = parameter("Learning rate of the refinement.", default=0.03)
    refine_gamma: tuple[float, float] | Callable[[float], float] | None = parameter(
        "Steepness in the refinement; see `gamma` of `bitvec.retrain`.", default=None
    )
    validation: float | tuple[Any, ...] = parameter(
        "Rows that the refined tree is chosen by, (X, y) or (X, y, sample_weight); or the share of "
        "the training rows that the tree does not grow on. A tree whose refinement is not better "
        "on them is grown anew on all rows, and leaves are filled from all rows in the end.",
        default=0.15,
    )
    smoothing: float = parameter("Rows that are added to each leaf.", default=0.0)
    checkpoint_path: str | os.PathLike[str] | None = parameter(
        "File where the refinement writes its state, and goes on from if it is there; growth does "
        'so beside it, in `checkpoint_path` + ".growth", and ".regrowth" on all rows. They are '
        "files of one fit: remove them after.",
        default=None,
    )
    device: torch.device | str | None = parameter(
        "Device that trains stumps and the refinement, the CPU if not given. Cuts are scanned, "
        "leaves counted and rows answered on the CPU.",
        default=None,
    )
    verbose = parameter("Print growth and refinement on standard error.")

    losses: ClassVar[tuple[str, ...]]
    """Names of the losses that stumps are trained by, the default first."""

    @abstractmethod
    def _kind(self) -> Kind:
        """Return the kind of test at nodes."""

    def _loss(self) -> str:
        """Return the name of the stumps' loss."""
        return self.losses[0]

    def _penalties(self) -> tuple[Penalty, ...]:
        return ()

    def _columns(self) -> Columns | None:
        """Return how the columns that a node reads are drawn; None where it reads all."""
        return None

    def _training(self) -> StumpTraining:
        return StumpTraining(
            self._kind(),
            LOSSES[self._loss()],
            options.whole("steps", self.steps),
            options.whole("restarts", self.restarts),
            options.whole("batch_size", self.batch_size),
            options.positive("learning_rate", self.learning_rate),
            steepness(self.gamma, self.gamma_schedule),
            self._penalties(),
            self._columns(),
            device=devices.find(self.device),
        )

    def _growth(self, target: Target, seed: int) -> GrowthOptions:
        options.among("growth", self.growth, ("level", "best"))
        most = {"max_depth": self.max_depth, "max_leaves": self.max_leaves}
        for name, value in most.items():
            if value is not None:
                options.whole(name, value)
        if self.max_depth is None and self.max_leaves is None and self.growth == "best":
            raise InputError(
                "`max_leaves` or `max_depth` must be given where the best leaf is split first, got "
                "neither: say where growth ends."
            )
        least = (
            target.min_rows if self.min_rows is None else options.whole("min_rows", self.min_rows)
        )
        return GrowthOptions(
            best_first=self.growth == "best",
            max_depth=self.max_depth,
            max_leaves=self.max_leaves,
            min_rows=least,
            min_gain=options.positive("min_gain", self.min_gain, or_zero=True),
            retries=2,
            seed=seed,
        )

    def _refinement(self, seed: int) -> Refinement:
        if self.refine_gamma is not None:
            steepness(self.refine_gamma, "linear", name="refine_gamma")
        return Refinement(
            trainable=("S", "b", "v"),
            steps=self.refine,
            learning_rate=options.positive("refine_learning_rate", self.refine_learning_rate),
            gamma=self.refine_gamma,
            spatial=0.0,
            spatial_shape=None,
            checkpoint_path=self.checkpoint_path,
            seed=seed,
            progress=_print_refinement if self.verbose else None,
            device=devices.find(self.device),
        )


def _print_refinement(done: Evaluation) -> None:
    mark = ", kept" if done.accepted else ""
    line = f"{done.stage} {done.step}/{done.steps}: validation {done.score:.6g}{mark}"
    print(line, file=sys.stderr, flush=True)
