"""Networks in front of the tests: layers compiled for some rows at a time, with their own bits.

Each sum runs term by term in the order of `bitvec.core.feature_maps.layers`; what is done at once
are outputs, whose sums do not meet. A zero may have the other sign, which no comparison sees.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.feature_maps import (
    Concatenate,
    Conv2d,
    Flatten,
    KeyTables,
    Layers,
    Linear,
    MaxPool2d,
    ReLU,
)
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.cpu.key_kernels import Lookup

ROWS = 32
"""Rows that pass all layers together: what lies between two layers then stays in a core's cache."""

Step = Callable[[Array], Array]


def columns(forest: Forest, X: Array) -> Array:
    """Return what the tests of a forest read, as `reference.columns` does: X, or φ(X)."""
    if forest.feature_map is None:
        return reference.columns(forest, X)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.ascontiguousarray(X, forest.dtype)
        return compiled(forest.feature_map, forest.dtype)(rows)


def compiled(feature_map: FeatureMap, dtype: np.dtype) -> Step:
    """Return what computes a feature map for contiguous rows of a dtype.

    Maps other than networks, key tables, and joined maps of them, compute themselves.
    """
    if isinstance(feature_map, Concatenate):
        parts = [compiled(part, dtype) for part in feature_map.maps]
        return lambda X: np.concatenate([part(X) for part in parts], axis=1)
    if isinstance(feature_map, KeyTables):
        return Lookup(feature_map)
    if not isinstance(feature_map, Layers) or any(
        isinstance(layer, Linear | Conv2d) and layer.weight.dtype.itemsize > dtype.itemsize
        for layer in feature_map.layers
    ):
        return feature_map  # rows narrower than the weights are refused there
    return _Network(feature_map, dtype)


class _Network:
    """The layers of a network, with their numbers laid out for the kernels."""

    def __init__(self, layers: Layers, dtype: np.dtype) -> None:
        self.shape, self.n_features = layers.input_shape, layers.n_features
        self.steps = [_STEPS[type(layer)](layer, dtype) for layer in layers.layers]

    def __call__(self, X: Array) -> Array:
        out = np.empty((len(X), self.n_features), X.dtype)
        for at in range(0, len(X), ROWS):
            value = X[at : at + ROWS]
            value = value.reshape(len(value), *self.shape)
            for step in self.steps:
                value = step(value)
            out[at : at + ROWS] = value.reshape(len(value), -1)
        return out


def _linear(layer: Linear, dtype: np.dtype) -> Step:
    weight = constant(layer.weight.T.astype(dtype))
    bias = _bias(layer, dtype)

    def step(x: Array) -> Array:
        out = np.empty((len(x), weight.shape[1]), dtype)
        linear(constant(x), weight, bias, out)
        return out

    return step


def _conv2d(layer: Conv2d, dtype: np.dtype) -> Step:
    weight = constant(layer.weight.astype(dtype))
    bias = _bias(layer, dtype)

    def step(x: Array) -> Array:
        out = np.empty((len(x), *layer.output_shape(x.shape[1:])), dtype)
        conv2d(constant(_padded(x, layer.padding, 0.0)), weight, bias, *layer.stride, out)
        return out

    return step


def _max_pool(layer: MaxPool2d, dtype: np.dtype) -> Step:
    def step(x: Array) -> Array:
        out = np.empty((len(x), *layer.output_shape(x.shape[1:])), dtype)
        padded = constant(_padded(x, layer.padding, -np.inf))
        max_pool(padded, *layer.kernel, *layer.step, out)
        return out

    return step


def _bias(layer: Linear | Conv2d, dtype: np.dtype) -> Array:
    n_out = len(layer.weight)
    return constant(np.zeros(n_out, dtype) if layer.bias is None else layer.bias.astype(dtype))


def _padded(x: Array, padding: tuple[int, int], value: float) -> Array:
    around = [(0, 0), (0, 0), *((p, p) for p in padding)]
    return np.pad(x, around, constant_values=x.dtype.type(value)) if any(padding) else x


_STEPS: dict[type, Callable[[Any, np.dtype], Step]] = {
    Linear: _linear,
    Conv2d: _conv2d,
    MaxPool2d: _max_pool,
    ReLU: lambda layer, dtype: lambda x: np.maximum(x, dtype.type(0)),
    Flatten: lambda layer, dtype: lambda x: x.reshape(len(x), -1),
}


@kernel
def linear(x, weight, bias, out):
    """Fill out, (n, n_out), with x, (n, n_in), times weight, (n_in, n_out), plus bias."""
    for row in range(len(x)):
        total = out[row]
        total[:] = 0
        for k in range(len(weight)):
            value, of_input = x[row, k], weight[k]
            for o in range(total.size):
                total[o] += of_input[o] * value
        for o in range(total.size):
            total[o] += bias[o]


@kernel
def conv2d(x, weight, bias, down, across, out):
    """Fill out, (n, n_out, height, width), with the correlation of padded x and weight.

    Parameters
    ----------
    x : F, (n, n_in, padded height, padded width)
    weight : F, (n_out, n_in, kernel height, kernel width)
    down, across : int
        The stride.
    """
    n_out, n_in, n_i, n_j = weight.shape
    width = out.shape[3]
    for row in range(len(x)):
        for o in range(n_out):
            for y in range(out.shape[2]):
                total = out[row, o, y]
                total[:] = 0
                for channel in range(n_in):
                    for i in range(n_i):
                        line = x[row, channel, y * down + i]
                        for j in range(n_j):
                            factor = weight[o, channel, i, j]
                            if across == 1:
                                seen = line[j : j + width]
                                for at in range(width):
                                    total[at] += factor * seen[at]
                            else:
                                for at in range(width):
                                    total[at] += factor * line[at * across + j]
                for at in range(width):
                    total[at] += bias[o]


@kernel
def max_pool(x, n_i, n_j, down, across, out):
    """Fill out, (n, channels, height, width), with the largest of each window; NaN wins."""
    for row in range(len(x)):
        for channel in range(x.shape[1]):
            for y in range(out.shape[2]):
                for at in range(out.shape[3]):
                    most = x[row, channel, y * down, at * across]
                    for i in range(n_i):
                        line = x[row, channel, y * down + i]
                        for j in range(n_j):
                            value = line[at * across + j]
                            if value > most or value != value:
                                most = value
                    out[row, channel, y, at] = most
