"""scikit-learn estimators of Convex Polytope Trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from bitvec.converters.native.cpt import CPT
from bitvec.converters.native.native_tree import NativeTree
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.learners.cpt.tree import NodeFacets, facets_of, of_forest, of_growth
from bitvec.learners.growth.grow import GrownTree
from bitvec.learners.growth.penalties import GammaProcess, Penalty
from bitvec.learners.growth.polytope import Polytope
from bitvec.learners.growth.refinement import Refinement
from bitvec.learners.growth.sklearn_base import GrownClassifier, GrownEstimator, GrownRegressor
from bitvec.learners.parameters import attribute, estimator, parameter


@estimator
class CPTEstimator(GrownEstimator):
    """Base of the classifier and the regressor: polytopes, and their facets."""

    tree_: CPT = attribute("The tree in the paper's symbols.")
    facets_: tuple[NodeFacets, ...] = attribute(
        "By node of `tree_`: the facets that are left, and the share of rows inside."
    )
    n_facets: int = parameter("K, of each node to begin with.", default=16)
    prune_tol: float | None = parameter(
        "A node drops facets while its rows' mean impurity rises by no more than this: in nats of "
        "labels, in shares of the node's variance of values. None keeps all K.",
        default=0.01,
    )
    prior: Literal["none", "gamma_process"] = parameter(
        "Whether facets are drawn to 0 on the way, too, by the prior of the paper; see "
        "`GammaProcess` in `bitvec.learners.growth.penalties`.",
        default="none",
    )
    steps = 400
    restarts = 6

    def _kind(self) -> Polytope:
        tol = self.prune_tol
        if tol is not None:
            tol = options.positive("prune_tol", tol, or_zero=True)
        return Polytope(options.whole("n_facets", self.n_facets), tol)

    def _penalties(self) -> tuple[Penalty, ...]:
        options.among("prior", self.prior, ("none", "gamma_process"))
        return (GammaProcess(),) if self.prior == "gamma_process" else ()

    def _refinement(self, seed: int) -> Refinement:
        return replace(super()._refinement(seed), trainable=("S", "b", "v", "r"))

    def _tree(self, grown: GrownTree, leaf_values: Array) -> CPT:
        return of_growth(grown, leaf_values, self.n_features_in_, labels=self._is_classifier)

    def _tree_of(self, forest: Forest, before: NativeTree) -> CPT:
        assert isinstance(before, CPT)
        return of_forest(forest, before)

    def _finished(self, tree: CPT, leaf_values: Array, X: Array, weight: Array) -> Any:
        self.facets_ = facets_of(tree, X, weight, exponent=self._exponent)
        return self._with_leaves(tree, leaf_values)


@estimator
class CPTClassifier(GrownClassifier, CPTEstimator):
    """A Convex Polytope Tree that classifies: a node sends a row left if it lies in a polytope.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> inside = np.hypot(*X.T) < 0.6
    >>> model = CPTClassifier(max_depth=1, n_facets=8, refine=0, random_state=0).fit(X, inside)
    >>> model.score(X, inside) > 0.95
    True

    Notes
    -----
    "Convex Polytope Trees" (Armandpour, Sadeghian and Zhou, 2021), with free r_k and exact
    thresholds as in the paper, whose code shares one r and splits at one half. Facets are pruned
    after the fit of a node, since the paper's prior, whose strength it does not give, would drive
    out all of them as it is printed. Refinement is by log-loss with leaves that learn, which at the
    optimum is the paper's entropy and does not suffer from small batches.
    """

    losses = ("information",)


@estimator
class CPTRegressor(GrownRegressor, CPTEstimator):
    """A Convex Polytope Tree that predicts means, of one output or several.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = np.where(np.hypot(*X.T) < 0.6, 1.0, 3.0)
    >>> model = CPTRegressor(max_depth=1, n_facets=8, refine=0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.8
    True

    Notes
    -----
    "Convex Polytope Trees" (Armandpour, Sadeghian and Zhou, 2021), whose loss of values this is.
    """

    losses = ("variance",)
