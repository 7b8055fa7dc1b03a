"""Base of the scikit-learn estimators of grown trees: growth, refinement, leaves."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from torch.utils.data import DataLoader

from bitvec.converters.native.native_tree import NativeTree
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError, needs
from bitvec.learners.growth.checkpoints import GrowthCheckpoint, digest
from bitvec.learners.growth.grow import GrownTree, GrowthOptions, GrowthStep, grow
from bitvec.learners.growth.loaders import gathered
from bitvec.learners.growth.refinement import leaves_of, refine, threads
from bitvec.learners.growth.sklearn_parameters import GrowthParameters
from bitvec.learners.growth.targets import Labels, Target, Values
from bitvec.learners.held_out import LEAST_ROWS, held_out
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.learners.sizes import (
    require_moderate,
    require_moderate_columns,
    require_moderate_values,
)
from bitvec.learners.sklearn_base import (
    NativeClassifier,
    NativeEstimator,
    NativeRegressor,
    forest_labels,
    labels,
    require_rows,
    row_weights,
    validation_codes,
    values,
)
from bitvec.runtime.train.retrain import RetrainResult

with needs("scikit-learn", "sklearn", "The learners"):
    from sklearn.utils import column_or_1d

NOT_OF_STUMPS = {
    "max_depth", "refine", "refine_learning_rate", "refine_gamma", "validation", "smoothing",
    "checkpoint_path", "random_state", "n_jobs", "verbose", "n_estimators", "joint",
}  # fmt: skip
"""Options on which no stump depends, given its seed, its rows and the nodes trained beside it."""
FAR_FROM_1 = 100
"""The exponent of 2 of the largest weight from which on weights are scaled."""
MOST_SMOOTHING = 1e100
"""In units of the largest weight: leaves are all alike long before."""
NO_WEIGHT = 1e-100
"""Share of the largest weight up to which a row's weight counts as none: the row is left out."""


@estimator
class GrownEstimator(GrowthParameters):
    """Base of the estimators that grow by stumps, are refined as a whole, and make one native tree.

    A kind of tree says what its nodes test and how its native tree is put together; growth,
    refinement and leaves are the same for all.
    """

    tree_: Any = attribute("The native tree in the paper's symbols.")
    growth_: tuple[GrowthStep, ...] = attribute(
        "Nodes, leaves and mean impurity after each level or split, before the refinement."
    )
    refinement_: RetrainResult | None = attribute(
        "Result of `bitvec.retrain`; None where nothing was refined."
    )

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow the tree, refine it, and fill its leaves by hard routing.

        Parameters
        ----------
        X : array or data frame, (n_rows, n_features), or torch DataLoader
            Finite numbers. A loader yields (X, y) or (X, y, sample_weight), images of any shape
            among them; all its rows are held in memory.
        y : (n_rows,), or (n_rows, n_outputs) for a regressor
            Left out with a loader.
        sample_weight : (n_rows,), optional
            Rows of weight 0 are left out.

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
        if isinstance(X, DataLoader):
            if y is not None or sample_weight is not None:
                raise InputError(
                    "`y` and `sample_weight` must be left out with a loader, got them: let it "
                    "yield them."
                )
            X, y, sample_weight = gathered(X)
        X = self._fitted_rows(X, y)
        target = self._target(y)
        require_rows(X, target.told)
        weight = row_weights(X, sample_weight)
        require_moderate_columns("X", X)
        seed = self._seed()
        # Sums and squares of weights far from 1 are no numbers; what is far below all others is 0.
        exponent = int(np.frexp(weight.max())[1])
        self._exponent = exponent if abs(exponent) > FAR_FROM_1 else 0
        weight = np.ldexp(weight, -self._exponent)
        counted = np.flatnonzero(weight > NO_WEIGHT * weight.max())
        self._fit(X[counted], target.take(counted), weight[counted], seed)
        return self

    def _fit(self, X: Array, target: Target, weight: Array, seed: int) -> None:
        """Fit to rows of positive weight, and keep what predicts."""
        with threads(self._threads()):
            self._fit_tree(X, target, weight, seed)
        self._hold(self.tree_)

    def _fit_tree(self, X: Array, target: Target, weight: Array, seed: int) -> None:
        """Grow and refine one tree and fill its leaves."""
        growth, training = self._growth(target, seed), self._training()
        smoothing = self._smoothing()
        refines = self.refine is None or options.whole("refine", self.refine, least=0) > 0
        refinement = self._refinement(seed)  # before growth, so that it is refused before growth
        grown_on, validation = self._parts(X, target, weight, seed, refines=refines)
        told = self._print_growth if self.verbose else None

        def grown(Z: Array, aim: Target, w: Array, suffix: str) -> NativeTree:
            kept = self._kept(suffix, growth, Z, aim.told, w)
            found = grow(Z, aim, w, training, growth, progress=told, kept=kept)
            self.growth_ = found.steps
            old = np.zeros((len(found.rules) + 1, target.n_outputs))
            return self._tree(found, aim.leaf_values(found.leaf, w, old, smoothing))

        Z, aim, w = X[grown_on], target.take(grown_on), weight[grown_on]
        tree = grown(Z, aim, w, ".growth")
        self.refinement_ = None
        if validation is not None and tree.n_nodes:
            refined = refine(tree, Z, aim.told, w, validation, refinement)
            self.refinement_ = refined
            if refined.improved:
                tree = self._tree_of(refined.forest, tree)
            elif len(grown_on) < len(X):  # the rows to choose by are of no other use any more
                tree = grown(X, target, weight, ".regrowth")
        filled = target.leaf_values(leaves_of(tree, X), weight, tree.values, smoothing)
        self.tree_ = self._finished(tree, filled, X, weight)

    def _kept(self, suffix: str, growth: GrowthOptions, *rows: Array) -> GrowthCheckpoint | None:
        """Return where stumps are kept; what they depend on decides whether a file is of them."""
        if self.checkpoint_path is None:
            return None
        asked = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in NOT_OF_STUMPS
        }
        asked["seed"] = growth.seed
        run = digest(rows, {type(self).__name__: asked})
        path = self.checkpoint_path
        if isinstance(path, (str, os.PathLike)):
            path = f"{os.fspath(path)}{suffix}"
        return GrowthCheckpoint(path, run)

    def _smoothing(self) -> float:
        """Return what is added to weights at leaves, in the unit of the weights of this fit."""
        smoothing = options.positive("smoothing", self.smoothing, or_zero=True)
        with np.errstate(over="ignore"):
            return float(min(np.ldexp(smoothing, -self._exponent), MOST_SMOOTHING))

    @abstractmethod
    def _tree(self, grown: GrownTree, leaf_values: Array) -> NativeTree:
        """Return the native tree of a grown one, whose classes are numbers."""

    @abstractmethod
    def _tree_of(self, forest: Forest, before: NativeTree) -> NativeTree:
        """Return the native tree of a refined forest, of the same kind as before."""

    @abstractmethod
    def _finished(self, tree: Any, leaf_values: Array, X: Array, weight: Array) -> Any:
        """Return the tree with its last leaves, and keep what is reported of it."""

    @abstractmethod
    def _with_leaves(self, tree: Any, leaf_values: Array) -> Any:
        """Return the tree with shares of classes, or means, at its leaves."""

    @abstractmethod
    def _target(self, y: Any) -> Target:
        """Return what is to be learned."""

    def _parts(
        self, X: Array, target: Target, weight: Array, seed: int, *, refines: bool
    ) -> tuple[Array, tuple[Array, Array, Array] | None]:
        """Return the rows to grow on, and what to choose by if the tree is refined."""
        everything = np.arange(len(X))
        validation: Any = self.validation
        is_rows = isinstance(validation, (tuple, list))
        is_share = isinstance(validation, (float, np.floating)) and 0 < validation < 1
        if not is_share and not (is_rows and len(validation) in (2, 3)):
            got = f"{len(validation)} parts" if is_rows else repr(validation)
            raise InputError(
                "`validation` must be a share above 0 and below 1, (X, y) or "
                f"(X, y, sample_weight), got {got}."
            )
        if not refines:
            return everything, None
        if is_rows:
            Z, y, *w = validation
            Z = _validation_rows(self, Z)
            said = self._held_out_target(y)
            require_rows(Z, said)
            return everything, (Z, said, row_weights(Z, w[0] if w else None))
        share = max(float(validation), LEAST_ROWS / len(X))
        drawn = held_out(len(X), share, np.random.default_rng(seed))
        if not drawn.any():
            return everything, None
        rows = np.flatnonzero(drawn)
        return np.flatnonzero(~drawn), (X[rows], target.take(rows).told, weight[rows])

    @abstractmethod
    def _held_out_target(self, y: Any) -> Array:
        """Return class numbers or values of validation rows."""

    def _print_growth(self, step: GrowthStep) -> None:
        line = (
            f"depth {step.depth}: {step.n_nodes} nodes, {step.n_leaves} leaves, "
            f"objective {step.objective:.6g}"
        )
        print(line, file=sys.stderr, flush=True)


