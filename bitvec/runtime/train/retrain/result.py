"""Result of a retraining."""

from __future__ import annotations

from dataclasses import dataclass

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.train.pruning import PruneResult, prune
from bitvec.runtime.train.retrain.history import History
from bitvec.runtime.train.retrain.selection import Selection

NOTHING_BETTER = (
    "Nothing was better on the rows held out. If the forest was fitted on them, its score there is "
    "too good: give rows that it has not seen as `validation`."
)


@dataclass(frozen=True, slots=True, eq=False)
class RetrainResult:
    """Result of `retrain`.

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
    trainable : tuple of str
        What was allowed to move.
    history : History
        The evaluations of the hard forest; `history.plot()` draws them.
    note : str
        Why training stopped early, if it did, and what to try where nothing was better.
    pruned : PruneResult, optional
        What pruning removed, where it was asked for and the forest is another one.
    """

    forest: Forest
    improved: bool
    metric: str
    start_score: float
    score: float
    trainable: tuple[str, ...]
    history: History
    note: str = ""
    pruned: PruneResult | None = None

    def __repr__(self) -> str:
        """Return the scores, what was trained, and the note."""
        trained = f"by {', '.join(self.trainable)} in {len(self.history)} evaluations"
        if self.improved:
            what = f"{self.metric} {self.start_score:.6g} -> {self.score:.6g} {trained}"
        else:
            what = f"forest unchanged: {self.metric} {self.start_score:.6g} not raised {trained}"
        return f"RetrainResult({what}{', note: ' + self.note if self.note else ''})"


def result(
    selection: Selection,
    metric: str,
    trainable: tuple[str, ...],
    notes: list[str],
    prune_on: Array | None,
) -> RetrainResult:
    """Return what a selection has found, pruned on some rows if they are given."""
    best, pruned = selection.best, None
    improved = best is not selection.start
    if improved and prune_on is not None:
        pruned = prune(best, prune_on)
        best = pruned.forest
    return RetrainResult(
        best,
        improved,
        metric,
        selection.start_score,
        selection.score,
        trainable,
        History(selection.history, metric),
        " ".join(notes),
        pruned,
    )
