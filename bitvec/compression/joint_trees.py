"""Complete trees trained all at once: one column a node, or rows of whole weights in a byte.

Labels, or the answers of a tuned booster: of rows that it had not seen, and of new rows between
them (`teacher_rows`). The given model cannot be that teacher, since it has seen the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from bitvec.compression.families import Candidate, Family, Room, candidate, least
from bitvec.compression.problem import F32, Problem
from bitvec.compression.storage import Storage, plain
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import from_rows
from bitvec.core.output import Output, PostTransform
from bitvec.runtime.train.joint import (
    CompleteTrees,
    JointRecipe,
    boosted,
    train_jointly,
)
from bitvec.runtime.train.joint.teacher_rows import taught, tuned_booster
from bitvec.runtime.train.retrain import objective
from bitvec.runtime.train.retrain.training_data import Data

DEPTH = 4
MOST_TREES = 128
WIDEST = 64
"""Columns up to which rows of weights are tried: each takes a byte in each node."""
LARGEST_WEIGHT = 127
LOOKS = 8
STEPS = 900

Lesson = Literal["labels", "teacher"]
Stored = Callable[[CompleteTrees], Iterator[Forest]]
"""From trees to forests of few bytes, the one without loss first."""


@dataclass(eq=False)
class Lessons:
    """Rows to train on: labels as probabilities or values, and those of a teacher, made once.

    Parameters
    ----------
    problem : Problem
    """

    problem: Problem

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

    def own(self, data: Data) -> Array:
        """Return labels as class probabilities, or values."""
        n = self.problem.n_classes
        return np.eye(n)[data.target[:, 0]] if n else data.target

    @cached_property
    def teacher(self) -> Data:
        """Rows with answers of boosters that had not seen them, and new rows between them."""
        problem = self.problem
        plain_rows = replace(self.rows, target=problem.fit.target)
        X = problem.held_out.X.astype(np.float64)
        held_out = replace(problem.held_out, X=lowered(X, problem.fit.X))
        teacher, model, _ = tuned_booster(plain_rows, held_out, problem.n_classes, problem.seed)
        unseen = teacher.out_of_fold(plain_rows, problem.seed)
        return taught(plain_rows, self.rows.target, unseen, teacher, model, problem.seed)

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
    lowest = np.nan_to_num(np.nanmin(like, axis=0).astype(np.float64))
    size = np.nan_to_num(np.nanmax(like, axis=0)) - lowest
    return np.where(np.isnan(X), lowest - 0.1 * size - 1e-3, X)


def axis_trees(lessons: Lessons, lesson: Lesson) -> Family:
    """Return the family of complete trees whose nodes keep their columns; b and v are trained."""

    def family(problem: Problem, room: Room) -> Iterator[Candidate]:
        width = lessons.output.n_outputs
        n_thresholds = int(np.clip(2 ** np.floor(np.log2(room.limit / 32)), 32, 512))
        each = (2**DEPTH - 1) * 2 + 2**DEPTH * width
        n_trees = _trees(room, each, 4 * n_thresholds)
        if _trees(replace(room, limit=room.limit / 4), each, 4 * n_thresholds) == MOST_TREES:
            return  # no larger than at a quarter of the budget
        storages = (Storage(8, n_thresholds), Storage(8, n_thresholds // 2))

        def stored(trees: CompleteTrees) -> Iterator[Forest]:
            forest = plain(trees.to_forest(lessons.output, problem.forest.inputs))
            return (storage(problem.named(forest), problem.fit.X) for storage in storages)

        if n_trees >= 2:
            start = _filled_start(lessons, room, n_trees, stored)
            recipe = f"{start.n_trees} complete trees, b and v by {lesson}"
            yield from least(_trained(lessons, lesson, room, recipe, start, "fixed", stored))

    return family


def dense_trees(lessons: Lessons, lesson: Lesson) -> Family:
    """Return the family of complete trees whose rows of S are whole weights in a byte."""

    def family(problem: Problem, room: Room) -> Iterator[Candidate]:
        width, n_columns = lessons.output.n_outputs, problem.fit.X.shape[1]
        each = (2**DEPTH - 1) * (n_columns + 4) + 2**DEPTH * width
        n_trees = _trees(room, each, 64)
        if _trees(replace(room, limit=room.limit / 4), each, 64) == MOST_TREES:
            return

        def stored(trees: CompleteTrees) -> Iterator[Forest]:
            whole = whole_weights(trees)
            inputs = problem.forest.inputs
            output = lessons.output
            for forest in (whole.to_forest(output, inputs), full_rows(whole, output, inputs)):
                yield Storage(8)(problem.named(in_float32(forest)), problem.fit.X)

        if n_trees >= 2:
            start = lessons.start(n_trees)
            recipe = f"{n_trees} complete trees, rows of {n_columns} weights by {lesson}"
            yield from least(_trained(lessons, lesson, room, recipe, start, None, stored))

    return family


def _filled_start(lessons: Lessons, room: Room, n_trees: int, stored: Stored) -> CompleteTrees:
    """Return a start of as many trees as there is room for, by the size of a first one."""
    start = lessons.start(n_trees)
    size = room.cost(next(stored(start)))
    more = min(int(0.98 * n_trees * room.limit / max(size, 1e-9)), MOST_TREES)
    return start if more <= n_trees or room.over() else lessons.start(more)


def _trees(room: Room, each: int, shared: int) -> int:
    """Return the number of trees of so many bytes each that there is room for."""
    if room.kind == "bytes":
        n = (room.limit - shared) / (each + 1)
    else:
        n = room.trees(2**DEPTH)
    return int(min(n, MOST_TREES))


def _trained(
    lessons: Lessons,
    lesson: Lesson,
    room: Room,
    recipe: str,
    start: CompleteTrees,
    columns: Literal["fixed"] | None,
    stored: Stored,
) -> Iterator[Candidate]:
    """Yield the start and the trees on the way, each in the first form that fits."""
    problem = lessons.problem

    def looked(trees: CompleteTrees, at: str) -> Iterator[Candidate]:
        for forest in stored(trees):
            if room.holds(forest):
                yield candidate(problem, f"{recipe}{at}", forest)
                return

    yield from looked(start, ", start")
    rows = lessons.rows if lesson == "labels" else lessons.teacher
    dropout = 0.1 if start.n_trees < 8 else 0.4 if lesson == "labels" else 0.2
    way = JointRecipe(
        steps=STEPS,
        dropout=dropout,
        columns=columns,
        weight_decay=0.0 if columns == "fixed" else 0.05,
        seed=problem.seed,
    )
    goal = objective.build(lessons.output, lessons.own(problem.fit), soft=bool(problem.n_classes))
    for look in train_jointly(start, rows, goal, way, looks=LOOKS):
        yield from looked(look.trees, f", step {look.step}")
        if room.over():
            return


def whole_weights(trees: CompleteTrees) -> CompleteTrees:
    """Return trees whose weights are whole numbers from -127 to 127, and thresholds on a grid.

    A node's test stays the same where its row and threshold are multiplied by one number.
    """
    size = np.abs(trees.S).max(axis=1)
    factor = LARGEST_WEIGHT / np.where(size > 0, size, 1.0)
    S = np.round(trees.S * factor[:, None]) + 0.0
    b = trees.b * factor
    step = 2.0 ** np.ceil(np.log2(max(float(np.ptp(b)), 1e-9) / (2**16 - 2)))
    b = np.round(b / step) * step + 0.0
    return CompleteTrees(trees.n_trees, S, b, trees.v, trees.base_score)


def full_rows(trees: CompleteTrees, output: Output, inputs: Inputs) -> Forest:
    """Return the forest whose rows of S read all columns, those of weight 0 too.

    A header then needs no numbers of columns.
    """
    n_nodes, n = trees.S.shape
    sparse = trees.to_forest(output, inputs)
    column = np.tile(np.arange(n), n_nodes)
    tests = from_rows(np.arange(n_nodes + 1) * n, column, trees.S.ravel(), trees.b)
    return replace(sparse, tests=tests)


def in_float32(forest: Forest) -> Forest:
    """Return a forest of rows of S whose weights and thresholds are numbers of float32."""
    tests = forest.tests
    names = ("weight", "b", "offset", "r")
    narrow = replace(tests, **{name: getattr(tests, name).astype(F32) for name in names})
    output = replace(forest.output, dtype=F32, base_score=forest.output.base_score.astype(F32))
    leaves = replace(forest.leaves, v=forest.leaves.v.astype(F32))
    return replace(forest, tests=narrow, output=output, leaves=leaves)
