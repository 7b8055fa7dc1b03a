"""The feature map φ in front of S as a torch module whose numbers may move, and the way back.

A module takes rows of X, (batch, n_inputs), in the dtype in which the forest reads them, and
returns φ(X), (batch, n_features), in the dtype in which the module computes. A row with a missing
or infinite value passes network layers without gradient, with the value that they give it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.feature_maps import (
    Concatenate,
    Conv2d,
    Flatten,
    Identity,
    Layers,
    Linear,
    MaxPool2d,
    ReLU,
    StackedForest,
)
from bitvec.core.feature_maps.layers import Layer
from bitvec.core.features import FeatureMap
from bitvec.core.forest import Forest
from bitvec.errors import InvalidForestError, UnsupportedModelError
from bitvec.runtime.predict.torch.unrounded import Unrounded
from bitvec.runtime.train.relax.feature_modules import (
    HardMap,
    Joined,
    Network,
    Passed,
    SoftStack,
)
from bitvec.runtime.train.relax.torch_map import TorchMap


class RelaxedForest(Protocol):
    """Interface of a relaxed forest inside of φ: a `SoftForest`."""

    def memberships(self, X: Any) -> Tensor:
        """Return u, (batch, n_leaves)."""
        ...

    def leaf_vectors(self) -> Tensor:
        """Return v, (n_leaves, width)."""
        ...


Relax = Callable[[Forest], nn.Module]
"""From a forest inside of φ to a `RelaxedForest`; what may move is its to say."""
Harden = Callable[[Any], Forest]
"""The way back."""


def to_torch(
    feature_map: FeatureMap,
    *,
    trainable: bool,
    dtype: torch.dtype = torch.float32,
    relax: Relax | None = None,
) -> nn.Module:
    """Return a feature map as a torch module.

    Parameters
    ----------
    feature_map : FeatureMap
        `Layers`, `Concatenate`, `Identity`, `StackedForest` or `TorchMap`; any other class only
        where nothing is trained, and then without gradient.
    trainable : bool
        Whether its parameters require a gradient. A `StackedForest` is hard where they do not, and
        else softly reached: memberships stand in the place of the one-hot exit leaves, and their
        mean vectors in the place of values.
    dtype : torch.dtype
        In which the module computes.
    relax : callable, optional
        Makes the `SoftForest` of a forest inside of a `StackedForest` that is trained.

    Raises
    ------
    UnsupportedModelError
        If the map cannot be trained.
    """
    kind = type(feature_map)
    if kind in _PARTS:
        return _PARTS[kind].make(feature_map, trainable, dtype, relax)
    if trainable:
        raise UnsupportedModelError(
            "a feature map that is trained must be one of "
            f"{', '.join(sorted(known.__name__ for known in _PARTS))}, got {kind.__module__}."
            f"{kind.__qualname__}: wrap its torch module as a TorchMap."
        )
    return HardMap(feature_map, dtype)


def from_torch(
    module: nn.Module, feature_map: FeatureMap, *, harden: Harden | None = None
) -> FeatureMap:
    """Return the feature map of a module that `to_torch` made, with the numbers that have moved.

    Parameters
    ----------
    feature_map : FeatureMap
        What the module was made of. Its numbers that have not moved keep their bits; where none
        has, it is returned itself.
    harden : callable, optional
        From the `SoftForest` of a `StackedForest` that was trained to its forest.

    Raises
    ------
    InvalidForestError
        If a number that has moved is not finite.
    """
    if isinstance(module, HardMap):
        return feature_map
    return _PARTS[type(feature_map)].read(module, feature_map, harden)


class FixedMap(Unrounded):
    """A feature map that stays, in front of a forest, of buffers in their own dtypes."""

    def __init__(self, feature_map: FeatureMap, dtype: torch.dtype) -> None:
        super().__init__()
        self.map, self.dtype = to_torch(feature_map, trainable=False, dtype=dtype), dtype
        for part in self.map.modules():
            for name, held in list(part.named_parameters(recurse=False)):
                delattr(part, name)
                part.register_buffer(name, held.detach())
            part._non_persistent_buffers_set.update(part._buffers)

    def forward(self, X: Tensor) -> Tensor:
        """Return φ(X), in the dtype in which the forest reads X."""
        value: Tensor = self.map(X)
        return value.to(self.dtype)


# One pair of functions per class of map: to a module, and back.


@dataclass(frozen=True, slots=True)
class _Part:
    make: Callable[[Any, bool, torch.dtype, Relax | None], nn.Module]
    read: Callable[[Any, Any, Harden | None], FeatureMap]


def _make_identity(
    phi: Identity, trainable: bool, dtype: torch.dtype, relax: Relax | None
) -> nn.Module:
    return Passed(dtype)


def _read_identity(module: Passed, phi: Identity, harden: Harden | None) -> FeatureMap:
    return phi


def _make_joined(
    phi: Concatenate, trainable: bool, dtype: torch.dtype, relax: Relax | None
) -> nn.Module:
    parts = [to_torch(part, trainable=trainable, dtype=dtype, relax=relax) for part in phi.maps]
    return Joined(parts)


def _read_joined(module: Joined, phi: Concatenate, harden: Harden | None) -> FeatureMap:
    parts = tuple(
        from_torch(part, old, harden=harden)
        for part, old in zip(module.maps, phi.maps, strict=True)
    )
    unmoved = all(part is old for part, old in zip(parts, phi.maps, strict=True))
    return phi if unmoved else Concatenate(parts)


def _make_stacked(
    phi: StackedForest, trainable: bool, dtype: torch.dtype, relax: Relax | None
) -> nn.Module:
    if not trainable:
        return HardMap(phi, dtype)
    if relax is None:
        raise UnsupportedModelError(
            "a stacked forest that is trained must be relaxed: pass `relax`, for example "
            "SoftForest.from_forest."
        )
    if phi.values and phi.forest.leaves.linear is not None:
        raise UnsupportedModelError(
            "a stacked forest whose values are trained must have constant leaves, got linear "
            "ones: stack its exit leaves with values=False."
        )
    return SoftStack(phi, relax(phi.forest), dtype)


def _read_stacked(module: SoftStack, phi: StackedForest, harden: Harden | None) -> FeatureMap:
    if harden is None:
        raise UnsupportedModelError(
            "a stacked forest that was trained must be hardened: pass `harden`."
        )
    forest = harden(module.soft)
    return phi if _same(forest, phi.forest) else StackedForest(forest, phi.values)


def _same(a: Any, b: Any) -> bool:
    """Return whether tests, leaves and base score are equal bit for bit."""
    pairs = [(getattr(a.tests, f.name), getattr(b.tests, f.name)) for f in fields(a.tests)]
    pairs += [(a.leaves.v, b.leaves.v), (a.output.base_score, b.output.base_score)]
    if a.leaves.linear is not None:
        pairs += [
            (getattr(a.leaves.linear, name), getattr(b.leaves.linear, name))
            for name in ("weight", "constant")
        ]
    return all(
        (x is None and y is None)
        or (x is not None and y is not None and x.tobytes() == y.tobytes())
        for x, y in pairs
    )


def _make_layers(
    phi: Layers, trainable: bool, dtype: torch.dtype, relax: Relax | None
) -> nn.Module:
    network = Network(partial(_body, phi), phi.input_shape, dtype)
    network.body.to(dtype).requires_grad_(trainable)
    return network


def _body(phi: Layers) -> nn.Module:
    return nn.Sequential(*(_LAYERS[type(layer)](layer) for layer in phi.layers))


def _read_layers(module: Network, phi: Layers, harden: Harden | None) -> FeatureMap:
    body: Any = module.body
    layers = tuple(_read_layer(now, old) for now, old in zip(body, phi.layers, strict=True))
    unmoved = all(now is old for now, old in zip(layers, phi.layers, strict=True))
    return phi if unmoved else replace(phi, layers=layers)


def _read_layer(module: nn.Module, layer: Layer) -> Layer:
    if not isinstance(layer, Linear | Conv2d):
        return layer
    changed = {}
    for name in ("weight", "bias"):
        old = getattr(layer, name)
        if old is None:
            continue
        now = getattr(module, name).detach().cpu()
        moved = (now != torch.tensor(old, dtype=now.dtype)).numpy()
        with np.errstate(over="ignore"):
            new = now.numpy().astype(old.dtype)
        if not np.all(np.isfinite(new[moved])):
            raise InvalidForestError(
                f"what has moved in `{name}` of a layer must be finite in {old.dtype} to be "
                "hardened, got NaN or infinity: lower the learning rate."
            )
        if moved.any():
            changed[name] = np.where(moved, new, old)
    return replace(layer, **changed) if changed else layer


def _linear(layer: Linear) -> nn.Module:
    n_out, n_in = layer.weight.shape
    return _filled(nn.Linear(n_in, n_out, bias=layer.bias is not None), layer)


def _conv2d(layer: Conv2d) -> nn.Module:
    n_out, n_in, *kernel = layer.weight.shape
    module = nn.Conv2d(
        n_in,
        n_out,
        (kernel[0], kernel[1]),
        layer.stride,
        layer.padding,
        bias=layer.bias is not None,
    )
    return _filled(module, layer)


def _filled(module: nn.Linear | nn.Conv2d, layer: Linear | Conv2d) -> nn.Module:
    module.weight = nn.Parameter(torch.tensor(layer.weight))
    if layer.bias is not None:
        module.bias = nn.Parameter(torch.tensor(layer.bias))
    return module


_LAYERS: dict[type, Callable[[Any], nn.Module]] = {
    Linear: _linear,
    Conv2d: _conv2d,
    MaxPool2d: lambda layer: nn.MaxPool2d(layer.kernel, layer.step, layer.padding),
    ReLU: lambda layer: nn.ReLU(),
    Flatten: lambda layer: nn.Flatten(),
}


def _make_torch(
    phi: TorchMap, trainable: bool, dtype: torch.dtype, relax: Relax | None
) -> nn.Module:
    network = Network(partial(copy.deepcopy, phi.module), (phi.n_inputs,), dtype)
    if trainable:
        network.body.to(dtype)
    network.body.requires_grad_(trainable)
    return network


def _read_torch(module: Network, phi: TorchMap, harden: Harden | None) -> FeatureMap:
    now, old = module.body.state_dict(), phi.module.state_dict()
    new = {}
    for name, value in old.items():
        moved = now[name].cpu() != value.to(now[name].dtype)
        if not bool(now[name].cpu()[moved].to(value.dtype).isfinite().all()):
            raise InvalidForestError(
                f"what has moved in `{name}` of the module must be finite in {value.dtype} to be "
                "hardened, got NaN or infinity: lower the learning rate."
            )
        if bool(moved.any()):
            new[name] = torch.where(moved, now[name].cpu().to(value.dtype), value)
    if not new:
        return phi
    changed = copy.deepcopy(phi.module)
    changed.load_state_dict({**old, **new})
    return TorchMap(changed, phi.n_inputs, phi.n_features)


_PARTS: dict[type, _Part] = {
    Identity: _Part(_make_identity, _read_identity),
    Concatenate: _Part(_make_joined, _read_joined),
    StackedForest: _Part(_make_stacked, _read_stacked),
    Layers: _Part(_make_layers, _read_layers),
    TorchMap: _Part(_make_torch, _read_torch),
}
