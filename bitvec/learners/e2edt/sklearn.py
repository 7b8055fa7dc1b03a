"""scikit-learn estimators of single End-to-End Decision Trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from bitvec.converters.native.e2edt import E2EDT
from bitvec.converters.native.native_tree import NativeTree
from bitvec.core import options
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.errors import InputError
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
from bitvec.learners.parameters import attribute, estimator, parameter
from bitvec.runtime.train.retrain.schedules import steepness


@estimator
class E2EDTEstimator(GrownEstimator):
    """Base of the classifier and the regressor: nodes, losses, penalties."""

    tree_: E2EDT = attribute(
        "The tree in the paper's symbols. Margins deviate by about 1 at each node; `gamma` is "
        "where the steepness ended."
    )
    split: Literal["linear", "mlp", "cnn"] | Callable[..., torch.nn.Module] = parameter(
        "Test of a node: θ · x; θ · φ(x) with φ one hidden layer of ReLU, or the paper's CNN, each "
        "node's its own; or a function that makes φ as a torch module of Linear, Conv2d, "
        "MaxPool2d, ReLU and Flatten layers, to (batch, width), to which θ is added; it reads "
        "(batch, n_features), or images of `image_shape` where a layer of images comes first. "
        "Networks learn at a tenth of `learning_rate`.",
        default="linear",
    )
    hidden: int = parameter('Hidden units of "mlp".', default=32)
    image_shape: tuple[int, ...] | None = parameter(
        "The image that the columns are, (height, width) or (n_channels, height, width).",
        default=None,
    )
    stump_loss: str | None = parameter("Loss of a node.", default=None)
    weight_decay: float = parameter(
        "Decay of stumps, decoupled from the gradient, in the units of standardised columns.",
        default=0.0,
    )
    spatial: float = parameter(
        "Penalty on θ that is not smooth as an image of `spatial_shape`.", default=0.0
    )
    spatial_shape: tuple[int, ...] | None = parameter(
        "(height, width) or (n_channels, height, width).", default=None
    )

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

    def _tree(self, grown: GrownTree, leaf_values: Array) -> E2EDT:
        return of_growth(grown, leaf_values, self.n_features_in_, labels=self._is_classifier)

    def _tree_of(self, forest: Forest, before: NativeTree) -> E2EDT:
        assert isinstance(before, E2EDT)
        return of_forest(forest, before)

    def _finished(self, tree: E2EDT, leaf_values: Array, X: Array, weight: Array) -> E2EDT:
        tree = replace(self._with_leaves(tree, leaf_values), gamma=self._steepness())
        return with_unit_margins(tree, X, weight)

    def _steepness(self) -> float:
        """Return γ where training of what was kept ended, in margin deviations."""
        result = self.refinement_
        if result is None or not result.improved:
            return steepness(self.gamma, self.gamma_schedule)(1.0)
        accepted = (each.gamma for each in reversed(result.history) if each.accepted)
        return next(gamma for gamma in accepted if np.isfinite(gamma))


@estimator
class E2EDTClassifier(GrownClassifier, E2EDTEstimator):
    """An End-to-End Decision Tree that classifies: linear nodes, grown softly, answering hard.

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

    stump_loss: Literal["likelihood", "em", "information"] | None = parameter(
        "Loss of a node: the likelihood of its two leaves, with the leaves refreshed at each step, "
        "if not given; the same by expectation maximisation; or the entropy of its sides."
    )
    losses = ("likelihood", "em", "information")


@estimator
class E2EDTRegressor(GrownRegressor, E2EDTEstimator):
    """An End-to-End Decision Tree that predicts means, of one output or several.

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

    stump_loss: Literal["variance", "likelihood", "em"] | None = parameter(
        "Loss of a node: squared errors about its two means, if not given; or the likelihood of "
        "two Gaussian leaves of one deviation, directly or by expectation maximisation."
    )
    losses = ("variance", "likelihood", "em")
