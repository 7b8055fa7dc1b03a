"""The feature maps that a file can hold: other forests' leaves, lists of layers, and joins."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bitvec.core import reference
from bitvec.core.arrays import FLOATS, Array, require
from bitvec.core.feature_maps.layers import Conv2d, Layer, Linear, Shape
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float
from bitvec.errors import InputError

MAX_FEATURES = 2**31 - 1
"""Columns that S can address: its column numbers are int32."""
VALUES_AT_ONCE = 1 << 16
"""Numbers of the widest layer that are computed at a time, so that they stay in a cache; a row's
φ does not depend on the rows around it."""


def _require_rows(X: Array, n_inputs: int) -> None:
    if X.ndim != 2 or X.shape[1] != n_inputs or X.dtype not in FLOATS:
        raise InputError(
            f"`X` must be float32 or float64 with {n_inputs} columns, got {X.dtype} of shape "
            f"{X.shape}: pass the columns that the feature map was built for."
        )


def _require_width(n_features: int) -> None:
    require(
        1 <= n_features <= MAX_FEATURES,
        f"a feature map must have 1 to {MAX_FEATURES} columns, got {n_features}.",
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """φ(x) = x: passes x through as one part of a `Concatenate`."""

    n_inputs: int

    def __post_init__(self) -> None:
        require(self.n_inputs >= 0, f"`n_inputs` must not be negative, got {self.n_inputs}.")

    @property
    def n_features(self) -> int:
        """Columns of φ(X)."""
        return self.n_inputs

    def __call__(self, X: Float[Array, "batch n_inputs"]) -> Float[Array, "batch n_inputs"]:
        """Return X itself."""
        _require_rows(X, self.n_inputs)
        return X


@dataclass(frozen=True, slots=True, eq=False)
class StackedForest:
    """φ(x) = [x; onehot(leaf_t(x)) for each tree t], or [x; v[leaf_t(x)] for each tree t].

    Parameters
    ----------
    forest : Forest
        It compares in its own dtype, to which X is cast, and is evaluated hard.
    values : bool
        Whether the trees add their leaf vectors (linear leaves evaluated at x) instead of one
        column per leaf. Leaves that name their output add their one value.

    Raises
    ------
    InvalidForestError
        If the forest has a prediction kernel: its trees have no exit leaf then.

    Notes
    -----
    Eq. (6) and (11), Zhang 2021, with a forest as φ. In the dtype of X: values of a wider dtype are
    rounded to it.
    """

    forest: Forest
    values: bool = False

    def __post_init__(self) -> None:
        require(
            self.forest.kernel is None,
            "a stacked forest must be hard, got one with a prediction kernel: drop `kernel`.",
        )
        _require_width(self.n_features)

    @property
    def n_inputs(self) -> int:
        """Columns of X."""
        return self.forest.n_features

    @property
    def n_features(self) -> int:
        """Columns of φ(X)."""
        forest = self.forest
        added = forest.n_trees * forest.leaves.v.shape[1] if self.values else forest.n_leaves
        return forest.n_features + added

    def __call__(self, X: Float[Array, "batch n_inputs"]) -> Float[Array, "batch n_features"]:
        """Return φ(X) in the dtype of X."""
        _require_rows(X, self.n_inputs)
        forest = self.forest
        exits = reference.exit_leaf_traversal(forest, reference.columns(forest, X))
        leaf = exits + forest.bitvectors.leaf_ptr[:-1]
        if not self.values:
            one_hot = np.zeros((len(X), forest.n_leaves), X.dtype)
            one_hot[np.arange(len(X))[:, None], leaf] = 1
            return np.concatenate([X, one_hot], axis=1)
        with np.errstate(over="ignore"):
            own = X.astype(forest.dtype, copy=False)
            vectors = [
                reference.leaf_vectors(forest, own, leaf[:, tree]).astype(X.dtype)
                for tree in range(forest.n_trees)
            ]
        return np.concatenate([X, *vectors], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """φ(x) = layer_k(... layer_1(x)): a feed-forward network from a closed list of layers.

    Parameters
    ----------
    layers : tuple of Linear, Conv2d, MaxPool2d, ReLU, Flatten
    input_shape : tuple of int
        What a row of X is reshaped to, in C order: (channels, height, width) in front of a Conv2d.
        May be left out where the first layer is Linear. The last output is flattened.

    Raises
    ------
    InvalidForestError
        If a layer does not fit the one before it.

    Examples
    --------
    >>> from bitvec.core.feature_maps.layers import ReLU
    >>> phi = Layers((Linear(np.array([[1.0, -1.0]])), ReLU()))
    >>> phi(np.array([[3.0, 1.0], [1.0, 3.0]])).tolist()
    [[2.0], [0.0]]
    """

    layers: tuple[Layer, ...]
    input_shape: Shape = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        require(self.layers, "`layers` must hold at least one layer.")
        if not self.input_shape:
            first = self.layers[0]
            require(
                isinstance(first, Linear),
                "`input_shape` must be given where the first layer is not Linear.",
            )
            assert isinstance(first, Linear)
            object.__setattr__(self, "input_shape", (first.weight.shape[1],))
        require(
            min(self.input_shape) >= 1, f"`input_shape` must be positive, got {self.input_shape}."
        )
        self._output_shape()

    def _output_shape(self) -> Shape:
        shape = self.input_shape
        for layer in self.layers:
            shape = layer.output_shape(shape)
            _require_width(math.prod(shape))
        return shape

    @property
    def n_inputs(self) -> int:
        """Columns of X."""
        return math.prod(self.input_shape)

    @property
    def n_features(self) -> int:
        """Columns of φ(X)."""
        return math.prod(self._output_shape())

    def __call__(self, X: Float[Array, "batch n_inputs"]) -> Float[Array, "batch n_features"]:
        """Return φ(X) in the dtype of X, which must be at least that of the weights."""
        _require_rows(X, self.n_inputs)
        for layer in self.layers:
            if isinstance(layer, Linear | Conv2d) and layer.weight.dtype.itemsize > X.itemsize:
                raise InputError(
                    f"`X` must be {layer.weight.dtype} like the layer's weights, got {X.dtype}: "
                    "narrower weights would be other weights."
                )
        step = max(1, VALUES_AT_ONCE // self._widest)
        if len(X) <= step:
            return self._of(X)
        Z = np.empty((len(X), self.n_features), X.dtype)
        for at in range(0, len(X), step):
            Z[at : at + step] = self._of(X[at : at + step])
        return Z

    @property
    def _widest(self) -> int:
        shape, widest = self.input_shape, 1
        for layer in self.layers:
            shape = layer.output_shape(shape)
            widest = max(widest, math.prod(shape))
        return widest

    def _of(self, X: Array) -> Array:
        value = X.reshape(len(X), *self.input_shape)
        with np.errstate(over="ignore", invalid="ignore"):
            for layer in self.layers:
                value = layer(value)
        return value.reshape(len(X), self.n_features)


@dataclass(frozen=True, slots=True, eq=False)
class Concatenate:
    """φ(x) = [φ_1(x); ...; φ_n(x)]: one map per node (E2EDT), or x itself beside a map of it.

    Parameters
    ----------
    maps : tuple of FeatureMap
        All of them read the same columns of X; `Identity` passes x through.

    Examples
    --------
    >>> phi = Concatenate((Identity(2), Layers((Linear(np.array([[1.0, 1.0]])),))))
    >>> phi(np.array([[3.0, 1.0]])).tolist()
    [[3.0, 1.0, 4.0]]
    """

    maps: tuple[FeatureMap, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", tuple(self.maps))
        require(self.maps, "`maps` must hold at least one feature map.")
        sizes = sorted({part.n_inputs for part in self.maps})
        require(len(sizes) == 1, f"all `maps` must read as many columns, got {sizes}.")
        _require_width(self.n_features)

    @property
    def n_inputs(self) -> int:
        """Columns of X."""
        return self.maps[0].n_inputs

    @property
    def n_features(self) -> int:
        """Columns of φ(X)."""
        return sum(part.n_features for part in self.maps)

    def __call__(self, X: Float[Array, "batch n_inputs"]) -> Float[Array, "batch n_features"]:
        """Return φ(X) in the dtype of X."""
        _require_rows(X, self.n_inputs)
        return np.concatenate([part(X) for part in self.maps], axis=1)
