"""Calibration of a classifier by rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

import numpy as np

from bitvec.core import options
from bitvec.core.arrays import Array, ArrayLike
from bitvec.core.composition import Composition
from bitvec.core.forest import Forest, require_forest
from bitvec.errors import InputError
from bitvec.runtime.train.calibration.calibration_result import CalibrationResult
from bitvec.runtime.train.calibration.isotonic_curves import Isotonic
from bitvec.runtime.train.calibration.temperature import Temperature, folded
from bitvec.runtime.train.retrain import metrics, training_data
from bitvec.runtime.train.retrain.selection import hard_scores
from bitvec.runtime.train.retrain.training_data import Data

ERRORS: Final = 1.0
"""Paired standard errors that the gain in log loss must exceed."""
FOLDS: Final = 5
NO_BETTER: Final = (
    "The log loss was not lower on rows kept apart by more than a paired standard error, so the "
    "model is as it was."
)


class Calibrated(Protocol):
    """Model with calibrated probabilities."""

    @property
    def model(self) -> Forest | Composition:
        """The model."""

    def log_likelihood(self, raw: Array, target: Array) -> Array:
        """Return the log-probability of each row's label, given the forest's raw scores."""


METHODS: Final[Mapping[str, Callable[[Forest, Array, Array, Array], Calibrated]]] = {
    "temperature": Temperature.fit,
    "isotonic": Isotonic.fit,
}


def calibrate(
    forest: Forest,
    X: Any,
    y: Any,
    *,
    method: str = "temperature",
    sample_weight: ArrayLike | None = None,
    fold: bool = False,
    seed: int = 0,
) -> CalibrationResult:
    """Make a classifier's probabilities agree with how often the classes occur in some rows.

    Parameters
    ----------
    forest : Forest
        A classifier of one target.
    X : array, sparse matrix or data frame, (batch, n_features)
        Rows that the forest was not fitted on: on its own training rows it is too sure.
    y : (batch,)
        Labels among `forest.output.classes`.
    method : "temperature" or "isotonic"
        "temperature" divides raw scores by one number, within the link of a boosted classifier:
        what comes back is a forest of the same raw scores. "isotonic" puts a rising curve behind
        the probability of each class, also of forests that average probabilities: what comes back
        is a `Composition`.
    sample_weight : (batch,), optional
    fold : bool
        Divide leaves and base score by the temperature, each rounded once, in place of what the
        link reads: raw scores change, and are within rounding of those over the temperature. Files
        of xgboost, whose links know no temperature, hold that.
    seed : int
        Of the folds.

    Returns
    -------
    CalibrationResult

    Raises
    ------
    InputError
        If rows, labels, weights or an option are out of place.
    UnsupportedModelError
        If the forest has no link that a temperature could enter.

    Notes
    -----
    In 5 folds, the calibration made of the other rows is judged on a fold. It is taken if the log
    loss there is lower by more than one standard error of the paired difference, and is then made
    of all rows. Labels stay where a temperature is taken, but for raw scores so close that their
    probabilities are the same number; isotonic curves may change them. The log loss of one sigmoid
    for each of several classes (one against the others) is the sum of theirs, yes for the label and
    no for the others.

    Temperature: Guo, Pleiss, Sun and Weinberger (2017). Isotonic: Zadrozny and Elkan (2002).

    Examples
    --------
    >>> from dataclasses import replace
    >>> from bitvec.core.output import Output
    >>> random = np.random.default_rng(0)
    >>> X = random.uniform(-1, 1, (400, 1))
    >>> y = (X[:, 0] + random.normal(size=400) > 0).astype(int)
    >>> link = {"post_transform": "sigmoid", "classes": (np.array([0, 1]),)}
    >>> stump = Forest.from_matrices([[1]], [0], [[0], [1]], [-9, 9])
    >>> too_sure = replace(stump, output=Output(1, stump.output.dtype, **link))
    >>> result = calibrate(too_sure, X, y)
    >>> result.calibrated, result.after < result.before, result.temperature > 5
    (True, True, True)
    """
    require_forest(forest)
    options.among("method", method, tuple(METHODS))
    seed = options.whole("seed", seed, least=0)
    require_classifier(forest)
    if options.flag("fold", fold) and method != "temperature":
        raise InputError(f"`fold` must be False with the method {method}: no leaf holds a curve.")
    if fold:
        folded(forest, 1.0)
    rows = training_data.read(forest, X, y, sample_weight)
    found = calibrated(forest, rows, method, seed)
    if not (fold and found.calibrated) or found.temperature is None:
        return found
    return replace(found, model=folded(forest, found.temperature))


def calibrated(forest: Forest, rows: Data, method: str, seed: int) -> CalibrationResult:
    """Return the result of `calibrate` for rows that are read already, of a classifier."""
    rows = rows.take(np.flatnonzero(rows.weight > 0))
    if len(rows) < 2 * FOLDS:
        raise InputError(
            f"at least {2 * FOLDS} rows of positive weight are needed to calibrate by, got "
            f"{len(rows)}: pass more."
        )
    raw, fit = hard_scores(forest, rows.X), METHODS[method]
    before = metrics.log_likelihood(forest.output, raw, rows.target)
    after = np.empty(len(rows))
    fold = np.random.default_rng(seed).permutation(len(rows)) % FOLDS
    for number in range(FOLDS):
        kept, out = fold != number, fold == number
        made = fit(forest, raw[kept], rows.target[kept], rows.weight[kept])
        after[out] = made.log_likelihood(raw[out], rows.target[out])
    whole = fit(forest, raw, rows.target, rows.weight)
    means = [float(np.average(each, weights=rows.weight)) for each in (before, after)]
    better = _is_better(before, after, rows.weight)
    return CalibrationResult(
        model=whole.model if better else forest,
        calibrated=better,
        method=method,
        before=-means[0],
        after=-means[1],
        temperature=getattr(whole, "temperature", None),
        note="" if better else NO_BETTER,
    )


def _is_better(before: Array, after: Array, weight: Array) -> bool:
    """Return whether the weighted mean gain exceeds its standard errors."""
    if not np.all(np.isfinite(before)):
        return bool(np.all(np.isfinite(after)))
    share, gain = weight / weight.sum(), after - before
    mean = float(share @ gain)
    error = float(np.sqrt(share @ (gain - mean) ** 2 * (share @ share)))
    return mean > ERRORS * error


def require_classifier(forest: Forest) -> None:
    classes = forest.output.classes
    if classes is None or len(classes) != 1:
        got = "a regressor" if classes is None else f"one of {len(classes)} targets"
        raise InputError(f"`forest` must be a classifier of one target, got {got}.")
    if len(classes[0]) < 2:
        raise InputError("`forest` must tell at least 2 classes apart, got one class.")
