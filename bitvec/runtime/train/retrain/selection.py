"""Selection of the hard forest: one is taken only if it is clearly better on validation rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import FileFormatError
from bitvec.runtime.predict import engine
from bitvec.runtime.train.relax import probability_leaves
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.retrain_options import ERRORS


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A score of the hard forest on the way.

    Parameters
    ----------
    stage : str
        "start", "leaves" or "soft".
    step, steps : int
        How far the stage was, of how far.
    score : float
        On the validation rows, of the hard forest in its inference dtype; more is better.
    loss : float
        Mean training loss since the last evaluation; NaN where none was computed.
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

    def record(self) -> dict[str, Any]:
        """Return the fields as JSON holds them: a number that is not finite as a string."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Evaluation:
        """Return the evaluation of a record."""
        numbers = {name: float(record[name]) for name in ("score", "loss", "gamma")}
        return cls(
            str(record["stage"]),
            int(record["step"]),
            int(record["steps"]),
            accepted=bool(record["accepted"]),
            **numbers,
        )


class Latest:
    """Keeps the last hard forest that it is offered, unseen: for a recipe that is chosen already.

    Attributes
    ----------
    latest : Forest or None
    history : list of Evaluation
        Without scores.
    """

    def __init__(self) -> None:
        self.latest: Forest | None = None
        self.history: list[Evaluation] = []

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
        """Keep a candidate."""
        self.latest = candidate
        self.history.append(Evaluation(stage, step, steps, np.nan, loss, gamma, True))
        return self.history[-1]


def _plain(value: Any) -> Any:
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def hard_scores(forest: Forest, X: Array) -> Array:
    """Return the raw scores of a forest that is asked once."""
    return engine.for_one_call(forest, len(X)).raw(X)


def _gives_probabilities(forest: Forest) -> bool:
    base = forest.output.base_score
    return probability_leaves.groups(forest) is not None and not np.any(base)


class Selection:
    """Keeps the best hard forest; the start stays unless another is clearly better.

    A candidate must gain more on validation than one standard error of the paired difference from
    the start, whose deviation is taken over the rows; of accuracy, one row more than that. And
    where the score is not the loss, the loss must not rise: see `Objective.guard`.

    Parameters
    ----------
    start : Forest
    X, target, weight : arrays
        The validation rows, of positive weight.
    least_errors : float
    repair : callable, optional
        From a candidate to one that keeps what the forest must keep, before it is scored.

    Attributes
    ----------
    best : Forest
    start_score, score : float
    errors : float
        Paired standard errors by which the best is better than the start.
    best_at : int
        Where the best stands in the history.
    history : list of Evaluation
    """

    def __init__(
        self,
        start: Forest,
        objective: Objective,
        X: Array,
        target: Array,
        weight: Array,
        least_errors: float = ERRORS,
        *,
        repair: Callable[[Forest], Forest] = lambda forest: forest,
    ) -> None:
        self._least_errors, self._repair = least_errors, repair
        self._objective, self._X, self._target = objective, X, target
        self._weight = weight / weight.max()
        share = self._weight / self._weight.sum()
        self._n_effective = 1.0 / float((share**2).sum())
        self._start_scores = self._scores(hard_scores(start, X))
        self.start_score = self.score = self._mean(self._start_scores)
        self.best = self.start = start
        self._has_probabilities = _gives_probabilities(start)
        self._guard = objective.guard()
        self._least_guarded = -np.inf
        if self._guard is not None:
            raw_start = hard_scores(start, X)
            self._least_guarded = self._mean(self._guard.scores(raw_start, target))
        self.errors, self.best_at = 0.0, 0
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
        repaired = self._repair(candidate)
        if raw is None or repaired is not candidate:
            raw = hard_scores(repaired, self._X)
        candidate = repaired
        scores = self._scores(raw)
        score, error = self._mean(scores), self._paired_error(scores)
        gain = score - self.start_score
        accepted = (
            score > self.score
            and self._is_sound(candidate)
            and (
                not np.isfinite(self.start_score)
                or gain > self._least_errors * error + self._one_row
            )
            and self._keeps_the_loss(raw)
        )
        if accepted:
            self.best, self.score, self.best_at = candidate, score, len(self.history)
            self.errors = gain / error if error > 0 else np.inf
        evaluation = Evaluation(stage, step, steps, score, loss, gamma, accepted)
        self.history.append(evaluation)
        return evaluation

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return arrays and a JSON record of what was seen, beside `best`, which is not in them."""
        record = {
            "score": _plain(self.score),
            "start_score": _plain(self.start_score),
            "is_start": self.best is self.start,
            "errors": _plain(self.errors),
            "best_at": self.best_at,
            "history": [evaluation.record() for evaluation in self.history],
        }
        return {}, record

    def restore(self, best: Forest, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        """Go on from a state of a selection with the same start and rows, and its best forest.

        Raises
        ------
        FileFormatError
            If the record is none, or the start scores otherwise on these rows.
        """
        try:
            start_score, score = float(record["start_score"]), float(record["score"])
            is_start = bool(record["is_start"])
            errors, best_at = float(record["errors"]), int(record["best_at"])
            history = [Evaluation.of_record(part) for part in record["history"]]
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"the state of a selection must be whole, got one without {error}."
            ) from None
        if start_score != self.start_score:
            raise FileFormatError(
                f"the state of a selection must be that of the same forest and rows, got a start "
                f"of score {start_score:.6g} in place of {self.start_score:.6g}."
            )
        self.best = self.start if is_start else best
        self.score, self.history, self.errors, self.best_at = score, history, errors, best_at

    def _scores(self, raw: Array) -> Array:
        return self._objective.scores(raw, self._target)

    def _mean(self, scores: Array) -> float:
        # One division of sums: all right is exactly 1.
        with np.errstate(over="ignore"):
            return float((self._weight * scores).sum() / self._weight.sum())

    def _is_sound(self, candidate: Forest) -> bool:
        """Return whether a candidate answers as the start does, whatever its score is.

        Every leaf that was finite still is, since labels come from NaN, too; and leaves that held
        class probabilities, on which nothing was added, still do.
        """
        if self._has_probabilities and not _gives_probabilities(candidate):
            return False
        v, was_finite = candidate.leaves.v, np.isfinite(self.start.leaves.v)
        if v.shape != was_finite.shape:  # leaves were removed or given another form
            return bool(np.all(np.isfinite(v)) or not np.all(was_finite))
        return bool(np.all(np.isfinite(v[was_finite])))

    def is_sound(self, candidate: Forest) -> bool:
        """Return whether leaves are finite, or probabilities, where the start's are."""
        return self._is_sound(candidate)

    @property
    def _one_row(self) -> float:
        """Return a row's part of accuracy: a row that turns right by chance is no gain."""
        return 1.0 / self._n_effective if self._objective.is_accuracy else 0.0

    def _paired_error(self, scores: Array) -> float:
        """Return the standard error of the mean difference from the start."""
        with np.errstate(invalid="ignore", over="ignore"):
            gain = scores - self._start_scores
            gain -= self._mean(gain)
        unit = float(np.abs(gain).max()) or 1.0  # so that squares do not overflow
        variance = self._mean((gain / unit) ** 2)
        return unit * float(np.sqrt(max(variance, 0.0) / self._n_effective))

    def _keeps_the_loss(self, raw: Array) -> bool:
        if self._guard is None:
            return True
        return self._mean(self._guard.scores(raw, self._target)) >= self._least_guarded
