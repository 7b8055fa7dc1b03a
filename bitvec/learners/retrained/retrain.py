"""Retraining: relax, anneal, harden, and keep the hard forest that validation prefers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from bitvec.core import options
from bitvec.core.arrays import ArrayLike
from bitvec.core.forest import Forest, require_forest
from bitvec.errors import InputError
from bitvec.learners.retrained import refit_on_all_rows, use_of_time
from bitvec.learners.retrained.recipe_search import Search, checked_budget
from bitvec.runtime.train.calibration.calibrate import calibrated, require_classifier
from bitvec.runtime.train.calibration.temperature import at_temperature
from bitvec.runtime.train.monotone import CUT, Monotone
from bitvec.runtime.train.pruning.prune import prune
from bitvec.runtime.train.relax.relaxations import Relaxation
from bitvec.runtime.train.retrain.history import History
from bitvec.runtime.train.retrain.preparation import Aim, Rows, Task, prepare
from bitvec.runtime.train.retrain.recipe import Progress
from bitvec.runtime.train.retrain.result import NOTHING_BETTER, RetrainResult
from bitvec.runtime.train.retrain.retrain_options import (
    Penalties,
    Schedule,
    Teacher,
    group,
    teacher_of,
)


def retrain(
    forest: Forest,
    X: Any,
    y: Any = None,
    *,
    trainable: Iterable[str] | Mapping[str, Any] | None = None,
    sample_weight: ArrayLike | None = None,
    validation: float | tuple[Any, ...] = 0.15,
    loss: str | Callable[..., Any] = "auto",
    metric: str | Callable[..., Any] = "auto",
    quantile: float | tuple[float, ...] | None = None,
    monotone: Mapping[Any, int] | Sequence[int] | None = None,
    budget: str | float | None = "normal",
    refit: bool = False,
    calibrate: str | None = None,
    schedule: Schedule | Mapping[str, Any] | None = None,
    penalties: Penalties | Mapping[str, Any] | None = None,
    teacher: Teacher | Mapping[str, Any] | ArrayLike | Callable[[Any], Any] | None = None,
    relaxation: str | Relaxation = "sigmoid",
    prune_dead: bool = False,
    checkpoint_path: str | os.PathLike[str] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> RetrainResult:
    """Retrain a forest by the best of several recipes; the forest that went in stays a candidate.

    Parameters
    ----------
    X : array, sparse matrix or data frame, (batch, n_features); or a loader
        A frame's columns are taken by name. NaN and category codes as the forest reads them.
        A loader yields (X, y) or (X, y, sample_weight) and starts anew each time it is iterated
        over, as a torch DataLoader does; then `y` and `sample_weight` are left out and
        `validation` holds rows.
    y : (batch,) or (batch, n_groups)
        Labels among `forest.output.classes`, or finite numbers for a regressor.
    trainable : names among "S", "b", "v", "r", "base_score", "phi", or a mapping of them, optional
        What may move; all else comes back bit for bit. By default "S", "b" and "v" of a single
        tree, which may also be pruned, and "b" and "v" of several: axis-aligned tests stay so while
        "S" is not named. A mapping says which part of each: "all", {"levels": depths},
        {"nodes": mask or numbers}, and for "v" {"leaves": mask or numbers}. ("v",) alone is a
        convex problem and solved as such.
    sample_weight : (batch,), optional
    validation : float, (X, y) or (X, y, sample_weight)
        The rows to choose by, or the share of X to hold out as such. They must be rows that the
        forest was not fitted on: on its own training rows it scores too well to be improved.
    loss : str or callable
        "auto": the cross-entropy of a classifier, the squared error of a regressor; or one of
        `objective.LOSSES` ("quantile", "poisson", "huber" ...); or a function of raw scores
        (batch, n_outputs) and targets that returns one loss per row.
    metric : str or callable
        What the hard forest is chosen by: by default the accuracy of a single tree, the log loss
        of several where they have one, or a regressor's loss itself.
    quantile : float, optional
        The level of the loss or metric "quantile", 0.5 if not given; one for each output if there
        are several.
    monotone : mapping from columns to 1 or -1, or a number for each column, optional
        Directions that answers keep: raw scores never fall, or never rise, where the column rises.
        By default those that the source records; what is given here stands in their place, and {}
        drops them. See Notes.
    budget : "quick", "normal", "thorough", seconds or None
        How many recipes are tried, and how long: see Notes. With a name the result depends on the
        seed alone (on the CPU), with seconds on the clock as well. None trains one recipe, without
        other starts. A loader, and several processes, train one recipe as well.
    refit : bool
        Whether the chosen recipe is fitted once more to all rows, those of validation too, where
        cross-fitting agrees: see Notes.
    calibrate : "temperature", optional
        Divide the raw scores of a boosted classifier by one number, within its link, where that
        lowers the log loss on validation rows kept apart: see `bitvec.calibrate`, by which the
        result can be calibrated by isotonic curves as well.
    schedule : Schedule or mapping, optional
        Length, batches, optimiser, rates and steepness, for example {"steps": 500}; a steepness
        that is given is the only one that is tried.
    penalties : Penalties or mapping, optional
        Of S and b, for example {"l1": 0.01}.
    teacher : array, callable, Teacher or mapping, optional
        Another model's answers for the rows of X (class probabilities, or predictions), or its
        `predict_proba` or `predict`; the loss is then mixed with the distance to them.
    relaxation : str or Relaxation
        See `bitvec.to_torch`.
    prune_dead : bool
        Remove branches that no training or validation row reaches and subtrees of equal leaves.
    checkpoint_path : path, optional
        Where the state is written at each evaluation of a soft training. Where the file is there
        already, the search goes on from it and ends with the same result as without the
        interruption. A file of other options, rows or another forest is refused; your own functions
        are known by module and name, so remove the file after changing one.
    seed : int
        Fixes the split and the batches; on the CPU the result is then the same each time.
    device : torch.device or str, optional
    progress : callable, optional
        Called with each `Evaluation`.

    Raises
    ------
    InputError
        If X, y, weights, names or numbers are out of place. Numbers that are merely too large are
        not: a run that diverges ends early, says so in `note`, and what was best until then counts.
    UnsupportedModelError
        If the forest cannot be relaxed, or no check can prove `monotone`.

    Notes
    -----
    Recipes of a single tree: steepness (1, 4), (4, 30) and (8, 60); begun from the tree as it is,
    refined by oblique `tao_refine`, regrown (its tests trained anew from the root down, see
    `regrown_start`), or pruned by validation (these three are candidates themselves); S, b and v
    moving, with S pulled to 0 as by penalties={"l1": 0.03} or not, or b and v. "normal"
    trains all in a tenth of the steps, the best two in a quarter, the best one in all of them.
    "quick" leaves some out and trains all in a tenth, the best in half of the steps; "thorough" all
    in a quarter, three in all, one in twice as many. Each training is one of its own, whose
    steepness and rate come to their ends: a long one that is paused is still at its beginning, and
    tells little. The hard forest is scored from step 20 on.
    Of several trees: leaves on hard routes, a convex problem; from "normal" on thresholds and
    leaves together in 300 steps.

    A hard forest is accepted if on the validation rows its mean score is better than the start's by
    more than one standard error of the paired difference (of accuracy, one row more than that) and
    its mean loss (the log loss of a classifier, the named loss of a regressor) is not worse. The
    best accepted one is returned.

    The refit is accepted if in each of 3 folds of the validation rows the recipe, fitted with the
    other folds and not this one, scores no worse than the forest that went in, in the mean over
    folds no worse than the chosen forest less one standard error, and if its mean loss on all rows
    is not above the chosen forest's.

    Monotone constraints: leaves of a candidate that does not keep them are cut before it is scored,
    as little as their boxes allow in trees of up to 256 leaves, and so are those of the forest
    itself (see `Monotone.kept`). Tests go on comparing one column, so that S does not move, and no
    refined or regrown tree is tried. What comes back is checked exactly, over the boxes of values
    that lead to the leaves, tree by tree.

    Single tree: features standardised, rows and thresholds divided by their margin's standard
    deviation, leaf logits from counts, AdamW with a cosine, and after each hardening leaves counted
    anew; a leaf that no row reaches keeps what it learned.

    Under `torchrun`, with the default process group initialised, the processes share each batch and
    add up their gradients; all of them return the same forest. Rows in memory are given whole to
    each process, a loader yields each process its own.
    """
    require_forest(forest)
    prune_dead, refit = options.flag("prune_dead", prune_dead), options.flag("refit", refit)
    budget = checked_budget(budget)
    course = group("schedule", schedule, Schedule)
    keeps = Monotone.of(forest, monotone)
    task = prepare(
        forest if keeps is None else keeps.kept(forest),
        trainable,
        Rows(X, y, sample_weight, validation),
        Aim(loss, metric, quantile, teacher_of(teacher)),
        course,
        group("penalties", penalties, Penalties),
        monotone=keeps,
        relaxation=relaxation,
        prune_dead=prune_dead,
        seed=seed,
        device=device,
        progress=progress,
    )
    if refit and (task.data is None or task.workers.size > 1 or task.distils is not None):
        raise InputError(
            "`refit` must be False with a loader, several processes or a teacher: pass all rows in "
            "memory."
        )
    if calibrate is not None:
        _require_temperature(task.forest, calibrate, refit=refit)
    search = Search(task, budget, task.checkpoint(checkpoint_path, budget=budget))
    search.notes += [] if task.forest is forest else [CUT]
    search.run()
    result = _result(search, refit=refit, prune_dead=prune_dead, checkpoint_path=checkpoint_path)
    if calibrate is None:
        return result
    found = calibrated(result.forest, task.held_out, calibrate, task.seed)
    assert isinstance(found.model, Forest)
    return replace(result, forest=found.model, calibration=found)


def _require_temperature(forest: Forest, calibrate: Any, *, refit: bool) -> None:
    """Refuse what no temperature can be found for, before anything is trained."""
    if calibrate != "temperature":
        raise InputError(
            f"`calibrate` must be 'temperature' or None, got {calibrate!r}: isotonic curves make a "
            "composition, call bitvec.calibrate on the result with rows of their own."
        )
    if refit:
        raise InputError(
            "`calibrate` must be None with refit=True, which learns the validation rows: call "
            "bitvec.calibrate on the result with rows of their own."
        )
    require_classifier(forest)
    at_temperature(forest.output, 1.0)


def _result(
    search: Search, *, refit: bool, prune_dead: bool, checkpoint_path: Any
) -> RetrainResult:
    """Return what a search has found, refitted and pruned if that was asked for."""
    task, run = search.task, search.chosen
    selection, notes, best = task.selection, list(search.notes), task.selection.best
    if task.leaves_alone and task.is_chosen:
        notes += _ignored(task, checkpoint_path)
    if best is task.forest and not isinstance(task.rows.validation, (tuple, list)):
        notes.append(NOTHING_BETTER)
    if run is not None and len(search.runs) > 1:
        notes.append(use_of_time.reason(run.trial, search.runs, selection))
    refitted = False
    if refit and run is not None:
        again, why = refit_on_all_rows.refitted(task, run)
        notes.append(why)
        refitted, best = again is not None, best if again is None else again
    pruned = None
    if prune_dead and best is not task.forest and task.data is not None:
        pruned = prune(best, np.concatenate([task.data.X, task.held_out.X]))
        best = pruned.forest
    if not search.is_single and search.budget != "quick" and task.monotone is None:
        notes += use_of_time.better_use(task)
    return RetrainResult(
        forest=best,
        improved=best is not task.forest,
        metric=task.objective.metric,
        start_score=selection.start_score,
        score=selection.score,
        trainable=tuple(task.selected) if run is None or task.is_chosen else run.names,
        history=History(selection.history, task.objective.metric),
        note=" ".join(notes),
        tried=tuple(each.trial for each in search.runs),
        chosen=None if run is None else run.trial,
        refitted=refitted,
        pruned=pruned,
        monotone=None if task.monotone is None else task.monotone.proved(best),
    )


def _ignored(task: Task, checkpoint_path: Any) -> list[str]:
    """Return what was given and has no meaning where leaves alone are trained."""
    how = task.schedule
    given = {
        "steps": how.steps, "patience": how.patience, "gamma": how.gamma,
        "checkpoint_path": checkpoint_path,
    }  # fmt: skip
    unused = [f"`{name}`" for name, value in given.items() if value is not None]
    if not unused:
        return []
    return [f"Ignored: {', '.join(unused)}, since leaves alone are solved as a convex problem."]
