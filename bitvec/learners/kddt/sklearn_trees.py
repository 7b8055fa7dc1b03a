"""Base of the scikit-learn estimators of kernel density trees: kernels, bandwidths, growth."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from bitvec.converters.native import KDDT, from_kddt_forest
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.kernels import FeatureKernel
from bitvec.core.shape_annotations import Float
from bitvec.errors import InputError, MissingLibraryError
from bitvec.learners.draws import drawn_rows, feature_count
from bitvec.learners.kddt.events import densities_of, events_of
from bitvec.learners.kddt.expectations import expectations
from bitvec.learners.kddt.pruning import PruningPath, merged, pruned, pruning_path
from bitvec.learners.kddt.rules import (
    GRID,
    RULES,
    Chosen,
    checked_grid,
    given_bandwidth,
    likelihood,
    silverman,
    spread,
)
from bitvec.learners.kddt.scan import LABELS
from bitvec.learners.kddt.search import Search, search
from bitvec.learners.kddt.shapes import kernel_shapes, scaled
from bitvec.learners.kddt.sklearn_rows import probabilities, rows_of, uncertainties, weighing
from bitvec.learners.kddt.tree import (
    DEEPEST,
    GrownTree,
    Limits,
    Targets,
    class_targets,
    grow_tree,
    importances,
    mean_targets,
    native,
    share_targets,
    stopping,
)
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.progress import counter
from bitvec.learners.sizes import require_finite_sum, require_moderate, require_moderate_values
from bitvec.learners.sklearn_base import (
    SEEDS,
    NativeClassifier,
    NativeEstimator,
    forest_labels,
    labels,
    require_rows,
    row_weights,
    values,
)

try:
    from sklearn.base import clone
    from sklearn.utils import check_random_state
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "KDDTClassifier") from error


@estimator
class KernelTrees(NativeEstimator):
    """Base of single trees and forests: kernels, bandwidths, growth."""

    trees_: tuple[KDDT, ...] = attribute("The trees in the paper's symbols.")
    bandwidth_: Float[Array, " n_features"] = attribute("In each feature's own units.")
    search_: Search | None = attribute('Scores of the bandwidths, of "cv".')
    feature_importances_: Float[Array, " n_features"] = attribute(
        "Shares of the decrease of the loss."
    )
    kernel: Literal["box", "gaussian"] | FeatureKernel | Sequence[FeatureKernel] = parameter(
        "Density of x' around each training value x, one for all features or one each; see "
        "`bitvec.core.kernels.FeatureKernel` for asymmetric kernels and for bandwidths that depend "
        "on x, which `bandwidth` multiplies.",
        default="box",
    )
    bandwidth: ArrayLike | Literal["cv", "silverman", "likelihood"] | None = parameter(
        "Half the width of a box, the standard deviation of a Gaussian, in each feature's own "
        'units, one number or (n_features,); None is 0, and the tree is CART. "cv" cross-validates '
        'the whole tree over `bandwidths`, with one factor for all features; "silverman" and '
        '"likelihood" go by feature.',
        default="cv",
    )
    n_pieces: int = parameter(
        "Pieces that stand for a Gaussian, cut at 3 standard deviations.", default=24
    )
    predict_kernel: (
        Literal["same", "box", "gaussian"] | FeatureKernel | Sequence[FeatureKernel] | None
    ) = parameter(
        "Density of x' around a row to predict; None predicts crisply, by one leaf.",
        default="same",
    )
    predict_bandwidth: ArrayLike | None = parameter(
        "Bandwidth of the prediction kernel, a number or (n_features,); `bandwidth_` if not given.",
        default=None,
    )
    bandwidths: ArrayLike | None = parameter(
        'Bandwidths that "cv" and "likelihood" try, in standard deviations of each feature; 7 from '
        "0.01 to 1 if not given.",
        default=None,
    )
    cv: int = parameter("Folds of the cross-validation, drawn by `random_state`.", default=5)
    max_depth: int | None = parameter("Most levels.", default=None)
    min_weight: float = parameter("Least weight of a leaf, in rows of weight 1.", default=1.0)
    min_gain: float = parameter("Least decrease of the mean loss by a split.", default=0.0)
    max_features: int | float | Literal["sqrt", "log2"] | None = parameter(
        "Features that each node looks at, drawn anew; all if not given.", default=None
    )
    ccp_alpha: float = parameter(
        "Price of a leaf in minimal cost-complexity pruning; 0 prunes nothing.", default=0.0
    )
    merge_leaves: bool = parameter(
        "Merge sibling leaves of equal label (classifiers; crisp labels stay as they are) or "
        "value.",
        default=False,
    )
    n_jobs = parameter("Threads for folds and trees, 1 if not given, all cores if −1.")

    _bootstrap = False
    _random_thresholds = False

    @property
    def _n_trees(self) -> int | None:
        """Trees of a forest; None for a single tree."""
        return None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, uncertainty: Any = None) -> Self:
        """Grow on the density of the rows.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features)
            Finite numbers: a missing value has no density.
        y : (n_rows,) or (n_rows, n_outputs)
            Labels or values. A classifier also takes the probabilities of classes, (n_rows,
            n_classes), whose columns are then the classes, by name where they have names.
        sample_weight : (n_rows,), optional
            The weight of each row.
        uncertainty : (n_rows, n_features), optional
            Bandwidth of each training value, in place of `bandwidth`, which then serves prediction
            only.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If y, weights, uncertainties or a parameter is out of place.
        ValueError
            If X or y is what scikit-learn's checks refuse, NaN for one.
        """
        X, targets, weight, classes = self._training(X, y, sample_weight)
        n_features = X.shape[1]
        total = float(weight.sum())
        if len(X) > 1 and total < 2 * self._limits(n_features).min_weight:
            warnings.warn(
                f"No node has the weight for two leaves of `min_weight` {self.min_weight}: the "
                f"weights sum to {total:.3g}; scale `sample_weight`, or lower `min_weight`.",
                stacklevel=2,
            )
        bootstrap = options.flag("bootstrap", self._bootstrap)
        shapes = kernel_shapes(self.kernel, n_features, self.n_pieces)
        widths = uncertainties(uncertainty, X)
        X, targets, weight, widths = weighing(X, targets, weight, widths)
        random = check_random_state(self.random_state)
        chosen = self._chosen(X, targets, weight, shapes, random, widths)
        densities = densities_of(X, scaled(shapes, chosen.bandwidth), widths)
        events = None if self._random_thresholds else events_of(densities)
        limits = self._limits(n_features)

        def one(seed: int) -> GrownTree:
            own = weight * drawn_rows(len(X), seed) if bootstrap else weight
            return self._finished(grow_tree(densities, events, targets, own, limits, seed, stop))

        seeds = random.randint(SEEDS, size=self._n_trees or 1).tolist()
        with (
            ThreadPoolExecutor(self._threads()) as pool,
            stopping() as stop,
            counter("trees", shown=bool(self.verbose) and len(seeds) > 1) as told,
        ):
            grown = list(_counted(pool.map(one, seeds), len(seeds), told))
        kernel = self._predicting(shapes, chosen.bandwidth)
        self.trees_ = tuple(
            native(tree, n_features, kernel=kernel, classes=classes) for tree in grown
        )
        self.bandwidth_, self.search_ = chosen.bandwidth, chosen.search
        self.feature_importances_ = np.mean(
            [importances(tree, n_features) for tree in grown], axis=0
        )
        self._hold(self.trees_[0] if self._n_trees is None else from_kddt_forest(self.trees_))
        return self

    def _training(self, X: Any, y: Any, weight: Any) -> tuple[Array, Targets, Array, Array | None]:
        """Return rows, what leaves are to say of them, weights, and the labels of a Forest."""
        X = self._fitted_rows(X, y)
        require_moderate("X", X)
        found = row_weights(X, weight)
        require_finite_sum(found)
        if not self._is_classifier:
            Y = values(y)
            require_rows(X, Y)
            require_moderate_values("y", Y)
            return X, mean_targets(Y, found), found, None
        targets, classes = self._class_targets(y)
        require_rows(X, targets.codes if targets.criterion == LABELS else targets.Y)
        return X, targets, found, classes

    @abstractmethod
    def _class_targets(self, y: Any) -> tuple[Targets, Array]:
        """Return what leaves of a classifier are to say, and the labels of a Forest."""

    def _chosen(
        self,
        X: Array,
        targets: Targets,
        weight: Array,
        shapes: tuple[FeatureKernel, ...],
        random: Any,
        uncertainty: Array | None,
    ) -> Chosen:
        """Return the bandwidth, as `bandwidth` says."""
        if not isinstance(self.bandwidth, str) or self.bandwidth not in RULES:
            return Chosen(given_bandwidth("bandwidth", self.bandwidth, X.shape[1]))
        if self.bandwidth == "silverman":
            return Chosen(silverman(X, weight, shapes))
        grid = checked_grid(GRID if self.bandwidths is None else self.bandwidths)
        if self.bandwidth == "likelihood":
            Y = rows_of(targets)
            return Chosen(
                likelihood(X, Y, weight, shapes, is_classifier=self._is_classifier, grid=grid)
            )
        if uncertainty is not None:
            raise InputError(
                "`bandwidth` must be a number, an array or another rule where `uncertainty` gives "
                "the training values their own, got 'cv'."
            )
        if len(X) == 1:  # every bandwidth gives the same tree
            return Chosen(float(grid[0]) * spread(X, weight))
        found = self._search(X, targets, weight, shapes, grid, random)
        return Chosen(found.best() * spread(X, weight), found)

    def _search(
        self,
        X: Array,
        targets: Targets,
        weight: Array,
        shapes: tuple[FeatureKernel, ...],
        grid: Array,
        random: Any,
    ) -> Search:
        n_folds = options.whole("cv", self.cv, least=2)
        Y = rows_of(targets)

        crisp = np.zeros(X.shape[1])

        def score(tree: GrownTree, bandwidth: Array, rows: Array) -> Array:
            kernel = self._predicting(shapes, bandwidth)
            densities = densities_of(X[rows], scaled(shapes, crisp) if kernel is None else kernel)
            return np.array([self._score(expectations(tree, densities), Y[rows], weight[rows])])

        folds = random.permutation(len(X)) % min(n_folds, len(X))
        with counter("bandwidths", shown=bool(self.verbose)) as told:
            return search(
                X,
                targets,
                weight,
                shapes,
                spread(X, weight),
                folds=folds,
                grid=grid,
                limits=self._limits(X.shape[1], whole=True),
                score=score,
                most_per_row=1.0 if self._is_classifier else 0.0,
                finish=self._finished,
                n_jobs=self._threads(),
                progress=told,
            )

    def _score(self, raw: Array, Y: Array, weight: Array) -> float:
        """Return the accuracy of rows, or minus their squared error, summed."""
        if not self._is_classifier:
            return -float(weight @ np.sum((raw - Y) ** 2, axis=1))
        return float(weight @ Y[np.arange(len(Y)), raw.argmax(axis=1)])

    def _limits(self, n_features: int, *, whole: bool = False) -> Limits:
        """Return when to stop; `whole` for the single tree whose bandwidth a forest takes."""
        if self.max_depth is not None:
            options.whole("max_depth", self.max_depth, least=0)
        options.positive("min_weight", self.min_weight)
        options.positive("min_gain", self.min_gain, or_zero=True)
        options.positive("ccp_alpha", self.ccp_alpha, or_zero=True)
        options.flag("merge_leaves", self.merge_leaves)
        whole = whole and self._n_trees is not None
        return Limits(
            DEEPEST if self.max_depth is None else min(int(self.max_depth), DEEPEST),
            float(self.min_weight),
            float(self.min_gain),
            None if whole else feature_count(self.max_features, n_features),
            self._random_thresholds and not whole,
        )

    def _finished(self, tree: GrownTree) -> GrownTree:
        if self.ccp_alpha > 0:
            tree = pruned(tree, float(self.ccp_alpha))
        return merged(tree, labels=self._is_classifier) if self.merge_leaves else tree

    def _predicting(
        self, shapes: tuple[FeatureKernel, ...], bandwidth: Array
    ) -> tuple[FeatureKernel, ...] | None:
        """Return the prediction kernel of a tree of these bandwidths; None to predict crisply."""
        if self.predict_kernel is None:
            return None
        if not (isinstance(self.predict_kernel, str) and self.predict_kernel == "same"):
            shapes = kernel_shapes(
                self.predict_kernel, len(shapes), self.n_pieces, name="predict_kernel"
            )
        if self.predict_bandwidth is not None:
            bandwidth = given_bandwidth("predict_bandwidth", self.predict_bandwidth, len(shapes))
        return scaled(shapes, bandwidth)


@estimator
class KernelClassifier(NativeClassifier, KernelTrees):
    """Base of the classifiers: labels, or the probabilities of classes."""

    criterion: Literal["gini", "entropy"] = parameter("Impurity of a node.", default="gini")

    def _class_targets(self, y: Any) -> tuple[Targets, Array]:
        criterion: Any = self.criterion
        if not isinstance(criterion, str) or criterion not in ("gini", "entropy"):
            raise InputError(
                f"`criterion` must be 'gini' or 'entropy', got {criterion!r}: choose one."
            )
        names, y = getattr(y, "columns", None), np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            share = probabilities(y)
            n_classes = share.shape[1]
            self.classes_ = np.arange(n_classes) if names is None else np.array(list(names))
            return share_targets(share, criterion), forest_labels(self.classes_)
        self.classes_, codes = labels(y)
        targets = class_targets(codes, self.classes_.size, criterion)
        return targets, forest_labels(self.classes_)


@estimator
class SingleTree(KernelTrees):
    """Base of the single trees."""

    tree_: KDDT = attribute(
        "The tree in the paper's symbols: j, tau, V, and its prediction kernel."
    )
    trees_ = attribute("")

    def _hold(self, model: KDDT) -> None:
        super()._hold(model)
        self.tree_ = model

    def cost_complexity_pruning_path(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> PruningPath:
        """Return the trees of minimal cost-complexity pruning, for values of `ccp_alpha`.

        The tree is grown as `fit` grows it, without pruning.
        """
        return clone(self)._pruning_path(X, y, sample_weight)

    def _pruning_path(self, X: Any, y: Any, sample_weight: Any) -> PruningPath:
        X, targets, weight, _ = self._training(X, y, sample_weight)
        X, targets, weight, _ = weighing(X, targets, weight, None)
        shapes = kernel_shapes(self.kernel, X.shape[1], self.n_pieces)
        random = check_random_state(self.random_state)
        chosen = self._chosen(X, targets, weight, shapes, random, None)
        densities = densities_of(X, scaled(shapes, chosen.bandwidth))
        seed = int(random.randint(SEEDS))
        limits = self._limits(X.shape[1])
        return pruning_path(
            grow_tree(densities, events_of(densities), targets, weight, limits, seed)
        )


def _counted(items: Iterable[Any], n: int, told: Any) -> Iterable[Any]:
    for done, item in enumerate(items, 1):
        told(done, n)
        yield item
