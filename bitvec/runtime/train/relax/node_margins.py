"""Margins of the nodes of a soft forest, for all rows of a batch or for pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Relation
from bitvec.core.shape_annotations import Int64
from bitvec.runtime.predict.torch.node_rules import select
from bitvec.runtime.train.relax import dense_margins, fixed_margins, kernel_gate
from bitvec.runtime.train.relax.dense_margins import DenseBlock, dense_block
from bitvec.runtime.train.relax.dense_rows import DenseRows, RowParameters
from bitvec.runtime.train.relax.fixed_margins import FixedBlock, fixed_block
from bitvec.runtime.train.relax.scaling import Scaling
from bitvec.runtime.train.relax.soft_leaves import Margins
from bitvec.runtime.train.relax.soft_rows import Rows
from bitvec.runtime.train.relax.tracing import is_traced

AT_EQUAL = 1e-6
"""Size that a margin of 0 counts as, in margin scales."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeBlock:
    """Nodes whose margins are computed together.

    Parameters
    ----------
    fixed, dense : FixedBlock, DenseBlock, optional
        Nodes whose rows of S stay, and nodes whose rows are dense; None where there is none.
    fixed_at, dense_at : int64
        Their places.
    stands : int64, (n_nodes,)
        Where each place stands when the fixed nodes follow the dense ones.
    accepts_equal : bool, (n_nodes, 1)
    at_equal : float, (n_nodes, 1), optional
        What a margin of 0 counts as, so that it is on the side of values equal to b. None where
        the forest has a kernel of its own, whose answers are soft already.
    """

    fixed: FixedBlock | None
    dense: DenseBlock | None
    fixed_at: Tensor
    dense_at: Tensor
    stands: Tensor
    accepts_equal: Tensor
    at_equal: Tensor | None


class BlockParameters(NamedTuple):
    """Moving parameters of a block: b in its order, rows of S in theirs, leaf vectors."""

    b: Tensor
    rows: RowParameters | None
    vectors: Tensor


def node_blocks(
    forest: Forest,
    dense: DenseRows | None,
    units: Scaling,
    *,
    with_kernel: bool,
    learned: bool,
    device: torch.device,
) -> Callable[[Int64[Array, " n_nodes"]], NodeBlock]:
    """Return what makes a block of some nodes of a forest, in the order that is given.

    Parameters
    ----------
    dense : DenseRows, optional
    units : Scaling
    with_kernel : bool
        Whether the gate is the kernel gate.
    learned : bool
        Whether columns have a gradient.
    """
    tests, sentinel = forest.tests, forest.inputs.missing_sentinel
    starts = None if dense is None else dense.starts()
    number = np.full(forest.n_nodes, -1)
    if dense is not None:
        number[dense.nodes] = np.arange(len(dense.nodes))
    passes_hard = np.zeros(forest.n_nodes, bool)
    if with_kernel and forest.kernel is not None:
        passes_hard = ~kernel_gate.box_nodes(forest)

    def put(values: Array) -> Tensor:
        return torch.tensor(values, device=device)

    def block(at: Int64[Array, " n_nodes"]) -> NodeBlock:
        is_dense = number[at] >= 0
        place_dense, place_fixed = np.flatnonzero(is_dense), np.flatnonzero(~is_dense)
        stands = np.empty(len(at), np.int64)
        stands[np.concatenate([place_dense, place_fixed])] = np.arange(len(at))
        own, fixed = at[place_dense], at[place_fixed]
        accepts_equal = put(tests.relation[at] == Relation.GREATER_EQUAL)[:, None]
        return NodeBlock(
            fixed_block(
                tests.take(fixed),
                units.margin[fixed],
                units.cut[fixed],
                passes_hard[fixed],
                sentinel,
                device,
                learned=learned,
            )
            if len(fixed)
            else None,
            dense_block(
                dense, number[own], starts, tests.take(own), sentinel, device, learned=learned
            )
            if dense is not None and starts is not None and len(own)
            else None,
            put(place_fixed),
            put(place_dense),
            put(stands),
            accepts_equal,
            torch.where(accepts_equal, AT_EQUAL, -AT_EQUAL) if forest.kernel is None else None,
        )

    return block


def margins(
    block: NodeBlock, parameters: BlockParameters, rows: Rows, shift: Tensor, *, decided: bool
) -> Margins:
    """Return the margins of a block; with `decided`, h everywhere.

    h is that of the hardened forest: exactly so where S stays or nothing of a node has moved,
    elsewhere in the arithmetic of margins.
    """
    found = with_zeros(block, parameters, rows, shift, decided=decided)
    return replace(found, value=_off_zero(found.value, block))


def with_zeros(
    block: NodeBlock, parameters: BlockParameters, rows: Rows, shift: Tensor, *, decided: bool
) -> Margins:
    """Return the same margins, those of 0 as they are."""
    b, right = parameters.b, None
    if block.dense is None:
        value, hard, right = _fixed(block, rows, b, decided=decided)
    else:
        assert parameters.rows is not None
        own = b if block.fixed is None else b.index_select(0, block.dense_at)
        value, hard = dense_margins.margins(parameters.rows, own, block.dense, rows.standard, shift)
        if decided:
            right = _dense_outcomes(block, parameters.rows, own, rows, value, hard)
        elif hard is not None:
            right = block.dense.missing_right.expand(value.shape)
        if block.fixed is not None:
            fixed = _fixed(block, rows, b.index_select(0, block.fixed_at), decided=decided)
            value, hard, right = _joined((value, hard, right), fixed, block.stands)
    return Margins(value, hard, right)


