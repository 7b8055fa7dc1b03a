"""Complete trees trained all at once: one column a node, or rows of whole weights in a byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bitvec.compression.candidate_recipes import Candidate, Family, Room, candidate, least
from bitvec.compression.lessons import DEPTH, Lessons
from bitvec.compression.problem import F32, Problem
from bitvec.compression.storage import Storage, plain
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.node_tests import from_rows
from bitvec.core.output import Output
from bitvec.runtime.train.joint import CompleteTrees, JointRecipe, train_jointly
from bitvec.runtime.train.joint.joint_training import Look
from bitvec.runtime.train.retrain import objective

MOST_TREES = 128
WIDEST = 64
"""Columns up to which rows of weights are tried: each takes a byte in each node."""
LARGEST_WEIGHT = 127
LOOKS = 8
STEPS = 900

Lesson = Literal["labels", "teacher"]


@dataclass(frozen=True, slots=True)
class TrainedRecipe:
    """Complete trees of a number, trained up to a step.

    Parameters
    ----------
    lesson : "labels" or "teacher"
    n_trees : int
    step : int
        0 for the start.
    n_thresholds : int, optional
        Of nodes that read one column; without it nodes have rows of whole weights.
    """

    lesson: Lesson
    n_trees: int
    step: int
    n_thresholds: int | None = None

    def told(self, n_columns: int) -> str:
        """Return the recipe as a text."""
        rows = f"rows of {n_columns} weights by" if self.n_thresholds is None else "b and v by"
        at = f"step {self.step}" if self.step else "start"
        return f"{self.n_trees} complete trees, {rows} {self.lesson}, {at}"

    def stored(self, lessons: Lessons, trees: CompleteTrees) -> Iterator[Forest]:
        """Yield forests of few bytes, the one without loss first."""
        problem, output = lessons.problem, lessons.output
        inputs = problem.forest.inputs
        if self.n_thresholds is None:
            whole = whole_weights(trees)
            for forest in (whole.to_forest(output, inputs), full_rows(whole, output, inputs)):
                yield Storage(8)(problem.named(in_float32(forest)), problem.fit.X)
        else:
            forest = problem.named(plain(trees.to_forest(output, inputs)))
            for n in (self.n_thresholds, self.n_thresholds // 2):
                yield Storage(8, n)(forest, problem.fit.X)

    def first(self, lessons: Lessons, room: Room, trees: CompleteTrees) -> Forest | None:
        """Return the first form that fits."""
        fitting = (forest for forest in self.stored(lessons, trees) if room.holds(forest))
        return next(fitting, None)

    def trained(
        self, lessons: Lessons, start: CompleteTrees, until: int | None = None
    ) -> Iterator[Look]:
        """Yield the trees on the way."""
        problem, lesson = lessons.problem, self.lesson
        fixed = self.n_thresholds is not None
        way = JointRecipe(
            steps=STEPS,
            dropout=0.1 if self.n_trees < 8 else 0.4 if lesson == "labels" else 0.2,
            columns="fixed" if fixed else None,
            weight_decay=0.0 if fixed else 0.05,
            seed=problem.seed,
        )
        rows = lessons.rows if lesson == "labels" else lessons.teacher
        own = lessons.own(problem.fit)
        goal = objective.build(lessons.output, own, soft=bool(problem.n_classes))
        yield from train_jointly(start, rows, goal, way, looks=LOOKS, until=until)

    def again(self, lessons: Lessons, room: Room) -> Forest | None:
        """Return the trees of the rows of some lessons, None where they do not fit."""
        trees = lessons.start(self.n_trees)
        if self.step:
            for look in self.trained(lessons, trees, self.step):
                trees = look.trees
        return self.first(lessons, room, trees)


def axis_trees(lessons: Lessons, lesson: Lesson) -> Family:
    """Return the family of complete trees whose nodes keep their columns; b and v are trained."""

    def family(problem: Problem, room: Room) -> Iterator[Candidate]:
        width = lessons.output.n_outputs
        n_thresholds = int(np.clip(2 ** np.floor(np.log2(room.limit / 32)), 32, 512))
        each = (2**DEPTH - 1) * 2 + 2**DEPTH * width
        n_trees = _trees(room, each, 4 * n_thresholds)
        if _trees(replace(room, limit=room.limit / 4), each, 4 * n_thresholds) == MOST_TREES:
            return  # no larger than at a quarter of the budget
        if n_trees >= 2:
            recipe = TrainedRecipe(lesson, n_trees, 0, n_thresholds)
            start = _filled_start(lessons, room, recipe)
            recipe = replace(recipe, n_trees=start.n_trees)
            yield from least(_trained(lessons, room, recipe, start))

    return family


def dense_trees(lessons: Lessons, lesson: Lesson) -> Family:
    """Return the family of complete trees whose rows of S are whole weights in a byte."""

    def family(problem: Problem, room: Room) -> Iterator[Candidate]:
        width, n_columns = lessons.output.n_outputs, problem.fit.X.shape[1]
        each = (2**DEPTH - 1) * (n_columns + 4) + 2**DEPTH * width
        n_trees = _trees(room, each, 64)
        if _trees(replace(room, limit=room.limit / 4), each, 64) == MOST_TREES:
            return
        if n_trees >= 2:
            recipe = TrainedRecipe(lesson, n_trees, 0)
            yield from least(_trained(lessons, room, recipe, lessons.start(n_trees)))

    return family


def _filled_start(lessons: Lessons, room: Room, recipe: TrainedRecipe) -> CompleteTrees:
    """Return a start of as many trees as there is room for, by the size of a first one."""
    n_trees = recipe.n_trees
    start = lessons.start(n_trees)
    size = room.cost(next(recipe.stored(lessons, start)))
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
    lessons: Lessons, room: Room, recipe: TrainedRecipe, start: CompleteTrees
) -> Iterator[Candidate]:
    """Yield the start and the trees on the way, each in the first form that fits."""
    problem = lessons.problem

    def looked(trees: CompleteTrees, step: int) -> Iterator[Candidate]:
        here = replace(recipe, step=step)
        forest = here.first(lessons, room, trees)
        if forest is not None:
            yield candidate(problem, here.told(problem.fit.X.shape[1]), forest, here)

    yield from looked(start, 0)
    for look in recipe.trained(lessons, start):
        yield from looked(look.trees, look.step)
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
