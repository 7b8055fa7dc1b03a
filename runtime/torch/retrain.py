"""Retraining: relax, anneal, harden, and keep the hard forest that validation prefers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.forest import Forest, require_forest
from bitvec.output import PostTransform
from bitvec.runtime.torch import devices, leaf_refit, options, relaxations
from bitvec.runtime.torch.leaf_training import refit_leaves
from bitvec.runtime.torch.module import SoftForest
from bitvec.runtime.torch.recipe import Progress, Recipe, few_threads
from bitvec.runtime.torch.selection import Evaluation, Selection
from bitvec.runtime.torch.soft_training import train_soft
from bitvec.runtime.torch.training_data import split

MOVABLE = ("S", "b", "v", "r")
LEAF_STEPS = 500
"""Most steps of gradient descent on leaves alone, which is convex or nearly so."""
SHARPNESS = 16.0
"""Of averaged class probabilities; 8 to 16 measured best."""


@dataclass(frozen=True, slots=True, eq=False)
class RetrainResult:
    """What retraining returns.

    Parameters
    ----------
    forest : Forest
        A hard forest, on the validation rows never worse than the one that went in; that one
        itself where nothing was clearly better.
    improved : bool
        Whether `forest` is another one.
    metric : str
        What the scores are; more is better.
    start_score, score : float
        On the validation rows, before and after.
    movable : tuple of str
        What was allowed to move.
    history : tuple of Evaluation
    note : str
        Why training stopped early, if it did, and what to try where nothing was better.
    """

    forest: Forest
    improved: bool
    metric: str
    start_score: float
    score: float
    movable: tuple[str, ...]
    history: tuple[Evaluation, ...]
    note: str = ""


def retrain(
    forest: Forest,
    X: Any,
    y: Any,
    *,
    movable: Iterable[str] | None = None,
    sample_weight: Array | None = None,
    validation: float | tuple[Any, ...] = 0.15,
    relaxation: str = "sigmoid",
    steps: int | None = None,
    batch_size: int = 512,
    learning_rate: float = 0.03,
    weight_decay: float = 0.1,
    gamma: tuple[float, float] | None = None,
    evaluations: int = 15,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> RetrainResult:
    """Retrain a forest; what comes back is hard and on validation never worse than what went in.

    Parameters
    ----------
    X : array, sparse matrix or data frame, (batch, n_features)
        A frame's columns are taken by name.
        NaN and category codes as the forest reads them.
    y : (batch,) or (batch, n_groups)
        Labels among `forest.output.classes`, or finite numbers for a regressor.
    movable : names among "S", "b", "v", "r", optional
        What may move; all else comes back bit for bit. By default "S", "b" and "v" of a single
        tree, and "v" of several: axis-aligned tests stay so while "S" is not named.
    sample_weight : (batch,), optional
    validation : float, (X, y) or (X, y, sample_weight)
        The rows to choose by, or the share of X to hold out as such. They must be rows that the
        forest was not fitted on: on its own training rows it scores too well to be improved.
    relaxation : str
        See `relaxations.RELAXATIONS`.
    steps : int, optional
        By default 1,500, and 4,000 from 10,000 training rows on.
    weight_decay : float
        On S and b, in their standardised units.
    gamma : (first, last), optional
        Steepness, raised linearly, in units of each node's margin standard deviation. By default
        (8, 60) if S may not move, else (1, 4) for a classifier and (4, 30) for a regressor, whose
        soft average of leaves is else too far from the hard answer.
    evaluations : int
        How often the hard forest is scored on the way.
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
    """
    require_forest(forest)
    names = _names(forest, movable)
    seed = options.whole("seed", seed, least=0)
    data, held_out, goal = split(forest, X, y, sample_weight, validation, seed)
    if progress is not None and not callable(progress):
        raise InputError(f"`progress` must be a function of an Evaluation, got {progress!r}.")
    relaxations.find(relaxation)
    recipe = Recipe(
        relaxation,
        (4000 if len(data.X) >= 10_000 else 1500)
        if steps is None
        else options.whole("steps", steps),
        options.whole("batch_size", batch_size),
        options.positive("learning_rate", learning_rate),
        options.positive("weight_decay", weight_decay, or_zero=True),
        _gamma(forest, names) if gamma is None else options.steepness(gamma),
        options.whole("evaluations", evaluations),
        seed,
        devices.find(device),
        progress,
    )
    # Refuses a forest that cannot be relaxed before any work is done.
    probabilities = leaf_refit.has_probability_leaves(forest)
    if not probabilities and forest.output.post_transform is PostTransform.IDENTITY:
        goal = replace(goal, sharpness=1.0)  # scores whose largest is the label
    elif probabilities and forest.n_trees > 1:
        goal = replace(goal, sharpness=SHARPNESS)
    module = SoftForest.from_forest(
        forest,
        relaxation,
        movable=names,
        gamma=recipe.gamma[0],
        dtype=_dtype(forest),
        leaves="logits" if probabilities else "values",
        device=recipe.device,
    )
    selection = Selection(forest, goal, held_out.X, held_out.target, held_out.weight)
    if progress is not None:
        progress(selection.history[0])
    stopped: str | None = None
    if "v" in names and "S" not in names:
        with few_threads(forest.n_trees * recipe.batch_size, recipe.device):
            leaves_recipe = replace(recipe, steps=min(recipe.steps, LEAF_STEPS))
            stopped = refit_leaves(forest, goal, data, held_out, selection, leaves_recipe)
    if set(names) & {"S", "b", "r"}:
        with few_threads(forest.n_nodes * recipe.batch_size, recipe.device):
            stopped = train_soft(module, goal, data, selection, recipe) or stopped
    improved = selection.best is not forest
    notes = [stopped] if stopped else []
    if not improved and not isinstance(validation, (tuple, list)):
        notes.append(
            "Nothing was better on the rows held out. If the forest was fitted on them, its score "
            "there is too good: pass validation=(X, y) that it has not seen."
        )
    return RetrainResult(
        selection.best,
        improved,
        goal.metric,
        selection.start_score,
        selection.score,
        names,
        tuple(selection.history),
        " ".join(notes),
    )


def _names(forest: Forest, movable: Iterable[str] | None) -> tuple[str, ...]:
    if movable is None:
        return ("S", "b", "v") if forest.n_trees == 1 else ("v",)
    names = options.names(movable, MOVABLE)
    if not names:
        raise InputError("`movable` must name at least one of S, b, v and r, got none.")
    return names


def _gamma(forest: Forest, names: tuple[str, ...]) -> tuple[float, float]:
    if "S" not in names:
        return 8.0, 60.0
    return (1.0, 4.0) if forest.output.is_classifier else (4.0, 30.0)


def _dtype(forest: Forest) -> torch.dtype:
    """Return float32, or float64 where finite leaves overflow in it."""
    v = forest.leaves.v
    too_large = np.any(np.abs(v[np.isfinite(v)]) > np.finfo(np.float32).max)
    return torch.float64 if too_large else torch.float32
