"""Parts of traced modules: tensors under readable names, sums by group, softplus."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x)): the operator Softplus is missing for float64 in onnxruntime."""
    return x.clamp_min(0) + torch.log1p((-x.abs()).exp())


def sums(terms: Tensor, group: Tensor, n_groups: int) -> Tensor:
    """Return the sums of the terms of each group, (n_groups, batch), in their order."""
    total = terms.new_zeros((n_groups, terms.shape[1]))
    return total.scatter_add(0, group.expand(terms.shape), terms)


def hold(module: nn.Module, **tables: Tensor | None) -> None:
    """Store tensors under their names, which the file keeps."""
    for name, table in tables.items():
        module.register_buffer(name, table, persistent=False)
