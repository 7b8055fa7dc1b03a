"""Fit of an oblique forest: labels against teacher rows by validation, then a refit on all rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.output import Output
from bitvec.runtime.train.joint import (
    CompleteTrees,
    JointRecipe,
    Look,
    offer,
    soft_scores,
    train_jointly,
)
from bitvec.runtime.train.joint.teacher_rows import Teacher, loss_of, taught, tuned_booster
from bitvec.runtime.train.retrain import History, objective
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.recipe import Progress
from bitvec.runtime.train.retrain.selection import Selection, hard_scores
from bitvec.runtime.train.retrain.training_data import Data

TEACHER_STEPS = 2 / 3
"""Steps of the training on teacher rows, in those on labels."""
SOFT_STEPS, SOFT_GAMMA = 0.55, (2.0, 12.0)
"""Steps of trees that answer softly, in those on labels, and their steepness."""
DROPOUT, TEACHER_DROPOUT, FEW_DROPOUT, FEW = 0.4, 0.2, 0.1, 8
"""Tree dropout on labels, on teacher rows, and that of fewer than so many trees."""

Chosen = Literal["start", "labels", "teacher"]


@dataclass(frozen=True, slots=True, eq=False)
class ObliqueFit:
    """Result of a fit.

    Parameters
    ----------
    forest : Forest
        The hard forest that predicts.
    trees : CompleteTrees
        The same as arrays.
    chosen : "start", "labels" or "teacher"
        What the rows held out chose: the start as it was, training on labels, or on teacher rows.
    step : int
        The step of that training; 0 for the start.
    losses : dict
        By candidate, "booster" among them, its loss on the rows held out: log loss, or mean squared
        error in units of the variance of y. Empty where there were too few rows.
    refitted : bool
        Whether `forest` was then trained on all rows.
    history : History
        The evaluations of hard forests on the rows held out.
    soft : CompleteTrees, optional
        Trees that were trained to answer softly, where that was asked for: the share that goes
        right at a node is sigmoid(S x − b).
    soft_step : int
        The step of their training.
    """

    forest: Forest
    trees: CompleteTrees
    chosen: Chosen
    step: int
    losses: dict[str, float]
    refitted: bool
    history: History
    soft: CompleteTrees | None = None
    soft_step: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Problem and recipe of a fit.

    Parameters
    ----------
    output : Output
        One logit of two classes, one score a class, or values.
    inputs : Inputs
    start : callable
        From rows to the trees that training begins with.
    recipe : JointRecipe
        Of labels; dropout is set here.
    teacher : Teacher, "booster" or None
        "booster" is one that is tuned here.
    seed : int
    progress : callable, optional
    soft : bool
        Whether trees that answer softly are trained as well.
    """

    output: Output
    inputs: Inputs
    start: Callable[[Data], CompleteTrees]
    recipe: JointRecipe
    teacher: Teacher | Literal["booster"] | None
    seed: int
    progress: Progress | None = None
    soft: bool = False

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 for values."""
        return 0 if self.output.classes is None else len(self.output.classes[0])

    def own(self, data: Data) -> Array:
        """Return the labels as class probabilities, or the values."""
        return np.eye(self.n_classes)[data.target[:, 0]] if self.n_classes else data.target

    def objective(self, data: Data, *, soft: bool = False) -> Objective:
        """Return the loss of probabilities or values (`soft`), or the score of labels."""
        if soft:
            return objective.build(self.output, self.own(data), soft=bool(self.n_classes))
        metric = "log_loss" if self.n_classes else "auto"
        return objective.build(self.output, data.target, metric=metric)

    def trained(
        self,
        start: CompleteTrees,
        rows: Data,
        how: Chosen,
        goal: Objective,
        until: int | None,
        *,
        soft: bool = False,
    ) -> tuple[JointRecipe, Iterator[Look]]:
        """Return the recipe of labels or of teacher rows, and the looks of its training."""
        recipe, dropout = self.recipe, DROPOUT
        if soft:
            steps = max(round(SOFT_STEPS * recipe.steps), 1)
            recipe = replace(recipe, steps=steps, gamma=SOFT_GAMMA)
        elif how == "teacher":
            steps = max(round(TEACHER_STEPS * recipe.steps), 1)
            recipe, dropout = replace(recipe, steps=steps), TEACHER_DROPOUT
        if start.n_trees < FEW:
            dropout = FEW_DROPOUT if start.n_trees > 1 else 0.0
        recipe = replace(recipe, dropout=dropout)
        return recipe, train_jointly(start, rows, goal, recipe, until=until)


def fit_candidates(
    problem: Problem, data: Data, held_out: Data | None, *, refit: bool
) -> ObliqueFit:
    """Train on labels and on teacher rows, keep what the rows held out prefer, and refit it.

    Teacher rows are tried only where the teacher itself has less loss on the rows held out than the
    forest that was trained on labels: there is nothing to be learned from it otherwise.

    Parameters
    ----------
    data : Data
        Rows to train on; X float64, targets class numbers or values, (n_rows, width).
    held_out : Data, optional
        Rows to choose by. Without them the start is kept.
    refit : bool
        Whether what was chosen is trained on all rows, `held_out` among them, to the same step. The
        teacher's answers for rows are kept from before: it had not seen them. Where the new forest
        has more loss on the rows held out than the old one, the old one is kept.
    """
    start = problem.start(data)
    first = start.to_forest(problem.output, problem.inputs)
    if held_out is None:
        return ObliqueFit(first, start, "start", 0, {}, False, History((), "score"))
    judge = problem.objective(held_out)
    selection = Selection(first, judge, held_out.X, held_out.target, held_out.weight)
    goal = problem.objective(data, soft=True)
    losses = {"start": -selection.score}
    chosen: Chosen = "start"
    kept, step = start, 0

    def tried(how: Chosen, rows: Data) -> None:
        nonlocal chosen, kept, step
        recipe, looks = problem.trained(start, rows, how, goal, None)
        seen: dict[int, CompleteTrees] = {}

        def remembered() -> Iterator[Look]:
            for look in looks:
                seen[look.step] = look.trees
                yield look

        before = len(selection.history)
        best = offer(
            remembered(), selection, problem.output, problem.inputs, recipe, problem.progress
        )
        losses[how] = -max((look.score for look in selection.history[before:]), default=-np.inf)
        if best:
            chosen, kept, step = how, seen[best], best

    tried("labels", replace(data, target=problem.own(data)))
    lesson = _lesson(problem, data, held_out, -selection.score, losses)
    if lesson is not None:
        tried("teacher", _taught(problem, data, lesson))
    found = ObliqueFit(
        selection.best, kept, chosen, step, losses, False, History(selection.history, judge.metric)
    )
    if problem.soft:
        found = _softened(problem, found, start, data, held_out, lesson)
    return _refitted(problem, found, data, held_out, lesson) if refit else found


def _softened(
    problem: Problem,
    found: ObliqueFit,
    start: CompleteTrees,
    data: Data,
    held_out: Data,
    lesson: Lesson | None,
) -> ObliqueFit:
    """Return the fit with trees that answer softly, of least loss on the rows held out."""
    rows = replace(data, target=problem.own(data))
    if found.chosen == "teacher" and lesson is not None:
        rows = _taught(problem, data, lesson)
    goal, judge = problem.objective(data, soft=True), problem.objective(held_out)
    _, looks = problem.trained(start, rows, found.chosen, goal, None, soft=True)
    best, kept, step = np.inf, None, 0
    for look in looks:
        scores = judge.scores(soft_scores(look.soft, held_out.X), held_out.target)
        loss = -float(np.average(scores, weights=held_out.weight))
        if loss < best:
            best, kept, step = loss, look.soft, look.step
    losses = found.losses | {"soft": best}
    return replace(found, soft=kept, soft_step=step, losses=losses)


Lesson = tuple[Teacher, Any, Array]


def _lesson(
    problem: Problem, data: Data, held_out: Data, least: float, losses: dict[str, float]
) -> Lesson | None:
    """Return a teacher, fitted, and its out-of-fold answers; None if it does worse than `least`."""
    if problem.teacher is None:
        return None
    if isinstance(problem.teacher, Teacher):
        teacher = problem.teacher
        model = teacher.fitted(data)
        answers = teacher.answers(model, held_out.X)
    else:
        teacher, model, answers = tuned_booster(data, held_out, problem.n_classes, problem.seed)
    losses["booster"] = loss_of(answers, held_out, problem.n_classes)
    if losses["booster"] >= least:
        return None
    return teacher, model, teacher.out_of_fold(data, problem.seed)


def _taught(problem: Problem, data: Data, lesson: Lesson) -> Data:
    teacher, model, unseen = lesson
    return taught(data, problem.own(data), unseen, teacher, model, problem.seed)


def _refitted(
    problem: Problem, found: ObliqueFit, data: Data, held_out: Data, lesson: Lesson | None
) -> ObliqueFit:
    """Return the fit with what was chosen trained on all rows."""
    every = Data(
        np.concatenate([data.X, held_out.X]),
        np.concatenate([data.target, held_out.target]),
        np.concatenate([data.weight, held_out.weight]),
    )
    start = trees = problem.start(every)
    rows = replace(every, target=problem.own(every))
    if found.chosen == "teacher":
        assert lesson is not None
        teacher, model, unseen = lesson
        unseen = np.concatenate([unseen, teacher.answers(model, held_out.X)])
        rows = _taught(problem, every, (teacher, teacher.fitted(every), unseen))
    goal = problem.objective(every, soft=True)

    def trained(step: int, *, soft: bool) -> Look | None:
        _, looks = problem.trained(start, rows, found.chosen, goal, step, soft=soft)
        (last,) = deque(looks, maxlen=1) or (None,)
        return last if last is not None and last.step == step else None

    if found.soft is not None and (last := trained(found.soft_step, soft=True)) is not None:
        found = replace(found, soft=last.soft)
    if found.step:
        last = trained(found.step, soft=False)
        if last is None:
            return found
        trees = last.trees
    forest = trees.to_forest(problem.output, problem.inputs)
    judge, w = problem.objective(held_out), held_out.weight
    new, old = (
        float(np.average(judge.scores(hard_scores(one, held_out.X), held_out.target), weights=w))
        for one in (forest, found.forest)
    )
    if not new >= old:
        return found
    return replace(found, forest=forest, trees=trees, refitted=True)
