"""Memberships of leaves as a tracer can follow them: no gradient, no branch on values.

The numbers are those of `bitvec.runtime.train.relax.soft_leaves` up to rounding: a path product is
one multiplication per level and turn there and here, and a projection onto the simplex is found by
sorting here and by as many of Newton's steps as are needed there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bitvec.runtime.train.relax import gates, kernel_gate, leaf_maps
from bitvec.runtime.train.relax.paths import PathLayout
from bitvec.runtime.train.relax.relaxations import PRODUCT, Relaxation
from bitvec.runtime.train.relax.scores import SCORES, STEEPEST
from bitvec.runtime.train.relax.soft_leaves import Margins, Setting


def memberships(relaxation: Relaxation, margins: Margins, setting: Setting) -> Tensor:
    """Return u, (n_leaves, batch).

    Parameters
    ----------
    margins : Margins
        With `hard` and `right`.
    """
    if relaxation.leaf_map == PRODUCT:
        assert isinstance(relaxation.gate, str)
        turns = _TURNS[relaxation.gate](margins, setting)
        return along_paths(turns, setting.layout, torch.mul, 1.0)
    project = _PROJECTIONS[relaxation.leaf_map]
    return leaf_maps.per_tree(project, _scores(relaxation, margins, setting), setting.layout)


def along_paths(
    turns: Tensor,
    layout: PathLayout,
    combine: Callable[[Tensor, Tensor], Tensor],
    start: float,
) -> Tensor:
    """Return for each leaf what the turns on its path combine to, (n_leaves, batch).

    Parameters
    ----------
    turns : float, (n_nodes, 2, batch)
        In level order.
    start : float
        What a path without a turn has.
    """
    flat = turns.flatten(0, 1)
    root = turns.new_full((layout.n_trees, turns.shape[2]), start)
    slots, above, begin = [root], root, 0
    for level, (first, last) in enumerate(layout.levels):
        parent = layout.node_slot[first:last].repeat_interleave(2) - begin
        above = combine(above.index_select(0, parent), flat[2 * first : 2 * last])
        begin = layout.children(level)[0]
        slots.append(above)
    return torch.cat(slots).index_select(0, layout.leaf_slot)


def _steep(margins: Margins, setting: Setting) -> Tensor:
    assert margins.hard is not None
    assert margins.right is not None
    sure = torch.where(margins.right, torch.inf, -torch.inf).to(setting.dtype)
    return torch.where(margins.hard, sure, setting.gamma * margins.value)


def _sigmoid(margins: Margins, setting: Setting) -> Tensor:
    steep = _steep(margins, setting)
    return torch.stack((-steep, steep), dim=1).sigmoid()


def _smooth_step(margins: Margins, setting: Setting) -> Tensor:
    steep = _steep(margins, setting)
    return gates.smooth_step(torch.stack((-steep, steep), dim=1))


def _kernel(margins: Margins, setting: Setting) -> Tensor:
    assert setting.kernel is not None
    assert setting.raw is not None
    return kernel_gate.kernel_turns(
        setting.kernel, margins.value, margins.hard, margins.right, setting.raw, setting.gamma
    )


def _straight_through(margins: Margins, setting: Setting) -> Tensor:
    assert margins.right is not None
    return torch.stack((~margins.right, margins.right), dim=1).to(setting.dtype)


_TURNS: dict[str, Callable[[Margins, Setting], Tensor]] = {
    "sigmoid": _sigmoid,
    "noisy_or": _sigmoid,
    "smooth_step": _smooth_step,
    "kernel": _kernel,
    "straight_through": _straight_through,
}


def _scores(relaxation: Relaxation, margins: Margins, setting: Setting) -> Tensor:
    assert relaxation.score is not None
    assert margins.hard is not None
    assert margins.right is not None
    gate, score = relaxation.gate, SCORES[relaxation.score]
    if isinstance(gate, str):
        gate = (gates.SHARES | gates.ACTIVATIONS)[gate]
    turns = score.turns(setting.gamma * margins.value, min(setting.gamma, STEEPEST), gate)
    right = margins.right
    left_turn = torch.where(right, score.wrong_left, 0.0)
    right_turn = torch.where(right, 0.0, score.wrong_right)
    sides = torch.stack((left_turn, right_turn), dim=1).to(turns.dtype)
    turns = torch.where(margins.hard[:, None], sides, turns)
    return score.of_leaves(along_paths(turns, setting.layout, torch.add, 0.0), setting.layout)


def sparsemax(score: Tensor) -> Tensor:
    """Return the projection of `relax.sparsemax.sparsemax`, by sorting along axis 1 of three."""
    x = _below_largest(score)
    ranked, number = _ranked(x)
    excess = ranked.cumsum(dim=1) - 1
    tau = _at_support(excess / number, number * ranked > excess)
    rest = (x - tau).clamp_min(0)
    # One of Newton's steps: the module's last one, after which τ is exact.
    tau = tau + (rest.sum(dim=1, keepdim=True) - 1) / rest.sign().sum(dim=1, keepdim=True)
    return (x - tau).clamp_min(0)


def entmax15(score: Tensor) -> Tensor:
    """Return the projection of `relax.sparsemax.entmax15`, by sorting along axis 1 of three."""
    x = _below_largest(score, 0.5)
    ranked, number = _ranked(x)
    mean = ranked.cumsum(dim=1) / number
    spread = (ranked.square().cumsum(dim=1) / number - mean.square()).clamp_min(0)
    root = mean - (1 / number - spread).clamp_min(0).sqrt()
    tau = _at_support(root, root <= ranked)
    for _ in range(NEWTON_STEPS):
        rest = (x - tau).clamp_min(0)
        total = rest.sum(dim=1, keepdim=True)
        tau = tau + (rest.square().sum(dim=1, keepdim=True) - 1) / (2 * total)
    return (x - tau).clamp_min(0).square()


NEWTON_STEPS = 3
"""Of entmax, after sorting: the difference of two squares above has lost half of its digits."""


def _below_largest(score: Tensor, scale: float = 1.0) -> Tensor:
    """Return scores less the largest; those that are 1 below are outside of every support."""
    return (scale * (score - score.amax(dim=1, keepdim=True))).clamp_min(-1)


def _ranked(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return values falling along axis 1, and 1, 2, ... beside them."""
    ranked = x.sort(dim=1, descending=True).values
    number = torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device)
    return ranked, number[:, None]


def _at_support(tau: Tensor, inside: Tensor) -> Tensor:
    """Return τ of the largest support, which `inside` counts, along axis 1."""
    size = inside.to(torch.int64).sum(dim=1, keepdim=True)
    return tau.gather(1, size - 1)


_PROJECTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": leaf_maps.softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax15,
    "index_sparsemax": sparsemax,
}
