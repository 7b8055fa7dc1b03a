"""Search of a recipe: many in short trainings, the best of them in longer ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bitvec.core import options
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.learners.retrained.other_starts import PruningPath, pruning_path, refined
from bitvec.learners.retrained.regrown_start import regrown
from bitvec.runtime.train.retrain import checkpoint, leaf_refit
from bitvec.runtime.train.retrain.checkpoint import Checkpoint, State
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.preparation import Course, Task
from bitvec.runtime.train.retrain.recipe import few_threads, tell
from bitvec.runtime.train.retrain.result import Trial
from bitvec.runtime.train.retrain.selection import Latest
from bitvec.runtime.train.retrain.training_data import Data

Move = Callable[[Forest, Data], Forest]
"""From a forest and training rows to the forest that one part of a recipe makes of it."""

STEEPNESSES = ((1.0, 4.0), (4.0, 30.0), (8.0, 60.0))
SPARSE = 0.03
"""Pull of S towards 0 that is tried as well: noisy rows want tests that read few columns."""
AS_IT_IS, REFINED, REGROWN, PRUNED = "as it is", "refined", "regrown", "pruned"
REFITTED = "refitted"
ONE_COLUMN = (
    "S was not moved and the tree neither refined by alternating optimisation nor regrown: tests "
    "of several columns keep no monotone constraints."
)
ALL = 1 << 30

Anew = Callable[[Forest, Objective, Data], Forest | None]
"""From a tree to another one of its shape; None where there is none, or none that is better."""

Rung = tuple[float, int]
"""Length of trainings, in parts of the whole one, and how many recipes are trained so long."""
BUDGETS: Mapping[str, tuple[Rung, ...]] = {
    "quick": ((0.1, ALL), (0.5, 1)),
    "normal": ((0.1, ALL), (0.25, 2), (1.0, 1)),
    "thorough": ((0.25, ALL), (1.0, 3), (2.0, 1)),
}
SECONDS: tuple[Rung, ...] = ((0.1, ALL), (0.25, 3), (1.0, 2), (2.0, 1))
"""Rungs of a budget in seconds, as far as they go."""
OF_FORESTS: Mapping[str, tuple[Rung, ...]] = {
    "quick": ((0.2, ALL),),
    "normal": ((0.2, ALL), (1.0, 1)),
    "thorough": ((0.5, ALL), (2.0, 1)),
}
"""The same for several trees, whose steps cost more, where what is to move is named."""
OF_THRESHOLDS: Mapping[str, tuple[Rung, ...]] = {
    "normal": ((1.0, ALL),),
    "thorough": ((0.5, ALL), (2.0, 1)),
}
"""The same where it is not: thresholds are tried behind leaves alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Forest to begin with, and the moves that lead to it from the one that was given."""

    name: str
    forest: Forest
    path: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Recipe of a soft training: a start, what moves, its steepness, and the pull of S to 0."""

    start: Start
    selected: dict[str, Any]
    gamma: Any
    l1: float = 0.0

    def __str__(self) -> str:
        """Return a name for it."""
        names, pull = ", ".join(self.selected), f", l1 {self.l1:g}" * (self.l1 > 0)
        if callable(self.gamma):
            return f"{names}, tree {self.start.name}{pull}"
        first, last = self.gamma
        return f"{names}, {self.start.name}, steepness {first:g} to {last:g}{pull}"


@dataclass(eq=False)
class Run:
    """Trial with the place of its evaluations, and the moves to each of its forests."""

    trial: Trial
    first: int
    last: int
    names: tuple[str, ...]
    path: Callable[[int], tuple[Move, ...]]


