"""The kernel gate: the chance that x' around x turns left, given what the path says of its column.

x'_j = x_j + h_j · u has the distribution of the column's kernel. At a node of column j its
ancestors on the same column leave x'_j an interval, at whose ends F_j, its distribution function,
has the values lo and hi. Given the interval, (F_j(b) − lo) / (hi − lo) goes to the left, and the
interval of each child ends there. So the product over a path is the leaf-box product

    u_l(x) = prod over columns j of F_j(Hi_lj; x) − F_j(Lo_lj; x),

at a cost that is linear in nodes: a node looks at its nearest ancestor on its column only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.kernels import FeatureKernel
from bitvec.core.node_tests import Kind
from bitvec.core.structure import Bitvectors
from bitvec.runtime.train.relax.path_layout import PathLayout
from bitvec.runtime.train.relax.scaling import Scaling
from bitvec.runtime.train.relax.tracing import is_traced

HALF_WIDTH = 2.0
"""Half-width of the box kernel, in margin scales: its slope at 0 is then the sigmoid's 1/4."""
NARROWEST = 1e-30
"""An interval of less mass than this is reached by no row."""
FARTHEST = 1e15
"""Distances, in bandwidths, are held to this, far outside any kernel."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Nodes that have as many box ancestors on their own column, in level order.

    Parameters
    ----------
    place : int64, (n,)
    above : int64, (n,)
        Where each node's nearest ancestor on its column stands in the chain before; empty in the
        first, whose nodes have none.
    is_right : bool, (n,)
        Whether the node lies on the right of that ancestor.
    """

    place: Tensor
    above: Tensor
    is_right: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class OwnKernel:
    """The forest's own kernels as tables: one line for each box node, in level order.

    Parameters
    ----------
    feature : int64, (n_boxes,)
    unit : float64, (n_boxes,)
        The node's margin scale.
    edges : float64, (n_boxes, n_edges)
        Rising, +inf behind the last.
    level, slope, begin : float64, (n_boxes, n_edges + 1)
        F(u) = level + slope · (u − begin) between two edges.
    location : float64, (n_boxes, n_locations)
    bandwidth : float64, (n_boxes, n_locations + 1)
    """

    feature: Tensor
    unit: Tensor
    edges: Tensor
    level: Tensor
    slope: Tensor
    begin: Tensor
    location: Tensor
    bandwidth: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class KernelGate:
    """Tables of the kernel gate for some trees.

    Parameters
    ----------
    box, other : int64
        The places of nodes with a box and of those without one, in level order.
    back : int64, (n_nodes,)
        Where each node stands when `other` follow the chains.
    chains : list of Chain
    steepness : float64, (n_boxes,)
        Of the box kernel: F(b; x) = 1/2 − steepness · gamma · m, held in [0, 1].
    own : OwnKernel, optional
        With it, all other nodes pass hard, as in the forest's own soft prediction.
    """

    box: Tensor
    other: Tensor
    back: Tensor
    chains: list[Chain]
    steepness: Tensor
    own: OwnKernel | None


def box_nodes(forest: Forest) -> Array:
    """Return which nodes have boxes: bool, (n_nodes,).

    The kernel nodes of a forest with a prediction kernel; else all that compare one column with b.
    """
    tests = forest.tests
    if forest.kernel is not None:
        is_kernel: Array = tests.kind == Kind.KERNEL
        return is_kernel
    compares = (tests.kind == Kind.KERNEL) | (tests.kind == Kind.MARGIN)
    one_column: Array = compares & (tests.feature >= 0)
    return one_column


def steepnesses(forest: Forest, units: Scaling) -> Array:
    """Return for each node its margin scale over twice the half-width of its column's box.

    The half-width is `HALF_WIDTH` times the mean margin scale of the column's nodes: the product
    over leaf boxes needs one distribution for each column.
    """
    box = box_nodes(forest)
    feature, scale = forest.tests.feature[box], units.margin[box]
    result = np.ones(forest.n_nodes)
    if len(feature):
        total = np.bincount(feature, scale)
        count = np.maximum(np.bincount(feature), 1)
        result[box] = scale / (2 * HALF_WIDTH * (total / count)[feature])
    return result


