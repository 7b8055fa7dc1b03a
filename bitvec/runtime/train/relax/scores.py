"""Scores of leaves whose largest is the exit leaf, as sums of one term per turn on the path.

A score that adds the same to every leaf of a tree has the same softmax and the same projection onto
the simplex, so each is written with the term of the exit leaf's own turns taken off: what is left
are the losses of wrong turns. In this form leaves without a loss score exactly 0, in floating point
too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bitvec.runtime.train.relax.path_layout import PathLayout, path_sum

EPSILON = 0.5
"""eps of the index-sensitive sparsemax: any value in (0, 1) keeps the first maximum first."""
STEEPEST = 1e30
"""Beyond this gamma a temperature stays as it is, so that no product overflows to 0 · inf."""

FARTHEST = 1e15
"""Steep margins are held to this before an activation, whose square then fits float32."""

Share = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Score:
    """A score of leaves.

    Parameters
    ----------
    turns : callable
        Steep margins gamma · m, (n_nodes, batch), gamma and a gate to (n_nodes, 2, batch): what a
        left and a right turn at each node add.
    of_leaves : callable
        The sums along the paths, (n_leaves, batch), to scores.
    wrong_left, wrong_right : float
        What a turn against a hard test adds: left though h = 1, right though h = 0.
    """

    turns: Callable[[Tensor, float, Share], Tensor]
    of_leaves: Callable[[Tensor, PathLayout], Tensor]
    wrong_left: float = -torch.inf
    wrong_right: float = -torch.inf


def scores(
    kind: str,
    gate: Share,
    layout: PathLayout,
    steep: Tensor,
    hard: Tensor | None,
    right: Tensor | None,
    gamma: float,
) -> Tensor:
    """Return the scores of leaves, (n_leaves, batch), in float32 or float64.

    Parameters
    ----------
    kind : str
        A name in `SCORES`.
    steep : float, (n_nodes, batch)
        gamma · m in level order.
    hard, right : bool, (n_nodes, batch), optional
        Where a test passes as 0 or 1, and which.
    """
    score = SCORES[kind]
    turns = score.turns(steep, min(gamma, STEEPEST), gate)
    if hard is not None and right is not None:
        zero = turns.new_zeros(())
        sides = (
            torch.where(right, score.wrong_left, zero),
            torch.where(right, zero, score.wrong_right),
        )
        turns = torch.where(hard[:, None], torch.stack(sides, dim=1), turns)
    total = path_sum(turns, layout)
    if total.dtype == torch.bfloat16:  # a threshold among scores needs more digits than their sums
        total = total.float()
    return score.of_leaves(total, layout)


def _two_sided(steep: Tensor, gamma: float, gate: Share) -> Tensor:
    # B · relu(m) + B⁻ · relu(−m): a wrong turn loses |m|.
    return torch.stack((-steep, steep), dim=1).clamp_max(0)


def _ternary(steep: Tensor, gamma: float, gate: Share) -> Tensor:
    # D(2s − 1) − depth: a turn of share s' loses 2 (1 − s'). Its hard gaps are 2, so gamma also
    # divides the temperature; else softmax would not tend to one leaf.
    return -2 * gamma * torch.stack((gate(steep), gate(-steep)), dim=1)


def _bitvector(steep: Tensor, gamma: float, gate: Share) -> Tensor:
    # B · σ: a true test takes its σ from the leaves to its left.
    left = -gate(steep.clamp(-FARTHEST, FARTHEST))
    return torch.stack((left, torch.zeros_like(left)), dim=1)


def _as_they_are(total: Tensor, layout: PathLayout) -> Tensor:
    return total


def _per_depth(total: Tensor, layout: PathLayout) -> Tensor:
    return total / layout.leaf_depth.clamp_min(1).to(total.dtype)[:, None]


def _indexed(total: Tensor, layout: PathLayout) -> Tensor:
    # (B · σ − (eps / L) · l) / T with T = eps / L, the largest temperature that is one-hot for
    # 0/1 tests: neighbouring leaves are then 1 apart.
    tree = layout.tree_of_leaf
    n_leaves = torch.diff(layout.leaf_ptr)[tree]
    number = torch.arange(layout.n_leaves, device=total.device) - layout.leaf_ptr[tree]
    scaled = total * (n_leaves.to(total.dtype) / EPSILON)[:, None]
    return scaled - number.to(total.dtype)[:, None]


SCORES: dict[str, Score] = {
    "two_sided": Score(_two_sided, _as_they_are),
    "ternary": Score(_ternary, _as_they_are),
    "ternary_per_depth": Score(_ternary, _per_depth),
    "bitvector": Score(_bitvector, _indexed, -1.0, 0.0),
}
"""`two_sided`, B·relu(m) + B⁻·relu(−m) (the encoding of DTSemNet, for trees of any shape);
`ternary`, D(2s − 1) − depth, and `ternary_per_depth`, D(2s − 1) / depth (Eq. (8) of Zhang 2021);
`bitvector`, B·σ − (eps / L) · l in units of eps / L (Eq. (9))."""
