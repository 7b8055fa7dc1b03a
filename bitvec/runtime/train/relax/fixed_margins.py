"""Margins of nodes whose rows of S stay as they are, for all rows of a batch or for some pairs."""

from __future__ import annotations

from dataclasses import dataclass

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
    passes_hard: Tensor | None
    is_simple: bool
    learned: MarginRows | None


def fixed_block(
    tests: NodeTests,
    scale: Array,
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
    scale : float64, (n_nodes,)
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
        torch.tensor(hard, device=device)[:, None] if hard.any() else None,
        not hard.any() and bool(tests.is_one_hot.all()) and moderate,
        margin_rows(tests, sentinel, device) if learned else None,
    )


def margins(
    block: FixedBlock, rows: Rows, dtype: torch.dtype, *, decided: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return m of the forest's own thresholds, where it passes hard, and h.

    Returns
    -------
    float, bool, bool, (n_nodes, batch)
        Hard is None where nothing passes so; h is None with it, unless `decided` asks for h.
    """
    tests = block.tests
    if block.is_simple and rows.plain and not decided:
        z = rows.raw.index_select(0, tests.feature)
        return ((z - tests.b[:, None]) / block.scale).to(dtype), None, None
    if block.learned is None:
        z, right, undefined = decide(tests, rows.raw, block.node)
    else:
        z, undefined, right = feature_margins.margins(block.learned, rows.raw)
    margin = ((z - tests.b[:, None]) / block.scale).to(dtype)
    hard = undefined | ~(margin.abs() < torch.inf)
    if block.passes_hard is not None:
        hard = hard | block.passes_hard
    return torch.where(hard, 0.0, margin), hard, right


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
    margin = ((z - tests.b[node]) / block.scale[node, 0]).to(dtype)
    hard = undefined | ~margin.isfinite()
    if block.passes_hard is not None:
        hard = hard | block.passes_hard[node, 0]
    return torch.where(hard, 0.0, margin), hard, right
