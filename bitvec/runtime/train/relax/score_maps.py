"""From the scores of a tree's leaves to memberships: softmax, sparsemax and 1.5-entmax.

Each maps axis 1 of three to the simplex. A score of −inf is outside of it; every slice must hold
one finite score.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bitvec.errors import InputError
from bitvec.runtime.train.relax.sparsemax import entmax15, sparsemax


def softmax(score: Tensor) -> Tensor:
    """Return exp(score) over its sum, along axis 1."""
    return torch.softmax(score, dim=1)


SCORE_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": softmax,
    "entmax": entmax15,
    "sparsemax": sparsemax,
}


def find(name: object) -> Callable[[Tensor], Tensor]:
    """Return a map by its name.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    if not isinstance(name, str) or name not in SCORE_MAPS:
        raise InputError(
            f"`score_map` must be one of {', '.join(SCORE_MAPS)}, got {name!r}: choose one."
        )
    return SCORE_MAPS[name]
