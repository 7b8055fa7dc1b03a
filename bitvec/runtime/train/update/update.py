"""Update of a forest on new rows, anchored to what it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from bitvec.core import options
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.forest import Forest, require_forest
from bitvec.runtime.train.monotone import CUT, Monotone
from bitvec.runtime.train.retrain.history import History
from bitvec.runtime.train.retrain.recipe import Progress, few_threads
from bitvec.runtime.train.update import growth_recipes
from bitvec.runtime.train.update.grown_update import Growing, Grown, most_rounds, require_growable
from bitvec.runtime.train.update.moved_parts import Moved, moved
from bitvec.runtime.train.update.update_result import (
    OUT_OF_TIME,
    TOO_FEW,
    UNCHANGED,
    Growth,
    Trial,
    UpdateResult,
    growth_of,
)
from bitvec.runtime.train.update.update_run import AS_IT_WAS, MOVES, Run, prepare


def update(
    forest: Forest,
    X: Any,
    y: Any,
    *,
    replay: tuple[Any, ...] | None = None,
    replay_weight: float | str | None = None,
    sample_weight: ArrayLike | None = None,
    class_weight: str | Mapping[Any, float] | None = None,
    validation: float | tuple[Any, ...] = 0.2,
    trainable: Iterable[str] = MOVES,
    loss: str | Callable[..., Any] = "auto",
    metric: str | Callable[[Array, Array], float] = "auto",
    metrics: Mapping[str, Callable[[Array, Array], float]] | None = None,
    monotone: Mapping[Any, int] | Sequence[int] | None = None,
    steps: int | None = None,
    grow: bool | int = False,
    refit: bool = True,
    budget: float | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> UpdateResult:
    """Move a forest's thresholds and leaves to new rows; its trees and its directions S stay.

    The forest can therefore be written back to the library that it came from. It is kept as it was
    unless a candidate is clearly better on new rows that the candidate has not seen.

    Parameters
    ----------
    forest : Forest
    X : array, sparse matrix or data frame, (batch, n_features)
        New rows, in the order of time if they have one. A frame's columns are taken by name.
    y : (batch,) or (batch, n_groups)
        Labels among `forest.output.classes`, or finite numbers for a regressor.
    replay : (X, y) or (X, y, sample_weight), optional
        Old rows that are learned again beside the new ones. With a share as `validation`, as large
        a part of them is held out, to tell what was forgotten.
    replay_weight : float or "auto", optional
        What their weights are multiplied by; "auto" tries 1 and 0 and lets the newest rows choose,
        so that old rows are dropped where they are out of date. By default "auto" where the forest
        may grow, and 1 where it may not.
    sample_weight : (batch,), optional
    class_weight : "balanced" or mapping from labels to weights, optional
        Multiplies the weights of rows, replayed and held out ones too; of the latter for the
        choice, not for the scores that are told.
    validation : float, (X, y) or (X, y, sample_weight)
        The share of the newest rows, the last of X, to choose by; or rows to choose by.
    trainable : names among "b" and "v"
        What may move: thresholds, leaves.
    loss : str or callable
        As of `bitvec.retrain`: by default the log loss of a classifier, the squared error of a
        regressor.
    metric : str or callable
        What candidates are chosen by: the loss by default, row by row, so that a gain can be told
        from chance. Or a score of all rows, of which any gain is taken: "accuracy",
        "balanced_accuracy", "f1", "auc", "log_loss", "rmse", "mae", or a function of y and of what
        `predict` answers that returns a number, of which more is better.
    metrics : mapping from names to such functions, optional
        Told beside the scores that there are by name.
    monotone : mapping from columns to 1 or -1, or a number for each column, optional
        Directions that answers keep: raw scores never fall, or never rise, where the column rises.
        By default those that the source records; what is given here stands in their place, and {}
        drops them. Every candidate is cut to them before it is scored; so is the forest itself
        where it does not keep them.
    steps : int, optional
        Of the joint training; by default one for 50 rows, from 60 to 120. It ends where four of
        eight evaluations in a row are no better.
    grow : bool or int
        Whether trees may be added and faded ones dropped, in place of the joint training: True, or
        the most rounds of new trees that a candidate may have, 60 by default. Of sums of trees.
    refit : bool
        Whether the chosen recipe is fitted once more to all rows, if a share was held out.
    budget : float, optional
        Seconds, about, after which no more is tried.
    seed : int
        Of batches, and of the replayed rows that are held out.
    device : torch.device or str, optional
        Where torch trains.
    progress : callable, optional
        Called with each `Evaluation`, whose stage is "leaves", "soft" or "trees".

    Returns
    -------
    UpdateResult

    Raises
    ------
    InputError
        If rows are of another schema, labels are missing or unknown (an update adds no class), or
        an option is out of place.
    UnsupportedModelError
        If the forest cannot be relaxed or has linear leaves, no check can prove `monotone`, or it
        may grow and is no sum of trees.

    Notes
    -----
    Candidates are, besides the forest as it was: leaves solved for anew under pulls toward the old
    ones of several strengths, a convex problem (see `anchored_leaves`); and thresholds and leaves
    trained together from the old ones on through the soft path, under the best of these pulls (see
    `anchored_training`).

    Where the forest may grow, they are instead: old leaves refreshed tree by tree under pulls; and
    new trees behind the forest as it was, behind refreshed leaves, and alone, on the new rows and,
    with replayed rows that may be dropped, on all (see `growth_recipes`). A blend of them after
    more or fewer rounds (see `forest_blend`) is the candidate: old leaves are scaled and added,
    new trees stand behind them.

    Examples
    --------
    >>> import numpy as np
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1.0]], [0.0], [[0], [1]], [0.0, 1.0])
    >>> X = np.linspace(-1, 1, 200)[np.random.default_rng(0).permutation(200), None]
    >>> result = update(stump, X, 3.0 * (X[:, 0] > 0.5))
    >>> result.updated, result.after["rmse"] < result.before["rmse"]
    (True, True)
    """
    began = time.monotonic()
    require_forest(forest)
    refit = options.flag("refit", refit)
    deadline = np.inf if budget is None else began + options.positive("budget", budget)
    most = most_rounds(grow)
    if most:
        require_growable(forest, trainable)
    if replay_weight is None:
        replay_weight = "auto" if most else 1.0
    given, keeps = forest, Monotone.of(forest, monotone)
    forest = forest if keeps is None else keeps.kept(forest)
    run = prepare(
        forest,
        X,
        y,
        rows={
            "replay": replay,
            "replay_weight": replay_weight,
            "sample_weight": sample_weight,
            "class_weight": class_weight,
            "validation": validation,
        },
        trainable=trainable,
        loss=loss,
        metric=metric,
        metrics=metrics,
        monotone=keeps,
        steps=steps,
        seed=options.whole("seed", seed, least=0),
        device=device,
        progress=progress,
    )
    mixes = run.rows.mixes
    refit &= mixes[0].every is not None
    tried = [Trial(AS_IT_WAS, np.nan, np.nan, 0, 0, run.choice.start_score, 0.0)]
    notes: list[str] = [] if forest is given else [CUT]
    with few_threads(forest.n_trees * max(len(mix.fit) for mix in mixes), run.device):
        way = Growing.of(run, None if keeps is None else keeps.signs, most, deadline)
        grown = None
        if most:
            grown, trials = growth_recipes.blended(run, way)
            tried += trials
        else:
            notes += _moves(run, tried, refit, deadline)
        judged = result = run.choice.settled
        chosen = tried[0]
        if judged is forest:
            notes.append(UNCHANGED if run.choice.has_enough_rows else TOO_FEW)
            grown = None
        else:
            chosen = tried[-1] if grown else run.chosen(tried)
        if judged is not forest and refit:
            if grown is None:
                again = run.refitted(chosen, deadline)
            else:
                last = way.refitted(grown)
                again = None if last is None else run.sound(last.forest)
                grown = grown if again is None else last
            result = judged if again is None else again
            notes += [OUT_OF_TIME] if again is None else []
    held_out, old = run.rows.held_out, run.rows.old
    return UpdateResult(
        forest=result,
        updated=result is not given,
        metric=run.metric,
        start_score=run.choice.start_score,
        score=chosen.score,
        before=run.scores(given, held_out, run.rows.judged),
        after=run.scores(judged, held_out, run.rows.judged),
        old_before={} if old is None else run.scores(given, old, old.weight),
        old_after={} if old is None else run.scores(judged, old, old.weight),
        chosen=chosen,
        tried=tuple(tried),
        refitted=result is not judged,
        moved=_moved(given, result, grown, run.rows.new.X),
        seconds=time.monotonic() - began,
        history=History(run.choice.history, run.metric),
        growth=growth_of(given, result, grown.drop) if grown else Growth(0, 0, 0, 0),
        note=" ".join(notes),
        monotone=None if keeps is None else keeps.proved(result),
    )


def _moves(run: Run, tried: list[Trial], refit: bool, deadline: float) -> list[str]:
    """Offer other leaves and thresholds, and return notes; `tried` is added to."""
    for mix in run.rows.mixes if "v" in run.names else ():
        if len(tried) == 1 or time.monotonic() < deadline:
            tried.append(run.tried_leaves(mix, deadline))
    if "b" not in run.names or not run.forest.n_nodes or time.monotonic() >= deadline:
        return []
    now = time.monotonic()
    # As much time again is left for the fit to all rows.
    end = now + (0.5 if refit else 1.0) * (deadline - now)
    trial, stopped = run.tried_training(tried[1:], end)
    tried.append(trial)
    return [stopped] if stopped else []


def _moved(before: Forest, after: Forest, grown: Grown | None, X: Array) -> Moved:
    if grown is None:
        return moved(before, after, X)
    stays = np.flatnonzero(~grown.drop)
    return moved(before.take(stays), after.take(np.arange(len(stays))), X)
