"""What the scikit-learn estimators of grown trees share: options, growth, refinement, leaves."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from torch.utils.data import DataLoader

from bitvec.converters.native.native_tree import NativeTree
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError, MissingLibraryError
from bitvec.learners.growth.checkpoints import GrowthCheckpoint, digest
from bitvec.learners.growth.columns import Columns
from bitvec.learners.growth.grow import GrownTree, GrowthOptions, GrowthStep, grow
from bitvec.learners.growth.loaders import gathered
from bitvec.learners.growth.penalties import Penalty
from bitvec.learners.growth.refinement import Refinement, held_out, leaves_of, refine, threads
from bitvec.learners.growth.stump_losses import LOSSES
from bitvec.learners.growth.stump_test import Kind
from bitvec.learners.growth.stumps import StumpTraining
from bitvec.learners.growth.targets import Labels, Target, Values
from bitvec.learners.sizes import (
    require_moderate,
    require_moderate_columns,
    require_moderate_values,
)
from bitvec.learners.sklearn_base import (
    NativeEstimator,
    forest_labels,
    labels,
    require_rows,
    row_weights,
    values,
)
from bitvec.runtime.predict.threads import effective_jobs
from bitvec.runtime.predict.torch import devices
from bitvec.runtime.train.relax import options
from bitvec.runtime.train.retrain import Evaluation, RetrainResult
from bitvec.runtime.train.retrain.schedules import steepness

try:
    from sklearn.utils import check_random_state, column_or_1d
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "The learners") from error

SEEDS = np.iinfo(np.int32).max
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
"""Of the largest weight; a row of no more is left out."""


class GrownEstimator(NativeEstimator):
    """What grows by stumps, is refined as a whole, and answers as one native tree.

    A kind of tree says what its nodes ask and how its native tree is put together; growth,
    refinement and leaves are the same for all.
    """

    tree_: NativeTree
    _exponent: int
    growth_: tuple[GrowthStep, ...]
    refinement_: RetrainResult | None

    def __init__(
        self,
        *,
        max_depth: int | None = 6,
        max_leaves: int | None = None,
        growth: str = "level",
        steps: int = 200,
        learning_rate: float = 0.05,
        gamma: Any = (1.0, 8.0),
        gamma_schedule: str = "linear",
        restarts: int = 2,
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
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.growth = growth
        self.steps = steps
        self.learning_rate = learning_rate
        self.gamma = gamma
        self.gamma_schedule = gamma_schedule
        self.restarts = restarts
        self.batch_size = batch_size
        self.min_rows = min_rows
        self.min_gain = min_gain
        self.refine = refine
        self.refine_learning_rate = refine_learning_rate
        self.refine_gamma = refine_gamma
        self.validation = validation
        self.smoothing = smoothing
        self.checkpoint_path = checkpoint_path
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

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
        seed = int(check_random_state(self.random_state).randint(SEEDS))
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
        Z, aim, w = X[grown_on], target.take(grown_on), weight[grown_on]
        told = self._print_growth if self.verbose else None
        kept = self._kept(growth, Z, aim.told, w)
        grown = grow(Z, aim, w, training, growth, progress=told, kept=kept)
        old = np.zeros((len(grown.rules) + 1, target.n_outputs))
        tree = self._tree(grown, aim.leaf_values(grown.leaf, w, old, smoothing))
        self.refinement_ = None
        if validation is not None and tree.n_nodes:
            refined = refine(tree, Z, aim.told, w, validation, refinement)
            self.refinement_ = refined
            if refined.improved:
                tree = self._tree_of(refined.forest, tree)
        self.growth_ = grown.steps
        filled = target.leaf_values(leaves_of(tree, X), weight, tree.values, smoothing)
        self.tree_ = self._finished(tree, filled, X, weight)

    def _kept(self, growth: GrowthOptions, *rows: Array) -> GrowthCheckpoint | None:
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
            path = f"{os.fspath(path)}.growth"
        return GrowthCheckpoint(path, run)

    def _smoothing(self) -> float:
        """Return what is added to weights at leaves, in the unit of the weights of this fit."""
        smoothing = options.positive("smoothing", self.smoothing, or_zero=True)
        with np.errstate(over="ignore"):
            return float(min(np.ldexp(smoothing, -self._exponent), MOST_SMOOTHING))

    def _threads(self) -> int:
        return effective_jobs(1 if self.n_jobs is None else self.n_jobs)

    @abstractmethod
    def _kind(self) -> Kind:
        """Return what nodes ask."""

    @abstractmethod
    def _tree(self, grown: GrownTree, leaf_values: Array) -> NativeTree:
        """Return the native tree of a grown one, whose classes are numbers."""

    @abstractmethod
    def _tree_of(self, forest: Forest, before: NativeTree) -> NativeTree:
        """Return the native tree of a refined forest, of the same kind as before."""

    @abstractmethod
    def _finished(self, tree: Any, leaf_values: Array, X: Array, weight: Array) -> NativeTree:
        """Return the tree with its last leaves, and keep what is reported of it."""

    @abstractmethod
    def _target(self, y: Any) -> Target:
        """Return what is to be learned."""

    @abstractmethod
    def _loss(self) -> str:
        """Return the name of the stumps' loss."""

    def _penalties(self) -> tuple[Penalty, ...]:
        return ()

    def _columns(self) -> Columns | None:
        """Return how the columns that a node reads are drawn; None where it reads all."""
        return None

    def _training(self) -> StumpTraining:
        return StumpTraining(
            self._kind(),
            LOSSES[self._loss()],
            options.whole("steps", self.steps),
            options.whole("restarts", self.restarts),
            options.whole("batch_size", self.batch_size),
            options.positive("learning_rate", self.learning_rate),
            steepness(self.gamma, self.gamma_schedule),
            self._penalties(),
            self._columns(),
            device=devices.find(self.device),
        )

    def _growth(self, target: Target, seed: int) -> GrowthOptions:
        options.among("growth", self.growth, ("level", "best"))
        most = {"max_depth": self.max_depth, "max_leaves": self.max_leaves}
        for name, value in most.items():
            if value is not None:
                options.whole(name, value)
        if self.max_depth is None and self.max_leaves is None and self.growth == "best":
            raise InputError(
                "`max_leaves` or `max_depth` must be given where the best leaf is split first, got "
                "neither: say where growth ends."
            )
        least = (
            target.min_rows if self.min_rows is None else options.whole("min_rows", self.min_rows)
        )
        return GrowthOptions(
            best_first=self.growth == "best",
            max_depth=self.max_depth,
            max_leaves=self.max_leaves,
            min_rows=least,
            min_gain=options.positive("min_gain", self.min_gain, or_zero=True),
            retries=2,
            seed=seed,
        )

    def _refinement(self, seed: int) -> Refinement:
        if self.refine_gamma is not None:
            steepness(self.refine_gamma, "linear", name="refine_gamma")
        return Refinement(
            trainable=("S", "b", "v"),
            steps=self.refine,
            learning_rate=options.positive("refine_learning_rate", self.refine_learning_rate),
            gamma=self.refine_gamma,
            spatial=0.0,
            spatial_shape=None,
            checkpoint_path=self.checkpoint_path,
            seed=seed,
            progress=_print_refinement if self.verbose else None,
            device=devices.find(self.device),
        )

    def _parts(
        self, X: Array, target: Target, weight: Array, seed: int, *, refines: bool
    ) -> tuple[Array, tuple[Array, Array, Array] | None]:
        """Return the rows to grow on, and what to choose by if the tree is refined."""
        everything = np.arange(len(X))
        if not isinstance(self.validation, (tuple, list)):
            share = self.validation
            if not isinstance(share, (float, np.floating)) or not 0 < share < 1:
                raise InputError(
                    "`validation` must be a share above 0 and below 1, (X, y) or "
                    f"(X, y, sample_weight), got {self.validation!r}."
                )
            if not refines:
                return everything, None
            grown_on, chosen_by = held_out(len(X), float(share), seed)
            if not chosen_by.size:
                return everything, None
            y = target.take(chosen_by).told
            return grown_on, (X[chosen_by], y, weight[chosen_by])
        if len(self.validation) not in (2, 3):
            raise InputError(
                "`validation` must be a share above 0 and below 1, (X, y) or "
                f"(X, y, sample_weight), got {len(self.validation)} parts."
            )
        if not refines:
            return everything, None
        Z, y, *w = self.validation
        Z = _validation_rows(self, Z)
        said = self._held_out_target(y)
        require_rows(Z, said)
        return everything, (Z, said, row_weights(Z, w[0] if w else None))

    @abstractmethod
    def _held_out_target(self, y: Any) -> Array:
        """Return class numbers or values of validation rows."""

    def _print_growth(self, step: GrowthStep) -> None:
        line = (
            f"depth {step.depth}: {step.n_nodes} nodes, {step.n_leaves} leaves, "
            f"objective {step.objective:.6g}"
        )
        print(line, file=sys.stderr, flush=True)


class GrownClassifier(GrownEstimator):
    """Labels as class numbers, and back."""

    classes_: Array

    def _target(self, y: Any) -> Labels:
        self.classes_, codes = labels(y)
        self._labels = forest_labels(self.classes_)
        return Labels(codes.astype(np.int64), self.classes_.size)

    def _held_out_target(self, y: Any) -> Array:
        y = column_or_1d(y, warn=True)
        if not np.all(np.isin(y, self.classes_)):
            raise InputError(
                "`validation[1]` must hold labels of `y`, got others: leave their rows out."
            )
        return np.searchsorted(self.classes_, y)


class GrownRegressor(GrownEstimator):
    """Values of one output or several."""

    def _target(self, y: Any) -> Values:
        Y = values(y)
        require_moderate_values("y", Y)
        return Values(Y)

    def _held_out_target(self, y: Any) -> Array:
        Y = values(y)
        require_moderate_values("validation[1]", Y)
        return Y

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn 1.5
        return {"multioutput": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


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


def _print_refinement(done: Evaluation) -> None:
    mark = ", kept" if done.accepted else ""
    line = f"{done.stage} {done.step}/{done.steps}: validation {done.score:.6g}{mark}"
    print(line, file=sys.stderr, flush=True)
