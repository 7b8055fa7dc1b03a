"""Rows out of a torch DataLoader."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader

from bitvec.arrays import Array
from bitvec.errors import InputError


def gathered(loader: DataLoader[Any]) -> tuple[Array, Array, Array | None]:
    """Return all rows of a loader that yields (X, y) or (X, y, sample_weight), as it yields them.

    A tree looks at all rows at once: each has its place in it, and cuts are scanned exactly.

    Raises
    ------
    InputError
        If it yields anything else, or nothing.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> rows = TensorDataset(torch.eye(3), torch.arange(3))
    >>> [part.shape for part in gathered(DataLoader(rows, batch_size=2))[:2]]
    [(3, 3), (3,)]
    """
    batches = []
    for item in loader:
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
            raise InputError(
                "a loader must yield (X, y) or (X, y, sample_weight), got "
                f"{type(item).__name__}: pass one of them."
            )
        batches.append([_numbers(part) for part in item])
    if not batches or len({len(batch) for batch in batches}) > 1:
        raise InputError(
            "a loader must yield at least one batch, and weights with each or with none, got "
            f"{len(batches)} batches: fill it."
        )
    columns = list(zip(*batches, strict=True))
    if len({part.shape[1:] for part in columns[0]}) > 1:
        shapes = sorted({part.shape[1:] for part in columns[0]})
        raise InputError(f"a loader must yield rows of one shape, got {shapes}.")
    X, y, *weight = (np.concatenate(parts) for parts in columns)
    return X.reshape(len(X), -1), y, weight[0] if weight else None


def _numbers(part: Any) -> Array:
    numbers = part.detach().cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)
    return np.atleast_1d(numbers)
