"""scikit-learn estimators of End-to-End Decision Forests."""

from __future__ import annotations

import copy
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from bitvec.converters.native.e2edt import E2EDF, E2EDT, from_e2edf
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.options import flag
from bitvec.learners.draws import drawn_rows
from bitvec.learners.e2edt.sklearn import E2EDTClassifier, E2EDTEstimator, E2EDTRegressor
from bitvec.learners.e2edt.tree import of_forest
from bitvec.learners.growth.columns import Columns, columns_of
from bitvec.learners.growth.grow import GrowthStep
from bitvec.learners.growth.refinement import Refinement, leaves_of, refine, threads
from bitvec.learners.growth.targets import Target
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.progress import counter
from bitvec.learners.sklearn_base import SEEDS
from bitvec.runtime.train.retrain import RetrainResult, checkpoint


@estimator
class E2EDFEstimator(E2EDTEstimator):
    """Base of the forests: trees of their own seeds, and all of them refined together."""

    tree_ = growth_ = attribute("")
    native_: E2EDF = attribute("The forest in the paper's symbols.")
    trees_: tuple[E2EDT, ...] = attribute("Its trees.")
    growths_: tuple[tuple[GrowthStep, ...], ...] = attribute(
        "Nodes, leaves and mean impurity of each tree on its way, before any refinement."
    )
    refinements_: tuple[RetrainResult | None, ...] = attribute(
        "Results of `bitvec.retrain` for each tree; None where it was not refined."
    )
    refinement_ = attribute("Result of `bitvec.retrain` for the forest as a whole.")
    n_estimators: int = parameter("Trees.", default=70)
    max_depth = 10
    max_features: int | float | Literal["sqrt", "log2"] | None = parameter(
        "Columns that each node reads, drawn anew: so many, such a share of them, or all.",
        default=0.5,
    )
    patch_shape: tuple[int, int] | None = parameter(
        "(height, width) of a random patch of the image that each node reads in place of "
        "`max_features`, in all channels; every place in the image, the last rows and columns too, "
        "is equally likely.",
        default=None,
    )
    bootstrap: bool = parameter(
        "Fit each tree to as many rows as there are, drawn with replacement.", default=False
    )
    steps = 100
    restarts = 1
    min_rows = parameter("Rows of a node that is split.", default=2)
    refine = parameter(
        "Steps of the refinement of each tree alone by `bitvec.retrain`; by default none, since "
        "300 gain about .005 of R² in four times the time.",
        default=0,
    )
    joint: int = parameter(
        "Steps of a refinement of all trees together, by their mean answer, 0 for none. Leaves are "
        "counted on hard routes after it.",
        default=0,
    )
    validation = parameter(
        "Rows that refined trees, and the forest refined as a whole, are chosen by, (X, y) or "
        "(X, y, sample_weight); or the share of the rows that a tree does not grow on, of all "
        "trees alike where they are refined together."
    )
    spatial = parameter(
        "Penalty on θ that is not smooth as an image of `spatial_shape`, where pixels that a node "
        "does not read count as 0. In `joint` each tree has its share of the loss, and of the "
        "penalty."
    )
    checkpoint_path = parameter(
        "File where the refinement of the whole writes its state, and goes on from if it is there; "
        'trees do so beside it, in `checkpoint_path` + ".0", ".0.growth" and so on. They are files '
        "of one fit: remove them after."
    )
    random_state = parameter(
        "Seed: the same one gives the same forest in every process and for every `n_jobs`."
    )
    n_jobs = parameter("Threads that trees are fitted by, 1 if not given, all cores if −1.")
    verbose = parameter("Show the trees done on standard error.")

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
        jobs = self._threads()
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


@estimator
class E2EDFClassifier(E2EDFEstimator, E2EDTClassifier):
    """A forest of End-to-End Decision Trees, which classifies by their mean leaf distribution.

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


@estimator
class E2EDFRegressor(E2EDFEstimator, E2EDTRegressor):
    """A forest of End-to-End Decision Trees, which predicts by the mean of their means.

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
