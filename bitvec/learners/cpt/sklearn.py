"""scikit-learn estimators of Convex Polytope Trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bitvec.converters.native.cpt import CPT
from bitvec.converters.native.native_tree import NativeTree
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import MissingLibraryError
from bitvec.learners.cpt.tree import NodeFacets, facets_of, of_forest, of_growth
from bitvec.learners.growth.grow import GrownTree
from bitvec.learners.growth.penalties import GammaProcess, Penalty
from bitvec.learners.growth.polytope import Polytope
from bitvec.learners.growth.refinement import Refinement
from bitvec.learners.growth.sklearn_base import GrownClassifier, GrownEstimator, GrownRegressor
from bitvec.learners.sklearn_base import NativeClassifier
from bitvec.runtime.train.relax import options

try:
    from sklearn.base import RegressorMixin
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "CPTClassifier") from error


class CPTEstimator(GrownEstimator):
    """What classifiers and regressors share."""

    tree_: CPT
    facets_: tuple[NodeFacets, ...]

    def __init__(
        self,
        *,
        max_depth: int | None = 6,
        max_leaves: int | None = None,
        growth: str = "level",
        n_facets: int = 16,
        prune_tol: float | None = 0.01,
        prior: str = "none",
        steps: int = 400,
        learning_rate: float = 0.05,
        gamma: Any = (1.0, 8.0),
        gamma_schedule: str = "linear",
        restarts: int = 6,
        batch_size: int = 4096,
        min_rows: int | None = None,
        min_gain: float = 0.0,
        refine: int | None = None,
        refine_learning_rate: float = 0.03,
        refine_gamma: Any = None,
        validation: Any = 0.15,
        smoothing: float = 0.0,
        checkpoint_path: Any = None,
        device: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            max_depth=max_depth,
            max_leaves=max_leaves,
            growth=growth,
            steps=steps,
            learning_rate=learning_rate,
            gamma=gamma,
            gamma_schedule=gamma_schedule,
            restarts=restarts,
            batch_size=batch_size,
            min_rows=min_rows,
            min_gain=min_gain,
            refine=refine,
            refine_learning_rate=refine_learning_rate,
            refine_gamma=refine_gamma,
            validation=validation,
            smoothing=smoothing,
            checkpoint_path=checkpoint_path,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.n_facets = n_facets
        self.prune_tol = prune_tol
        self.prior = prior

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

    def _tree_of(self, forest: Forest, before: NativeTree) -> CPT:
        assert isinstance(before, CPT)
        return of_forest(forest, before)


class CPTClassifier(NativeClassifier, CPTEstimator, GrownClassifier):
    """A Convex Polytope Tree that classifies: a node sends a row left if it lies in a polytope.

    Parameters
    ----------
    max_depth, max_leaves : int, optional
        Where growth ends.
    growth : "level" or "best"
        Whole levels at a time, or the leaf of largest gain first.
    n_facets : int
        K, of each node to begin with.
    prune_tol : float or None
        A node drops facets while its rows' mean impurity rises by no more than this: in nats of
        labels, in shares of the node's variance of values. None keeps all K.
    prior : "none" or "gamma_process"
        Whether facets are drawn to 0 on the way, too, by the prior of the paper; see
        `GammaProcess` in `bitvec.learners.growth.penalties`.
    steps : int
        Of Adam, for each level.
    learning_rate : float
        Of margins of deviation 1.
    gamma : (first, last) or callable
        Steepness γ on the way, in units of margins; or a function of the part of the way.
    gamma_schedule : "linear", "exponential", "cosine" or "constant"
    restarts : int
        Starts of each node, trained side by side; the least exact impurity wins.
    batch_size : int
        Rows of a step, all nodes of a level together, though at least 256 of each node.
    min_rows : int, optional
        Of a node that is split; 4 if not given. Labels that are noisy want more.
    min_gain : float
        Decrease of the mean impurity, over all rows, that a split must exceed.
    refine : int, optional
        Steps of the joint refinement by `bitvec.retrain`, 0 for none; if not given, 1,500, and
        4,000 from 10,000 rows on.
    refine_learning_rate : float
    refine_gamma : (first, last) or callable, optional
        See `gamma` of `bitvec.retrain`.
    validation : float, (X, y) or (X, y, sample_weight)
        What the refined tree is chosen by: rows, or the share of the training rows that the tree
        does not grow on. Leaves are filled from all rows of the fit in the end.
    smoothing : float
        Added to the weight of each class at each leaf before shares are taken; 1 is Laplace's.
    checkpoint_path : path, optional
        Where the refinement writes its state, and goes on from if it is there; growth does so
        beside it, in `checkpoint_path` + ".growth". They are files of one fit: remove them after.
    device : torch.device or str, optional
        What trains, the CPU if not given: stumps and the refinement. Cuts are scanned, leaves
        counted and rows answered on the CPU.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads, 1 if not given, all cores if −1.
    verbose : bool
        Print growth and refinement on standard error.

    Attributes
    ----------
    forest_ : Forest
        The unified forest, to certify, compile, retrain or export.
    tree_ : CPT
        The tree in the paper's symbols.
    facets_ : tuple of NodeFacets
        By node of `tree_`: the facets that are left, and the share of rows inside.
    growth_ : tuple of GrowthStep
        Nodes, leaves and mean impurity after each level or split, before the refinement.
    refinement_ : RetrainResult or None
        What `bitvec.retrain` returned; None where nothing was refined.
    classes_ : (n_classes,)
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

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

    def _loss(self) -> str:
        return "information"

    def _tree(self, grown: GrownTree, leaf_values: Array) -> CPT:
        return of_growth(grown, leaf_values, self.n_features_in_, labels=True)

    def _finished(self, tree: CPT, leaf_values: Array, X: Array, weight: Array) -> CPT:
        self.facets_ = facets_of(tree, X, weight, exponent=self._exponent)
        return replace(tree, pi=leaf_values, classes=self._labels)


