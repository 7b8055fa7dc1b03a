"""The units in which a soft forest computes: columns and margins in standard deviations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array, unique_integers
from bitvec.core.forest import Forest
from bitvec.core.node_tests import MissingRule, NodeTests, Relation
from bitvec.core.shape_annotations import Bool, Float, Float64
from bitvec.runtime.predict.cpu import plain_walks
from bitvec.runtime.predict.torch.node_rules import is_missing, missing_flags
from bitvec.runtime.predict.torch.outcomes import decide, to_device
from bitvec.runtime.train.relax.moments import LARGEST, column_units
from bitvec.runtime.train.relax.path_layout import PathLayout

FLOOR = 0.01
"""Smallest margin scale, in units of the length of the node's row over standardised columns."""
BLOCK = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Units of a soft forest's columns and margins.

    Parameters
    ----------
    center, spread : float64, (n_columns,)
        Mean and standard deviation of each column that S reads.
    margin : float64, (n_nodes,)
        Standard deviation of each node's margin over the rows that reach it.
    cut : float64, (n_nodes,)
        Distance that a soft threshold lies below b. Where values equal b, the soft threshold is
        halfway between these and the nearest value on the other side, so that a soft test tends to
        the hard one for them, too; elsewhere it is b.
    imputed : bool, (n_rules, n_columns)
        Columns that were missing somewhere, by missing rule: a row of S that turns dense reads
        their center in place of a missing value.
    limit : float
        Standardised values are clipped to ± this.
    measured : bool
        Whether all this is that of some rows.
    """

    center: Float[Array, " n_columns"]
    spread: Float[Array, " n_columns"]
    margin: Float[Array, " n_nodes"]
    cut: Float[Array, " n_nodes"]
    imputed: Bool[Array, "n_rules n_columns"]
    limit: float
    measured: bool


def unit(n_columns: int, n_nodes: int) -> Scaling:
    """Return the scaling that changes nothing."""
    return Scaling(
        np.zeros(n_columns),
        np.ones(n_columns),
        np.ones(n_nodes),
        np.zeros(n_nodes),
        np.zeros((len(MissingRule), n_columns), bool),
        1e15,
        measured=False,
    )


def measure(forest: Forest, Z: Array, device: torch.device) -> Scaling:
    """Measure the columns and the margins of a forest on rows, hard routing.

    Parameters
    ----------
    Z : F, (batch, n_columns)
        What S reads.
    """
    center, spread = column_units(Z)
    if plain_walks.compares_columns(forest):
        moments = plain_walks.PlainWalks(forest).moments(Z, LARGEST)
        by_node, cut = _deviation(moments), _gaps(forest, Z) / 2
    else:
        by_node, cut = _margin_moments(forest, Z, device)
    if forest.kernel is not None:  # whose answers are soft already
        cut = np.zeros_like(cut)
    floor = FLOOR * _row_length(forest.tests, spread)
    scale = np.maximum(by_node, floor)
    info = np.finfo(forest.dtype)  # margins are divided in the forest's dtype
    scale = np.where(scale > 0, np.clip(scale, info.tiny, info.max / 4), 1.0)
    values, sentinel = torch.tensor(Z, device=device), forest.inputs.missing_sentinel
    if sentinel is not None:
        sentinel = float(forest.dtype.type(sentinel))
    imputed = np.stack([_is_missing_somewhere(values, rule, sentinel) for rule in MissingRule])
    return Scaling(center, spread, scale, cut, imputed, 1e3, measured=True)


def _is_missing_somewhere(values: Tensor, rule: MissingRule, sentinel: float | None) -> Array:
    flags = {
        name: None if flag is None else torch.tensor(flag, device=values.device)
        for name, flag in missing_flags(np.array([rule])).items()
    }
    found: Array = is_missing(values, **flags, sentinel=sentinel).any(0).cpu().numpy()
    return found


def _gaps(forest: Forest, Z: Array) -> Float64[Array, " n_nodes"]:
    """Return how far the nearest value on the other side is from the values that equal b; else 0.

    The distance is signed as margins of values on the side of b are, and 0 where no value of its
    column equals b, or none lies on the other side.
    """
    tests = forest.tests
    found = np.zeros(tests.n_nodes)
    for column in unique_integers(tests.feature).tolist():
        node = np.flatnonzero(tests.feature == column)
        value = np.unique(Z[:, column][np.isfinite(Z[:, column])]).astype(np.float64)
        b = tests.b[node].astype(np.float64)
        first, behind = (np.searchsorted(value, b, side) for side in ("left", "right"))
        around = np.concatenate([[np.nan], value, [np.nan]])
        ties = tests.relation[node] == Relation.GREATER_EQUAL
        own = np.where(ties, b - around[first], b - around[behind + 1])
        found[node] = np.where((first < behind) & np.isfinite(own), own, 0.0)
    return found


def _deviation(moments: Float[Array, "3 n_nodes"]) -> Float[Array, " n_nodes"]:
    count, total, square = moments
    mean = total / np.maximum(count, 1)
    variance: Array = square / np.maximum(count, 1) - mean * mean
    return np.sqrt(np.maximum(variance, 0.0))


def _margin_moments(forest: Forest, Z: Array, device: torch.device) -> tuple[Array, Array]:
    """Return the deviation of each node's margin where it is reached, and its cut, (n_nodes,)."""
    layout = PathLayout(forest.bitvectors, device)
    order, n = layout.order.cpu().numpy(), layout.n_nodes
    tests = to_device(forest.tests.take(order), forest.inputs.missing_sentinel, device)
    moments = torch.zeros((3, n), dtype=torch.float64, device=device)
    node = torch.arange(n, device=device)
    side = torch.ones((n, 1), dtype=torch.float64, device=device)  # that which equals b comes to
    if tests.ties is None:
        side = -side
    else:
        side = torch.where(tests.ties[:, None], side, -side)
    is_tied = torch.zeros(n, dtype=torch.bool, device=device)
    other = torch.full((n,), torch.inf, dtype=torch.float64, device=device)
    step = max(1, BLOCK // max(n, 1))
    for start in range(0, len(Z) if n else 0, step):
        Zt = torch.tensor(np.ascontiguousarray(Z[start : start + step].T), device=device)
        z, right, undefined = decide(tests, Zt, node)
        margin = z.to(torch.float64) - tests.b.to(torch.float64)[:, None]
        finite = ~undefined & margin.isfinite()
        counted = layout.reached(right) & finite
        is_tied |= (finite & (margin == 0)).any(dim=1)
        away = torch.where(finite & (margin * side < 0), margin.abs(), torch.inf)
        other = torch.minimum(other, away.amin(dim=1))
        margin = torch.where(counted, margin.clamp(-LARGEST, LARGEST), 0.0)
        moments += torch.stack([counted.sum(1), margin.sum(1), (margin * margin).sum(1)])
    gap = torch.where(is_tied & (other < torch.inf), side[:, 0] * other / 2, 0.0)
    deviation, cut = np.empty((2, n))
    deviation[order], cut[order] = _deviation(moments.cpu().numpy()), gap.cpu().numpy()
    return deviation, cut


def _row_length(tests: NodeTests, spread: Array) -> Array:
    """Return sum over a node's rows of |r| · the length of the row over standardised columns."""
    row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))
    square = (tests.weight.astype(np.float64) * spread[tests.column]) ** 2
    length = np.sqrt(np.bincount(row, square, minlength=tests.n_rows))
    node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    r = np.abs(tests.r.astype(np.float64))
    result: Array = np.bincount(node, r * length, minlength=tests.n_nodes)
    return result
