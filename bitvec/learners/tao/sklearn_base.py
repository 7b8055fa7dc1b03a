"""What the scikit-learn estimators of TAO share: options, the fit, the path, what is kept of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from bitvec.converters.native.tao import TAO
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.errors import InputError, MissingLibraryError
from bitvec.learners.sklearn_base import NativeEstimator, require_rows, row_weights
from bitvec.learners.tao.fit import DEEPEST, TAOResult, fit_tao
from bitvec.learners.tao.node_step import NodeStatistics
from bitvec.learners.tao.optimise import MAX_ITER, Iteration
from bitvec.learners.tao.path import tao_path

try:
    from sklearn.base import clone
    from sklearn.utils import check_random_state
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "TAOClassifier") from error

SEEDS = np.iinfo(np.int32).max


class TAOEstimator(NativeEstimator):
    """What classifiers and regressors share."""

    result_: TAOResult
    tree_: TAO
    objective_: float
    n_iter_: int
    history_: tuple[Iteration, ...]
    node_statistics_: NodeStatistics

    def __init__(
        self,
        *,
        max_depth: int = 6,
        oblique: bool = False,
        start: Any = "auto",
        penalty: str = "l2",
        C: float = 1.0,
        lambda_: float = 1.0,
        monotone: bool = False,
        tol: float | None = None,
        max_iter: int = MAX_ITER,
        prune: bool = True,
        restarts: int = 5,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.max_depth = max_depth
        self.oblique = oblique
        self.start = start
        self.penalty = penalty
        self.C = C
        self.lambda_ = lambda_
        self.monotone = monotone
        self.tol = tol
        self.max_iter = max_iter
        self.prune = prune
        self.restarts = restarts
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the tree.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
            Finite numbers.
        y : (n_rows,), or (n_rows, n_outputs) for a regressor
        sample_weight : (n_rows,), optional
            What the loss of each row counts.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If y, weights or a parameter is out of place.
        ValueError
            If X or y is what scikit-learn's checks refuse, NaN for one.
        """
        X, target, weight = self._training(X, y, sample_weight)
        chosen = self._options(weight) | {
            "oblique": self.oblique,
            "penalty": self.penalty,
            "lambda_": options.positive("lambda_", self.lambda_),
        }
        return self._keep(fit_tao(X, target, **chosen))

    def path(self, X: Any, y: Any, lambdas: Any, sample_weight: Any = None) -> tuple[Any, ...]:
        """Fit sparse oblique trees for rising penalties, each started from the one before.

        Whatever `oblique`, `penalty` and `lambda_` of this estimator are, the trees are oblique and
        their penalty is "l1". Choose among them by rows that were held out.

        Parameters
        ----------
        X, y, sample_weight
            See `fit`.
        lambdas : sequence of float
            Above 0.

        Returns
        -------
        tuple of estimators
            Fitted, of this class, by rising `lambda_`.

        Notes
        -----
        The path of Figure 3 of the paper; see `bitvec.learners.tao.tao_path`.
        """
        base = clone(self).set_params(oblique=True, penalty="l1")
        Z, target, weight = base._training(X, y, sample_weight)
        fitted = []
        for point in tao_path(Z, target, lambdas, **base._options(weight)):
            model = clone(base).set_params(lambda_=point.lambda_)
            model._training(X, y, sample_weight)
            fitted.append(model._keep(point.result))
        return tuple(fitted)

    def _training(self, X: Any, y: Any, weight: Any) -> tuple[Array, Array, Array]:
        """Return rows, class numbers or values, and weights."""
        X = self._fitted_rows(X, y)
        target = self._target(y)
        require_rows(X, target)
        return X, target, row_weights(X, weight)

    def _target(self, y: Any) -> Array:
        raise NotImplementedError

    def _options(self, weight: Array) -> dict[str, Any]:
        """Return what `fit_tao` and `tao_path` both take."""
        start = self.start
        for name in ("oblique", "monotone", "prune"):
            options.flag(name, getattr(self, name))
        if isinstance(start, str) and start == "auto":
            start = "random" if self.oblique else "cart"
        depth = options.whole("max_depth", self.max_depth)
        if depth > DEEPEST:
            raise InputError(f"`max_depth` must be at most {DEEPEST}, got {depth}.")
        if self.tol is not None:
            options.positive("tol", self.tol, or_zero=True)
        return {
            "depth": depth,
            "start": start,
            "sample_weight": weight,
            "C": options.positive("C", self.C),
            "monotone": self.monotone,
            "tol": self.tol,
            "max_iter": options.whole("max_iter", self.max_iter, least=0),
            "prune": self.prune,
            "restarts": options.whole("restarts", self.restarts),
            "seed": int(check_random_state(self.random_state).randint(SEEDS)),
            "n_jobs": 1 if self.n_jobs is None else self.n_jobs,
            "progress": _printed(float(weight.sum())) if self.verbose else None,
        }

    def _keep(self, result: TAOResult) -> Any:
        """Keep what was fitted."""
        self.result_ = result
        self.objective_ = result.objective
        self.n_iter_ = result.n_iter
        self.history_ = result.history
        self.node_statistics_ = result.nodes
        self.tree_ = self._told(result)
        self._hold(self.tree_)
        return self

    def _told(self, result: TAOResult) -> TAO:
        """Return the tree with what its leaves are to answer."""
        raise NotImplementedError


def _printed(weight: float) -> Callable[[Iteration], None]:
    """Return what prints each pass on standard error."""

    def told(look: Iteration) -> None:
        moved = f", {look.accepted} nodes moved" if look.iteration else ""
        line = f"pass {look.iteration}: objective {look.objective / weight:.6g} a row{moved}"
        print(line, file=sys.stderr, flush=True)

    return told
