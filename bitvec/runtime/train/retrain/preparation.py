"""Preparation of a retraining: arguments checked, rows read, what each soft training needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from bitvec.core import options
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.predict.torch import devices
from bitvec.runtime.train.monotone import Monotone
from bitvec.runtime.train.relax import probability_leaves
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.relax.relaxations import Relaxation
from bitvec.runtime.train.relax.trainable import TRAINABLE
from bitvec.runtime.train.relax.trainable import find as find_trainable
from bitvec.runtime.train.retrain import (
    checkpoint,
    distillation,
    objective,
    optimizers,
    processes,
    regularisers,
    schedules,
    training_data,
)
from bitvec.runtime.train.retrain.batches import ArrayBatches, Batches, LoaderBatches
from bitvec.runtime.train.retrain.checkpoint import Checkpoint
from bitvec.runtime.train.retrain.distillation import Distillation
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.processes import Workers
from bitvec.runtime.train.retrain.recipe import Progress, Recipe, few_threads
from bitvec.runtime.train.retrain.retrain_options import Penalties, Schedule, Teacher
from bitvec.runtime.train.retrain.selection import Latest, Selection
from bitvec.runtime.train.retrain.soft_training import Goal, train_soft
from bitvec.runtime.train.retrain.training_data import Data

LEAVES = ("v", "base_score")
OF_THRESHOLDS = ("b", "v", "base_score")
"""Names of what may move where tests must go on comparing one column."""
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
    teacher: Teacher | None

    def objective(self, forest: Forest, target: Any) -> Objective:
        """Return the loss and the score for some targets."""
        level = 0.5 if self.quantile is None else self.quantile
        return objective.of_forest(
            forest, target, loss=self.loss, metric=self.metric, quantile=level
        )


class Course(NamedTuple):
    """Course of one soft training: what moves, its length, its steepness, and the pull of S to 0.

    Where the penalties of the task pull S as well, theirs is used.
    """

    selected: dict[str, Any]
    steps: int
    gamma: Any
    l1: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what moves."""
        return tuple(self.selected)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A retraining whose arguments are checked and whose rows are read.

    Parameters
    ----------
    forest : Forest
    selected : dict
        What may move, by name; the default where nothing was named.
    is_chosen : bool
        Whether it was named.
    data : Data, optional
        The training rows, unless a loader yields them.
    monotone : Monotone, optional
        Directions that every candidate keeps, as `forest` does.
    """

    forest: Forest
    selected: dict[str, Any]
    is_chosen: bool
    rows: Rows
    objective: Objective
    distils: Distillation | None
    data: Data | None
    held_out: Data
    relaxation: str | Relaxation
    schedule: Schedule
    penalties: Penalties
    selection: Selection
    workers: Workers
    device: torch.device
    seed: int
    progress: Progress | None
    monotone: Monotone | None = None

    @property
    def steps(self) -> int:
        """Steps of a whole soft training."""
        if self.schedule.steps is not None:
            return options.whole("steps", self.schedule.steps)
        if self.forest.n_trees > 1:
            return 300
        many = self.data is not None and len(self.data) >= MANY_ROWS
        return 4000 if many else 1500

    @property
    def course(self) -> Course:
        """Training where nothing is searched for."""
        gamma = self.schedule.gamma
        if gamma is None:
            gamma = _gamma(self.forest, tuple(self.selected))
        return Course(self.selected, self.steps, gamma)

    def kept(self, forest: Forest) -> Forest:
        """Return a candidate, its leaves cut where it does not keep the directions."""
        return forest if self.monotone is None else self.monotone.kept(forest)

    def refits_leaves(self, selected: Mapping[str, Any]) -> bool:
        """Return whether leaves are fitted on hard routes by a solver of their own."""
        return (
            self.forest.leaves.linear is None
            and selected.get("v") == "all"
            and self.distils is None
            and self.data is not None
        )

    @property
    def leaves_alone(self) -> bool:
        """Return whether nothing but leaves was to be trained, which is a convex problem."""
        return self.refits_leaves(self.selected) and not set(self.selected) - set(LEAVES)

    def recipe(self, course: Course) -> Recipe:
        """Return the recipe of a soft training, checked."""
        how = self.schedule
        return Recipe(
            self.relaxation,
            course.steps,
            options.whole("batch_size", how.batch_size),
            optimizers.find(how.optimizer),
            options.positive("learning_rate", how.learning_rate),
            options.positive("weight_decay", self.penalties.weight_decay, or_zero=True),
            schedules.steepness(course.gamma, how.gamma_schedule),
            schedules.rate(
                how.rate_schedule,
                min(options.whole("warmup", how.warmup, least=0), self._longest_warmup(course)),
                course.steps,
            ),
            self._evaluations(course),
            None if how.patience is None else options.whole("patience", how.patience),
            self.seed,
            self.device,
            self.progress,
        )

    def _evaluations(self, course: Course) -> int:
        """Return how often a training is looked at: not oftener than each `FIRST_LOOK` steps."""
        wanted = options.whole("evaluations", self.schedule.evaluations)
        if course.steps == self.steps:
            return wanted
        return min(wanted, max(1, course.steps // schedules.FIRST_LOOK))

    def _longest_warmup(self, course: Course) -> int:
        """Return the warm-up that fits a shorter training than the whole one."""
        return 2**62 if course.steps >= self.steps else course.steps // 2

    def module(self, start: Forest, course: Course, recipe: Recipe) -> SoftForest:
        """Return a forest relaxed."""
        has = probability_leaves.has_probability_leaves(start) and not self.objective.soft
        return SoftForest.from_forest(
            start,
            self.relaxation,
            trainable=course.selected,
            gamma=recipe.gamma(0.0),
            dtype=training_dtype(start),
            leaves="logits" if has else "values",
            device=recipe.device,
        )

    def train(
        self,
        start: Forest,
        course: Course,
        selection: Selection | Latest,
        data: Data | None,
        **how: Any,
    ) -> str | None:
        """Train a start softly, and offer hard forests to a selection; see `train_soft`."""
        recipe = self.recipe(course)
        module = self.module(start, course, recipe)
        weights = asdict(self.penalties)
        del weights["weight_decay"]
        weights["l1"] = weights["l1"] or course.l1
        goal = Goal(self.objective, self.distils, regularisers.build(module, **weights))
        batches: Batches
        if data is None:
            batches = LoaderBatches(self.rows.X, start, recipe, self.workers)
        else:
            batches = ArrayBatches(data, recipe, self.workers)
        with few_threads(start.n_nodes * recipe.batch_size, recipe.device):
            return train_soft(module, goal, batches, selection, recipe, self.workers, **how)

    def checkpoint(self, path: Any, **search: Any) -> Checkpoint | None:
        """Return the file that keeps the state of the run, if a path is given."""
        if path is None:
            return None
        recipe = self.recipe(self.course)
        run = {
            "recipe": [
                recipe.relaxation, recipe.steps, recipe.batch_size, recipe.optimizer,
                recipe.learning_rate, recipe.evaluations, recipe.patience, recipe.seed,
                self.schedule.errors,
            ],
            "steepness": [recipe.gamma(part) for part in np.linspace(0, 1, 257)],
            "rates": [recipe.rate(part) for part in np.linspace(0, 1, 257)],
            "goal": [self.objective, self.distils],
            "penalties": self.penalties,
            "trainable": self.selected,
            "search": search,
            "monotone": None if self.monotone is None else self.monotone.signs.tolist(),
        }  # fmt: skip
        read = (self.data or LoaderBatches(self.rows.X, self.forest, recipe, self.workers).first,)
        arrays = [
            part
            for rows in (*read, self.held_out)
            for part in (rows.X, rows.target, rows.weight, rows.teacher)
        ]
        return checkpoint.at(path, checkpoint.digest(self.forest, arrays, run))


def prepare(
    forest: Forest,
    trainable: Any,
    rows: Rows,
    aim: Aim,
    schedule: Schedule,
    penalties: Penalties,
    *,
    monotone: Monotone | None,
    relaxation: Any,
    prune_dead: bool,
    seed: Any,
    device: Any,
    progress: Any,
) -> Task:
    """Check all arguments of `retrain` and read its rows."""
    selected = _selected(forest, trainable, monotone)
    seed = options.whole("seed", seed, least=0)
    if progress is not None and not callable(progress):
        raise InputError(f"`progress` must be a function of an Evaluation, got {progress!r}.")
    workers = processes.current()
    if aim.quantile is not None and "quantile" not in (aim.loss, aim.metric):
        raise InputError(
            f"`quantile` must come with the loss or the metric quantile, got {aim.quantile!r} with "
            f'{aim.loss!r}: pass loss="quantile".'
        )
    place, errors = devices.find(device), options.positive("errors", schedule.errors, or_zero=True)
    if rows.is_loader:
        found, distils, data, held_out = _read_loader(forest, rows, aim, prune_dead)
    else:
        found, distils, data, held_out = _read_arrays(forest, rows, aim, seed)
    task = Task(
        forest, selected, trainable is not None, rows, found, distils, data, held_out, relaxation,
        schedule, penalties,
        _selection(forest, found, held_out, errors, monotone),
        workers, place, seed, progress if workers.is_first else None, monotone,
    )  # fmt: skip
    recipe = task.recipe(task.course)
    if data is None:
        first = LoaderBatches(rows.X, forest, recipe, workers).first
        found = aim.objective(forest, first.target)
        chosen = _selection(forest, found, held_out, errors, monotone)
        task = replace(task, objective=found, selection=chosen)
    if "base_score" in selected and probability_leaves.groups(forest) is not None:
        raise InputError(
            "`trainable` must not name base_score for a forest whose leaves hold probabilities: "
            "leave it out, since what is added to them makes them none."
        )
    task.objective.require_targets(held_out.target, "validation[1]")
    # Refuses a forest that cannot be relaxed, and penalties that do not fit, before any work.
    module = task.module(forest, task.course, recipe)
    weights = asdict(penalties)
    del weights["weight_decay"]
    regularisers.build(module, **weights)
    return task


def _selection(
    forest: Forest, goal: Objective, rows: Data, errors: float, monotone: Monotone | None
) -> Selection:
    if monotone is None:
        return Selection(forest, goal, rows.X, rows.target, rows.weight, errors)
    return Selection(forest, goal, rows.X, rows.target, rows.weight, errors, repair=monotone.kept)


def _selected(forest: Forest, trainable: Any, monotone: Monotone | None) -> dict[str, Any]:
    """Return what may move, by name, and which part of it."""
    if trainable is None:
        whole = ("S", "b", "v") if monotone is None else ("b", "v")
        return dict.fromkeys(whole if forest.n_trees == 1 else ("v",), "all")
    names = find_trainable(trainable, forest).names
    if not names:
        raise InputError(f"`trainable` must name at least one of {', '.join(TRAINABLE)}, got none.")
    if monotone is not None and set(names) - set(OF_THRESHOLDS):
        raise InputError(
            f"`trainable` must name some of {', '.join(OF_THRESHOLDS)} where columns have monotone "
            f"constraints, got {', '.join(names)}: tests of several columns cannot keep them. Pass "
            "monotone={} to drop the constraints."
        )
    return dict(trainable) if isinstance(trainable, Mapping) else dict.fromkeys(names, "all")


_Read = tuple[Objective, Distillation | None, Data | None, Data]


def _read_loader(forest: Forest, rows: Rows, aim: Aim, prune_dead: bool) -> _Read:
    """Return a goal by the validation rows, and these; the rest follows from the first batch."""
    if prune_dead:
        raise InputError("`prune_dead` must be False where X is a loader: prune rows in memory.")
    given = {"y": rows.y, "sample_weight": rows.sample_weight, "teacher": aim.teacher}
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"`{name}` must be left out where X is a loader: yield (X, y, sample_weight)."
            )
    held_out = training_data.held_out(forest, rows.validation)
    return aim.objective(forest, held_out.target), None, None, held_out


def _read_arrays(forest: Forest, rows: Rows, aim: Aim, seed: int) -> _Read:
    """Return the goal, the teacher, the training rows and the validation rows."""
    every = training_data.read(forest, rows.X, rows.y, rows.sample_weight)
    found = aim.objective(forest, every.target)
    distils = None
    if aim.teacher is not None:
        distils = distillation.build(
            found,
            aim.teacher.answers,
            rows.X,
            len(every),
            weight=aim.teacher.weight,
            temperature=aim.teacher.temperature,
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
