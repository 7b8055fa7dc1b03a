"""Retraining: relax, anneal, harden, and keep the hard forest that validation prefers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from bitvec.core.arrays import ArrayLike
from bitvec.core.forest import Forest, require_forest
from bitvec.runtime.train.relax.relaxations import Relaxation
from bitvec.runtime.train.retrain import leaf_refit
from bitvec.runtime.train.retrain.preparation import Aim, Penalties, Rows, Run, Settings, prepare
from bitvec.runtime.train.retrain.recipe import Progress, few_threads
from bitvec.runtime.train.retrain.result import NOTHING_BETTER, RetrainResult, result
from bitvec.runtime.train.retrain.soft_training import train_soft


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
        goes on from it and ends with the same result as without the interruption. A file of other
        options, rows or another forest is refused; your own functions are known by module and
        name, so remove the file after changing one.
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
    run = prepare(
        forest,
        trainable,
        Rows(X, y, sample_weight, validation),
        Aim(loss, metric, quantile, teacher, teacher_weight, temperature),
        Settings(
            relaxation,
            steps,
            batch_size,
            optimizer,
            learning_rate,
            rate_schedule,
            warmup,
            gamma,
            gamma_schedule,
            weight_decay,
            evaluations,
            patience,
            prune_dead,
            checkpoint_path,
            seed,
            device,
            progress,
        ),
        Penalties(l1, l2, spatial, spatial_shape, spatial_matrix),
    )
    notes = _train(run)
    if run.leaves_alone:
        ignored = {
            "steps": steps, "patience": patience, "gamma": gamma, "checkpoint_path": checkpoint_path
        }  # fmt: skip
        unused = [f"`{name}`" for name, value in ignored.items() if value is not None]
        if unused:
            notes.append(
                f"Ignored: {', '.join(unused)}, since leaves alone are solved as a convex problem."
            )
    if run.selection.best is forest and not isinstance(validation, (tuple, list)):
        notes.append(NOTHING_BETTER)
    rows = np.concatenate([run.data.X, run.held_out.X]) if prune_dead else None
    return result(run.selection, run.goal.objective.metric, run.names, notes, rows)


def _train(run: Run) -> list[str]:
    """Offer hard forests to the selection; return why training ended early, if it did."""
    forest, goal, data, held_out = run.forest, run.goal, run.data, run.held_out
    selection, recipe, aim = run.selection, run.recipe, run.goal.objective
    stopped: str | None = None
    if run.refits_leaves and "S" not in run.names and run.state is None:
        with few_threads(forest.n_trees * recipe.batch_size, recipe.device):
            stopped = leaf_refit.refit_leaves(forest, aim, data, held_out, selection, recipe)
    if not run.leaves_alone:
        with few_threads(forest.n_nodes * recipe.batch_size, recipe.device):
            stopped = (
                train_soft(
                    run.module, goal, run.batches, selection, recipe, run.workers, run.kept,
                    run.state,
                )
                or stopped
            )  # fmt: skip
        if run.refits_leaves and forest.n_trees > 1 and selection.best is not forest:
            best = selection.best
            leaf_refit.refit_leaves(best, aim, data, held_out, selection, recipe)
    return [stopped] if stopped else []