@estimator
class GrownClassifier(NativeClassifier, GrownEstimator):
    """Base of the grown classifiers: labels as class numbers, and back."""

    smoothing = parameter(
        "Added to the weight of each class at each leaf before shares are taken; 1 is Laplace's."
    )

    def _target(self, y: Any) -> Labels:
        self.classes_, codes = labels(y)
        self._labels = forest_labels(self.classes_)
        return Labels(codes.astype(np.int64), self.classes_.size)

    def _held_out_target(self, y: Any) -> Array:
        return validation_codes(self.classes_, column_or_1d(y, warn=True))

    def _with_leaves(self, tree: Any, leaf_values: Array) -> Any:
        return replace(tree, pi=leaf_values, classes=self._labels)


@estimator
class GrownRegressor(NativeRegressor, GrownEstimator):
    """Base of the grown regressors: values of one output or several."""

    smoothing = parameter("Rows of the mean of all that are added to each leaf.")

    def _target(self, y: Any) -> Values:
        Y = values(y)
        require_moderate_values("y", Y)
        return Values(Y)

    def _held_out_target(self, y: Any) -> Array:
        Y = values(y)
        require_moderate_values("validation[1]", Y)
        return Y

    def _with_leaves(self, tree: Any, leaf_values: Array) -> Any:
        return replace(tree, mean=leaf_values)


def _validation_rows(estimator: NativeEstimator, X: Any) -> Array:
    """Return validation rows, compared with those of the fit, whose columns are known by now."""
    other = NativeEstimator()
    try:
        rows = other._rows(X, reset=True)
    except ValueError as error:
        raise InputError(f"`validation[0]` must be rows like X: {error}") from None
    mine, theirs = (list(getattr(one, "feature_names_in_", ())) for one in (estimator, other))
    if other.n_features_in_ != estimator.n_features_in_ or mine != theirs:
        raise InputError(
            f"`validation[0]` must have the {estimator.n_features_in_} columns of X, got "
            f"{other.n_features_in_}, or other names: pass rows like X."
        )
    require_moderate("validation[0]", rows)
    return rows
