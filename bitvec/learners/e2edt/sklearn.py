"""scikit-learn estimators of single End-to-End Decision Trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.converters.native.e2edt import E2EDT
from bitvec.converters.native.native_tree import NativeTree
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError, MissingLibraryError
from bitvec.learners.e2edt.tree import of_forest, of_growth, with_unit_margins
from bitvec.learners.growth.grow import GrownTree
from bitvec.learners.growth.linear import Linear
from bitvec.learners.growth.networks import Network
from bitvec.learners.growth.penalties import Penalty, Roughness, image_shape
from bitvec.learners.growth.refinement import Refinement
from bitvec.learners.growth.sklearn_base import GrownClassifier, GrownEstimator, GrownRegressor
from bitvec.learners.growth.split_functions import cnn, mlp, module
from bitvec.learners.growth.stump_test import Kind
from bitvec.learners.growth.stumps import StumpTraining
from bitvec.learners.sklearn_base import NativeClassifier
from bitvec.runtime.train.relax import options
from bitvec.runtime.train.retrain.schedules import steepness

try:
    from sklearn.base import RegressorMixin
except ImportError as error:
    raise MissingLibraryError("scikit-learn", "sklearn", "E2EDTClassifier") from error


class E2EDTEstimator(GrownEstimator):
    """What classifiers and regressors share."""

    tree_: E2EDT
    losses: tuple[str, ...]

    def __init__(
        self,
        *,
        max_depth: int | None = 6,
        max_leaves: int | None = None,
        growth: str = "level",
        split: Any = "linear",
        hidden: int = 32,
        image_shape: Any = None,
        stump_loss: str | None = None,
        steps: int = 200,
        learning_rate: float = 0.05,
        gamma: Any = (1.0, 8.0),
        gamma_schedule: str = "linear",
        restarts: int = 2,
        batch_size: int = 4096,
        weight_decay: float = 0.0,
        min_rows: int | None = None,
        min_gain: float = 0.0,
        refine: int | None = None,
        refine_learning_rate: float = 0.03,
        refine_gamma: Any = None,
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
        self.split = split
        self.hidden = hidden
        self.image_shape = image_shape
        self.weight_decay = weight_decay
        self.stump_loss = stump_loss
        self.spatial = spatial
        self.spatial_shape = spatial_shape

    def _kind(self) -> Kind:
        image = self._image()
        if isinstance(self.split, str) and self.split == "linear":
            return Linear()
        columns = self._columns()
        n_inputs = self.n_features_in_
        if columns is not None:
            n_inputs = columns(np.random.default_rng(0)).size
        if isinstance(self.split, str) and self.split == "mlp":
            return Network(mlp(n_inputs, options.whole("hidden", self.hidden)))
        if isinstance(self.split, str) and self.split == "cnn":
            if image is None or columns is not None:
                raise InputError(
                    "split='cnn' must read all columns as an image, got no `image_shape` or a part "
                    "of the columns: give `image_shape`, and max_features=None without a patch."
                )
            return Network(cnn(image))
        if not callable(self.split):
            raise InputError(
                "`split` must be 'linear', 'mlp', 'cnn' or a function that makes a torch module, "
                f"got {self.split!r}: choose one."
            )
        kind = Network(module(self.split, n_inputs, image if columns is None else None))
        if columns is not None and kind.unit != "column":
            raise InputError(
                "`split` must make a module that begins with a Linear layer where nodes read a "
                "part of the columns: give max_features=None without a patch."
            )
        return kind

    def _image(self) -> tuple[int, int, int] | None:
        if self.image_shape is None:
            return None
        return image_shape(self.image_shape, self.n_features_in_, "image_shape")

    def _training(self) -> StumpTraining:
        decay = options.positive("weight_decay", self.weight_decay, or_zero=True)
        return replace(super()._training(), weight_decay=decay)

    def _loss(self) -> str:
        if self.stump_loss is None:
            return self.losses[0]
        options.among("stump_loss", self.stump_loss, self.losses)
        return self.stump_loss

    def _penalties(self) -> tuple[Penalty, ...]:
        strength = options.positive("spatial", self.spatial, or_zero=True)
        if not strength:
            return ()
        if not isinstance(self.split, str) or self.split != "linear":
            raise InputError(
                f"`spatial` must be 0 where `split` is not 'linear', got {self.spatial}: its "
                "weights are no image."
            )
        return (Roughness(strength, image_shape(self.spatial_shape, self.n_features_in_)),)

    def _refinement(self, seed: int) -> Refinement:
        how = super()._refinement(seed)
        if not isinstance(self.split, str) or self.split != "linear":
            how = replace(how, trainable=("S", "b", "v", "phi"), same_columns=True)
        if not self.spatial:
            return how
        return replace(how, spatial=self.spatial, spatial_shape=self.spatial_shape)

    def _tree_of(self, forest: Forest, before: NativeTree) -> E2EDT:
        assert isinstance(before, E2EDT)
        return of_forest(forest, before)

    def _steepness(self) -> float:
        """Return γ where training of what was kept ended, in margin deviations."""
        result = self.refinement_
        if result is None or not result.improved:
            return steepness(self.gamma, self.gamma_schedule)(1.0)
        accepted = (each.gamma for each in reversed(result.history) if each.accepted)
        return next(gamma for gamma in accepted if np.isfinite(gamma))


class E2EDTClassifier(NativeClassifier, E2EDTEstimator, GrownClassifier):
    """An End-to-End Decision Tree that classifies: linear nodes, grown softly, answering hard.

    Parameters
    ----------
    max_depth, max_leaves : int, optional
        Where growth ends.
    growth : "level" or "best"
        Whole levels at a time, or the leaf of largest gain first.
    split : "linear", "mlp", "cnn" or callable
        What a node asks of x: θ · x; θ · φ(x) with φ one hidden layer of ReLU, or the paper's CNN,
        each node's its own; or a function that makes φ as a torch module of Linear, Conv2d,
        MaxPool2d, ReLU and Flatten layers, to (batch, width), to which θ is added; it reads
        (batch, n_features), or images of `image_shape` where a layer of images comes first.
        Networks learn at a tenth of `learning_rate`.
    hidden : int
        Hidden units of "mlp".
    image_shape : tuple of int, optional
        The image that the columns are, (height, width) or (n_channels, height, width).
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
        Starts of each node, trained side by side; the least exact impurity wins.
    batch_size : int
        Rows of a step, all nodes of a level together, though at least 256 of each node.
    weight_decay : float
        Of stumps, decoupled from the gradient, in the units of standardised columns.
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
    spatial : float
        Penalty on θ that is not smooth as an image of `spatial_shape`, (height, width) or
        (n_channels, height, width).
    spatial_shape : tuple of int, optional
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
    tree_ : E2EDT
        The tree in the paper's symbols.
        Margins deviate by about 1 at each node; `gamma` is where the steepness ended.
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
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = E2EDTClassifier(max_depth=2, refine=0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True

    Notes
    -----
    "End-to-end Learning of Decision Trees and Forests" (Hehn, Kooij and Hamprecht, 2020). Other
    than there, stumps are trained by steps, not epochs, γ starts anew at each level, thresholds are
    scanned exactly after training, all stumps of a level are trained at once, and the tree is hard
    at all nodes when it answers, its leaves counted on hard routes.
    """

    losses = ("likelihood", "em", "information")

    def _tree(self, grown: GrownTree, leaf_values: Array) -> E2EDT:
        return of_growth(grown, leaf_values, self.n_features_in_, labels=True)

    def _finished(self, tree: E2EDT, leaf_values: Array, X: Array, weight: Array) -> E2EDT:
        tree = replace(tree, pi=leaf_values, classes=self._labels, gamma=self._steepness())
        return with_unit_margins(tree, X, weight)


class E2EDTRegressor(RegressorMixin, E2EDTEstimator, GrownRegressor):  # type: ignore[misc]
    """An End-to-End Decision Tree that predicts means, of one output or several.

    Parameters
    ----------
    max_depth, max_leaves : int, optional
        Where growth ends.
    growth : "level" or "best"
        Whole levels at a time, or the leaf of largest gain first.
    split : "linear", "mlp", "cnn" or callable
        What a node asks of x: θ · x; θ · φ(x) with φ one hidden layer of ReLU, or the paper's CNN,
        each node's its own; or a function that makes φ as a torch module of Linear, Conv2d,
        MaxPool2d, ReLU and Flatten layers, to (batch, width), to which θ is added; it reads
        (batch, n_features), or images of `image_shape` where a layer of images comes first.
        Networks learn at a tenth of `learning_rate`.
    hidden : int
        Hidden units of "mlp".
    image_shape : tuple of int, optional
        The image that the columns are, (height, width) or (n_channels, height, width).
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
        Starts of each node, trained side by side; the least exact impurity wins.
    batch_size : int
        Rows of a step, all nodes of a level together, though at least 256 of each node.
    weight_decay : float
        Of stumps, decoupled from the gradient, in the units of standardised columns.
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
    spatial : float
        Penalty on θ that is not smooth as an image of `spatial_shape`, (height, width) or
        (n_channels, height, width).
    spatial_shape : tuple of int, optional
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
    tree_ : E2EDT
        The tree in the paper's symbols.
        Margins deviate by about 1 at each node; `gamma` is where the steepness ended.
    growth_ : tuple of GrowthStep
        Nodes, leaves and mean impurity after each level or split, before the refinement.
    refinement_ : RetrainResult or None
        What `bitvec.retrain` returned; None where nothing was refined.
    n_features_in_ : int
    feature_names_in_ : (n_features,)
        Where X has names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = E2EDTRegressor(max_depth=2, refine=0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.4
    True

    Notes
    -----
    Gaussian leaves in the place of the categorical ones of Hehn, Kooij and Hamprecht, 2020.
    """

    losses = ("variance", "likelihood", "em")

    def _tree(self, grown: GrownTree, leaf_values: Array) -> E2EDT:
        return of_growth(grown, leaf_values, self.n_features_in_, labels=False)

    def _finished(self, tree: E2EDT, leaf_values: Array, X: Array, weight: Array) -> E2EDT:
        tree = replace(tree, mean=leaf_values, gamma=self._steepness())
        return with_unit_margins(tree, X, weight)