def kernel_gate(
    forest: Forest, B: Bitvectors, nodes: slice, units: Scaling, layout: PathLayout
) -> KernelGate:
    """Return the gate of the trees whose bitvectors are B and whose nodes are forest's `nodes`."""
    device = layout.order.device
    order = layout.order.cpu().numpy()
    at = np.arange(forest.n_nodes)[nodes][order]
    is_box = box_nodes(forest)[at]
    feature = np.where(is_box, forest.tests.feature[at], -1)
    chains, chained = _chains(B, order, layout.levels, feature)
    box, other = np.flatnonzero(is_box), np.flatnonzero(~is_box)
    back = np.empty(len(at), np.int64)
    back[np.concatenate([*chained, other])] = np.arange(len(at))

    def put(values: Array) -> Tensor:
        return torch.tensor(values, device=device)

    number = np.cumsum(is_box) - 1
    return KernelGate(
        put(box),
        put(other),
        put(back),
        [
            Chain(put(number[place]), put(above), put(right))
            for place, (above, right) in zip(chained, chains, strict=True)
        ],
        put(steepnesses(forest, units)[at[box]]),
        None if forest.kernel is None else _own(forest, at[box], units, device),
    )


def _chains(
    B: Bitvectors, order: Array, levels: list[tuple[int, int]], feature: Array
) -> tuple[list[tuple[Array, Array]], list[Array]]:
    """Group the box nodes by their number of box ancestors on the same column."""
    parent, is_right = tree_paths.parents(B)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    parent = np.where(parent[order] >= 0, place[parent[order]], -1)
    is_right = is_right[order]
    above, side = parent.copy(), is_right.copy()
    climbing = np.flatnonzero((feature >= 0) & (above >= 0))
    while len(climbing):
        climbing = climbing[feature[above[climbing]] != feature[climbing]]
        side[climbing] = is_right[above[climbing]]
        above[climbing] = parent[above[climbing]]
        climbing = climbing[above[climbing] >= 0]
    rank = np.zeros(len(order), np.int64)
    for first, last in levels:
        level = np.arange(first, last)
        rank[level] = np.where(above[level] >= 0, rank[above[level]] + 1, 0)
    rank[feature < 0] = -1
    chains, chained = [], []
    stands = np.zeros(len(order), np.int64)
    for value in range(int(rank.max(initial=-1)) + 1):
        at = np.flatnonzero(rank == value)
        stands[at] = np.arange(len(at))
        chains.append((stands[above[at]] if value else np.zeros(0, np.int64), side[at]))
        chained.append(at)
    return chains, chained


def _own(forest: Forest, nodes: Array, units: Scaling, device: torch.device) -> OwnKernel:
    assert forest.kernel is not None
    feature = forest.tests.feature[nodes]
    kernels = [kernel for kernel in forest.kernel if kernel is not None]
    n_edges = max((kernel.edges.size for kernel in kernels), default=0)
    n_locations = max((kernel.location.size for kernel in kernels), default=0)
    columns = [
        _tables(kernel, n_edges, n_locations) if kernel is not None else None
        for kernel in forest.kernel
    ]
    blank = tuple(np.zeros((0, size)) for size in _sizes(n_edges, n_locations))
    found = [columns[column] for column in feature]
    tables = [np.stack(part) for part in zip(*found, strict=True)] if found else blank

    def put(values: Array) -> Tensor:
        return torch.tensor(values, device=device)

    return OwnKernel(
        put(feature.astype(np.int64)), put(units.margin[nodes]), *(put(table) for table in tables)
    )


def _sizes(n_edges: int, n_locations: int) -> tuple[int, ...]:
    return n_edges, n_edges + 1, n_edges + 1, n_edges + 1, n_locations, n_locations + 1


def _tables(kernel: FeatureKernel, n_edges: int, n_locations: int) -> tuple[Array, ...]:
    cumulative = np.concatenate([[0.0], np.cumsum(kernel.mass)])
    cumulative[-1] = 1.0
    lines = (
        kernel.edges,
        np.concatenate([[0.0], cumulative[:-1], [1.0]]),
        np.concatenate([[0.0], np.diff(cumulative) / np.diff(kernel.edges), [0.0]]),
        np.concatenate([[0.0], kernel.edges]),
        kernel.location,
        kernel.bandwidth,
    )
    fill = (np.inf, 1.0, 0.0, 0.0, np.inf, kernel.bandwidth[-1])
    return tuple(
        np.concatenate([line, np.full(size - len(line), value)])
        for line, value, size in zip(lines, fill, _sizes(n_edges, n_locations), strict=True)
    )


