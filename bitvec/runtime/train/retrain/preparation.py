"""Preparation of a retraining: arguments checked, rows read, the relaxed forest built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from bitvec.core import options
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict.torch import devices
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.relax.trainable import TRAINABLE
from bitvec.runtime.train.relax.trainable import find as find_trainable
from bitvec.runtime.train.retrain import (
    checkpoint,
    distillation,
    objective,
    optimizers,
    probability_leaves,
    processes,
    regularisers,
    schedules,
    training_data,
)
from bitvec.runtime.train.retrain.batches import ArrayBatches, Batches, LoaderBatches
from bitvec.runtime.train.retrain.checkpoint import Checkpoint, State
from bitvec.runtime.train.retrain.distillation import Distillation
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.processes import Workers
from bitvec.runtime.train.retrain.recipe import Recipe
from bitvec.runtime.train.retrain.selection import Selection
from bitvec.runtime.train.retrain.soft_training import Goal
from bitvec.runtime.train.retrain.training_data import Data

LEAVES = ("v", "base_score")
MANY_ROWS = 10_000


class Rows(NamedTuple):
    """The rows as `retrain` is given them."""

    X: Any
    y: Any
    sample_weight: Any
    validation: Any

    @property
    def is_loader(self) -> bool:
        """Return whether X yields batches."""
        return self.y is None and not hasattr(self.X, "shape") and isinstance(self.X, Iterable)


class Aim(NamedTuple):
    """The goal as `retrain` is given it."""

    loss: Any
    metric: Any
    quantile: Any
    teacher: Any
    teacher_weight: Any
    temperature: Any

    def objective(self, forest: Forest, target: Any) -> Objective:
        """Return the loss and the score for some targets."""
        level = 0.5 if self.quantile is None else self.quantile
        return objective.of_forest(
            forest, target, loss=self.loss, metric=self.metric, quantile=level
        )


class Settings(NamedTuple):
    """The options of training as `retrain` is given them."""

    relaxation: Any
    steps: Any
    batch_size: Any
    optimizer: Any
    learning_rate: Any
    rate_schedule: Any
    warmup: Any
    gamma: Any
    gamma_schedule: Any
    weight_decay: Any
    evaluations: Any
    patience: Any
    prune_dead: Any
    checkpoint_path: Any
    seed: Any
    device: Any
    progress: Any

    def recipe(
        self, forest: Forest, names: tuple[str, ...], n_steps: int, *, tells: bool
    ) -> Recipe:
        """Return the recipe, checked; `n_steps` is the number of steps by default."""
        if self.steps is not None:
            n_steps = options.whole("steps", self.steps)
        gamma = _gamma(forest, names) if self.gamma is None else self.gamma
        return Recipe(
            self.relaxation,
            n_steps,
            options.whole("batch_size", self.batch_size),
            optimizers.find(self.optimizer),
            options.positive("learning_rate", self.learning_rate),
            options.positive("weight_decay", self.weight_decay, or_zero=True),
            schedules.steepness(gamma, self.gamma_schedule),
            schedules.rate(
                self.rate_schedule, options.whole("warmup", self.warmup, least=0), n_steps
            ),
            options.whole("evaluations", self.evaluations),
            None if self.patience is None else options.whole("patience", self.patience),
            options.whole("seed", self.seed, least=0),
            devices.find(self.device),
            self.progress if tells else None,
        )


class Penalties(NamedTuple):
    """The regularisers as `retrain` is given them."""

    l1: Any
    l2: Any
    spatial: Any
    spatial_shape: Any
    spatial_matrix: Any


@dataclass(slots=True, eq=False)
class Run:
    """A retraining that is ready to start, or to go on from `state`.

    `refits_leaves` says that leaves are fitted on hard routes by a solver of their own,
    `leaves_alone` that nothing else is trained.
    """

    forest: Forest
    names: tuple[str, ...]
    goal: Goal
    recipe: Recipe
    data: Data
    held_out: Data
    batches: Batches
    module: SoftForest
    selection: Selection
    workers: Workers
    kept: Checkpoint | None
    state: State | None
    refits_leaves: bool
    leaves_alone: bool


def prepare(
    forest: Forest,
    trainable: Any,
    rows: Rows,
    aim: Aim,
    settings: Settings,
    penalties: Penalties,
) -> Run:
    """Check all arguments of `retrain`, read its rows and build what is trained."""
    selected = _selected(forest, trainable)
    names = tuple(selected)
    seed = options.whole("seed", settings.seed, least=0)
    if settings.progress is not None and not callable(settings.progress):
        raise InputError(
            f"`progress` must be a function of an Evaluation, got {settings.progress!r}."
        )
    group = processes.current()
    if aim.quantile is not None and "quantile" not in (aim.loss, aim.metric):
        raise InputError(
            f"`quantile` must come with the loss or the metric quantile, got {aim.quantile!r} with "
            f'{aim.loss!r}: pass loss="quantile".'
        )
    read = _read_loader if rows.is_loader else _read_arrays
    goal_objective, distils, data, held_out = read(forest, rows, aim, settings, seed)
    many = data is not None and len(data) >= MANY_ROWS
    recipe = settings.recipe(forest, names, 4000 if many else 1500, tells=group.is_first)
    batches: Batches
    if data is None:
        batches = loaded = LoaderBatches(rows.X, forest, recipe, group)
        data = loaded.first
        goal_objective = aim.objective(forest, data.target)
    else:
        batches = ArrayBatches(data, recipe, group)
    if "base_score" in names and probability_leaves.groups(forest) is not None:
        raise InputError(
            "`trainable` must not name base_score for a forest whose leaves hold probabilities: "
            "leave it out, since what is added to them makes them none."
        )
    assert goal_objective is not None
    goal_objective.require_targets(held_out.target, "validation[1]")
    probabilities = probability_leaves.has_probability_leaves(forest) and not goal_objective.soft
    # Refuses a forest that cannot be relaxed before any work is done.
    module = SoftForest.from_forest(
        forest,
        settings.relaxation,
        trainable=selected,
        gamma=recipe.gamma(0.0),
        dtype=training_dtype(forest),
        leaves="logits" if probabilities else "values",
        device=recipe.device,
    )
    goal = Goal(goal_objective, distils, regularisers.build(module, **penalties._asdict()))
    refits = (
        forest.leaves.linear is None
        and selected.get("v") == "all"
        and distils is None
        and isinstance(batches, ArrayBatches)
    )
    kept = _checkpoint(settings.checkpoint_path, forest, recipe, data, held_out, goal, selected)
    selection = Selection(forest, goal_objective, held_out.X, held_out.target, held_out.weight)
    state = None if kept is None else kept.load()
    if state is not None:
        selection.restore(
            checkpoint.take_forest(state, "best"),
            checkpoint.part(state, "selection"),
            state.record["selection"],
        )
    elif recipe.progress is not None:
        recipe.progress(selection.history[0])
    return Run(
        forest,
        names,
        goal,
        recipe,
        data,
        held_out,
        batches,
        module,
        selection,
        group,
        kept,
        state,
        refits_leaves=refits,
        leaves_alone=refits and not set(names) - set(LEAVES),
    )


def _selected(forest: Forest, trainable: Any) -> dict[str, Any]:
    """Return what may move, by name, and which part of it."""
    if trainable is None:
        return dict.fromkeys(("S", "b", "v") if forest.n_trees == 1 else ("v",), "all")
    names = find_trainable(trainable, forest).names
    if not names:
        raise InputError(f"`trainable` must name at least one of {', '.join(TRAINABLE)}, got none.")
    return dict(trainable) if isinstance(trainable, Mapping) else dict.fromkeys(names, "all")


_Read = tuple[Objective | None, Distillation | None, Data | None, Data]


def _read_loader(forest: Forest, rows: Rows, aim: Aim, settings: Settings, _: int) -> _Read:
    """Return the validation rows; the rest follows from the loader's first batch."""
    if settings.prune_dead:
        raise InputError("`prune_dead` must be False where X is a loader: prune rows in memory.")
    given = {"y": rows.y, "sample_weight": rows.sample_weight, "teacher": aim.teacher}
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"`{name}` must be left out where X is a loader: yield (X, y, sample_weight)."
            )
    return None, None, None, training_data.held_out(forest, rows.validation)


