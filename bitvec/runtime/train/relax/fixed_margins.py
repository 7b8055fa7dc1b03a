"""Margins of nodes whose rows of S stay as they are, for all rows of a batch or for some pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.node_tests import Kind, NodeTests
from bitvec.runtime.predict.torch.outcomes import DeviceTests, decide, to_device
from bitvec.runtime.train.relax import feature_margins
from bitvec.runtime.train.relax.feature_margins import MarginRows, margin_rows
from bitvec.runtime.train.relax.soft_rows import LARGEST_PLAIN, Rows


@dataclass(frozen=True, slots=True, eq=False)
class FixedBlock:
    """Nodes whose rows of S stay as they are, in level order.

    Parameters
    ----------
    tests : DeviceTests
    node : int64, (n_nodes,)
        0 ... n_nodes − 1.
    scale : F, (n_nodes, 1)
        Margin scales, in the forest's dtype.
    cut : F, (n_nodes, 1), or None where all are 0
    unit : float64, (n_nodes, 2)
        Margin scales and cuts: a threshold that has moved by b is b · scale − cut further.
    passes_hard : bool, (n_nodes, 1), or None where none does
        Set and equality tests, and others that are to pass as 0 or 1.
    is_simple : bool
        Whether every node compares one column with a moderate threshold, and none passes hard.
    learned : MarginRows, optional
        With it, margins are differentiable in the columns.
    """

    tests: DeviceTests
    node: Tensor
    scale: Tensor
    cut: Tensor | None
    unit: Tensor
    passes_hard: Tensor | None
    is_simple: bool
    learned: MarginRows | None

    def from_threshold(self, z: Tensor, node: Tensor | slice = slice(None)) -> Tensor:
        """Return z less the soft thresholds, in units of the margins."""
        b, scale = self.tests.b[node], self.scale[node]
        cut = None if self.cut is None else self.cut[node]
        if z.ndim == 2:
            b = b[:, None]
        else:
            scale, cut = scale[:, 0], None if cut is None else cut[:, 0]
        margin = z - b
        return (margin if cut is None else margin + cut) / scale


def fixed_block(
    tests: NodeTests,
    scale: Array,
    cut: Array,
    passes_hard: Array,
    sentinel: float | None,
    device: torch.device,
    *,
    learned: bool,
) -> FixedBlock:
    """Return a block of fixed rows.

    Parameters
    ----------
    tests : NodeTests
        Of the block's nodes, in level order.
    scale, cut : float64, (n_nodes,)
        See `Scaling`.
    passes_hard : bool, (n_nodes,)
        Nodes that pass hard beside set and equality tests.
    sentinel : float, optional
        The forest's `inputs.missing_sentinel`.
    learned : bool
        Whether columns have a gradient.
    """
    hard = passes_hard | (tests.kind == Kind.SET) | (tests.kind == Kind.EQUAL)
    with np.errstate(invalid="ignore"):
        moderate = bool(np.all(np.abs(tests.b) <= LARGEST_PLAIN))
    return FixedBlock(
        to_device(tests, sentinel, device),
        torch.arange(tests.n_nodes, device=device),
        torch.tensor(scale.astype(tests.dtype), device=device)[:, None],
        torch.tensor(cut.astype(tests.dtype), device=device)[:, None] if cut.any() else None,
        torch.tensor(np.stack([scale, cut], axis=1), device=device),
        torch.tensor(hard, device=device)[:, None] if hard.any() else None,
        not hard.any() and bool(tests.is_one_hot.all()) and moderate,
        margin_rows(tests, sentinel, device) if learned else None,
    )


def margins(
    block: FixedBlock, rows: Rows, b: Tensor, *, decided: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return m of the forest's own thresholds, where it passes hard, and h.

    Parameters
    ----------
    b : float, (n_nodes,)
        How far thresholds have moved: h is that of the thresholds that hardening gives.

    Returns
    -------
    float, bool, bool, (n_nodes, batch)
        Hard is None where nothing passes so; h is None with it, unless `decided` asks for h.
    """
    tests, dtype = block.tests, b.dtype
    if block.is_simple and rows.plain and not decided:
        z = rows.raw.index_select(0, tests.feature)
        return block.from_threshold(z).to(dtype), None, None
    if block.learned is None:
        z, right, undefined = decide(tests, rows.raw, block.node)
    else:
        z, undefined, right = feature_margins.margins(block.learned, rows.raw)
    if decided:
        right = _hard_outcomes(block, rows.raw.detach(), b)
    margin = block.from_threshold(z).to(dtype)
    hard = undefined | ~(margin.abs() < torch.inf)
    if block.passes_hard is not None:
        hard = hard | block.passes_hard
    return torch.where(hard, 0.0, margin), hard, right


@torch.no_grad()
def _hard_outcomes(block: FixedBlock, Zt: Tensor, b: Tensor) -> Tensor:
    """Return h of the thresholds that hardening gives, (n_nodes, batch)."""
    # Exported graphs take what `to` leaves as it is in here for b itself, which lost its gradient.
    b, own = b.detach(), block.tests.b
    shift = b.to(torch.float64) * block.unit[:, 0] - block.unit[:, 1]
    hardened = torch.where(b == 0, own, (own.to(torch.float64) + shift).to(own.dtype))
    if block.learned is not None:
        moved = replace(block.learned, tests=replace(block.learned.tests, b=hardened))
        return feature_margins.margins(moved, Zt)[2]
    return decide(replace(block.tests, b=hardened), Zt, block.node)[1]


def pair_margins(
    block: FixedBlock, rows: Rows, dtype: torch.dtype, *, node: Tensor, at: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return m of the forest's own thresholds, where it passes hard, and h for pairs.

    Parameters
    ----------
    node, at : int64, (n_pairs,)
        Nodes of the block, and rows of the batch.
    """
    tests = block.tests
    z, right, undefined = decide(tests, rows.raw, node, at)
    margin = block.from_threshold(z, node).to(dtype)
    hard = undefined | ~margin.isfinite()
    if block.passes_hard is not None:
        hard = hard | block.passes_hard[node, 0]
    return torch.where(hard, 0.0, margin), hard, right
