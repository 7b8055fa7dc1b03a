"""Torch modules that compute φ(X): networks, maps side by side, stacked forests, maps of arrays.

They are made by `feature_layers`, which also reads them back.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.feature_maps import StackedForest
from bitvec.core.features import FeatureMap
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.train.relax.dtypes import OfDtype
from bitvec.runtime.train.relax.tracing import is_traced, sums


class HardMap(OfDtype):
    """Any feature map as it is, without gradient."""

    def __init__(self, feature_map: FeatureMap, dtype: torch.dtype) -> None:
        super().__init__(dtype)
        self.feature_map = feature_map

    def forward(self, X: Tensor) -> Tensor:
        """Return φ(X).

        Raises
        ------
        UnsupportedModelError
            If torch traces the map, or would lose a gradient.
        """
        if is_traced() or (X.requires_grad and torch.is_grad_enabled()):
            self.refuse()
        value = self.feature_map(X.detach().cpu().numpy())
        return torch.tensor(value, dtype=self.dtype, device=X.device)

    def refuse(self) -> None:
        """Raise UnsupportedModelError: torch follows no map of arrays."""
        raise UnsupportedModelError(
            "a feature map in front of a soft forest must be Layers, TorchMap, Identity or a "
            "Concatenate of them to be traced, exported or to pass a gradient, got "
            f"{type(self.feature_map).__name__}: let it move (trainable=('phi', ...)), or pass "
            "X.detach() to the module itself."
        )


class Passed(OfDtype):
    """Identity, in the dtype of the module."""

    def forward(self, X: Tensor) -> Tensor:
        return X.to(self.dtype)


def quick_images(x: Tensor) -> Tensor:
    """Return images, (n, n_channels, height, width), as convolutions that are trained read them.

    On a CPU torch has the gradient of the weights in a third of the time where one channel is laid
    out as channels last.
    """
    trained = torch.is_grad_enabled() and not is_traced()
    if trained and x.ndim == 4 and x.shape[1] == 1 and x.device.type == "cpu":
        return x.to(memory_format=torch.channels_last)
    return x


class Network(OfDtype):
    """Layers, row by row; a row that is not finite gives no gradient, for 0 · NaN is NaN."""

    def __init__(
        self, make: Callable[[], nn.Module], input_shape: tuple[int, ...], dtype: torch.dtype
    ) -> None:
        super().__init__(dtype)
        self._make, self.body, self.input_shape = make, make(), input_shape

    def starts(self) -> dict[str, Tensor]:
        held = self._make().named_parameters()
        return {f"body.{name}": value.detach().to(torch.float64) for name, value in held}

    def forward(self, X: Tensor) -> Tensor:
        held = chain(self.body.parameters(), self.body.buffers(), [self.like])
        rows = X.to(next(tensor.dtype for tensor in held if tensor.is_floating_point()))
        if not torch.is_grad_enabled():
            return self._run(rows)
        finite = (rows.abs() < torch.inf).all(dim=1)
        if is_traced():
            value = self._run(torch.where(finite[:, None], rows, 0.0))
            return torch.where(finite[:, None], value, self._run(rows).detach())
        if bool(finite.all()):
            return self._run(rows)
        with torch.no_grad():
            value = self._run(rows)
        at = torch.nonzero(finite)[:, 0]
        return value.index_copy(0, at, self._run(rows[at]))

    def _run(self, rows: Tensor) -> Tensor:
        images = rows.reshape(rows.shape[0], *self.input_shape)
        value: Tensor = self.body(quick_images(images))
        return value.flatten(1).to(self.dtype)


class Joined(nn.Module):
    """Maps side by side."""

    def __init__(self, maps: list[nn.Module]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(maps)

    def forward(self, X: Tensor) -> Tensor:
        return torch.cat([part(X) for part in self.maps], dim=1)


class SoftStack(OfDtype):
    """[x; u] or [x; sum over a tree's leaves of u · v for each tree]."""

    tree_of_leaf: Tensor

    def __init__(self, phi: StackedForest, soft: nn.Module, dtype: torch.dtype) -> None:
        super().__init__(dtype)
        self.soft, self.values = soft, phi.values
        self.n_trees = phi.forest.n_trees
        count = np.diff(phi.forest.bitvectors.leaf_ptr)
        tree = torch.tensor(np.repeat(np.arange(self.n_trees), count))
        self.register_buffer("tree_of_leaf", tree, persistent=False)

    def forward(self, X: Tensor) -> Tensor:
        soft: Any = self.soft
        u: Tensor = soft.memberships(X).to(self.dtype)
        if not self.values:
            return torch.cat([X.to(self.dtype), u], dim=1)
        vectors: Tensor = soft.leaf_vectors().to(self.dtype)
        means = [sums(u.T * v[:, None], self.tree_of_leaf, self.n_trees) for v in vectors.unbind(1)]
        total = torch.stack(means, dim=2)
        return torch.cat([X.to(self.dtype), total.transpose(0, 1).flatten(1)], dim=1)
