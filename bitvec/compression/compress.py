"""Compression of a model: candidates of many kinds, chosen by rows that none of them has seen."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch

from bitvec.compression import booster_family, boosters, families, joint_trees, problem
from bitvec.compression.budget import Budget
from bitvec.compression.candidate_recipes import Candidate, Family, Room
from bitvec.compression.compress_result import CompressResult
from bitvec.compression.front import Front, Point
from bitvec.compression.kept_points import KeptPoints, kept_in
from bitvec.compression.lessons import Lessons
from bitvec.compression.model_costs import (
    code_bytes,
    cost_of,
    microseconds,
    onnx_bytes,
    table_bytes,
)
from bitvec.compression.problem import Problem
from bitvec.compression.storage import plain
from bitvec.converters.dispatch import convert_forest
from bitvec.core import options
from bitvec.core.arrays import ArrayLike
from bitvec.core.forest import Forest
from bitvec.errors import BitvecError, InputError, UnsupportedModelError
from bitvec.runtime.train.retrain.recipe import few_threads

SHARES: Final = (1.0, 0.25, 0.0625)
"""Parts of the budget at which candidates are made."""
OUT_OF_TIME = "The time was over before {} could be tried."
NOT_REFITTED = "The time was over before the chosen recipe could be fitted to all rows."
REFITTED = (
    "The chosen recipe was fitted anew to all rows; its loss and score are those before, on rows "
    "that it had not seen."
)

Progress = Callable[[float, str], None]
"""Told the fraction done, and what was made last."""


def compress(
    model: Any,
    X: Any,
    y: Any,
    *,
    budget: Budget | int | str,
    sample_weight: ArrayLike | None = None,
    validation: float | tuple[Any, ...] = 0.2,
    monotone: Mapping[Any, int] | Sequence[int] | None = None,
    time: float | None = None,
    refit: bool = True,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> CompressResult:
    """Find the best model within a budget: of bytes of flash, leaves, or microseconds a row.

    Parameters
    ----------
    model : Forest, or what `bitvec.convert` takes
        Of one target, a classifier or regressor.
    X : array, sparse matrix or data frame, (batch, n_features)
        Rows to fit candidates to, as a rule those that the model was trained on.
    y : (batch,)
        Labels among the model's classes, or finite numbers for a regressor.
    budget : Budget, int or str
        `Budget(bytes=...)`, `Budget(leaves=...)` or `Budget(microseconds=...)`; a number is bytes;
        a text is "16 KB", "500 leaves" or "20 us". Bytes are those of the tables that a prediction
        reads in the smallest exact header of C99; a KB has 1,024.
    sample_weight : (batch,), optional
    validation : float, (X, y) or (X, y, sample_weight)
        The share of rows to choose by, or rows that are new to the model. What is made of the
        model itself is tried only with the latter: a share of X has as a rule taught it.
    monotone : mapping from columns to 1 or -1, or a number for each column, optional
        Directions that answers keep. By default those that the source records. Boosters and what
        is made of the given model keep them; other candidates are then left out.
    time : float, optional
        Seconds, about, after which no more is tried, and nothing is refitted.
    refit : bool
        Whether the chosen recipe is fitted anew to all rows, those held out among them, with all
        that was chosen by these as it was; see `CompressResult.refitted`.
    seed : int
    checkpoint : path, optional
        A folder, made if it is not there, in which finished candidates are kept, so that a run
        that was killed goes on.
    progress : callable, optional
        Called with the fraction done and the name of the last candidate.

    Returns
    -------
    CompressResult

    Raises
    ------
    InputError
        If rows are of another schema, labels are missing, unknown or too few, an option is out of
        place, or the budget is too small for one tree.
    UnsupportedModelError
        If the model cannot be converted or compressed.

    Notes
    -----
    All candidates compare and add in float32. Each is rounded first and judged afterwards, by log
    loss or squared error; the tuned booster that a user would take at this size is among them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 3))
    >>> y = np.sign(X[:, 0]) + X[:, 1]
    >>> forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    >>> result = compress(forest, X, y, budget="200 bytes")
    >>> result.chosen.bytes <= 200, result.given.bytes > 50 * 1024
    (True, True)
    """
    began = clock.monotonic()
    allowed = Budget.of(budget)
    deadline = np.inf if time is None else began + options.positive("time", time)
    if progress is not None and not callable(progress):
        raise InputError(f"`progress` must be a function of (fraction, text), got {progress!r}.")
    seed = options.whole("seed", seed, least=0)
    refit = options.flag("refit", refit)
    forest = model if isinstance(model, Forest) else convert_forest(model)
    task = problem.read(
        forest,
        X,
        y,
        sample_weight=sample_weight,
        validation=validation,
        monotone=monotone,
        seed=seed,
    )
    _require_room(task, allowed)
    kept = None if checkpoint is None else kept_in(checkpoint, task, (allowed, seed, time is None))
    lessons = Lessons(task)
    by_name, left_out = _families(lessons, own_rows=isinstance(validation, (tuple, list)))
    with few_threads(0, torch.device("cpu")):
        tried, notes = _tried(task, by_name, allowed, deadline, kept, progress)
    notes = [*left_out, *notes]
    if not tried:
        raise InputError(
            f"`budget` must have room for one candidate, got {allowed}: allow more. "
            + " ".join(notes)
        )
    chosen = min(tried, key=lambda p: p.loss)
    front = Front(tried, task.metric)
    measured = {id(p): _measured(task, p) for p in (*front, chosen)}
    refits = _Refits(lessons, allowed)
    best = measured[id(chosen)]
    if refit and clock.monotonic() > deadline:
        notes.append(NOT_REFITTED)
    elif refit:
        best = refits(chosen, allowed.limit)
        if best.refitted:
            notes.append(REFITTED)
    given = _given(task)
    size = given.bytes if allowed.kind == "bytes" else given.forest.n_leaves
    if allowed.kind != "microseconds" and size <= allowed.limit:
        notes.insert(
            0, f"The given model itself takes {size:,} {allowed.kind}: the budget has room."
        )
    return CompressResult(
        chosen=best,
        front=Front((measured[id(p)] for p in front), task.metric),
        tried=tuple(measured.get(id(p), p) for p in tried),
        given=given,
        budget=allowed,
        metric=task.metric,
        notes=tuple(notes),
        seconds=clock.monotonic() - began,
        refits=refits,
    )


class _Refits:
    """Fits recipes anew to all rows: made where the first one is asked for."""

    def __init__(self, lessons: Lessons, budget: Budget) -> None:
        self._lessons, self._budget = lessons, budget

    @cached_property
    def _all_rows(self) -> Lessons:
        return self._lessons.of_all_rows()

    def __call__(self, point: Point, limit: float) -> Point:
        """Return a point refitted within a limit, or as it was; see `CompressResult.refitted`."""
        task, kind = self._lessons.problem, self._budget.kind
        if point.again is None:
            return point
        room = Room(cost_of(self._budget, task.held_out.X), limit, kind, lambda: False)
        with few_threads(0, torch.device("cpu")):
            forest = point.again.again(self._all_rows, room)
        if forest is None or not room.holds(forest) or not task.holds(forest):
            return point
        if not task.judged(forest)[0] <= point.loss:
            return point
        new = replace(point, forest=forest, bytes=table_bytes(forest), refitted=True)
        return _measured(task, new)


def _require_room(task: Problem, budget: Budget) -> None:
    """Refuse a budget below what the smallest tree costs."""
    width = max(task.n_outputs, 1)
    least = {"bytes": 8 * width, "leaves": 2, "microseconds": 0.0}[budget.kind]
    if budget.limit < least:
        raise InputError(
            f"`budget` must have room for one tree, at least {least} {budget.kind}, got {budget}: "
            "allow more."
        )


def _families(lessons: Lessons, *, own_rows: bool) -> tuple[dict[str, Family], list[str]]:
    """Return the families that suit the columns, by name, and why others are left out.

    Rows held out of X may have taught the given model: what is made of it needs rows of their own.
    """
    task = lessons.problem
    names, notes = boosters.libraries(task)
    found: dict[str, Family] = {f"booster-{name}": booster_family.boosted(name) for name in names}
    if own_rows:
        found["given"] = families.given
    else:
        notes.append(
            "What is made of the given model was left out, since rows held out of X may have taught"
            " it: hand in `validation` rows that are new to it."
        )
    ordered = {"forest": families.small_forests, "tree": families.single_trees}
    if task.categorical:
        notes.append("All but boosters were left out: columns hold categories.")
    elif task.monotone is not None:
        notes.append("All but boosters were left out: they keep no monotone constraints.")
    else:
        found |= ordered | _joint(lessons)
    if "forest" in found and np.isnan(task.fit.X).any():
        notes.append("Rows of several weights were left out: values are missing.")
    return found, notes


def _joint(lessons: Lessons) -> dict[str, Family]:
    """Return the families of trees that are trained jointly."""
    task = lessons.problem
    axis, dense = joint_trees.axis_trees, joint_trees.dense_trees
    found = {"axis-teacher": axis(lessons, "teacher"), "axis-labels": axis(lessons, "labels")}
    if task.fit.X.shape[1] <= joint_trees.WIDEST and not np.isnan(task.fit.X).any():
        found["dense-labels"] = dense(lessons, "labels")
    return found


def _tried(
    task: Problem,
    by_name: Mapping[str, Family],
    budget: Budget,
    deadline: float,
    kept: KeptPoints | None,
    progress: Progress | None,
) -> tuple[list[Point], list[str]]:
    """Return the points of all families at all parts of the budget, and notes."""
    notes: list[str] = []
    cost = cost_of(budget, task.held_out.X)
    points: list[Point] = []
    late: list[str] = []
    units = [(name, share) for share in SHARES for name in by_name]
    for number, (name, share) in enumerate(units):
        label = f"{name}-{share:g}".replace(".", "_")
        found = None if kept is None else kept.load(label)
        if found is None:
            if points and clock.monotonic() > deadline:
                late.append(name)
                continue
            room = Room(
                cost, share * budget.limit, budget.kind, lambda: clock.monotonic() > deadline
            )
            try:
                found = [one for one in by_name[name](task, room) if task.holds(one.forest)]
            except Exception as error:
                # Of other libraries any: one may refuse infinities, the next an empty column.
                if isinstance(error, BitvecError) and not isinstance(error, UnsupportedModelError):
                    raise
                said = str(error).strip().split("\n")[-1] or type(error).__name__
                notes.append(f"{name} was left out: {said}.".replace("..", "."))
                continue
            if kept is not None and clock.monotonic() <= deadline:
                kept.save(label, found)
        points += [_point(task, one) for one in found if np.isfinite(one.loss)]
        if progress is not None:
            best = min(found, key=lambda one: one.loss, default=None)
            progress((number + 1) / len(units), name if best is None else best.recipe)
    if late:
        notes.append(OUT_OF_TIME.format(", ".join(dict.fromkeys(late))))
    return points, notes


def _point(task: Problem, one: Candidate) -> Point:
    loss, score = task.judged(one.forest)
    return Point(one.recipe, one.forest, table_bytes(one.forest), loss, score, again=one.again)


def _given(task: Problem) -> Point:
    """Return the given model as a point; its bytes are of float32 where that can hold it."""
    forest = replace(task.forest, source=None)
    loss, score = task.judged(forest)
    try:
        size = table_bytes(plain(forest))
    except BitvecError:
        size = table_bytes(forest)
    return Point("given model", task.forest, size, loss, score)


def _measured(task: Problem, point: Point) -> Point:
    """Return the point with what it costs beside its tables."""
    return replace(
        point,
        code_bytes=code_bytes(point.forest),
        onnx_bytes=onnx_bytes(point.forest),
        microseconds=microseconds(point.forest, task.held_out.X),
    )
