"""scikit-learn estimators of End-to-End Decision Forests."""

from __future__ import annotations

import copy
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.converters.native.e2edt import E2EDF, E2EDT, from_e2edf
from bitvec.core.arrays import Array
from bitvec.core.options import flag
from bitvec.learners.draws import drawn_rows
from bitvec.learners.e2edt.sklearn import E2EDTClassifier, E2EDTEstimator, E2EDTRegressor
from bitvec.learners.e2edt.tree import of_forest
from bitvec.learners.growth.columns import Columns, columns_of
from bitvec.learners.growth.grow import GrowthStep
from bitvec.learners.growth.refinement import Refinement, leaves_of, refine, threads
from bitvec.learners.growth.sklearn_base import SEEDS
from bitvec.learners.growth.targets import Target
from bitvec.learners.progress import counter
from bitvec.runtime.predict.threads import effective_jobs
from bitvec.runtime.train.relax import options
from bitvec.runtime.train.retrain import RetrainResult, checkpoint


class _Forest(E2EDTEstimator):
    """What the forests share: trees of their own seeds, and all of them refined together."""

    native_: E2EDF
    trees_: tuple[E2EDT, ...]
    growths_: tuple[tuple[GrowthStep, ...], ...]
    refinements_: tuple[RetrainResult | None, ...]

    def __init__(
        self,
        *,
        n_estimators: int = 70,
        max_depth: int | None = 10,
        max_leaves: int | None = None,
        growth: str = "level",
        max_features: Any = 0.5,
        patch_shape: Any = None,
        split: Any = "linear",
        hidden: int = 32,
        image_shape: Any = None,
        bootstrap: bool = False,
        stump_loss: str | None = None,
        steps: int = 100,
        learning_rate: float = 0.05,
        gamma: Any = (1.0, 8.0),
        gamma_schedule: str = "linear",
        restarts: int = 1,
        batch_size: int = 4096,
        weight_decay: float = 0.0,
        min_rows: int = 2,
        min_gain: float = 0.0,
        refine: int = 300,
        refine_learning_rate: float = 0.03,
        refine_gamma: Any = None,
        joint: int = 0,
        validation: Any = 0.15,
        smoothing: float = 0.0,
        spatial: float = 0.0,
        spatial_shape: Any = None,
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
            split=split,
            hidden=hidden,
            image_shape=image_shape,
            stump_loss=stump_loss,
            steps=steps,
            learning_rate=learning_rate,
            gamma=gamma,
            gamma_schedule=gamma_schedule,
            restarts=restarts,
            batch_size=batch_size,
            weight_decay=weight_decay,
            min_rows=min_rows,
            min_gain=min_gain,
            refine=refine,
            refine_learning_rate=refine_learning_rate,
            refine_gamma=refine_gamma,
            validation=validation,
            smoothing=smoothing,
            spatial=spatial,
            spatial_shape=spatial_shape,
            checkpoint_path=checkpoint_path,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.patch_shape = patch_shape
        self.bootstrap = bootstrap
        self.joint = joint

    def _columns(self) -> Columns | None:
        n_features = self.n_features_in_
        return columns_of(self.max_features, self.patch_shape, self._image(), n_features)

    def _refinement(self, seed: int) -> Refinement:
        how = super()._refinement(seed)
        return replace(how, same_columns=how.same_columns or self._columns() is not None)

    def _fit(self, X: Array, target: Target, weight: Array, seed: int) -> None:
        n_trees = options.whole("n_estimators", self.n_estimators)
        bootstrap = flag("bootstrap", self.bootstrap)
        if self.checkpoint_path is not None:
            checkpoint.at(self.checkpoint_path, "")  # that of the whole, before any tree's
        jobs = effective_jobs(1 if self.n_jobs is None else self.n_jobs)
        refines = options.whole("joint", self.joint, least=0) > 0
        kept, validation = self._parts(X, target, weight, seed, refines=refines)
        Z, aim, w = X[kept], target.take(kept), weight[kept]
        seeds = np.random.default_rng(seed).integers(SEEDS, size=n_trees).tolist()

        def one(number: int) -> Any:
            tree_seed = seeds[number]
            times = drawn_rows(len(Z), [tree_seed, 1]) if bootstrap else np.ones(len(Z))
            own = np.flatnonzero(times)
            tree = copy.copy(self)
            tree.verbose = False
            tree.checkpoint_path = self._path_of(number)
            tree._fit_tree(Z[own], aim.take(own), w[own] * times[own], tree_seed)
            return tree

        fitted: list[Any] = []
        # Each tree has one thread of torch, so that its sums are the same for any number of jobs.
        with (
            threads(1),
            ThreadPoolExecutor(jobs) as pool,
            counter("trees", shown=bool(self.verbose)) as told,
        ):
            for tree in pool.map(one, range(n_trees)):
                fitted.append(tree)
                told(len(fitted), n_trees)
        self.trees_ = tuple(tree.tree_ for tree in fitted)
        self.growths_ = tuple(tree.growth_ for tree in fitted)
        self.refinements_ = tuple(tree.refinement_ for tree in fitted)
        self.refinement_ = None
        if validation is not None and any(tree.n_nodes for tree in self.trees_):
            with threads(jobs):
                self._refine_together(Z, aim, w, validation, seed)
            self.trees_ = tuple(self._filled(tree, X, target, weight) for tree in self.trees_)
        self.native_ = from_e2edf(self.trees_)
        self._hold(self.native_)

    def _path_of(self, number: int) -> Any:
        """Return where a tree writes its state; what is no path is refused there."""
        path = self.checkpoint_path
        return f"{os.fspath(path)}.{number}" if isinstance(path, (str, os.PathLike)) else path

    def _refine_together(
        self,
        X: Array,
        target: Target,
        weight: Array,
        validation: tuple[Array, Array, Array],
        seed: int,
    ) -> None:
        """Move all trees by the loss of their mean answer."""
        before = [replace(tree, classes=None) for tree in self.trees_]
        how = self._refinement(seed)
        how = replace(how, steps=self.joint, spatial=how.spatial / len(before))
        self.refinement_ = refine(from_e2edf(before), X, target.told, weight, validation, how)
        if self.refinement_.improved:
            forest = self.refinement_.forest
            self.trees_ = tuple(of_forest(forest[i], tree) for i, tree in enumerate(before))

    def _filled(self, tree: E2EDT, X: Array, target: Target, weight: Array) -> E2EDT:
        """Return a tree whose leaves are counted on hard routes of all rows."""
        smoothing = self._smoothing()
        values = target.leaf_values(leaves_of(tree, X), weight, tree.values, smoothing)
        finished = self._finished(tree, values, X, weight)
        assert isinstance(finished, E2EDT)
        moved = self.refinement_ is not None and self.refinement_.improved
        return finished if moved else replace(finished, gamma=tree.gamma)


class E2EDFClassifier(_Forest, E2EDTClassifier):
    """A forest of End-to-End Decision Trees, which classifies by their mean leaf distribution.

    Parameters
    ----------
    n_estimators : int
        Trees.
    max_depth, max_leaves : int, optional
        Where the growth of each tree ends.
    growth : "level" or "best"
        Whole levels at a time, or the leaf of largest gain first.
    max_features : int, float, "sqrt", "log2" or None
        Columns that each node reads, drawn anew: so many, such a share of them, or all.
    patch_shape : (height, width), optional
        Let each node read a random patch of the image in place of `max_features`, in all channels;
        every place in the image, the last rows and columns too, is equally likely.
    split : "linear", "mlp", "cnn" or callable
        What a node asks, see `E2EDTClassifier`.
    hidden : int
        Hidden units of "mlp".
    image_shape : tuple of int, optional
        The image that the columns are, (height, width) or (n_channels, height, width).
    bootstrap : bool
        Whether each tree is fitted to as many rows as there are, drawn with replacement.
    stump_loss : "likelihood", "em" or "information", optional
        What a node is trained by: the likelihood of its two leaves, with the leaves refreshed at
        each step, if not given; the same by expectation maximisation; or the entropy of its sides.
    steps : int
        Of Adam, for each level.
    learning_rate : float
        Of margins of deviation 1.
    gamma : (first, last) or callable
        Steepness γ on the way, in units of margins; or a function of the part of the way.
    gamma_schedule : "linear", "exponential", "cosine" or "constant"
    restarts : int
        Starts of each node, trained side by side on the same columns; the least exact impurity
        wins.
    batch_size : int
        Rows of a step, all nodes of a level together, though at least 256 of each node.
    weight_decay : float
        Of stumps, decoupled from the gradient, in the units of standardised columns.
    min_rows : int
        Of a node that is split.
    min_gain : float
        Decrease of the mean impurity, over all rows, that a split must exceed.
    refine : int
        Steps of the refinement of each tree alone by `bitvec.retrain`, 0 for none.
    refine_learning_rate : float
    refine_gamma : (first, last) or callable, optional
        See `gamma` of `bitvec.retrain`.
    joint : int
        Steps of a refinement of all trees together, by their mean answer, 0 for none. Leaves are
        counted on hard routes after it.
    validation : float, (X, y) or (X, y, sample_weight)
        What refined trees, and the forest refined as a whole, are chosen by: rows, or the share of
        the rows that a tree does not grow on, of all trees alike where they are refined together.
    smoothing : float
        Added to the weight of each class at each leaf before shares are taken.
    spatial : float
        Penalty on θ that is not smooth as an image of `spatial_shape`, (height, width) or
        (n_channels, height, width), where pixels that a node does not read count as 0. In `joint`
        each tree has its share of the loss, and of the penalty.
    spatial_shape : tuple of int, optional
    checkpoint_path : path, optional
        Where the refinement of the whole writes its state, and goes on from if it is there; trees
        do so beside it, in `checkpoint_path` + ".0", ".0.growth" and so on. They are files of one
        fit: remove them after.
    device : torch.device or str, optional
        What trains, the CPU if not given: stumps and the refinement. Cuts are scanned, leaves
        counted and rows answered on the CPU.
    random_state : int, RandomState or None
        A seed gives the same forest in every process and for every `n_jobs`.
    n_jobs : int, optional
        Threads that trees are fitted by, 1 if not given, all cores if −1.
    verbose : bool
        Show the trees done on standard error.

    Attributes
    ----------
    forest_ : Forest
        The unified forest, to certify, compile, retrain or export.
    native_ : E2EDF
        The forest in the paper's symbols.
    trees_ : tuple of E2EDT
        Its trees.
    growths_ : tuple of tuple of GrowthStep
        Nodes, leaves and mean impurity of each tree on its way, before any refinement.
    refinements_ : tuple of RetrainResult or None
        What `bitvec.retrain` returned for each tree; None where it was not refined.
    refinement_ : RetrainResult or None
        What it returned for the forest as a whole.
    classes_ : (n_classes,)
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = E2EDFClassifier(n_estimators=2, max_depth=3, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True

    Notes
    -----
    "End-to-end Learning of Decision Trees and Forests" (Hehn, Kooij and Hamprecht, 2020), section
    3.6 of which averages trees that read random features at each split. Other than in the code of
    its authors, patches lie anywhere, not on the diagonal alone; γ rises in the refinement too; and
    all nodes are hard when the forest answers.
    """


class E2EDFRegressor(_Forest, E2EDTRegressor):
    """A forest of End-to-End Decision Trees, which predicts by the mean of their means.

    Parameters
    ----------
    n_estimators : int
        Trees.
    max_depth, max_leaves : int, optional
        Where the growth of each tree ends.
    growth : "level" or "best"
        Whole levels at a time, or the leaf of largest gain first.
    max_features : int, float, "sqrt", "log2" or None
        Columns that each node reads, drawn anew: so many, such a share of them, or all.
    patch_shape : (height, width), optional
        Let each node read a random patch of the image in place of `max_features`, in all channels;
        every place in the image, the last rows and columns too, is equally likely.
    split : "linear", "mlp", "cnn" or callable
        What a node asks, see `E2EDTClassifier`.
    hidden : int
        Hidden units of "mlp".
    image_shape : tuple of int, optional
        The image that the columns are, (height, width) or (n_channels, height, width).
    bootstrap : bool
        Whether each tree is fitted to as many rows as there are, drawn with replacement.
    stump_loss : "variance", "likelihood" or "em", optional
        What a node is trained by: squared errors about its two means, if not given; or the
        likelihood of two Gaussian leaves of one deviation, directly or by expectation maximisation.
    steps : int
        Of Adam, for each level.
    learning_rate : float
        Of margins of deviation 1.
    gamma : (first, last) or callable
        Steepness γ on the way, in units of margins; or a function of the part of the way.
    gamma_schedule : "linear", "exponential", "cosine" or "constant"
    restarts : int
        Starts of each node, trained side by side on the same columns; the least exact impurity
        wins.
    batch_size : int
        Rows of a step, all nodes of a level together, though at least 256 of each node.
    weight_decay : float
        Of stumps, decoupled from the gradient, in the units of standardised columns.
    min_rows : int
        Of a node that is split.
    min_gain : float
        Decrease of the mean impurity, over all rows, that a split must exceed.
    refine : int
        Steps of the refinement of each tree alone by `bitvec.retrain`, 0 for none.
    refine_learning_rate : float
    refine_gamma : (first, last) or callable, optional
        See `gamma` of `bitvec.retrain`.
    joint : int
        Steps of a refinement of all trees together, by their mean answer, 0 for none. Leaves are
        counted on hard routes after it.
    validation : float, (X, y) or (X, y, sample_weight)
        What refined trees, and the forest refined as a whole, are chosen by: rows, or the share of
        the rows that a tree does not grow on, of all trees alike where they are refined together.
    smoothing : float
        Rows of the mean of all that are added to each leaf.
    spatial : float
        Penalty on θ that is not smooth as an image of `spatial_shape`, (height, width) or
        (n_channels, height, width), where pixels that a node does not read count as 0. In `joint`
        each tree has its share of the loss, and of the penalty.
    spatial_shape : tuple of int, optional
    checkpoint_path : path, optional
        Where the refinement of the whole writes its state, and goes on from if it is there; trees
        do so beside it, in `checkpoint_path` + ".0", ".0.growth" and so on. They are files of one
        fit: remove them after.
    device : torch.device or str, optional
        What trains, the CPU if not given: stumps and the refinement. Cuts are scanned, leaves
        counted and rows answered on the CPU.
    random_state : int, RandomState or None
        A seed gives the same forest in every process and for every `n_jobs`.
    n_jobs : int, optional
        Threads that trees are fitted by, 1 if not given, all cores if −1.
    verbose : bool
        Show the trees done on standard error.

    Attributes
    ----------
    forest_ : Forest
        The unified forest, to certify, compile, retrain or export.
    native_ : E2EDF
        The forest in the paper's symbols.
    trees_ : tuple of E2EDT
        Its trees.
    growths_ : tuple of tuple of GrowthStep
        Nodes, leaves and mean impurity of each tree on its way, before any refinement.
    refinements_ : tuple of RetrainResult or None
        What `bitvec.retrain` returned for each tree; None where it was not refined.
    refinement_ : RetrainResult or None
        What it returned for the forest as a whole.
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = E2EDFRegressor(n_estimators=2, max_depth=3, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.5
    True

    Notes
    -----
    Gaussian leaves in the place of the categorical ones of Hehn, Kooij and Hamprecht, 2020.
    """
