"""Routing that visits only the pairs of a node and a row that a gate with exact zeros reaches.

A level's pairs are those children whose share is above 0; all other leaves have membership exactly
0, and gradient too. Cost: linear in the pairs, forward and backward.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bitvec.runtime.train.relax import gates
from bitvec.runtime.train.relax.node_margins import BlockParameters, pair_margins
from bitvec.runtime.train.relax.path_layout import PathLayout
from bitvec.runtime.train.relax.soft_rows import Rows
from bitvec.runtime.train.relax.tree_blocks import TreeBlock

FEW = 1 / 32
"""Reached share of all pairs up to which visiting them alone is faster, as measured on a CPU."""
PAIRS = 1 << 22
"""Pairs that are visited together."""
SAMPLE = 8
"""Rows of a batch on which that share is measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """The leaves that are reached.

    Parameters
    ----------
    row, leaf : int64, (n,)
        Rows of the batch, and leaves of the block.
    u : float, (n,)
    n_pairs : int
        Pairs of a node and a row that were visited.
    """

    row: Tensor
    leaf: Tensor
    u: Tensor
    n_pairs: int


def route(
    block: TreeBlock,
    parameters: BlockParameters,
    rows: Rows,
    shift: Tensor,
    *,
    gamma: float,
    dtype: torch.dtype,
) -> Reached:
    """Return the leaves that the smooth-step gate reaches, and their memberships.

    Parameters
    ----------
    dtype : torch.dtype
        In which gates and products are computed.
    """
    layout, batch = block.layout, len(rows)
    device = parameters.b.device
    slot = torch.arange(layout.n_trees, device=device).repeat_interleave(batch)
    row = torch.arange(batch, device=device).repeat(layout.n_trees)
    u = torch.ones(len(slot), dtype=dtype, device=device)
    found, n_pairs = [], 0
    while True:
        leaf = layout.leaf[slot]
        ends = torch.nonzero(leaf >= 0)[:, 0]
        found.append((row[ends], leaf[ends], u[ends]))
        on = torch.nonzero(leaf < 0)[:, 0]
        if len(on) == 0:
            break
        place, row, u = layout.place[slot[on]], row[on], u[on]
        n_pairs += len(place)
        value, hard, right = pair_margins(block.tests, parameters, rows, shift, place=place, at=row)
        steep = gamma * value
        if hard is not None and right is not None:
            steep = torch.where(hard, torch.where(right, torch.inf, -torch.inf), steep)
        turns = gates.smooth_turns(steep.to(dtype)[:, None])[:, :, 0]  # (n_pairs, 2)
        reached = turns.detach() > 0
        left, to_right = (torch.nonzero(reached[:, side])[:, 0] for side in (0, 1))
        slot = layout.n_trees + 2 * torch.cat((place[left], place[to_right]))
        slot[len(left) :] += 1
        row = torch.cat((row[left], row[to_right]))
        u = torch.cat((u[left] * turns[left, 0], u[to_right] * turns[to_right, 1]))
    parts = [torch.cat(part) for part in zip(*found, strict=True)]
    return Reached(parts[0], parts[1], parts[2], n_pairs)


def might_be_few(layout: PathLayout) -> bool:
    """Return whether twice the shortest paths would be few pairs, so that it pays to look."""
    return 2 * layout.least_visits <= FEW * layout.n_nodes


@torch.no_grad()
def visits(
    block: TreeBlock,
    parameters: BlockParameters,
    rows: Rows,
    shift: Tensor,
    *,
    gamma: float,
    dtype: torch.dtype,
) -> float:
    """Return how many nodes a row reaches, on the average of the first rows of the batch."""
    sample = rows.take(slice(0, SAMPLE))
    reached = route(block, parameters, sample, shift, gamma=gamma, dtype=dtype)
    return reached.n_pairs / max(len(sample), 1)
