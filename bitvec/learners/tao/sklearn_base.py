"""Bases of the scikit-learn estimators of TAO: options, the fit of one tree, the path."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable
from inspect import signature
from typing import Any, Literal, Self

from bitvec.converters.native.tao import TAO
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError, needs
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.sklearn_base import NativeEstimator, require_rows, row_weights
from bitvec.learners.tao.fit import DEEPEST, TAOResult, fit_tao
from bitvec.learners.tao.node_step import NodeStatistics
from bitvec.learners.tao.optimise import MAX_ITER, Iteration
from bitvec.learners.tao.path import tao_path

with needs("scikit-learn", "sklearn", "TAOClassifier"):
    from sklearn.base import clone


@estimator
class TAOEstimator(NativeEstimator):
    """Base of the classifiers and the regressors: options, and what they learn from."""

    max_depth: int = parameter("Depth of the start, unless that is a tree.", default=6)
    oblique: bool = parameter("Test w · x + bias > 0, instead of one column.", default=False)
    start: Literal["auto", "cart", "oblique_cart", "random"] | TAO | Forest = parameter(
        'Tree to begin with: "auto" is "cart" for axis-aligned trees and "random" for oblique '
        'ones. "oblique_cart" takes the best of coordinate descents from `restarts` random '
        'hyperplanes; "random" is complete. A tree of another library is converted first, by '
        "`bitvec.convert`, and of an estimator its `forest_` is passed, which clones keep.",
        default="auto",
    )
    penalty: Literal["l1", "l2"] = parameter(
        'Penalty of the support vector machines at oblique nodes; "l1" gives sparse ones.',
        default="l2",
    )
    C: float = parameter('Factor of squared hinges under "l2", for weights of mean 1.', default=1.0)
    lambda_: float = parameter(
        'Factor of Σ ``|w_j|`` · s_j of a node under "l1", in rows for labels and in squared units '
        "of y for values; s_j is the deviation of column j.",
        default=1.0,
    )
    monotone: bool = parameter(
        "Whether an oblique node must not raise the objective. Else that is asked only where no "
        "tree on the way is better than the start; the best one is returned either way.",
        default=False,
    )
    tol: float | None = parameter(
        "Passes end where one lowers the objective, by row, by less; 5e-4 for oblique trees if not "
        "given, and 0 for others: until nothing changes.",
        default=None,
    )
    max_iter: int = parameter("Most passes.", default=MAX_ITER)
    prune: bool = parameter("Remove what decides nothing for the training rows.", default=True)
    restarts: int = parameter(
        'Random hyperplanes at each node of "oblique_cart". Of "random", starts that get two '
        "passes; the first of least objective is fitted in full.",
        default=5,
    )
    n_jobs = parameter("Threads, 1 if not given, all cores if −1; the tree does not depend on it.")
    verbose = parameter(
        "Print the objective of each pass on standard error, of each tree that is fitted."
    )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the tree, or each tree of a forest alone.

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
        return self._fit(X, target, weight)

    @abstractmethod
    def _fit(self, X: Array, target: Array, weight: Array) -> Self:
        """Fit to rows, class numbers or values, and weights, and keep what was fitted."""

    def _training(self, X: Any, y: Any, weight: Any) -> tuple[Array, Array, Array]:
        """Return rows, class numbers or values, and weights."""
        X = self._fitted_rows(X, y)
        target = self._target(y)
        require_rows(X, target)
        return X, target, row_weights(X, weight)

    @abstractmethod
    def _target(self, y: Any) -> Array:
        """Return what is to be learned."""

    def _options(self, weight: Array) -> dict[str, Any]:
        """Return the arguments of `fit_tao`, most of which have the names of parameters."""
        own = self.get_params(deep=False)
        same = {name: own[name] for name in signature(fit_tao).parameters if name in own}
        start: Any = self.start
        if isinstance(start, str) and start == "auto":
            start = "random" if self.oblique else "cart"
        depth = options.whole("max_depth", self.max_depth)
        if depth > DEEPEST:
            raise InputError(f"`max_depth` must be at most {DEEPEST}, got {depth}.")
        return same | {
            "depth": depth,
            "start": start,
            "sample_weight": weight,
            "seed": self._seed(),
            "n_jobs": 1 if self.n_jobs is None else self.n_jobs,
            "progress": _printed(float(weight.sum())) if self.verbose else None,
        }

    @abstractmethod
    def _told(self, result: TAOResult) -> TAO:
        """Return the tree with what its leaves are to answer."""


@estimator
class SingleTAOEstimator(TAOEstimator):
    """Base of the estimators of one tree: the fit and the path."""

    tree_: TAO = attribute("The tree in the paper's symbols.")
    result_: TAOResult = attribute("Result of `fit_tao`: sizes, operations, leaf weights.")
    objective_: float = attribute('Loss of the training rows, and the penalty of "l1".')
    n_iter_: int = attribute("Passes that were made.")
    history_: tuple[Iteration, ...] = attribute("Objective at the start and after each pass.")
    node_statistics_: NodeStatistics = attribute(
        "Rows and care rows of each node, and what became of it, at the last pass."
    )

    def _fit(self, X: Array, target: Array, weight: Array) -> Self:
        fitted: Self = self._keep(fit_tao(X, target, **self._options(weight)))
        return fitted

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
        chosen = base._options(weight)
        for name in ("oblique", "penalty", "lambda_"):
            del chosen[name]
        fitted = []
        for point in tao_path(Z, target, lambdas, **chosen):
            model = clone(base).set_params(lambda_=point.lambda_)
            model._training(X, y, sample_weight)
            fitted.append(model._keep(point.result))
        return tuple(fitted)

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


def _printed(weight: float) -> Callable[[Iteration], None]:
    """Return what prints each pass on standard error."""

    def told(look: Iteration) -> None:
        moved = f", {look.accepted} nodes moved" if look.iteration else ""
        line = f"pass {look.iteration}: objective {look.objective / weight:.6g} a row{moved}"
        print(line, file=sys.stderr, flush=True)

    return told