def _read_arrays(forest: Forest, rows: Rows, aim: Aim, _: Settings, seed: int) -> _Read:
    """Return the goal, the teacher, the training rows and the validation rows."""
    every = training_data.read(forest, rows.X, rows.y, rows.sample_weight)
    found = aim.objective(forest, every.target)
    distils = None
    if aim.teacher is not None:
        distils = distillation.build(
            found,
            aim.teacher,
            rows.X,
            len(every),
            weight=aim.teacher_weight,
            temperature=aim.temperature,
        )
        every = replace(every, teacher=distils.teacher)
    return found, distils, *training_data.split(forest, every, rows.validation, seed)


def _gamma(forest: Forest, names: tuple[str, ...]) -> tuple[float, float]:
    if "S" not in names:
        return 8.0, 60.0
    return (1.0, 4.0) if forest.output.is_classifier else (4.0, 30.0)


def training_dtype(forest: Forest) -> torch.dtype:
    """Return float32, or float64 where finite leaves overflow in it."""
    v = forest.leaves.v
    too_large = np.any(np.abs(v[np.isfinite(v)]) > np.finfo(np.float32).max)
    return torch.float64 if too_large else torch.float32


def _checkpoint(
    path: Any,
    forest: Forest,
    recipe: Recipe,
    data: Data,
    held_out: Data,
    goal: Goal,
    selected: dict[str, Any],
) -> Checkpoint | None:
    if path is None:
        return None
    run = {
        "recipe": [
            recipe.relaxation, recipe.steps, recipe.batch_size, recipe.optimizer,
            recipe.learning_rate, recipe.weight_decay, recipe.evaluations, recipe.patience,
            recipe.seed,
        ],
        "steepness": [recipe.gamma(part) for part in np.linspace(0, 1, 257)],
        "rates": [recipe.rate(part) for part in np.linspace(0, 1, 257)],
        "goal": goal,
        "trainable": selected,
    }  # fmt: skip
    arrays = [
        part
        for rows in (data, held_out)
        for part in (rows.X, rows.target, rows.weight, rows.teacher)
    ]
    return checkpoint.at(path, checkpoint.digest(forest, arrays, run))
