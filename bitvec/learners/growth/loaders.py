"""Rows out of a torch DataLoader."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from bitvec.core.arrays import Array
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
    batches: list[list[Array]] = []
    for item in loader:
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
            raise InputError(
                "a loader must yield (X, y) or (X, y, sample_weight), got "
                f"{type(item).__name__}: pass one of them."
            )
        batch = [_numbers(part) for part in item]
        if len({len(part) for part in batch}) > 1:
            sizes = ", ".join(str(len(part)) for part in batch)
            raise InputError(
                "a loader must yield as many labels or values, and weights, as rows in each batch, "
                f"got batch {len(batches)} of {sizes}: let each row have its own."
            )
        batches.append(batch)
    if not any(len(batch[0]) for batch in batches):
        raise InputError(
            f"a loader must yield at least one row, got {len(batches)} batches without: fill it."
        )
    if len({len(batch) for batch in batches}) > 1:
        n = sum(len(batch) == 3 for batch in batches)
        raise InputError(
            "a loader must yield weights with each batch or with none, got them with "
            f"{n} of {len(batches)}: yield 1 where nothing else is known."
        )
    columns = list(zip(*batches, strict=True))
    for name, parts in zip(("rows", "y", "weights"), columns, strict=False):
        if len({part.shape[1:] for part in parts}) > 1:
            shapes = ", ".join(map(str, sorted({part.shape[1:] for part in parts})))
            raise InputError(f"a loader must yield {name} of one shape, got {shapes} a row.")
    X, y, *weight = (np.concatenate(parts) for parts in columns)
    return X.reshape(len(X), -1), y, weight[0] if weight else None


def _numbers(part: Any) -> Array:
    try:
        if isinstance(part, Tensor):
            part = part.detach().cpu()
            part = (part.float() if part.dtype == torch.bfloat16 else part).numpy()
        return np.atleast_1d(np.asarray(part))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"a loader must yield dense tensors or arrays, got {type(part).__name__} that NumPy "
            f"cannot read: {error}."
        ) from None
