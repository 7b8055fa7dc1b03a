"""scikit-learn estimators of boosted trees by tree alternating optimisation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from bitvec.converters.native.tao import TAO
from bitvec.converters.native.tao_boosting import TAOBoosting, from_tao_boosting
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float, Float64, Int64
from bitvec.errors import InputError
from bitvec.learners.held_out import held_out
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.progress import counter
from bitvec.learners.sklearn_base import (
    SEEDS,
    NativeClassifier,
    forest_labels,
    labels,
    require_rows,
    row_weights,
    validation_codes,
    validation_rows,
)
from bitvec.learners.tao.boosting_rounds import Boosting, Sample, boost
from bitvec.learners.tao.fit import OBLIQUE_TOL, fit_tao
from bitvec.learners.tao.sklearn import TAOValueEstimator
from bitvec.learners.tao.sklearn_base import TAOEstimator


@estimator
class TAOBoostingEstimator(TAOEstimator):
    """Base of the boosted classifier and regressor: rounds, and the rows that end them."""

    native_: TAOBoosting = attribute("Trees and base score in the paper's symbols.")
    trees_: tuple[TAO, ...] = attribute("Its trees, leaves shrunk.")
    n_iter_: int = attribute("Rounds whose trees are kept.")
    losses_: tuple[float, ...] = attribute(
        "Mean loss of the rows learned from, of the base score and after each tree that lowered "
        "it: log loss of classes, or the squared error, summed over outputs."
    )
    validation_losses_: tuple[float, ...] = attribute(
        "The same of the rows held out; `losses_` itself where there are none."
    )
    n_estimators: int = parameter("Trees at most, one a round.", default=100)
    learning_rate: float = parameter("Factor of each tree's leaves.", default=0.1)
    l2_regularization: float = parameter(
        "Added to the sum of weighted second derivatives of constant leaves, which are 1 for "
        "values and at most one quarter for the log odds of two classes.",
        default=1.0,
    )
    validation: float | tuple[Any, ...] | None = parameter(
        "Share of the rows, and of each class, to hold out; or rows to judge by, (X, y) or (X, y, "
        "sample_weight). Trees after the round of least loss on them are dropped. With None, or "
        "too few rows, none are held out.",
        default=0.1,
    )
    patience: int = parameter(
        "Rounds in a row without a smaller loss after which the fit ends.", default=20
    )
    oblique = True
    max_depth = 4
    max_iter = 5
    restarts = 1
    tol = parameter(
        "Passes over a tree end where one lowers the squared error of its targets, by row, by "
        "less; if not given 0 for axis-aligned trees, and 5e-4 of their mean square for others."
    )
    n_jobs = parameter("Threads, 1 if not given, all cores if −1; the trees do not depend on it.")
    verbose = parameter("Show the rounds done on standard error.")

    def _fit(self, X: Array, target: Array, weight: Array) -> Self:
        chosen = self._options(weight) | {"progress": None}
        how = Boosting(
            self._is_classifier,
            options.whole("n_estimators", self.n_estimators),
            options.positive("learning_rate", self.learning_rate),
            options.positive("l2_regularization", self.l2_regularization, or_zero=True),
            options.whole("patience", self.patience),
        )
        seeds = np.random.default_rng(chosen["seed"]).integers(SEEDS, size=how.n_trees).tolist()
        rows, judges = self._split(Sample(X, self._scored(target), weight), target, chosen["seed"])

        def fitted(number: int, aim: Array, count: Array) -> TAO:
            own = {"seed": seeds[number], "sample_weight": count}
            if self.oblique and self.tol is None:
                square = np.average(np.square(aim).sum(axis=1), weights=count)
                own["tol"] = OBLIQUE_TOL * float(square)
            return fit_tao(rows.X, aim, **chosen | own).tree

        with counter("rounds", shown=bool(self.verbose)) as told:
            result = boost(rows, judges, how, fitted, told)
        self.trees_, self.n_iter_ = result.trees, result.kept
        self.losses_, self.validation_losses_ = result.losses, result.judged
        self.native_ = from_tao_boosting(result.trees, result.base_score, classes=self._labels())
        self._hold(self.native_)
        return self

    def _split(self, every: Sample, target: Array, seed: int) -> tuple[Sample, Sample | None]:
        """Return rows to learn from, and rows to judge by, if there are any."""
        given: Any = self.validation
        if given is None:
            return every, None
        if isinstance(given, (tuple, list)) and len(given) in (2, 3):
            X, y, *weight = given
            X = validation_rows(self, X)
            require_rows(X, y)
            aim, width = self._scored(self._more(y)), every.target.shape[1]
            if aim.shape[1] != width:
                raise InputError(f"`validation[1]` must have {width} columns, got {aim.shape[1]}.")
            return every, Sample(X, aim, row_weights(X, weight[0] if weight else None))
        if not isinstance(given, (float, np.floating)) or not 0 < given < 1:
            raise InputError(
                "`validation` must be a share above 0 and below 1, (X, y), (X, y, sample_weight) "
                f"or None, got {given!r}: pass one of them."
            )
        counted = np.flatnonzero(every.weight)
        codes = target[counted] if self._is_classifier else None
        drawn = held_out(counted.size, float(given), np.random.default_rng(seed), codes)
        if not drawn.any():
            return every, None
        return every.take(counted[~drawn]), every.take(counted[drawn])

    @abstractmethod
    def _scored(self, target: Array) -> Float64[Array, "n_rows n_outputs"]:
        """Return values, or class shares: of two classes that of the second."""

    @abstractmethod
    def _more(self, y: Any) -> Array:
        """Return class numbers or values of rows to judge by."""

    def _labels(self) -> Array | None:
        """Return labels as a Forest holds them, None for values."""
        return None


@estimator
class TAOBoostingClassifier(NativeClassifier, TAOBoostingEstimator):
    """Boosted oblique trees by tree alternating optimisation, which classify by a sum of scores.

    Each round grows one tree, its leaves vectors of scores of all classes, by Newton steps of the
    log loss.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAOBoostingClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True

    Notes
    -----
    Newton boosting ("XGBoost", Chen and Guestrin, 2016) of trees of "Alternating optimization of
    decision trees" (Carreira-Perpiñán and Tavallali, 2018); `bitvec.learners.tao.boosting_rounds`
    has the formulas.
    """

    def decision_function(self, X: Any) -> Float[Array, "n_rows n_classes"]:
        """Return the raw scores, (n_rows, n_classes), or (n_rows,) of the second of two classes.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
        """
        rows = self._rows(X)
        return self._predictor.decision_function(rows)

    def _target(self, y: Any) -> Int64[Array, " n_rows"]:
        self.classes_, codes = labels(y)
        return codes.astype(np.int64)

    def _scored(self, target: Array) -> Float64[Array, "n_rows n_outputs"]:
        one = np.eye(self.classes_.size)[target]
        return one[:, 1:] if self.classes_.size == 2 else one

    def _more(self, y: Any) -> Array:
        return validation_codes(self.classes_, y)

    def _labels(self) -> Array:
        return forest_labels(self.classes_)


@estimator
class TAOBoostingRegressor(TAOValueEstimator, TAOBoostingEstimator):
    """Boosted oblique trees by tree alternating optimisation, which predict values by their sum.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAOBoostingRegressor(n_estimators=10, max_depth=3, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.5
    True

    Notes
    -----
    Gradient boosting (Friedman, 2001) of trees of "Alternating optimization of decision trees"
    (Carreira-Perpiñán and Tavallali, 2018), with constant or linear leaves.
    """

    def _scored(self, target: Array) -> Float64[Array, "n_rows n_outputs"]:
        return target

    def _more(self, y: Any) -> Array:
        return self._target(y)
