"""Arrays of the host as buffers of a torch module."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array


def register(module: nn.Module, **tables: Array | Tensor | None) -> None:
    """Hold tables as buffers of a module, by their names, which are None without one."""
    for name, table in tables.items():
        tensor = torch.tensor(table) if isinstance(table, np.ndarray) else table
        module.register_buffer(name, tensor)
