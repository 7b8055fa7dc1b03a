"""Choice among updates by the rows held out: the forest as it was stays unless one is better."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.selection import Evaluation, Selection, hard_scores
from bitvec.runtime.train.retrain.training_data import Data

ERRORS = 0.5
"""Paired standard errors that the gain of the best candidate must exceed."""
RUNS = 8
"""Runs of consecutive rows held out, whose means tell how far scores are from chance."""
LEAST = 10
"""Rows held out at least: the spread of fewer says nothing."""


class Choice(Selection):
    """Keeps the candidate of the highest score on the rows held out.

    `settled` says whether it is taken at all: its gain must exceed half a standard error of the
    rows' paired differences from the start, on at least `LEAST` rows. Candidates are compared with
    each other by their mean alone: each of them is nearer to the new rows than the start, and they
    are few.

    Parameters
    ----------
    held_out : Data
    repair : callable
        From a candidate to one that keeps what the forest must keep.
    measure : callable, optional
        From raw scores to a number for all rows, of which more is better, in place of the
        objective's mean. Any gain is then taken, since its error is not known.

    Attributes
    ----------
    latest : Forest
        The last candidate.
    found_at : Evaluation
        Where the best one was found.
    """

    def __init__(
        self,
        start: Forest,
        objective: Objective,
        held_out: Data,
        *,
        repair: Callable[[Forest], Forest] = lambda forest: forest,
        measure: Callable[[Array], float] | None = None,
    ) -> None:
        super().__init__(
            start, objective, held_out.X, held_out.target, held_out.weight, repair=repair
        )
        self._measure = measure
        self._best_scores = self._start_scores
        self.latest = start
        self.found_at = self.history[0]
        if measure is not None:
            self.start_score = self.score = measure(hard_scores(start, held_out.X))
            if np.isnan(self.score):
                raise InputError(
                    "`metric` must return a number for the forest as it is, got nan: mend it."
                )
            self.found_at = Evaluation("start", 0, 0, self.score, np.nan, np.nan, False)
            self.history = [self.found_at]

    def consider(
        self,
        candidate: Forest,
        stage: str,
        step: int,
        steps: int,
        *,
        loss: float = np.nan,
        gamma: float = np.nan,
        raw: Array | None = None,
    ) -> Evaluation:
        """Score a candidate, repaired, and keep it if it is the best."""
        self.latest = candidate = self._repair(candidate)
        raw = hard_scores(candidate, self._X)
        scores = self._scores(raw)
        score = self._mean(scores) if self._measure is None else self._measure(raw)
        accepted = score > self.score and self._is_sound(candidate)
        if accepted:
            self.best, self.score, self._best_scores = candidate, score, scores
        evaluation = Evaluation(stage, step, steps, score, loss, gamma, accepted)
        self.history.append(evaluation)
        self.found_at = evaluation if accepted else self.found_at
        return evaluation

    def score_of(self, raw: Array) -> float:
        """Return the score of raw scores of the rows held out, -inf for NaN; nothing is kept."""
        raw = raw.astype(self.start.output.dtype, copy=False)
        score = self._mean(self._scores(raw)) if self._measure is None else self._measure(raw)
        return -np.inf if np.isnan(score) else score

    def errors_behind(self, raw: Array, better: Array) -> float:
        """Return by how many standard errors raw scores are worse than others, inf if unknown.

        The error is that of the means of `RUNS` runs of consecutive rows: rows that are near in
        time are alike, and would tell too small a one.
        """
        if self._measure is not None:
            return 0.0 if self.score_of(raw) >= self.score_of(better) else np.inf
        raw, better = (one.astype(self.start.output.dtype, copy=False) for one in (raw, better))
        counted = np.flatnonzero(self._weight > 0)
        with np.errstate(invalid="ignore", over="ignore"):
            gap = self._scores(better) - self._scores(raw)
            runs = [run for run in np.array_split(counted, RUNS) if run.size]
            means = [np.average(gap[run], weights=self._weight[run]) for run in runs]
            error = np.std(means, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0.0
            behind = self._mean(gap)
        if behind <= 0:
            return 0.0
        return float(behind / error) if 0 < error < np.inf else np.inf

    @property
    def has_enough_rows(self) -> bool:
        """True if enough rows are held out to choose by."""
        return round(self._n_effective) >= LEAST

    @property
    def settled(self) -> Forest:
        """The best candidate where it is clearly better than the start, else the start."""
        if not self.has_enough_rows:
            return self.start
        if self.best is self.start or self._measure is not None:
            return self.best
        if not np.isfinite(self.start_score):
            return self.best
        gain = self._mean(self._best_scores - self._start_scores)
        clear = gain > ERRORS * self._paired_error(self._best_scores)
        return self.best if clear else self.start
