"""Feature maps of layers as operators: products of matrices, in the dtype of the forest.

onnxruntime multiplies matrices of float64, but has no convolution of it. So a convolution gathers
what its windows see and multiplies that by its weights; where a pooling of windows that do not
overlap comes next, one corner of all windows after the other, which holds less of a row. Networks
of the same shapes are computed together, each layer of all of them in a few operators.

Everything is (n, batch), so that a number is gathered for all rows at once. Sums run in the order
of the runtime's products: see `bitvec.core.feature_maps.rounding` for how far they may lie from the
reference's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Conv2d, Flatten, Layers, Linear, MaxPool2d, ReLU
from bitvec.core.graph.operators import Graph, table
from bitvec.core.shape_annotations import Int64

INT32 = np.dtype(np.int32)


def shapes_of(phi: Layers) -> tuple[Any, ...]:
    """Return what two networks must have in common to be computed together."""
    parts = []
    for layer in phi.layers:
        held = [getattr(layer, field.name) for field in fields(layer)]
        shapes = [one.shape if isinstance(one, np.ndarray) else one for one in held]
        parts.append((type(layer).__name__, *shapes))
    return (phi.input_shape, *parts)


def append(graph: Graph, maps: Sequence[Layers], X: str, dtype: np.dtype) -> str:
    """Append φ(X) of networks of the same shapes, side by side: (batch, n_maps · n_features)."""
    layers = [_Layer(alike, dtype) for alike in zip(*(phi.layers for phi in maps), strict=True)]
    shape = maps[0].input_shape
    by_column = graph.add("Transpose", X, perm=[1, 0], name="X_by_column")
    value = _Value(by_column, shape, np.arange(math.prod(shape))[None])
    at = 0
    while at < len(layers):
        pool = layers[at + 1].first if at + 1 < len(layers) else None
        if isinstance(layers[at].first, Conv2d) and _is_apart(pool):
            value = _convolution(graph, layers[at], value, pool)
            at += 2
        else:
            value = _STEPS[type(layers[at].first)](graph, layers[at], value)
            at += 1
    place = np.broadcast_to(value.place, (len(maps), value.place.shape[1])).ravel()
    return graph.add("Transpose", _rows(graph, value, place), perm=[1, 0], name="phi_of_each")


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer of each network."""

    layers: tuple[Any, ...]
    dtype: np.dtype

    @property
    def first(self) -> Any:
        return self.layers[0]

    @property
    def weights(self) -> Array:
        """(n_maps, n_out, inputs of an output in C order)."""
        W = np.stack([layer.weight for layer in self.layers]).astype(self.dtype)
        return W.reshape(*W.shape[:2], -1)

    @property
    def bias(self) -> Array | None:
        """(n_maps, n_out)."""
        if self.first.bias is None:
            return None
        return np.stack([layer.bias for layer in self.layers]).astype(self.dtype)


@dataclass(frozen=True, slots=True)
class _Value:
    """Values that layers have made of X so far.

    Parameters
    ----------
    name : str
        Of a tensor, (n, batch).
    shape : tuple of int
        Of one network's numbers of one row of X.
    place : int64, (n_maps, size), or (1, size)
        Which row of the tensor each of these numbers is, in C order; one for all networks as long
        as they have computed nothing of their own.
    """

    name: str
    shape: tuple[int, ...]
    place: Int64[Array, "n_maps size"]

    @property
    def is_shared(self) -> bool:
        return len(self.place) == 1


def _is_apart(layer: Any) -> bool:
    """Return whether a layer pools windows that do not overlap."""
    return isinstance(layer, MaxPool2d) and layer.step == layer.kernel and not any(layer.padding)


def _rows(graph: Graph, value: _Value, place: Array) -> str:
    """Append rows of the tensor by their numbers, (len(place), batch)."""
    if np.array_equal(place, np.arange(value.place.size)):
        return value.name
    return graph.add("Gather", value.name, table(graph, place, INT32), axis=0, name="rows")


def _reshaped(graph: Graph, value: str, *sizes: int) -> str:
    """Append a Reshape to some sizes and batch."""
    return graph.add("Reshape", value, np.array([*sizes, -1]), name="reshaped")


def _linear(graph: Graph, layer: _Layer, value: _Value) -> _Value:
    W, bias = layer.weights, layer.bias
    n_maps, n_out, n_in = W.shape
    right = _rows(graph, value, value.place.ravel())
    sizes: tuple[int, ...] = (n_maps, n_in)
    if value.is_shared:
        W, bias, sizes = W.reshape(-1, n_in), None if bias is None else bias.ravel(), (n_in,)
    # onnxruntime before 1.26 has no float64 product of what it would else take transposed.
    right = _reshaped(graph, right, *sizes)
    made = graph.add("MatMul", W, right, name="linear")
    if bias is not None:
        made = graph.add("Add", made, bias[..., None], name="linear_bias")
    if not value.is_shared:
        made = _reshaped(graph, made, n_maps * n_out)
    return _Value(made, (n_out,), np.arange(n_maps * n_out).reshape(n_maps, n_out))


def _conv2d(graph: Graph, layer: _Layer, value: _Value) -> _Value:
    return _convolution(graph, layer, value, None)


