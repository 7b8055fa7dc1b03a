"""Refit of a chosen recipe to all rows, where cross-fitting agrees."""

from __future__ import annotations

from functools import reduce

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.learners.retrained.recipe_search import Move, Run
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.preparation import Task
from bitvec.runtime.train.retrain.selection import hard_scores
from bitvec.runtime.train.retrain.training_data import Data

FOLDS = 3


def joined(one: Data, other: Data) -> Data:
    """Return the rows of both, without a teacher."""
    return Data(
        np.concatenate([one.X, other.X]),
        np.concatenate([one.target, other.target]),
        np.concatenate([one.weight, other.weight]),
    )


def refitted(task: Task, run: Run) -> tuple[Forest | None, str]:
    """Return the chosen recipe's forest of all rows if it is accepted, and why or why not.

    See `retrain`: the folds are those of the validation rows, since the forest that went in was
    perhaps fitted on the others.
    """
    assert task.data is not None
    selection, path = task.selection, run.path(run.trial.step)
    held = task.held_out
    fold = np.random.default_rng((task.seed, 1)).permutation(len(held)) % FOLDS
    start, best = (_scores(task, forest, held) for forest in (task.forest, selection.best))
    crossed = np.empty(len(held))
    for number in range(FOLDS):
        out = np.flatnonzero(fold == number)
        forest = made(task, path, joined(task.data, held.take(np.flatnonzero(fold != number))))
        crossed[out] = _scores(task, forest, held.take(out))
        weight = held.weight[out]
        if np.average(crossed[out], weights=weight) < np.average(start[out], weights=weight):
            return None, (
                f"Not refitted to all rows: fold {number + 1} of {FOLDS} did not agree, the score "
                "there was worse than that of the forest that went in."
            )
    gain = np.average(crossed - best, weights=held.weight)
    error = np.std(crossed - best) / np.sqrt(len(held))
    if gain < -error:
        return None, (
            "Not refitted to all rows: cross-fitted, the recipe scored "
            f"{np.average(crossed, weights=held.weight):.6g}, worse than the chosen forest's "
            f"{selection.score:.6g} by more than a standard error."
        )
    every = joined(task.data, held)
    again = made(task, path, every)
    measure = task.objective.guard() or task.objective
    before, after = (_mean(measure, each, every) for each in (selection.best, again))
    if not after >= before or not selection.is_sound(again):
        return None, "Not refitted to all rows: the loss on these was not lower than before."
    return again, (
        "Refitted to all rows, those of validation too, on which it cannot be scored any more: "
        f"cross-fitted in {FOLDS} folds the recipe scores "
        f"{np.average(crossed, weights=held.weight):.6g} on rows that it has not seen."
    )


def made(task: Task, path: tuple[Move, ...], data: Data) -> Forest:
    """Return what the moves of a recipe make of the task's forest with some rows."""
    return reduce(lambda current, move: task.kept(move(current, data)), path, task.forest)


def _scores(task: Task, forest: Forest, rows: Data) -> Array:
    return task.objective.scores(hard_scores(forest, rows.X), rows.target)


def _mean(measure: Objective, forest: Forest, rows: Data) -> float:
    scores = measure.scores(hard_scores(forest, rows.X), rows.target)
    return float(np.average(scores, weights=rows.weight))
