"""Soft memberships u of the leaves: u >= 0, one sum of 1 per tree, the exit leaf as gamma grows.

A relaxation is a term for each turn at a node, summed along the paths, and a way to turn the sums
of a tree's leaves into memberships. The scores are those whose largest is the exit leaf: softmax of
B · h itself is not among them, because it tends to the uniform law over the maxima of B · h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bitvec.errors import InputError
from bitvec.runtime.torch.paths import PathLayout, path_sum
from bitvec.runtime.torch.sparsemax import sparsemax

EPSILON = 0.5
"""eps of the index-sensitive sparsemax: any value in (0, 1) keeps the first maximum first."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """How margins become memberships.

    Parameters
    ----------
    turns : callable
        gamma · m, (n_nodes, batch), and gamma to (n_nodes, 2, batch): what a left and a right turn
        add to the score of the leaves below. The right turn at a large margin adds 0.
    wrong_left, wrong_right : float
        What a turn against a hard test adds: left though h = 1, right though h = 0.
    normalise : callable
        Scores, (n_leaves, batch), to memberships, or to their logarithms.
    is_log : bool
        Whether `normalise` returns logarithms.
    """

    turns: Callable[[Tensor, float], Tensor]
    normalise: Callable[[Tensor, PathLayout], Tensor]
    is_log: bool
    wrong_left: float = -torch.inf
    wrong_right: float = -torch.inf


def memberships(
    relaxation: Relaxation,
    layout: PathLayout,
    margin: Tensor,
    hard: Tensor | None,
    right: Tensor,
    gamma: float,
) -> Tensor:
    """Return u, or log u where `relaxation.is_log`, (n_leaves, batch).

    Parameters
    ----------
    margin : float, (n_nodes, batch)
        In level order and finite, in units of each node's scale.
    hard : bool, (n_nodes, batch), optional
        Where a test passes as 0 or 1, without gradient; nowhere if not given.
    right : bool, (n_nodes, batch)
        h, read where `hard`.
    """
    turns = relaxation.turns(gamma * margin, gamma)
    if hard is not None:
        zero = turns.new_zeros(())
        fixed = torch.stack(
            [
                torch.where(right, relaxation.wrong_left, zero),
                torch.where(right, zero, relaxation.wrong_right),
            ],
            dim=1,
        )
        turns = torch.where(hard[:, None], fixed, turns)
    return relaxation.normalise(path_sum(turns, layout), layout)


def _sigmoid_turns(m: Tensor, gamma: float) -> Tensor:
    right = F.logsigmoid(m)
    return torch.stack([right - m, right], dim=1)


def _two_sided_turns(m: Tensor, gamma: float) -> Tensor:
    return torch.stack([-F.relu(m), -F.relu(-m)], dim=1)


def _ternary_turns(m: Tensor, gamma: float) -> Tensor:
    # D(2s − 1) − depth, one term per turn. Its hard gaps are 2, so gamma also divides the
    # temperature; otherwise softmax would not tend to one leaf.
    return -2 * gamma * torch.stack([torch.sigmoid(m), torch.sigmoid(-m)], dim=1)


def _index_turns(m: Tensor, gamma: float) -> Tensor:
    # B · s up to the sum of s over the tree, which no projection onto the simplex sees: each true
    # test takes its 1 from the leaves to its left.
    left = -torch.sigmoid(m)
    return torch.stack([left, torch.zeros_like(left)], dim=1)


def _identity(score: Tensor, layout: PathLayout) -> Tensor:
    return score


def _log_softmax(score: Tensor, layout: PathLayout) -> Tensor:
    if layout.n_trees == 1:
        return torch.log_softmax(score, dim=0)
    tree = layout.tree_of_leaf
    highest = score.new_full((layout.n_trees, score.shape[1]), -torch.inf)
    highest.scatter_reduce_(0, tree[:, None].expand_as(score), score.detach(), "amax")
    shifted = score - highest[tree]
    total = torch.zeros_like(highest).index_add(0, tree, shifted.exp())
    return shifted - total.log()[tree]


def _sparsemax(score: Tensor, layout: PathLayout) -> Tensor:
    result = torch.empty_like(score)
    padded = torch.cat([score, score.new_full((1, score.shape[1]), -torch.inf)])
    n_leaves = torch.diff(layout.leaf_ptr)
    # Trees whose sizes share a power of two are padded to one size, so padding at most doubles.
    size = torch.ceil(torch.log2(n_leaves.to(torch.float64)))
    for value in torch.unique(size):
        trees = torch.nonzero(size == value)[:, 0]
        widest = int(n_leaves[trees].max())
        number = torch.arange(widest, device=score.device)
        inside = number < n_leaves[trees][:, None]
        leaf = layout.leaf_ptr[trees][:, None] + number
        at = torch.where(inside, leaf, layout.n_leaves)
        result = result.index_put((leaf[inside],), sparsemax(padded[at])[inside])
    return result


def _index_sparsemax(score: Tensor, layout: PathLayout) -> Tensor:
    # (B · s − (eps / L) · l) / T with T = eps / L, the largest temperature that is one-hot for
    # 0/1 tests: neighbouring leaves are then 1 apart.
    tree = layout.tree_of_leaf
    n_leaves = torch.diff(layout.leaf_ptr)[tree]
    number = torch.arange(layout.n_leaves, device=score.device) - layout.leaf_ptr[tree]
    scaled = score * (n_leaves.to(score.dtype) / EPSILON)[:, None]
    return _sparsemax(scaled - number.to(score.dtype)[:, None], layout)


RELAXATIONS = {
    "sigmoid": Relaxation(_sigmoid_turns, _identity, True),
    "softmax": Relaxation(_two_sided_turns, _log_softmax, True),
    "softmax_ternary": Relaxation(_ternary_turns, _log_softmax, True),
    "sparsemax": Relaxation(_two_sided_turns, _sparsemax, False),
    "sparsemax_ternary": Relaxation(_ternary_turns, _sparsemax, False),
    "index_sparsemax": Relaxation(_index_turns, _index_sparsemax, False, -1.0, 0.0),
}
"""The relaxations by name: `sigmoid`, path products (each link on its own); `softmax` and
`sparsemax` over two-sided margins B·relu(m) + B⁻·relu(−m), or with `_ternary` over
D(2s − 1) − depth; `index_sparsemax`, Eq. (9) of Zhang 2021."""


def find(name: object) -> Relaxation:
    """Return a relaxation by its name.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    if not isinstance(name, str) or name not in RELAXATIONS:
        raise InputError(
            f"`relaxation` must be one of {', '.join(RELAXATIONS)}, got {name!r}: choose one."
        )
    return RELAXATIONS[name]