def _off_zero(value: Tensor, block: NodeBlock, place: Tensor | None = None) -> Tensor:
    """Return margins, 0 moved to the side that values equal to b come to, without gradient."""
    zero = value.detach() == 0
    if block.at_equal is None or not (is_traced() or bool(zero.any())):
        return value
    own = block.at_equal if place is None else block.at_equal[place, 0]
    return value + torch.where(zero, own.to(value.dtype), 0.0)


def _dense_outcomes(
    block: NodeBlock,
    parameters: RowParameters,
    b: Tensor,
    rows: Rows,
    value: Tensor,
    missing: Tensor | None,
) -> Tensor:
    """Return h of the nodes whose rows are dense, (n_nodes, batch)."""
    assert block.dense is not None
    equal = block.accepts_equal[block.dense_at]
    right = (value > 0) | ((value == 0) & equal)
    if missing is not None:
        right = select(missing, block.dense.missing_right.expand(value.shape), right)
    untouched = dense_margins.untouched(parameters, b, block.dense)
    if is_traced() or bool(untouched.any()):
        exact = dense_margins.exact_outcomes(block.dense, rows.raw.detach())
        right = select(untouched[:, None], exact, right)
    return right


Parts = tuple[Tensor, Tensor | None, Tensor | None]


def _fixed(block: NodeBlock, rows: Rows, b: Tensor, *, decided: bool) -> Parts:
    if block.fixed is None:  # trees of one leaf
        value = b[:, None].expand(-1, rows.raw.shape[1])
        return value, None, value > 0
    value, hard, right = fixed_margins.margins(block.fixed, rows, b, decided=decided)
    return value - b[:, None], hard, right


def _joined(dense: Parts, fixed: Parts, stands: Tensor) -> Parts:
    """Put the nodes of both kinds into level order."""
    value = torch.cat((dense[0], fixed[0])).index_select(0, stands)
    hard, right = (
        None if one is None and other is None else _cat(one, other, dense[0], fixed[0])[stands]
        for one, other in zip(dense[1:], fixed[1:], strict=True)
    )
    return value, hard, right


def _cat(one: Tensor | None, other: Tensor | None, like: Tensor, like_other: Tensor) -> Tensor:
    """Join two masks, either of which may be missing: nowhere true."""
    false = torch.zeros((), dtype=torch.bool, device=like.device)
    return torch.cat(
        (
            false.expand(like.shape) if one is None else one,
            false.expand(like_other.shape) if other is None else other,
        )
    )


def pair_margins(
    block: NodeBlock,
    parameters: BlockParameters,
    rows: Rows,
    shift: Tensor,
    *,
    place: Tensor,
    at: Tensor,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return m, where it passes hard, and h there, for pairs of a node and a row of the batch.

    Parameters
    ----------
    place, at : int64, (n_pairs,)
        Nodes in level order, and rows of the batch.
    """
    value, hard, right = _pairs(block, parameters, rows, shift, place, at)
    return _off_zero(value, block, place), hard, right


def _pairs(
    block: NodeBlock,
    parameters: BlockParameters,
    rows: Rows,
    shift: Tensor,
    place: Tensor,
    at: Tensor,
) -> Parts:
    b = parameters.b
    number = block.stands[place]
    n_dense = len(block.dense_at)
    if block.dense is None:
        assert block.fixed is not None
        value, hard, right = fixed_margins.pair_margins(
            block.fixed, rows, b.dtype, node=number, at=at
        )
        return value - b[place], hard, right
    assert parameters.rows is not None
    if block.fixed is None:
        return _dense_pairs(block, parameters.rows, b, rows, shift, number, at)
    is_dense = number < n_dense
    dense, fixed = torch.nonzero(is_dense)[:, 0], torch.nonzero(~is_dense)[:, 0]
    own = b.index_select(0, block.dense_at)
    of_dense = _dense_pairs(block, parameters.rows, own, rows, shift, number[dense], at[dense])
    value, hard, right = fixed_margins.pair_margins(
        block.fixed, rows, b.dtype, node=number[fixed] - n_dense, at=at[fixed]
    )
    of_fixed = (value - b[place[fixed]], hard, right)
    return _joined(of_dense, of_fixed, torch.argsort(torch.cat((dense, fixed))))


def _dense_pairs(
    block: NodeBlock,
    parameters: RowParameters,
    b: Tensor,
    rows: Rows,
    shift: Tensor,
    node: Tensor,
    at: Tensor,
) -> Parts:
    assert block.dense is not None
    value, missing = dense_margins.pair_margins(
        parameters, b, block.dense, rows.standard, shift, node=node, at=at
    )
    return value, missing, None if missing is None else block.dense.missing_right[node, 0]
