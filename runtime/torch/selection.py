"""The promise of retraining: a hard forest is taken only if it is clearly better on validation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.runtime.torch.engine import TorchEngine
from bitvec.runtime.torch.objective import Objective


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One look at the hard forest on the way.

    Parameters
    ----------
    stage : str
        "start", "leaves" or "soft".
    step, steps : int
        How far the stage was, of how far.
    score : float
        On the validation rows, of the hard forest in its inference dtype; more is better.
    loss : float
        Mean training loss since the last look; NaN where none was computed.
    gamma : float
        Steepness at that step; NaN outside the soft stage.
    accepted : bool
        Whether this forest became the best so far.
    """

    stage: str
    step: int
    steps: int
    score: float
    loss: float
    gamma: float
    accepted: bool


class Selection:
    """Keeps the best hard forest; the start stays unless another is clearly better.

    A candidate must gain more on validation than half a standard error of the start's accuracy a,
    0.5 · sqrt(a (1 − a) / n), or than one standard error of the paired difference of squared
    errors, whose few large values mislead a choice among many candidates more.

    Parameters
    ----------
    start : Forest
    X, target, weight : arrays
        The validation rows, of positive weight.
    """

    def __init__(
        self, start: Forest, objective: Objective, X: Array, target: Array, weight: Array
    ) -> None:
        self._objective, self._X, self._target = objective, X, target
        self._weight = weight / weight.max()
        share = self._weight / self._weight.sum()
        self._n_effective = 1.0 / float((share**2).sum())
        self._start_scores = self._scores(TorchEngine(start).raw(X))
        self.start_score = self.score = self._mean(self._start_scores)
        self.best = self.start = start
        self.history = [Evaluation("start", 0, 0, self.score, np.nan, np.nan, False)]

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
        """Score a candidate and keep it if it is the best; `raw` are its raw scores, if known."""
        scores = self._scores(TorchEngine(candidate).raw(self._X) if raw is None else raw)
        score = self._mean(scores)
        accepted = (
            score > self.score
            and self._is_sound(candidate)
            and (
                not np.isfinite(self.start_score)
                or score - self.start_score > self._least_gain(scores)
            )
        )
        if accepted:
            self.best, self.score = candidate, score
        evaluation = Evaluation(stage, step, steps, score, loss, gamma, accepted)
        self.history.append(evaluation)
        return evaluation

    def _scores(self, raw: Array) -> Array:
        return self._objective.scores(raw, self._target)

    def _mean(self, scores: Array) -> float:
        # One division of sums: all right is exactly 1.
        with np.errstate(over="ignore"):
            return float((self._weight * scores).sum() / self._weight.sum())

    def _is_sound(self, candidate: Forest) -> bool:
        """Return whether every leaf that was finite still is: labels come from NaN, too."""
        was_finite = np.isfinite(self.start.leaves.v)
        return bool(np.all(np.isfinite(candidate.leaves.v[was_finite])))

    def _least_gain(self, scores: Array) -> float:
        if self._objective.output.is_classifier:
            a = self.start_score
            variance, errors = a * (1 - a), 0.5
        else:
            gain = scores - self._start_scores
            gain -= self._mean(gain)
            errors = float(np.abs(gain).max()) or 1.0  # the unit, so that squares do not overflow
            variance = self._mean((gain / errors) ** 2)
        return errors * float(np.sqrt(max(variance, 0.0) / self._n_effective))
