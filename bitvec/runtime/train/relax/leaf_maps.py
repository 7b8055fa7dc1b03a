"""Leaf maps: from the scores of a tree's leaves to memberships u >= 0 that sum to 1.

Each acts on every tree of a forest at once: trees whose sizes share a power of two stand side by
side, padded with −inf, so that padding at most doubles the work.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bitvec.errors import InputError
from bitvec.runtime.train.relax.path_layout import PathLayout
from bitvec.runtime.train.relax.sparsemax import entmax15, sparsemax
from bitvec.runtime.train.relax.tracing import merged

Projection = Callable[[Tensor], Tensor]


def softmax(score: Tensor) -> Tensor:
    """Return argmax over p in the simplex of p · score + H(p), H Shannon's, along axis 1 of three.

    Notes
    -----
    Eq. (9) of Zhang 2021, over scores whose maximum is unique.
    """
    return torch.softmax(score, dim=1)


def log_softmax(score: Tensor) -> Tensor:
    """Return the logarithm of `softmax`, not by way of it."""
    return torch.log_softmax(score, dim=1)


LEAF_MAPS: dict[str, Projection] = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "index_sparsemax": sparsemax,
}
"""Maps of scores; `index_sparsemax` is sparsemax of the indexed score, Eq. (9) of Zhang 2021:
argmin over p in the simplex of ||p − (B·σ − (eps / L) · l) / T||²."""


SCORE_MAPS: dict[str, Projection] = {
    "softmax": softmax,
    "entmax": entmax15,
    "sparsemax": sparsemax,
}
"""Maps of the scores of a decision machine, along axis 1 of three: −inf is outside of the simplex,
and every slice must hold one finite score."""


def score_map(name: object) -> Projection:
    """Return a map of `SCORE_MAPS` by its name.

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


def per_tree(project: Projection, score: Tensor, layout: PathLayout) -> Tensor:
    """Apply a map to the leaves of each tree.

    Parameters
    ----------
    project : callable
        Acts along axis 1 of (n_trees, size, batch), where −inf stands for no leaf.
    score : float, (n_leaves, batch)

    Returns
    -------
    float, (n_leaves, batch)
    """
    if layout.one_size is not None:
        shape = (layout.n_trees, layout.one_size, score.shape[1])
        return merged(project(score.reshape(shape)))
    parts = []
    for part in layout.size_classes:
        shape = (*part.outside.shape, score.shape[1])
        padded = score.index_select(0, part.leaf).view(shape)
        padded = padded.masked_fill(part.outside[:, :, None], -torch.inf)
        parts.append(merged(project(padded)).index_select(0, part.inside))
    return torch.cat(parts).index_select(0, layout.class_place)
