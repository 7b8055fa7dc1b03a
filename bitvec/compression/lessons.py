"""Rows that complete trees are trained on: labels, or answers of a teacher that had not seen them.

Labels, or the answers of a tuned booster: of rows that it had not seen, and of new rows between
them (`teacher_rows`). The given model cannot be that teacher, since it has seen the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bitvec.compression.problem import Problem
from bitvec.core.arrays import Array
from bitvec.core.output import Output, PostTransform
from bitvec.runtime.train.joint import CompleteTrees, boosted
from bitvec.runtime.train.joint.teacher_rows import Teacher, taught, tuned_booster
from bitvec.runtime.train.retrain.training_data import Data

DEPTH = 4


@dataclass(eq=False)
class Lessons:
    """Rows to train on: labels as probabilities or values, and those of a teacher, made once.

    Parameters
    ----------
    problem : Problem
    chosen : Lessons, optional
        Of fewer rows: where the teacher's options were chosen, by rows that were held out then.
    """

    problem: Problem
    chosen: Lessons | None = None

    def of_all_rows(self) -> Lessons:
        """Return those of all rows, with the teacher that was chosen by the rows held out."""
        return Lessons(self.problem.of_all_rows(), self)

    @property
    def output(self) -> Output:
        """The output of trees that are trained jointly."""
        n, classes = self.problem.n_classes, self.problem.forest.output.classes
        link = {0: PostTransform.IDENTITY, 2: PostTransform.SIGMOID}.get(n, PostTransform.SOFTMAX)
        return Output(n if n > 2 else 1, np.dtype(np.float64), post_transform=link, classes=classes)

    @cached_property
    def rows(self) -> Data:
        """The rows to fit, in float64; a missing value lies below all others of its column."""
        data = self.problem.fit
        return replace(data, X=lowered(data.X.astype(np.float64), data.X), target=self.own(data))

    @property
    def plain_rows(self) -> Data:
        """The same rows, with class numbers or values."""
        return replace(self.rows, target=self.problem.fit.target)

    def own(self, data: Data) -> Array:
        """Return labels as class probabilities, or values."""
        n = self.problem.n_classes
        return np.eye(n)[data.target[:, 0]] if n else data.target

    @cached_property
    def booster(self) -> tuple[Teacher, Any]:
        """The teacher, and its model of these rows."""
        if self.chosen is not None:
            teacher, _ = self.chosen.booster
            return teacher, teacher.fitted(self.plain_rows)
        problem = self.problem
        X = problem.held_out.X.astype(np.float64)
        held_out = replace(problem.held_out, X=lowered(X, problem.fit.X))
        return tuned_booster(self.plain_rows, held_out, problem.n_classes, problem.seed)[:2]

    @cached_property
    def teacher(self) -> Data:
        """Rows with answers of boosters that had not seen them, and new rows between them."""
        teacher, model = self.booster
        rows, seed = self.plain_rows, self.problem.seed
        return taught(rows, self.rows.target, teacher.out_of_fold(rows, seed), teacher, model, seed)

    def start(self, n_trees: int) -> CompleteTrees:
        """Return the boosted start."""
        rows = self.rows
        return boosted(
            rows.X,
            rows.target,
            rows.weight,
            self.output,
            n_trees=n_trees,
            depth=DEPTH,
            seed=self.problem.seed,
        )


def lowered(X: Array, like: Array) -> Array:
    """Return rows whose missing values lie below all numbers that a column of `like` has."""
    if not np.isnan(X).any():
        return X
    lowest = np.nan_to_num(np.fmin.reduce(like, axis=0).astype(np.float64))
    size = np.nan_to_num(np.fmax.reduce(like, axis=0)) - lowest
    return np.where(np.isnan(X), lowest - 0.1 * size - 1e-3, X)