@dataclass(eq=False)
class Search:
    """Search of a recipe for one task.

    Parameters
    ----------
    task : Task
    budget : str, float or None
        See `retrain`.
    kept : Checkpoint, optional
    """

    task: Task
    budget: str | float | None
    kept: Checkpoint | None = None
    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    deadline: float = math.inf
    _state: State | None = None
    _first: int = 0

    def run(self) -> None:
        """Try recipes, and offer what they make to the task's selection."""
        task = self.task
        if isinstance(self.budget, float):
            self.deadline = time.monotonic() + self.budget
        self._state = None if self.kept is None else self.kept.load()
        if self._state is not None:
            state = self._state
            task.selection.restore(
                checkpoint.take_forest(state, "best"),
                checkpoint.part(state, "selection"),
                state.record["selection"],
            )
        elif task.progress is not None:
            task.progress(task.selection.history[0])
        if task.refits_leaves(task.selected) and "S" not in task.selected:
            self._refit_leaves(Start(AS_IT_IS, task.forest))
        if not task.leaves_alone or self._adds_thresholds:
            for candidates, share, most in self._rungs():
                for candidate in self._best(candidates, most):
                    if time.monotonic() > self.deadline:
                        return
                    self._train(candidate, max(1, round(share * task.steps)))
            improved = task.selection.best is not task.forest
            refits = task.refits_leaves(task.selected) and task.forest.n_trees > 1
            chosen = self.chosen
            if refits and improved and chosen is not None and chosen.trial.steps:
                path = chosen.path(chosen.trial.step)
                start = Start(chosen.trial.recipe, task.selection.best, path)
                self._refit_leaves(start, chosen.names)

    @property
    def chosen(self) -> Run | None:
        """The run of the best forest so far, told at it; None where that is the one given.

        A search that goes on from a checkpoint knows a better one already, of a later run.
        """
        history = self.task.selection.history
        for run in reversed(self.runs):
            for at in reversed(range(run.first, run.last)):
                if history[at].accepted:
                    best = history[at]
                    return replace(run, trial=replace(run.trial, step=best.step, score=best.score))
        return None

    @property
    def is_single(self) -> bool:
        """Return whether one recipe alone is trained."""
        return self.budget is None or self.task.data is None or self.task.workers.size > 1

    @property
    def _adds_thresholds(self) -> bool:
        """Return whether thresholds of several trees are tried though they were not named."""
        task = self.task
        wanted = not (self.is_single or task.is_chosen or self.budget == "quick")
        return wanted and task.forest.n_trees > 1 and bool(task.forest.n_nodes)

    def _rungs(self) -> Iterator[tuple[list[Candidate], float, int]]:
        """Yield candidates, the length of their training, and how many of the best are trained."""
        task = self.task
        if self.is_single:
            course = task.course
            start = Start(AS_IT_IS, task.forest)
            yield [Candidate(start, course.selected, course.gamma)], 1.0, 1
            return
        name = self.budget if isinstance(self.budget, str) else "thorough"
        if self._adds_thresholds:
            candidates = [
                Candidate(self._refitted_start(), {"b": "all", "v": "all"}, gamma)
                for gamma in (STEEPNESSES[1:] if name == "thorough" else STEEPNESSES[2:])
            ]
            rungs = OF_THRESHOLDS[name]
        elif task.forest.n_trees > 1:
            candidates = self._steepnesses(Start(AS_IT_IS, task.forest), task.selected)
            rungs = OF_FORESTS[name]
        else:
            candidates = list(self._of_a_tree(name))
            rungs = BUDGETS[name] if isinstance(self.budget, str) else SECONDS
        for share, most in rungs:
            yield candidates, share, most

    def _steepnesses(self, start: Start, selected: dict[str, Any]) -> list[Candidate]:
        gamma = self.task.schedule.gamma
        found = STEEPNESSES if gamma is None else (gamma,)
        return [Candidate(start, selected, each) for each in found]

    def _of_a_tree(self, name: str) -> Iterator[Candidate]:
        """Yield the candidates of a single tree, from other starts where all of it may move."""
        task, selected = self.task, self.task.selected
        given = Start(AS_IT_IS, task.forest)
        yield from self._steepnesses(given, selected)
        if task.monotone is None:
            whole = all(selected.get(part) == "all" for part in ("S", "b", "v"))
        else:
            whole = not task.is_chosen
            self.notes += [ONE_COLUMN] if whole else []
        if not whole or task.forest.feature_map is not None or task.distils is not None:
            return
        smaller = self._pruned_start()
        others = () if task.monotone is not None else ((REFINED, refined), (REGROWN, self._regrown))
        for other, made in others:
            start = self._other_start(other, made)
            if start is not None:
                own = self._steepnesses(start, selected)
                yield from own[1:2] or own if name == "quick" else own
        if name == "quick":
            return
        if smaller is not None:
            own = self._steepnesses(smaller, selected)
            yield from own if name == "thorough" else (own[1:2] or own)
        pulls_S = task.penalties.l1 or task.penalties.l2 or task.penalties.spatial
        if task.monotone is not None or pulls_S:
            return
        if not task.is_chosen:
            yield self._steepnesses(given, {"b": "all", "v": "all"})[-1]
        for start, place in ((given, 0), (smaller, 1)):
            if start is not None and start.forest.n_nodes:
                yield replace(self._steepnesses(start, selected)[: place + 1][-1], l1=SPARSE)

    def _best(self, candidates: list[Candidate], most: int) -> list[Candidate]:
        """Return the candidates of the best scores so far, the best last, as far as known."""
        if most >= len(candidates):
            return candidates
        score = {str(each): -math.inf for each in candidates}
        for run in self.runs:
            name = run.trial.recipe
            if name in score and not math.isnan(run.trial.score):
                score[name] = max(score[name], run.trial.score)
        ranked = sorted(candidates, key=lambda each: -score[str(each)])
        return ranked[:most]

    def _tried(
        self,
        recipe: str,
        steps: int,
        names: tuple[str, ...],
        offer: Callable[[], object],
        path: Callable[[int], tuple[Move, ...]],
    ) -> Run:
        """Let something offer forests to the selection, or take its record where it did before."""
        history, number = self.task.selection.history, len(self.runs)
        known = [] if self._state is None else self._state.record["search"]["runs"]
        if number < len(known):
            record = known[number]
            recipe, steps, step, score, seconds, *_ = record
            trial = Trial(recipe, steps, step, float(score), seconds)
            run = Run(trial, record[5], record[6], names, path)
        else:
            first, began = len(history), time.process_time()
            if self._state is not None and number == len(known):
                first = self._state.record["search"]["first"]
            self._first = first
            offer()
            seen = [each for each in history[first:] if not math.isnan(each.score)]
            best = max(seen, key=lambda each: each.score, default=None)
            step, score = (0, -math.inf) if best is None else (best.step, best.score)
            seconds = time.process_time() - began
            trial = Trial(recipe, steps, step, score, seconds)
            run = Run(trial, first, len(history), names, path)
        self.runs.append(run)
        return run

    def _record(self) -> dict[str, Any]:
        """Return the search as a checkpoint keeps it."""
        runs = [
            [
                run.trial.recipe, run.trial.steps, run.trial.step, repr(run.trial.score),
                run.trial.seconds, run.first, run.last,
            ]
            for run in self.runs
        ]  # fmt: skip
        return {"runs": runs, "first": self._first}

    def _train(self, candidate: Candidate, steps: int) -> None:
        task = self.task
        course = Course(candidate.selected, steps, candidate.gamma, candidate.l1)

        def offer() -> None:
            known = self._state
            resumed = known is not None and len(self.runs) == len(known.record["search"]["runs"])
            stopped = task.train(
                candidate.start.forest,
                course,
                task.selection,
                task.data,
                kept=self.kept,
                state=known if resumed else None,
                first=self._first,
                deadline=self.deadline,
                search=self._record(),
            )
            if stopped and stopped not in self.notes:
                self.notes.append(stopped)

        def path(step: int) -> tuple[Move, ...]:
            return (*candidate.start.path, partial(_trained, task, course, step))

        names = tuple(candidate.selected)
        self._tried(str(candidate), steps, names, offer, path)

    def _refit_leaves(self, start: Start, names: tuple[str, ...] = ("v",)) -> None:
        task = self.task
        data = task.data
        assert data is not None

        def offer() -> None:
            recipe = task.recipe(task.course)
            with few_threads(start.forest.n_trees * recipe.batch_size, task.device):
                stopped = leaf_refit.refit_leaves(
                    start.forest, task.objective, data, task.held_out, task.selection, recipe
                )
            self.notes += [stopped] if stopped else []

        def path(step: int) -> tuple[Move, ...]:
            return (*start.path, partial(_with_leaves, task.objective, step))

        self._tried(f"leaves, {start.name}", 0, names, offer, path)

    def _refitted_start(self) -> Start:
        """Return the forest with the leaves that validation has chosen, if it has."""
        run, task = self.chosen, self.task
        if run is None:
            return Start(AS_IT_IS, task.forest)
        path, forest = run.path(run.trial.step), task.selection.best
        if self._state is not None:  # whose best forest may be of a later run
            assert task.data is not None
            forest = task.forest
            for move in path:
                forest = task.kept(move(forest, task.data))
        return Start(REFITTED, forest, path)

    def _regrown(self, forest: Forest, objective: Objective, data: Data) -> Forest | None:
        return regrown(forest, objective, data, self.task.seed)

    def _other_start(self, name: str, anew: Anew) -> Start | None:
        """Offer another tree of the same shape to the selection, and return it as a start."""
        task = self.task
        assert task.data is not None
        forest = anew(task.forest, task.objective, task.data)
        if forest is None:
            return None
        path = (partial(_other, task.objective, anew),)

        def offer() -> None:
            evaluation = task.selection.consider(forest, name, 1, 1)
            tell(task.recipe(task.course), evaluation)

        self._tried(f"tree {name}", 0, ("S", "b", "v"), offer, lambda step: path)
        return Start(name, forest, path)

    def _pruned_start(self) -> Start | None:
        task = self.task
        assert task.data is not None
        found = pruning_path(task.forest, task.objective, task.data)
        if found is None:
            return None
        levels = [-1.0, *found.levels()]

        def offer() -> None:
            recipe = task.recipe(task.course)
            for number, level in enumerate(levels, start=1):
                evaluation = task.selection.consider(
                    found.pruned(level), PRUNED, number, len(levels)
                )
                tell(recipe, evaluation)

        def path(step: int) -> tuple[Move, ...]:
            return (partial(_pruned, task.objective, levels[step - 1]),)

        run = self._tried(f"tree {PRUNED}", 0, ("v",), offer, path)
        step = run.trial.step
        if step <= 1:
            return None
        return Start(PRUNED, task.kept(found.pruned(levels[step - 1])), path(step))


def _trained(task: Task, course: Course, step: int, forest: Forest, data: Data) -> Forest:
    latest = Latest()
    task.train(forest, course, latest, data, until=step)
    return forest if latest.latest is None else latest.latest


def _with_leaves(objective: Objective, step: int, forest: Forest, data: Data) -> Forest:
    return leaf_refit.with_leaves(forest, objective, data, step)


def _other(objective: Objective, anew: Anew, forest: Forest, data: Data) -> Forest:
    found = anew(forest, objective, data)
    return forest if found is None else found


def _pruned(objective: Objective, level: float, forest: Forest, data: Data) -> Forest:
    found: PruningPath | None = pruning_path(forest, objective, data)
    return forest if found is None else found.pruned(level)


def checked_budget(budget: Any) -> str | float | None:
    """Return a budget, checked: a name, seconds, or None."""
    if budget is None or (isinstance(budget, str) and budget in BUDGETS):
        result: str | float | None = budget
        return result
    if isinstance(budget, str):
        raise InputError(
            f"`budget` must be one of {', '.join(BUDGETS)}, seconds, or None for one recipe alone, "
            f"got {budget!r}."
        )
    return float(options.positive("budget", budget))
