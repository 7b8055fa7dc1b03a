"""A feature map that is any torch module."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bitvec.core.arrays import FLOATS, Array
from bitvec.core.shape_annotations import Float
from bitvec.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class TorchMap:
    """φ(x) of any torch module: it runs, trains and exports with torch, and no file holds it.

    Parameters
    ----------
    module : torch.nn.Module
        From (batch, n_inputs) to (batch, n_features), each row by itself. A copy of it is kept, on
        the CPU and in evaluation mode.
    n_inputs, n_features : int

    Raises
    ------
    InputError
        If the module gives rows of zeros another shape.

    Notes
    -----
    X is cast to the dtype of the module's parameters and the result back to the dtype of X.
    """

    module: nn.Module
    n_inputs: int
    n_features: int

    def __post_init__(self) -> None:
        kept = copy.deepcopy(self.module).cpu().eval().requires_grad_(False)
        object.__setattr__(self, "module", kept)
        with torch.no_grad():
            shape = tuple(kept(torch.zeros((2, self.n_inputs), dtype=_dtype_of(kept))).shape)
        if shape != (2, self.n_features):
            raise InputError(
                f"the module must make {self.n_features} columns of {self.n_inputs}, got shape "
                f"{shape} of 2 rows: say its sizes, and flatten its output."
            )

    def __call__(self, X: Float[Array, "batch n_inputs"]) -> Float[Array, "batch n_features"]:
        """Return φ(X) in the dtype of X."""
        if X.ndim != 2 or X.shape[1] != self.n_inputs or X.dtype not in FLOATS:
            raise InputError(
                f"`X` must be float32 or float64 with {self.n_inputs} columns, got {X.dtype} of "
                f"shape {X.shape}: pass the columns that the feature map was built for."
            )
        with torch.no_grad():
            rows = torch.tensor(X).to(_dtype_of(self.module, X.dtype))
            value: Array = self.module(rows).numpy()
        return value.astype(X.dtype, copy=False)


def _dtype_of(module: nn.Module, otherwise: np.dtype = FLOATS[0]) -> torch.dtype:
    for parameter in module.parameters():
        return parameter.dtype
    return torch.float64 if otherwise == np.float64 else torch.float32