class CPTRegressor(RegressorMixin, CPTEstimator, GrownRegressor):  # type: ignore[misc]
    """A Convex Polytope Tree that predicts means, of one output or several.

    Parameters
    ----------
    max_depth, max_leaves : int, optional
        Where growth ends.
    growth : "level" or "best"
        Whole levels at a time, or the leaf of largest gain first.
    n_facets : int
        K, of each node to begin with.
    prune_tol : float or None
        A node drops facets while its rows' mean impurity rises by no more than this: in nats of
        labels, in shares of the node's variance of values. None keeps all K.
    prior : "none" or "gamma_process"
        Whether facets are drawn to 0 on the way, too, by the prior of the paper; see
        `GammaProcess` in `bitvec.learners.growth.penalties`.
    steps : int
        Of Adam, for each level.
    learning_rate : float
        Of margins of deviation 1.
    gamma : (first, last) or callable
        Steepness γ on the way, in units of margins; or a function of the part of the way.
    gamma_schedule : "linear", "exponential", "cosine" or "constant"
    restarts : int
        Starts of each node, trained side by side; the least exact impurity wins.
    batch_size : int
        Rows of a step, all nodes of a level together, though at least 256 of each node.
    min_rows : int, optional
        Of a node that is split; 4 if not given.
    min_gain : float
        Decrease of the mean impurity, over all rows, that a split must exceed.
    refine : int, optional
        Steps of the joint refinement by `bitvec.retrain`, 0 for none; if not given, 1,500, and
        4,000 from 10,000 rows on.
    refine_learning_rate : float
    refine_gamma : (first, last) or callable, optional
        See `gamma` of `bitvec.retrain`.
    validation : float, (X, y) or (X, y, sample_weight)
        What the refined tree is chosen by: rows, or the share of the training rows that the tree
        does not grow on. Leaves are filled from all rows of the fit in the end.
    smoothing : float
        Rows of the mean of all that are added to each leaf.
    checkpoint_path : path, optional
        Where the refinement writes its state, and goes on from if it is there; growth does so
        beside it, in `checkpoint_path` + ".growth". They are files of one fit: remove them after.
    device : torch.device or str, optional
        What trains, the CPU if not given: stumps and the refinement. Cuts are scanned, leaves
        counted and rows answered on the CPU.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads, 1 if not given, all cores if −1.
    verbose : bool
        Print growth and refinement on standard error.

    Attributes
    ----------
    forest_ : Forest
        The unified forest, to certify, compile, retrain or export.
    tree_ : CPT
        The tree in the paper's symbols.
    facets_ : tuple of NodeFacets
        By node of `tree_`: the facets that are left, and the share of rows inside.
    growth_ : tuple of GrowthStep
        Nodes, leaves and mean impurity after each level or split, before the refinement.
    refinement_ : RetrainResult or None
        What `bitvec.retrain` returned; None where nothing was refined.
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

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

    def _loss(self) -> str:
        return "variance"

    def _tree(self, grown: GrownTree, leaf_values: Array) -> CPT:
        return of_growth(grown, leaf_values, self.n_features_in_, labels=False)

    def _finished(self, tree: CPT, leaf_values: Array, X: Array, weight: Array) -> CPT:
        self.facets_ = facets_of(tree, X, weight, exponent=self._exponent)
        return replace(tree, mean=leaf_values)
