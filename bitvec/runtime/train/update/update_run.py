"""Run of an update: arguments checked, candidates offered, the chosen recipe fitted again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.runtime.predict.torch import devices
from bitvec.runtime.train.monotone import Monotone
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.retrain import objective as objectives
from bitvec.runtime.train.retrain.leaf_design import LeafDesign
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.recipe import Progress
from bitvec.runtime.train.retrain.selection import Evaluation, hard_scores
from bitvec.runtime.train.retrain.training_data import Data
from bitvec.runtime.train.update import anchored_leaves, scorecard, update_rows
from bitvec.runtime.train.update.anchored_training import AnchoredTraining, steps_for
from bitvec.runtime.train.update.update_choice import Choice
from bitvec.runtime.train.update.update_result import Trial
from bitvec.runtime.train.update.update_rows import Mix

AS_IT_WAS, LEAVES = "as it was", "leaves"
MOVES = ("b", "v")
PATIENCE = 2
"""Pulls in a row that score no better than one before, after which weaker ones are left out."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """An update whose arguments are checked and whose rows are read."""

    forest: Forest
    names: tuple[str, ...]
    objective: Objective
    rows: update_rows.UpdateRows
    choice: Choice
    metric: str
    metrics: Mapping[str, scorecard.Measure]
    repair: Callable[[Forest], Forest]
    steps: int | None
    seed: int
    device: torch.device
    progress: Progress | None
    tables: dict[int, LeafDesign] = field(default_factory=dict)

    def tried_leaves(self, mix: Mix, deadline: float) -> Trial:
        """Offer leaves under each pull, from the strongest on, while they become better."""
        began, data, choice = time.monotonic(), mix.fit, self.choice
        best, best_pull, since, step = -np.inf, anchored_leaves.PULLS[0], 0, 0
        n = len(anchored_leaves.PULLS)
        found = anchored_leaves.anchored(self.forest, self.objective, data, self._reached(data))
        for step, (pull, candidate) in enumerate(found, start=1):
            evaluation = choice.consider(candidate, "leaves", step, n)
            self.tell(evaluation)
            since += 1
            if evaluation.score > best:
                best, best_pull, since = evaluation.score, pull, 0
            if since == PATIENCE or time.monotonic() > deadline:
                break
        return Trial(LEAVES, best_pull, mix.replay, 0, 0, best, time.monotonic() - began)

    def tried_training(self, leaves: list[Trial], deadline: float) -> tuple[Trial, str | None]:
        """Offer forests on the way of the joint training, by what was best for leaves alone."""
        began, seen = time.monotonic(), len(self.choice.history)
        best_leaves = max(leaves, key=lambda trial: trial.score, default=None)
        mix, pull = self.rows.mixes[0], np.nan
        if best_leaves is not None:
            mix, pull = self._mix(best_leaves), best_leaves.pull
        training = self._training(mix.fit, pull, self.steps or steps_for(len(mix.fit)))
        stopped = training.run(mix.fit, self.choice, deadline=deadline)
        evaluations = self.choice.history[seen:]
        best = max(evaluations, key=lambda one: one.score, default=None)
        step, score = (0, -np.inf) if best is None else (best.step, best.score)
        name = "leaves and thresholds" if "v" in self.names else "thresholds"
        seconds = time.monotonic() - began
        return Trial(name, pull, mix.replay, step, training.steps, score, seconds), stopped

    def chosen(self, tried: list[Trial]) -> Trial:
        """Return the trial of the best candidate, at the place where that was found."""
        at = self.choice.found_at
        if at.stage == "soft":
            return replace(tried[-1], step=at.step, score=at.score)
        found = next(trial for trial in tried if trial.recipe == LEAVES and trial.score == at.score)
        return replace(found, pull=anchored_leaves.PULLS[at.step - 1])

    def _mix(self, trial: Trial) -> Mix:
        known = (mix for mix in self.rows.mixes if mix.replay == trial.replay)
        return next(known, self.rows.mixes[0])

    def refitted(self, chosen: Trial, deadline: float) -> Forest | None:
        """Return what the chosen recipe makes of all rows; None where time is over before."""
        mix = self._mix(chosen)
        data = mix.every
        assert data is not None
        if chosen.recipe == LEAVES:
            reached = self._reached(data)
            for pull, candidate in anchored_leaves.anchored(
                self.forest, self.objective, data, reached
            ):
                if pull == chosen.pull:
                    return self.sound(candidate)
                if time.monotonic() > deadline:
                    return None
            return None
        again = Choice(self.forest, self.objective, self.rows.held_out, repair=self.repair)
        training = self._training(mix.fit, chosen.pull, chosen.steps)
        training = replace(training, progress=None)
        training.run(data, again, until=chosen.step, deadline=deadline)
        reached_step = again.history[-1].step
        return self.sound(again.latest) if reached_step == chosen.step else None

    def sound(self, candidate: Forest) -> Forest | None:
        """Return a candidate, repaired, if its leaves are as those of the forest."""
        candidate = self.repair(candidate)
        return candidate if self.choice.is_sound(candidate) else None

    def _training(self, data: Data, pull: float, steps: int) -> AnchoredTraining:
        strength = 0.0
        if "v" in self.names:
            reached = self._reached(data)
            strength = pull * anchored_leaves.unit(self.forest, self.objective, data, reached)
        return AnchoredTraining(
            self.forest, self.objective, self.names, strength, steps, self.seed, self.device,
            self.progress,
        )  # fmt: skip

    def _reached(self, data: Data) -> LeafDesign:
        """Return which leaves some rows reach, which is worked out once."""
        if id(data) not in self.tables:
            self.tables[id(data)] = anchored_leaves.table(self.forest, data)
        return self.tables[id(data)]

    def tell(self, evaluation: Evaluation) -> None:
        """Tell how far the update is."""
        if self.progress is not None:
            self.progress(evaluation)

    def scores(self, forest: Forest, data: Data, weight: Array) -> dict[str, float]:
        """Return all scores of a forest on some rows."""
        raw = hard_scores(forest, data.X)
        return scorecard.scorecard(forest.output, raw, data.target, weight, self.metrics)


def prepare(
    forest: Forest,
    X: Any,
    y: Any,
    *,
    rows: Mapping[str, Any],
    trainable: Any,
    loss: Any,
    metric: Any,
    metrics: Any,
    monotone: Monotone | None,
    steps: Any,
    seed: int,
    device: Any,
    progress: Any,
) -> Run:
    """Check all arguments of `update` and read its rows; `rows` are those of `update_rows.read`."""
    names = _names(trainable)
    if forest.leaves.linear is not None:
        raise UnsupportedModelError(
            "a forest to be updated must have constant leaves, got linear ones: retrain it with "
            "bitvec.retrain."
        )
    if progress is not None and not callable(progress):
        raise InputError(f"`progress` must be a function of an Evaluation, got {progress!r}.")
    place = devices.find(device)
    own = _own(forest, metrics)
    # Refuses what cannot be relaxed before rows are read.
    SoftForest.from_forest(forest, "sigmoid", trainable=names)
    read = update_rows.read(forest, X, y, seed=seed, **rows)
    objective = loss_of(forest, read.mixes[0].fit.target, loss)
    objective.require_targets(read.held_out.target, "y")

    def repair(candidate: Forest) -> Forest:
        return candidate if monotone is None else monotone.kept(candidate)

    measure, name = _measure(forest, metric, read)
    choice = Choice(forest, objective, read.held_out, repair=repair, measure=measure)
    n_steps = None if steps is None else options.whole("steps", steps)
    return Run(
        forest, names, objective, read, choice, objective.metric if name is None else name, own,
        repair, n_steps, seed, place, progress,
    )  # fmt: skip


def _names(trainable: Any) -> tuple[str, ...]:
    given = (trainable,) if isinstance(trainable, str) else tuple(trainable)
    if not given or any(name not in MOVES for name in given):
        raise InputError(
            f"`trainable` must name some of b (thresholds) and v (leaves), got {trainable!r}: an "
            "update keeps S, use bitvec.retrain to move it."
        )
    return tuple(name for name in MOVES if name in given)


def _own(forest: Forest, metrics: Any) -> dict[str, scorecard.Measure]:
    if metrics is None:
        return {}
    fits = isinstance(metrics, Mapping) and all(
        isinstance(name, str) and callable(measure) for name, measure in metrics.items()
    )
    if not fits:
        raise InputError(
            "`metrics` must map names to functions of y and of what is predicted, got "
            f"{metrics!r}: those that there are by name are told anyway."
        )
    return dict(metrics)


def loss_of(forest: Forest, target: Array, loss: Any) -> Objective:
    """Return the loss, with itself as the score: of classes the log loss if there is one."""
    goal = objectives.of_forest(forest, target, loss=loss)
    if goal.loss != "cross_entropy":
        return goal
    hinge = forest.output.post_transform is PostTransform.HINGE
    return goal if goal.are_scores or hinge else replace(goal, measure="log_loss", sharpness=None)


def _measure(
    forest: Forest, metric: Any, rows: update_rows.UpdateRows
) -> tuple[Callable[[Array], float] | None, str | None]:
    """Return what takes raw scores of held-out rows to a number, and its name."""
    if isinstance(metric, str) and metric == "auto":
        return None, None
    target, weight, output = rows.held_out.target, rows.held_out.weight, forest.output
    if callable(metric):
        name = getattr(metric, "__name__", type(metric).__name__)
        return lambda raw: scorecard.own_score(metric, output, raw, target), name
    options.among("metric", metric, ("auto", *scorecard.names(output)))
    sign = scorecard.SIGNS[metric]

    def measure(raw: Array) -> float:
        value = scorecard.scorecard(output, raw, target, weight).get(metric)
        if value is None:
            raise InputError(
                f"`metric` must be defined on the rows held out, got {metric} of rows of one "
                "class: hold others out, or choose another."
            )
        return sign * value

    return measure, metric if sign > 0 else f"negative {metric}"
