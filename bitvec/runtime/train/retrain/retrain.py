"""Retraining: relax, anneal, harden, and keep the hard forest that validation prefers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from bitvec.core.arrays import ArrayLike
from bitvec.core.forest import Forest, require_forest
from bitvec.errors import InputError
from bitvec.runtime.predict.torch import devices
from bitvec.runtime.train.relax import options
from bitvec.runtime.train.relax.module import SoftForest
from bitvec.runtime.train.relax.relaxations import Relaxation
from bitvec.runtime.train.relax.trainable import TRAINABLE
from bitvec.runtime.train.relax.trainable import find as find_trainable
from bitvec.runtime.train.retrain import (
    checkpoint,
    distillation,
    leaf_training,
    objective,
    optimizers,
    probability_leaves,
    regularisers,
    schedules,
    training_data,
    workers,
)
from bitvec.runtime.train.retrain.batches import ArrayBatches, Batches, LoaderBatches
from bitvec.runtime.train.retrain.recipe import Progress, Recipe, few_threads
from bitvec.runtime.train.retrain.result import NOTHING_BETTER, RetrainResult, result
from bitvec.runtime.train.retrain.selection import Selection
from bitvec.runtime.train.retrain.soft_training import Goal, train_soft
from bitvec.runtime.train.retrain.training_data import Data

LEAVES = ("v", "base_score")
MANY_ROWS = 10_000


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
    relaxation: str | Relaxation = "sigmoid",
    steps: int | None = None,
    batch_size: int = 512,
    optimizer: str | Callable[[list[dict[str, Any]]], torch.optim.Optimizer] = "adamw",
    learning_rate: float = 0.03,
    rate_schedule: str = "cosine",
    warmup: int = 0,
    gamma: tuple[float, float] | Callable[[float], float] | None = None,
    gamma_schedule: str = "linear",
    weight_decay: float = 0.1,
    l1: float = 0.0,
    l2: float = 0.0,
    spatial: float = 0.0,
    spatial_shape: tuple[int, ...] | None = None,
    spatial_matrix: Any = None,
    teacher: ArrayLike | Callable[[Any], Any] | None = None,
    teacher_weight: float = 0.5,
    temperature: float = 1.0,
    evaluations: int = 15,
    patience: int | None = None,
    prune_dead: bool = False,
    checkpoint_path: str | os.PathLike[str] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> RetrainResult:
    """Retrain a forest; what comes back is hard and on validation never worse than what went in.

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
        tree, and "v" of several: axis-aligned tests stay so while "S" is not named. A mapping says
        which part of each: "all", {"levels": depths}, {"nodes": mask or numbers}, and for "v"
        {"leaves": mask or numbers}. ("v",) alone is a convex problem and solved as such.
    sample_weight : (batch,), optional
    validation : float, (X, y) or (X, y, sample_weight)
        The rows to choose by, or the share of X to hold out as such. They must be rows that the
        forest was not fitted on: on its own training rows it scores too well to be improved.
    loss : str or callable
        "auto": the cross-entropy of a classifier, the squared error of a regressor; or one of
        `objective.LOSSES` ("quantile", "poisson", "huber" ...); or a function of raw scores
        (batch, n_outputs) and targets that returns one loss per row.
    metric : str or callable
        What the hard forest is chosen by: by default accuracy, or the loss itself.
    quantile : float, optional
        The level of the loss or metric "quantile", 0.5 if not given; one for each output if there
        are several.
    relaxation : str or Relaxation
        See `bitvec.to_torch`.
    steps : int, optional
        By default 1,500, and 4,000 from 10,000 training rows on.
    batch_size : int
        Rows in a step, of all processes together.
    optimizer : str or callable
        "adamw", "adam", "nadam", "rmsprop" or "sgd", or a function that makes a torch optimiser
        from parameter groups.
    learning_rate : float
        Of S, b and r in their standardised units and of leaf logits; other leaves move in their own
        standard deviation.
    rate_schedule : "cosine", "linear" or "constant"
        How the learning rate falls to 0 after `warmup` steps.
    gamma : (first, last) or callable, optional
        Steepness, in units of each node's margin standard deviation, on the way given by
        `gamma_schedule`, or as a function of the part of the way. By default (8, 60) if S may not
        move, else (1, 4) for a classifier and (4, 30) for a regressor, whose soft average of leaves
        is else too far from the hard answer.
    gamma_schedule : "linear", "exponential", "cosine" or "constant"
    weight_decay : float
        Of S and b, in their standardised units.
    l1 : float
        Pull of each standardised weight of S towards exactly 0, in units of the mean loss, so that
        rows read few features; .001 to .03 are usual.
    l2 : float
        Penalty on the squares of S.
    spatial : float
        Penalty on rows of S that are not smooth: over an image of `spatial_shape`, (height, width)
        or (n_channels, height, width), or over a graph with the Laplacian `spatial_matrix`.
    teacher : array or callable, optional
        Another model's answers for the rows of X (class probabilities, or predictions), or its
        `predict_proba` or `predict`; the loss is then mixed with the distance to them.
    teacher_weight, temperature : float
        The teacher's share of the loss, 0 to 1, and what its log-probabilities are divided by.
    evaluations : int
        How often the hard forest is scored on the way.
    patience : int, optional
        Stop after so many evaluations in a row at which the hard forest was not clearly better.
    prune_dead : bool
        Remove branches that no training or validation row reaches and subtrees of equal leaves.
    checkpoint_path : path, optional
        Where the state is written at each evaluation. Where the file is there already, training
        goes on from it and ends with the same result as without the interruption.
    seed : int
        Fixes the split and the batches; on the CPU the result is then the same each time.
    progress : callable, optional
        Called with each `Evaluation`.

    Raises
    ------
    InputError
        If X, y, weights, names or numbers are out of place. Numbers that are merely too large are
        not: a run that diverges ends early, says so in `note`, and what was best until then counts.
    UnsupportedModelError
        If the forest cannot be relaxed.

    Notes
    -----
    Single tree: features standardised, rows and thresholds divided by their margin's standard
    deviation, leaf logits from counts, AdamW with a cosine, and after each hardening leaves counted
    anew; a leaf that no row reaches keeps what it learned.

    Under `torchrun`, with the default process group initialised, the processes share each batch and
    add up their gradients; all of them return the same forest. Rows in memory are given whole to
    each process, a loader yields each process its own.
    """
    require_forest(forest)
    selected = _trainable(forest, trainable)
    names = tuple(selected)
    seed = options.whole("seed", seed, least=0)
    if progress is not None and not callable(progress):
        raise InputError(f"`progress` must be a function of an Evaluation, got {progress!r}.")
    group = workers.current()
    if quantile is not None and "quantile" not in (loss, metric):
        raise InputError(
            f"`quantile` must come with the loss or the metric quantile, got {quantile!r} with "
            f'{loss!r}: pass loss="quantile".'
        )
    level = 0.5 if quantile is None else quantile
    choices = {"loss": loss, "metric": metric, "quantile": level}
    distils = None
    if _is_loader(X, y):
        if prune_dead:
            raise InputError(
                "`prune_dead` must be False where X is a loader: prune rows in memory."
            )
        _require_none(y=y, sample_weight=sample_weight, teacher=teacher)
        data, held_out = None, training_data.held_out(forest, validation)
    else:
        every = training_data.read(forest, X, y, sample_weight)
        aim = objective.of_forest(forest, every.target, **choices)
        if teacher is not None:
            distils = distillation.build(
                aim, teacher, X, len(every), weight=teacher_weight, temperature=temperature
            )
            every = replace(every, teacher=distils.teacher)
        data, held_out = training_data.split(forest, every, validation, seed)
    n_steps = 4000 if data is not None and len(data) >= MANY_ROWS else 1500
    if steps is not None:
        n_steps = options.whole("steps", steps)
    recipe = Recipe(
        relaxation,
        n_steps,
        options.whole("batch_size", batch_size),
        optimizers.find(optimizer),
        options.positive("learning_rate", learning_rate),
        options.positive("weight_decay", weight_decay, or_zero=True),
        schedules.steepness(_gamma(forest, names) if gamma is None else gamma, gamma_schedule),
        schedules.rate(rate_schedule, options.whole("warmup", warmup, least=0), n_steps),
        options.whole("evaluations", evaluations),
        None if patience is None else options.whole("patience", patience),
        seed,
        devices.find(device),
        progress if group.is_first else None,
    )
    batches: Batches
    if data is None:
        batches = loaded = LoaderBatches(X, forest, recipe, group)
        data = loaded.first
        aim = objective.of_forest(forest, data.target, **choices)
    else:
        batches = ArrayBatches(data, recipe, group)
    if "base_score" in names and probability_leaves.groups(forest) is not None:
        raise InputError(
            "`trainable` must not name base_score for a forest whose leaves hold probabilities: "
            "leave it out, since what is added to them makes them none."
        )
    aim.require_targets(held_out.target, "validation[1]")
    probabilities = probability_leaves.has_probability_leaves(forest) and not aim.soft
    # Refuses a forest that cannot be relaxed before any work is done.
    module = SoftForest.from_forest(
        forest,
        relaxation,
        trainable=selected,
        gamma=recipe.gamma(0.0),
        dtype=_dtype(forest),
        leaves="logits" if probabilities else "values",
        device=recipe.device,
    )
    smooth = regularisers.build(
        module,
        l1=l1,
        l2=l2,
        spatial=spatial,
        spatial_shape=spatial_shape,
        spatial_matrix=spatial_matrix,
    )
    goal = Goal(aim, distils, smooth)
    kept = _checkpoint(checkpoint_path, forest, recipe, data, held_out, goal, selected)
    selection = Selection(forest, aim, held_out.X, held_out.target, held_out.weight)
    state = None if kept is None else kept.load()
    if state is not None:
        selection.restore(
            checkpoint.take_forest(state, "best"),
            checkpoint.part(state, "selection"),
            state.record["selection"],
        )
    elif recipe.progress is not None:
        recipe.progress(selection.history[0])
    refits = forest.leaves.linear is None and _refits_leaves(selected, goal, batches)
    stopped: str | None = None
    if refits and "S" not in names and state is None:
        with few_threads(forest.n_trees * recipe.batch_size, recipe.device):
            stopped = leaf_training.refit_leaves(forest, aim, data, held_out, selection, recipe)
    if not refits or set(names) - set(LEAVES):
        with few_threads(forest.n_nodes * recipe.batch_size, recipe.device):
            stopped = (
                train_soft(module, goal, batches, selection, recipe, group, kept, state) or stopped
            )
        if refits and forest.n_trees > 1 and selection.best is not forest:
            best = selection.best
            leaf_training.refit_leaves(best, aim, data, held_out, selection, recipe)
    notes = [stopped] if stopped else []
    if refits and not set(names) - set(LEAVES):
        asked = {
            "steps": steps, "patience": patience, "gamma": gamma, "checkpoint_path": checkpoint_path
        }  # fmt: skip
        unused = [f"`{name}`" for name, value in asked.items() if value is not None]
        if unused:
            notes.append(
                f"{', '.join(unused)} had no say: leaves alone are solved as a convex problem."
            )
    if selection.best is forest and not isinstance(validation, (tuple, list)):
        notes.append(NOTHING_BETTER)
    rows = np.concatenate([data.X, held_out.X]) if prune_dead else None
    return result(selection, aim.metric, names, notes, rows)


def _is_loader(X: Any, y: Any) -> bool:
    """Return whether X yields batches: it has no rows of its own and no y beside it."""
    return y is None and not hasattr(X, "shape") and isinstance(X, Iterable)


def _require_none(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"`{name}` must be left out where X is a loader: yield (X, y, sample_weight)."
            )


def _trainable(forest: Forest, trainable: Any) -> dict[str, Any]:
    """Return what may move, by name, and which part of it."""
    if trainable is None:
        return dict.fromkeys(("S", "b", "v") if forest.n_trees == 1 else ("v",), "all")
    names = find_trainable(trainable, forest).names
    if not names:
        raise InputError(f"`trainable` must name at least one of {', '.join(TRAINABLE)}, got none.")
    return dict(trainable) if isinstance(trainable, Mapping) else dict.fromkeys(names, "all")


def _refits_leaves(selected: dict[str, Any], goal: Goal, batches: Batches) -> bool:
    """Return whether leaves are fitted on hard routes by a solver of their own."""
    return (
        selected.get("v") == "all"
        and goal.distillation is None
        and isinstance(batches, ArrayBatches)
    )


def _gamma(forest: Forest, names: tuple[str, ...]) -> tuple[float, float]:
    if "S" not in names:
        return 8.0, 60.0
    return (1.0, 4.0) if forest.output.is_classifier else (4.0, 30.0)


def _dtype(forest: Forest) -> torch.dtype:
    """Return float32, or float64 where finite leaves overflow in it."""
    v = forest.leaves.v
    too_large = np.any(np.abs(v[np.isfinite(v)]) > np.finfo(np.float32).max)
    return torch.float64 if too_large else torch.float32


def _checkpoint(
    path: Any,
    forest: Forest,
    recipe: Recipe,
    data: Data,
    held_out: Data,
    goal: Goal,
    selected: dict[str, Any],
) -> checkpoint.Checkpoint | None:
    if path is None:
        return None
    run = {
        "recipe": [
            recipe.relaxation, recipe.steps, recipe.batch_size, recipe.optimizer,
            recipe.learning_rate, recipe.weight_decay, recipe.evaluations, recipe.patience,
            recipe.seed,
        ],
        "steepness": [recipe.gamma(part) for part in np.linspace(0, 1, 257)],
        "rates": [recipe.rate(part) for part in np.linspace(0, 1, 257)],
        "goal": [goal.objective, goal.distillation, goal.regularisers],
        "trainable": selected,
    }  # fmt: skip
    arrays = [
        part
        for rows in (data, held_out)
        for part in (rows.X, rows.target, rows.weight, rows.teacher)
    ]
    return checkpoint.at(path, checkpoint.digest(forest, arrays, run))
