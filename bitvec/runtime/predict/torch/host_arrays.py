"""Arrays of the host as tensors of a module, and tables of a CPU's tensors as arrays."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array


def as_array(tensor: Tensor) -> Array:
    """Return a tensor of the CPU as an array, with indices in the machine's word.

    NumPy would convert indices of another size at every call.
    """
    array: Array = tensor.numpy()
    return array.astype(np.intp) if array.dtype.kind == "i" else array


def register(module: nn.Module, **tables: Array | Tensor | None) -> None:
    """Hold tables as buffers of a module, by their names, which are None without one."""
    for name, table in tables.items():
        tensor = torch.tensor(table) if isinstance(table, np.ndarray) else table
        module.register_buffer(name, tensor)
