"""Tables of a CPU's tensors as arrays."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from bitvec.core.arrays import Array


def as_array(tensor: Tensor) -> Array:
    """Return a tensor of the CPU as an array, with indices in the machine's word.

    NumPy would convert indices of another size at every call.
    """
    array: Array = tensor.numpy()
    return array.astype(np.intp) if array.dtype.kind == "i" else array
