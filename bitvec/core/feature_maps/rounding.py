"""Bounds on the distance of φ(x), summed in another order, from the reference's.

A sum of n products and a bias, each rounded, is within γ = (n + 2)·u / (1 − (n + 2)·u) of the sum
of magnitudes of its true value in every order, with fused multiply-adds or without, u the unit
roundoff (Higham, "Accuracy and Stability of Numerical Algorithms", 3.1). Both sides err so, each
from an input of its own: where these are within E of each other, a layer's outputs are within

    |W| · (E · (1 + γ) + 2 · γ · |x|) + 2 · γ · |bias|

of each other. ReLU and the maximum of a window bring no two numbers further apart, and what ReLU
makes 0 on both sides is equal. A product that underflows errs by the smallest subnormal number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps.layers import Conv2d, Flatten, Linear, MaxPool2d, ReLU
from bitvec.core.feature_maps.maps import Concatenate, Identity, Layers
from bitvec.core.features import FeatureMap
from bitvec.core.shape_annotations import Float, Float64

SLACK = 1.01
"""More than the rounding of the bounds themselves, which are computed in float64."""


def gamma(n_terms: int | Array, dtype: np.dtype) -> Any:
    """Return γ of sums of so many terms, two roundings more included; infinite beyond all bounds.

    >>> float(gamma(2, np.dtype(np.float64))) == 4 * 2.0**-53 / (1 - 4 * 2.0**-53)
    True
    """
    steps = (np.asarray(n_terms, np.float64) + 2) * float(np.finfo(dtype).eps) / 2
    with np.errstate(divide="ignore"):
        return np.where(steps < 1, steps / np.maximum(1 - steps, 0), np.inf)


def with_bounds(
    feature_map: FeatureMap, X: Float[Array, "batch n_inputs"]
) -> tuple[Float[Array, "batch n_features"], Float64[Array, "batch n_features"]] | None:
    """Return φ(X), and how far another order of its sums may bring each number of it.

    None where nothing is known of the map: it is none of Layers, Identity and Concatenate of them.
    """
    if isinstance(feature_map, Identity):
        return feature_map(X), np.zeros(X.shape)
    if isinstance(feature_map, Layers):
        return _of_layers(feature_map, X)
    if not isinstance(feature_map, Concatenate):
        return None
    parts = []
    for one in feature_map.maps:
        found = with_bounds(one, X)
        if found is None:
            return None
        parts.append(found)
    Z, E = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return Z, E


def _of_layers(phi: Layers, X: Array) -> tuple[Array, Array]:
    x, E = X.reshape(len(X), *phi.input_shape), np.zeros((len(X), *phi.input_shape))
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in phi.layers:
            E = SLACK * _BOUNDS[type(layer)](layer, x, E)
            x = layer(x)
    return x.reshape(len(X), -1), E.reshape(len(X), -1)


def _shares(layer: Linear | Conv2d, x: Array, E: Array) -> tuple[Array, Array, float]:
    """Return |W|, what it is multiplied by, and what is added."""
    W = np.abs(layer.weight.astype(np.float64))
    n_terms = W[0].size
    g = float(gamma(n_terms, x.dtype))
    lost = 2 * n_terms * float(np.finfo(x.dtype).smallest_subnormal)
    return W, E * (1 + g) + 2 * g * np.abs(x.astype(np.float64)), lost


def _bias(layer: Linear | Conv2d, x: Array) -> Array:
    if layer.bias is None:
        return np.zeros(len(layer.weight))
    g: float = gamma(layer.weight[0].size, x.dtype)
    return 2 * g * np.abs(layer.bias.astype(np.float64))


def _linear(layer: Linear, x: Array, E: Array) -> Array:
    W, share, lost = _shares(layer, x, E)
    bound: Array = share @ W.T + (_bias(layer, x) + lost)
    return bound


def _conv2d(layer: Conv2d, x: Array, E: Array) -> Array:
    W, share, lost = _shares(layer, x, E)
    return Conv2d(W, _bias(layer, x) + lost, layer.stride, layer.padding)(share)


_BOUNDS: dict[type, Callable[[Any, Array, Array], Array]] = {
    Linear: _linear,
    Conv2d: _conv2d,
    MaxPool2d: lambda layer, x, E: layer(E),
    ReLU: lambda layer, x, E: np.minimum(E, np.maximum(x.astype(np.float64) + E, 0)),
    Flatten: lambda layer, x, E: layer(E),
}