def _convolution(graph: Graph, layer: _Layer, value: _Value, pool: MaxPool2d | None) -> _Value:
    """Append a convolution, and the pooling behind it.

    The bias is added after the pooling, with which rounding, being monotone, does not interfere.
    """
    W, bias = layer.weights, layer.bias
    n_maps, n_out, n_seen = W.shape
    made_shape = layer.first.output_shape(value.shape)
    name, place = value.name, value.place
    if any(layer.first.padding):  # windows see a row of 0 beyond the image
        zero = np.zeros((), layer.dtype)
        name = graph.add("Pad", name, np.array([0, 0, 1, 0]), zero, name="image_and_zero")
        place = np.insert(place, place.shape[1], value.place.size, axis=1)
    seen = place[:, _seen(layer.first, value.shape, made_shape[1:])]
    shape, corners = made_shape, [np.arange(seen.shape[1])]
    if pool is not None:
        shape = pool.output_shape(made_shape)
        corners = _corners(pool, made_shape[2], shape[1:])
    if value.is_shared:
        seen, W = seen[0], W.reshape(-1, n_seen)
        bias = None if bias is None else bias.ravel()
    else:
        W, bias = W[:, None], None if bias is None else bias[:, None]
    weights = graph.constant("convolution_weights", W)
    products = []
    for positions in corners:
        index = table(graph, seen[..., positions, :], INT32)
        patches = graph.add("Gather", name, index, axis=0, name="patches")
        products.append(graph.add("MatMul", weights, patches, name="convolution"))
    made = products[0] if len(products) == 1 else graph.add("Max", *products, name="pooled")
    if bias is not None:
        made = graph.add("Add", made, bias[..., None], name="convolution_bias")
    n_positions = math.prod(shape[1:])
    made = _reshaped(graph, made, n_maps * n_positions * n_out)
    rows = np.arange(n_maps * n_positions * n_out)
    if value.is_shared:  # (positions, maps, channels)
        rows = rows.reshape(n_positions, n_maps, n_out).transpose(1, 2, 0)
    else:
        rows = rows.reshape(n_maps, n_positions, n_out).transpose(0, 2, 1)
    return _Value(made, shape, rows.reshape(n_maps, -1))


def _seen(layer: Conv2d, shape: tuple[int, ...], made: tuple[int, ...]) -> Array:
    """Return what each window sees, (positions, channels · kernel); −1 is beyond the image."""
    channels, height, width = shape
    rows, columns = (
        np.arange(k)[:, None] + s * np.arange(n) - p
        for k, s, n, p in zip(
            layer.weight.shape[2:], layer.stride, made, layer.padding, strict=True
        )
    )
    inside = ((rows >= 0) & (rows < height))[:, None, :, None]
    inside = inside & ((columns >= 0) & (columns < width))[None, :, None, :]
    at = rows[:, None, :, None] * width + columns[None, :, None, :]
    at = at + (height * width * np.arange(channels))[:, None, None, None, None]
    return np.where(inside, at, -1).reshape(-1, math.prod(made)).T


def _corners(pool: MaxPool2d, width: int, made: tuple[int, ...]) -> list[Array]:
    """Return for each offset in windows without padding which positions all windows see there."""
    rows, columns = (s * np.arange(n) for s, n in zip(pool.step, made, strict=True))
    return [
        ((rows[:, None] + i) * width + columns + j).ravel()
        for i, j in product(range(pool.kernel[0]), range(pool.kernel[1]))
    ]


def _max_pool(graph: Graph, layer: _Layer, value: _Value) -> _Value:
    """Append Max of what windows see at each offset: MaxPool would lose NaN.

    Where a window sees padding, it sees its own nearest number once more.
    """
    pool: MaxPool2d = layer.first
    shape = pool.output_shape(value.shape)
    channels, height, width = value.shape
    parts = []
    for i, j in product(range(pool.kernel[0]), range(pool.kernel[1])):
        rows, columns = (
            np.clip(s * np.arange(n) + offset - p, 0, most - 1)
            for s, n, offset, p, most in zip(
                pool.step, shape[1:], (i, j), pool.padding, (height, width), strict=True
            )
        )
        at = (rows[:, None] * width + columns).ravel()
        at = at + (height * width * np.arange(channels))[:, None]
        parts.append(_rows(graph, value, value.place[:, at.ravel()].ravel()))
    made = parts[0] if len(parts) == 1 else graph.add("Max", *parts, name="pooled")
    n_maps, size = len(value.place), math.prod(shape)
    return _Value(made, shape, np.arange(n_maps * size).reshape(n_maps, size))


def _relu(graph: Graph, layer: _Layer, value: _Value) -> _Value:
    return replace(value, name=graph.add("Relu", value.name, name="relu"))


def _flatten(graph: Graph, layer: _Layer, value: _Value) -> _Value:
    return replace(value, shape=(math.prod(value.shape),))


_STEPS: dict[type, Callable[[Graph, _Layer, _Value], _Value]] = {
    Linear: _linear,
    Conv2d: _conv2d,
    MaxPool2d: _max_pool,
    ReLU: _relu,
    Flatten: _flatten,
}
