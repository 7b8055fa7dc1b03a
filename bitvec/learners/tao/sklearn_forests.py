"""scikit-learn estimators of forests of trees by tree alternating optimisation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Self

import numpy as np

from bitvec.converters.native.tao import TAO, TAOForest, from_tao_forest
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.learners.draws import drawn_rows
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.progress import counter
from bitvec.learners.sklearn_base import SEEDS, forest_labels
from bitvec.learners.tao.fit import TAOResult, fit_tao
from bitvec.learners.tao.sklearn import TAOLabelEstimator, TAOValueEstimator, class_shares
from bitvec.learners.tao.sklearn_base import TAOEstimator
from bitvec.runtime.predict.threads import effective_jobs


@estimator
class TAOForestEstimator(TAOEstimator):
    """Base of the forests: trees of drawn rows and of their own seeds."""

    native_: TAOForest = attribute("The forest in the paper's symbols.")
    trees_: tuple[TAO, ...] = attribute("Its trees.")
    results_: tuple[TAOResult, ...] = attribute("Result of `fit_tao` for each tree.")
    n_iter_: int = attribute("Passes that were made, most of a tree.")
    n_estimators: int = parameter("Trees.", default=30)
    bootstrap: bool = parameter(
        "Fit each tree to as many rows as there are, drawn with replacement.", default=True
    )
    oblique = True
    restarts = 1
    n_jobs = parameter(
        "Threads that trees are fitted by, 1 if not given, all cores if −1; the forest does not "
        "depend on it."
    )
    verbose = parameter("Show the trees done on standard error.")

    def _fit(self, X: Array, target: Array, weight: Array) -> Self:
        n_trees = options.whole("n_estimators", self.n_estimators)
        bootstrap = options.flag("bootstrap", self.bootstrap)
        chosen = self._options(weight) | {"n_jobs": 1, "progress": None}
        seeds = np.random.default_rng(chosen["seed"]).integers(SEEDS, size=n_trees).tolist()

        def one(seed: int) -> TAOResult:
            times = _drawn(weight, seed) if bootstrap else np.ones(len(X))
            return fit_tao(X, target, **chosen | {"seed": seed, "sample_weight": weight * times})

        fitted: list[TAOResult] = []
        with (
            ThreadPoolExecutor(effective_jobs(1 if self.n_jobs is None else self.n_jobs)) as pool,
            counter("trees", shown=bool(self.verbose)) as told,
        ):
            for result in pool.map(one, seeds):
                fitted.append(result)
                told(len(fitted), n_trees)
        self.results_ = tuple(fitted)
        self.trees_ = tuple(self._told(result) for result in fitted)
        self.n_iter_ = max(result.n_iter for result in fitted)
        self.native_ = from_tao_forest(self.trees_)
        self._hold(self.native_)
        return self


def _drawn(weight: Float64[Array, " n_rows"], seed: int) -> Float64[Array, " n_rows"]:
    """Return how often each row of positive weight is drawn; others count for nothing."""
    counted = np.flatnonzero(weight > 0)
    times = np.zeros(len(weight))
    times[counted] = drawn_rows(counted.size, [seed, 1])
    return times


@estimator
class TAOForestClassifier(TAOLabelEstimator, TAOForestEstimator):
    """A forest of oblique trees by tree alternating optimisation, which classifies by their mean.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAOForestClassifier(n_estimators=5, max_depth=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True

    Notes
    -----
    "Ensembles of bagged TAO trees consistently improve over random forests, AdaBoost and gradient
    boosting" (Carreira-Perpiñán and Zharmagambetov, 2020): bagging is all that tells the trees
    apart. There labels are counted; here the shares of classes at the leaves are averaged.
    """

    def _told(self, result: TAOResult) -> TAO:
        tree = result.tree
        shares = class_shares(result.leaf_weight, tree.V.argmax(axis=1), float(self.smoothing))
        return replace(tree, V=shares, classes=forest_labels(self.classes_))


@estimator
class TAOForestRegressor(TAOValueEstimator, TAOForestEstimator):
    """A forest of oblique trees by tree alternating optimisation, which predicts by their mean.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAOForestRegressor(n_estimators=5, max_depth=3, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.5
    True

    Notes
    -----
    "Smaller, more accurate regression forests using tree alternating optimization"
    (Zharmagambetov and Carreira-Perpiñán, 2020), with constant or linear leaves.
    """
