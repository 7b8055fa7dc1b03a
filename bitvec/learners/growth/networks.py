"""Network nodes: s = σ(γ (θ · φ(z) + bias)), where φ is a network of the node's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bitvec.converters.native.sparse_rows import sum_in_order
from bitvec.core.arrays import Array
from bitvec.core.feature_maps import Conv2d, Flatten, Layers, Linear, MaxPool2d, ReLU
from bitvec.core.shape_annotations import Float64
from bitvec.learners.growth.cuts import Cuts
from bitvec.learners.growth.level import Level, Unit, Units
from bitvec.learners.growth.stump_test import Rule, exact_cut
from bitvec.learners.growth.targets import Target
from bitvec.runtime.predict.cpu.layer_kernels import compiled
from bitvec.runtime.train.relax.feature_modules import quick_images

Draw = Callable[[np.random.Generator], Layers]
"""Draws the start of a node's φ, over standardised columns; layers and shapes are always the same.
"""
ROWS_AT_ONCE = 2048
"""Rows of which φ is evaluated at a time; a row's φ does not depend on the rows around it."""


@dataclass(frozen=True, slots=True, eq=False)
class NetworkRule:
    """The margin θ · φ(x), which is compared with −bias.

    Parameters
    ----------
    phi : Layers
        Over raw columns.
    theta : float64, (width,)
    """

    phi: Layers
    theta: Float64[Array, " width"]

    def margins(self, X: Float64[Array, "batch n_features"]) -> Float64[Array, " batch"]:
        """Return θ · φ(x), products added from left to right."""
        reads, phi = np.flatnonzero(self.theta), compiled(self.phi, X.dtype)
        found = np.empty(len(X))
        for at in range(0, len(X), ROWS_AT_ONCE):
            Z = phi(X[at : at + ROWS_AT_ONCE])
            found[at : at + ROWS_AT_ONCE] = sum_in_order(Z[:, reads] * self.theta[reads])
        return found


class NetworkTests:
    """Networks of a level.

    Parameters
    ----------
    maps : list of list of Layers
        By restart and node.
    theta : float32, (n_restarts, n_nodes, width + 1)
        θ over φ; the bias last.
    """

    def __init__(self, maps: list[list[Layers]], theta: Tensor) -> None:
        self.maps, self.theta = maps, theta.requires_grad_()
        self.weights: list[dict[str, Tensor]] = []
        for number, layer in enumerate(maps[0][0].layers):
            names = [name for name in ("weight", "bias") if getattr(layer, name, None) is not None]
            self.weights.append({name: self._stacked(number, name) for name in names})
        layers = [part for each in self.weights for part in each.values()]
        self.parameters: tuple[Tensor, ...] = (self.theta, *layers)

    def _stacked(self, layer: int, name: str) -> Tensor:
        stacked = np.stack(
            [np.stack([getattr(phi.layers[layer], name) for phi in row]) for row in self.maps]
        )
        made = torch.from_numpy(stacked.astype(np.float32)).to(self.theta.device)
        return made.requires_grad_()

    @property
    def numbers_of_a_row(self) -> int:
        """The most numbers that a layer makes of a row, in all restarts."""
        phi = self.maps[0][0]
        sizes, shape = [phi.n_inputs], phi.input_shape
        for layer in phi.layers:
            shape = layer.output_shape(shape)
            sizes.append(int(np.prod(shape)))
        return max(sizes) * len(self.maps)

    def margins(self, Z: Tensor, node: Tensor) -> Tensor:
        """Return θ · [φ(z); 1] of blocks of rows: (n_restarts, n_blocks, block)."""
        R, phi = len(self.maps), self.maps[0][0]
        value = Z[..., :-1].reshape(1, *Z.shape[:2], *phi.input_shape)
        for layer, weights in zip(phi.layers, self.weights, strict=True):
            value = _STEPS[type(layer)](layer, value, weights, node)
        value = value.flatten(3).expand(R, -1, -1, -1)
        theta = self.theta[:, node]
        dot = torch.einsum("rnbp,rnp->rnb", value, theta[..., :-1])
        return dot + theta[..., -1:]

    @torch.no_grad()
    def center(self, by: Tensor, scale: Tensor) -> None:
        """Turn every margin m into (m − by) / scale."""
        self.theta[..., -1] -= by
        self.theta /= scale[..., None]

    def rule(self, restart: int, node: int, units: Units) -> NetworkRule:
        """Return φ over raw columns, and θ."""
        layers: list[Any] = list(self.maps[0][0].layers)
        for at, weights in enumerate(self.weights):
            now = {
                name: part[restart, node].detach().cpu().numpy().astype(np.float64)
                for name, part in weights.items()
            }
            if now:
                layers[at] = replace(layers[at], **now)
        first = first_with_weights(layers)
        shape = self.maps[0][0].input_shape
        if first is not None:
            layers[first] = _folded(layers[first], node, units)
            if isinstance(layers[first], Linear):  # what is flattened before it is flat in X
                layers, shape = layers[first:], (units.n_features,)
        theta = self.theta[restart, node, :-1].detach().cpu().numpy().astype(np.float64)
        return NetworkRule(Layers(tuple(layers), shape), theta)


