"""The feature map φ in front of S as a torch module that a tracer can follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.feature_maps import Concatenate, Identity, Layers, StackedForest
from bitvec.core.features import FeatureMap
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.export.onnx.soft.traceable import hold, sums
from bitvec.runtime.train.relax import feature_layers
from bitvec.runtime.train.relax.torch_map import TorchMap


def fixed(feature_map: FeatureMap, dtype: torch.dtype) -> nn.Module:
    """Return a feature map that stays, in the dtype in which a forest reads X.

    Raises
    ------
    UnsupportedModelError
        If it is none of Identity, Layers, Concatenate of such, and TorchMap.
    """
    if isinstance(feature_map, Concatenate):
        return Joined([fixed(part, dtype) for part in feature_map.maps], dtype)
    if isinstance(feature_map, TorchMap):
        module = feature_map.module
        own = next((held.dtype for held in module.parameters()), dtype)
        return Network(module, (feature_map.n_inputs,), own)
    if isinstance(feature_map, Layers):
        made: Any = feature_layers.to_torch(feature_map, trainable=False, dtype=dtype)
        return Network(made.body, feature_map.input_shape, dtype)
    if isinstance(feature_map, Identity):
        return Joined([nn.Identity()], dtype)
    raise UnsupportedModelError(
        "a feature map in front of a soft model must be Layers, TorchMap, Identity or a "
        f"Concatenate of them to be exported, got {type(feature_map).__name__}: let it move "
        "(trainable=('phi', ...)), or predict with bitvec."
    )


def moving(
    feature_map: FeatureMap, module: Any, dtype: torch.dtype, trace: Callable[[Any], Any]
) -> nn.Module:
    """Return the module of a feature map that may move, as it is now.

    Parameters
    ----------
    module : nn.Module
        What `feature_layers.to_torch` made of the map.
    dtype : torch.dtype
        In which it computes.
    trace : callable
        From the `SoftForest` of a stacked forest to its `TracedForest`.
    """
    if isinstance(feature_map, Concatenate):
        parts = [
            moving(part, own, dtype, trace)
            for part, own in zip(feature_map.maps, module.maps, strict=True)
        ]
        return Joined(parts, dtype)
    if isinstance(feature_map, StackedForest):
        return SoftStack(feature_map, trace(module.soft), module.soft.leaf_vectors(), dtype)
    if isinstance(feature_map, Identity):
        return Joined([nn.Identity()], dtype)
    return Network(module.body, module.input_shape, dtype)


class Network(nn.Module):
    """Layers, row by row, in a dtype of their own."""

    def __init__(self, body: nn.Module, input_shape: tuple[int, ...], dtype: torch.dtype) -> None:
        super().__init__()
        self.body, self.input_shape, self.dtype = body, input_shape, dtype

    def forward(self, X: Tensor) -> Tensor:
        """Return φ(X), (batch, n_features)."""
        value: Tensor = self.body(X.to(self.dtype).reshape(-1, *self.input_shape))
        return value.flatten(1)


class Joined(nn.Module):
    """Maps side by side, in one dtype."""

    def __init__(self, maps: list[nn.Module], dtype: torch.dtype) -> None:
        super().__init__()
        self.maps, self.dtype = nn.ModuleList(maps), dtype

    def forward(self, X: Tensor) -> Tensor:
        """Return φ(X), (batch, n_features)."""
        return torch.cat([part(X).to(self.dtype) for part in self.maps], dim=1)


class SoftStack(nn.Module):
    """[x; u] or [x; sum over a tree's leaves of u · v for each tree], softly reached."""

    vectors: Tensor
    tree: Tensor

    def __init__(self, phi: StackedForest, soft: Any, vectors: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.soft, self.values, self.dtype = soft, phi.values, dtype
        B = phi.forest.bitvectors
        self.n_trees = B.n_trees
        tree = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
        hold(self, vectors=vectors.detach().to(dtype), tree=torch.tensor(tree)[:, None])

    def forward(self, X: Tensor) -> Tensor:
        """Return φ(X), (batch, n_features)."""
        u = self.soft.memberships(X).to(self.dtype)
        columns = [u.T]
        if self.values:
            means = [sums(u * one[:, None], self.tree, self.n_trees).T for one in self.vectors.T]
            columns = [torch.stack(means, dim=2).flatten(1)]
        return torch.cat([X.to(self.dtype), *columns], dim=1)