def left_mass(gate: KernelGate, margin: Tensor, raw: Tensor, gamma: float) -> Tensor:
    """Return F(b; x) = P(x' <= b) at the box nodes, (n_boxes, batch).

    Parameters
    ----------
    margin : float, (n_boxes, batch)
    raw : (n_columns, batch)
        What S reads.
    """
    if gate.own is None:
        steep = gamma * gate.steepness.to(margin.dtype)[:, None]
        return (0.5 - steep * margin).clamp(0, 1)
    own, dtype = gate.own, margin.dtype
    x = raw.index_select(0, own.feature).to(torch.float64).contiguous()
    place = _passed(own.location, x)
    h = own.bandwidth.gather(1, place).to(dtype)
    crisp = h == 0
    u = -gamma * own.unit.to(dtype)[:, None] * margin / torch.where(crisp, 1.0, h)
    u = u.clamp(-FARTHEST, FARTHEST)
    piece = _passed(own.edges.to(dtype), u.detach().contiguous())
    level, slope, begin = (
        table.to(dtype).gather(1, piece) for table in (own.level, own.slope, own.begin)
    )
    soft = (level + slope * (u - begin)).clamp(0, 1)
    return torch.where(crisp, (margin <= 0).to(dtype), soft)


def _passed(line: Tensor, value: Tensor) -> Tensor:
    """Return how many entries of each rising line are at most each value, (n_boxes, batch)."""
    if is_traced():  # exported graphs have no search
        return (line[:, :, None] <= value[:, None]).sum(dim=1)
    return torch.searchsorted(line, value, right=True)


def kernel_turns(
    gate: KernelGate,
    margin: Tensor,
    hard: Tensor | None,
    right: Tensor | None,
    raw: Tensor,
    gamma: float,
) -> Tensor:
    """Return the shares of the left and the right turn, (n_nodes, 2, batch).

    Nodes without a box pass by the sigmoid, or hard where the forest has a kernel of its own.

    Parameters
    ----------
    margin : float, (n_nodes, batch)
        In level order.
    hard, right : bool, (n_nodes, batch), optional
        A box node that passes hard bounds no interval.
    """
    if len(gate.box) == 0:
        steep = gamma * margin
        turns = torch.stack((-steep, steep), dim=1).sigmoid()
    else:
        mass = left_mass(gate, margin.index_select(0, gate.box), raw, gamma)
        passes = None if hard is None else hard.index_select(0, gate.box)
        parts = _conditional(gate.chains, mass, passes)
        if len(gate.other):
            steep = gamma * margin.index_select(0, gate.other)
            parts.append(torch.stack((-steep, steep), dim=1).sigmoid())
        turns = torch.cat(parts).index_select(0, gate.back)
    if hard is None or right is None:
        return turns
    fixed = torch.stack((~right, right), dim=1).to(turns.dtype)
    return torch.where(hard[:, None], fixed, turns)


def _conditional(chains: list[Chain], mass: Tensor, passes: Tensor | None) -> list[Tensor]:
    """Return the shares of the nodes of each chain, given the interval that the path leaves."""
    parts = []
    low_turn = high_turn = low = high = mass.new_zeros((0, mass.shape[1]))
    for number, chain in enumerate(chains):
        own = mass.index_select(0, chain.place)
        if number == 0:
            low, high = torch.zeros_like(own), torch.ones_like(own)
        else:
            # The bounds of a right child end at the ancestor's cut from below, of a left one from
            # above.
            is_right = chain.is_right[:, None]
            low, low_turn, high, high_turn = (
                bound.index_select(0, chain.above) for bound in (low, low_turn, high, high_turn)
            )
            low = torch.where(is_right, low_turn, low)
            high = torch.where(is_right, high, high_turn)
        cut = torch.minimum(torch.maximum(own, low), high)
        width = high - low
        reached = width > NARROWEST
        unit = torch.where(reached, width, 1.0)
        left = torch.where(reached, (cut - low) / unit, own.detach())
        other = torch.where(reached, (high - cut) / unit, 1 - own.detach())
        parts.append(torch.stack((left, other), dim=1))
        low_turn = high_turn = cut
        if passes is not None:
            hard = passes.index_select(0, chain.place)
            low_turn, high_turn = torch.where(hard, low, cut), torch.where(hard, high, cut)
    return parts