def _folded(layer: Any, node: int, units: Units) -> Any:
    """Return a first layer that reads raw columns."""
    bias = np.zeros(len(layer.weight)) if layer.bias is None else layer.bias
    if isinstance(layer, Linear):
        both = units.fold(node, np.concatenate([layer.weight, bias[:, None]], axis=1))
        return Linear(np.ascontiguousarray(both[:, :-1]), np.ascontiguousarray(both[:, -1]))
    weight = layer.weight / units.spread[node, 0]
    shift = weight.sum(axis=(1, 2, 3)) * units.center[node, 0]
    return replace(layer, weight=weight, bias=bias - shift)


def first_with_weights(layers: Sequence[Any]) -> int | None:
    """Return which layer reads standardised columns; None where something else comes first."""
    for number, layer in enumerate(layers):
        if isinstance(layer, Linear | Conv2d):
            return number
        if not isinstance(layer, Flatten):
            return None
    return None


@dataclass(frozen=True, slots=True)
class Network:
    """The kind of a network node.

    Parameters
    ----------
    draw_map : callable
        Draws φ.
    """

    draw_map: Draw

    @property
    def unit(self) -> Unit:
        """Columns for a linear layer, one unit for the pixels of a convolution."""
        layers = self.draw_map(np.random.default_rng(0)).layers
        number = first_with_weights(layers)
        if number is None:
            return "none"
        layer = layers[number]
        if isinstance(layer, Linear):
            return "column"
        assert isinstance(layer, Conv2d)
        return "scale" if any(layer.padding) else "node"  # padding is 0 of raw pixels too

    @property
    def pace(self) -> float:
        """Networks learn at a tenth of the rate of linear nodes."""
        return 0.1

    def draw(
        self, generators: Sequence[np.random.Generator], level: Level, restarts: int
    ) -> NetworkTests:
        """Draw φ, and the direction of θ uniformly from the sphere."""
        drawn = [[self.draw_map(each) for _ in range(restarts)] for each in generators]
        maps = [[row[r] for row in drawn] for r in range(restarts)]
        width = maps[0][0].n_features
        theta = np.zeros((restarts, len(generators), width + 1), np.float32)
        for j, generator in enumerate(generators):
            direction = generator.standard_normal((restarts, width))
            length = np.linalg.norm(direction, axis=-1, keepdims=True)
            theta[:, j, :-1] = direction / np.maximum(length, 1e-30)
        return NetworkTests(maps, torch.from_numpy(theta).to(level.Z.device))

    def finish(
        self, rule: Rule, X: Float64[Array, "n_rows n_features"], target: Target, weight: Array
    ) -> tuple[Rule, Cuts]:
        """Return the rule and its best cut."""
        return rule, exact_cut(rule, X, target, weight)


# What a layer makes of (1 or n_restarts, n_blocks, block, ...), with weights of
# (n_restarts, n_nodes, ...).


def _linear(layer: Linear, x: Tensor, weights: dict[str, Tensor], node: Tensor) -> Tensor:
    made = x @ weights["weight"][:, node].transpose(-1, -2)
    return made + weights["bias"][:, node, None] if "bias" in weights else made


def _conv2d(layer: Conv2d, x: Tensor, weights: dict[str, Tensor], node: Tensor) -> Tensor:
    """Blocks of a node stand together: one convolution for each restart and node."""
    edges = torch.nonzero(node.diff())[:, 0] + 1
    runs = list(pairwise([0, *edges.tolist(), len(node)]))
    weight, bias = weights["weight"], weights.get("bias")
    made = [
        torch.cat(
            [
                functional.conv2d(
                    quick_images(x[min(r, len(x) - 1), a:b].flatten(0, 1)),
                    weight[r, node[a]],
                    None if bias is None else bias[r, node[a]],
                    layer.stride,
                    layer.padding,
                )
                for a, b in runs
            ]
        )
        for r in range(len(weight))
    ]
    stacked = torch.stack(made)
    return stacked.reshape(len(made), *x.shape[1:3], *stacked.shape[2:])


def _max_pool(layer: MaxPool2d, x: Tensor, weights: dict[str, Tensor], node: Tensor) -> Tensor:
    pooled = functional.max_pool2d(x.flatten(0, 2), layer.kernel, layer.step, layer.padding)
    return pooled.reshape(*x.shape[:3], *pooled.shape[1:])


_STEPS: dict[type, Callable[[Any, Tensor, dict[str, Tensor], Tensor], Tensor]] = {
    Linear: _linear,
    Conv2d: _conv2d,
    MaxPool2d: _max_pool,
    ReLU: lambda layer, x, weights, node: x.relu(),
    Flatten: lambda layer, x, weights, node: x.flatten(3),
}
