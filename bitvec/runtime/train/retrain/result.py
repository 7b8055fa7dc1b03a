"""Result of a retraining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bitvec.core.forest import Forest
from bitvec.runtime.train.calibration.calibration_result import CalibrationResult
from bitvec.runtime.train.pruning import PruneResult
from bitvec.runtime.train.retrain.history import History

NOTHING_BETTER = (
    "Nothing was better on the rows held out. If the forest was fitted on them, its score there is "
    "too good: give rows that it has not seen as `validation`."
)


@dataclass(frozen=True, slots=True)
class Trial:
    """Recipe that was tried.

    Parameters
    ----------
    recipe : str
        What moved, from which start, with which steepness.
    steps : int
        Length of its training; 0 where nothing was trained softly.
    step : int
        Where its best hard forest was found.
    score : float
        Of that, on the validation rows; more is better.
    seconds : float
        Processor time of this process.
    """

    recipe: str
    steps: int
    step: int
    score: float
    seconds: float

    def __str__(self) -> str:
        found = f", best at step {self.step} of {self.steps}" if self.steps else ""
        return f"{self.recipe}{found}: {self.score:.6g} ({self.seconds:.1f} s)"


@dataclass(frozen=True, slots=True, eq=False)
class RetrainResult:
    """Result of `retrain`.

    Parameters
    ----------
    forest : Forest
        A hard forest; that one which went in, itself, where nothing was clearly better on the
        validation rows. Unless `refitted`, it is never worse there.
    improved : bool
        Whether `forest` is another one.
    metric : str
        What the scores are; more is better.
    start_score, score : float
        On the validation rows, before and after; where `refitted`, of the forest before the refit,
        which has not learned them.
    trainable : tuple of str
        What was allowed to move, of the recipe that was chosen.
    history : History
        The evaluations of the hard forest; `history.plot()` draws them.
    note : str
        Why this forest, and whether something else would be a better use of the time; why training
        stopped early, if it did.
    tried : tuple of Trial
        What was tried, in order.
    chosen : Trial or None
        The one that `forest` comes from; None where it is the one that went in.
    refitted : bool
        Whether the chosen recipe was fitted once more, to all rows.
    pruned : PruneResult, optional
        What pruning removed, where it was asked for and the forest is another one.
    monotone : mapping from columns to 1 or -1, optional
        Directions that the raw scores of `forest` keep, by an exact check of the boxes of its
        leaves, tree by tree; None where nothing was to be kept. `note` says so where the leaves of
        the forest that went in had to be cut for them; `start_score` is then that of the cut one.
    calibration : CalibrationResult, optional
        The temperature of `forest`, where it was asked for, taken or not; `improved`, the scores
        and `history` are of the forest before it.
    """

    forest: Forest
    improved: bool
    metric: str
    start_score: float
    score: float
    trainable: tuple[str, ...]
    history: History
    note: str = ""
    tried: tuple[Trial, ...] = ()
    chosen: Trial | None = None
    refitted: bool = False
    pruned: PruneResult | None = None
    monotone: Mapping[str | int, int] | None = None
    calibration: CalibrationResult | None = None

    def __repr__(self) -> str:
        """Return the scores, what was trained, and the note."""
        trained = f"by {', '.join(self.trainable)} in {len(self.history)} evaluations"
        if self.improved:
            what = f"{self.metric} {self.start_score:.6g} -> {self.score:.6g} {trained}"
        else:
            what = f"forest unchanged: {self.metric} {self.start_score:.6g} not raised {trained}"
        return f"RetrainResult({what}{', note: ' + self.note if self.note else ''})"


def table(trials: Sequence[Trial], chosen: Trial | None) -> str:
    """Return a line for each trial, the chosen one marked."""
    return "\n".join(f"{'* ' if trial is chosen else '  '}{trial}" for trial in trials)
