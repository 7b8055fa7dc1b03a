"""Margins of nodes whose rows of S are dense, for all rows of a batch or for some pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.node_tests import MissingRule, NodeTests
from bitvec.runtime.predict.torch.outcomes import DeviceTests, decide, to_device
from bitvec.runtime.train.relax import feature_margins
from bitvec.runtime.train.relax.dense_rows import DenseRows, RowParameters
from bitvec.runtime.train.relax.feature_margins import MarginRows, margin_rows, softplus
from bitvec.runtime.train.relax.soft_rows import StandardColumns
from bitvec.runtime.train.relax.tracing import is_traced, once_differentiable, sums


@dataclass(frozen=True, slots=True, eq=False)
class RuleRows:
    """The rows that read missing values by one rule.

    Parameters
    ----------
    rule : MissingRule
    rows : int64, (n,), optional
        All rows if not given.
    patterns : bool, (n_patterns, n_columns)
        Columns whose missing values make a row missing that reads all columns.
    pattern : int64, (n,)
        That of each row.
    unweighted : bool, (n, n_columns), optional
        Columns that rows read by a weight of 0 in the forest, if there are any.
    """

    rule: MissingRule
    rows: Tensor | None
    patterns: Tensor
    pattern: Tensor
    unweighted: Tensor | None

    def missing(self, standard: StandardColumns, S: Tensor) -> Tensor | None:
        """Return where these rows of S, (n, n_columns), are missing, bool (n, batch), if any is."""
        if standard.missing is None:
            return None
        reads, absent = self._reads(S), standard.missing.to(S.dtype)
        if not is_traced() and bool(reads.all()):
            hits = self.patterns.to(S.dtype) @ absent
            return (hits > 0).index_select(0, self.pattern)
        return (reads & self.patterns.index_select(0, self.pattern)).to(S.dtype) @ absent > 0

    def blocks(self, S: Tensor, line: Tensor) -> Tensor:
        """Return the columns whose missing values make some of these rows of S missing."""
        return self._reads(S)[line] & self.patterns[self.pattern[line]]

    def _reads(self, S: Tensor) -> Tensor:
        """Return which columns rows read; a weight of 0, as where nothing has moved, reads none."""
        reads = S.detach() != 0
        return reads if self.unweighted is None else reads | self.unweighted


@dataclass(frozen=True, slots=True, eq=False)
class DenseBlock:
    """The dense rows of some trees, in the level order of their nodes.

    Parameters
    ----------
    order : int64, (n_rows,)
        Where each row stands among the block's rows in the forest's order.
    node : int64, (n_rows,)
        The node of each row, 0 ... n_nodes − 1; rising.
    first_row, n_rows : int64, (n_nodes,)
    centred, softplus : bool, (n_rows,)
    plain : bool, (n_rows,), or None where all are
    rules : list of RuleRows
    back : int64, (n_rows,), or None where all rows have one rule
        Where each row stands when those of one rule follow those of another.
    missing_right : bool, (n_nodes, 1)
    tests : DeviceTests
        The forest's own, by which a node that has not moved decides.
    learned : MarginRows, optional
        The same for tracers.
    start : RowParameters
        In the block's order, where the parameters started, float64; and `start_b`, (n_nodes,).
    """

    order: Tensor
    node: Tensor
    first_row: Tensor
    n_rows: Tensor
    centred: Tensor
    softplus: Tensor
    plain: Tensor | None
    rules: list[RuleRows]
    back: Tensor | None
    missing_right: Tensor
    tests: DeviceTests
    learned: MarginRows | None
    start: RowParameters
    start_b: Tensor


def dense_block(
    dense: DenseRows,
    nodes: Array,
    starts: dict[str, Tensor],
    tests: NodeTests,
    sentinel: float | None,
    device: torch.device,
    *,
    learned: bool,
) -> DenseBlock:
    """Return a block of dense rows.

    Parameters
    ----------
    nodes : int64, (n_nodes,)
        As positions in `dense.nodes`, in level order; those of a run of trees.
    starts : dict
        `dense.starts()`.
    tests : NodeTests
        Those of the nodes.
    sentinel : float, optional
        The forest's `inputs.missing_sentinel`.
    learned : bool
        Whether columns have a gradient, or are traced.
    """
    count = np.bincount(dense.row_node, minlength=dense.n_nodes)
    start = np.concatenate([[0], np.cumsum(count)])
    n_rows = count[nodes]
    first_row = np.cumsum(n_rows) - n_rows
    inside = np.arange(int(n_rows.sum())) - np.repeat(first_row, n_rows)
    row = np.repeat(start[nodes], n_rows) + inside
    rule_of_row = dense.rule_of_row[row]
    plain = dense.plain_row[row]

    def put(values: Array) -> Tensor:
        return torch.tensor(values, device=device)

    rules = []
    for rule in np.unique(rule_of_row):
        at = np.flatnonzero(rule_of_row == rule)
        every = len(at) == len(row)
        patterns, pattern = np.unique(dense.missing_columns(row[at]), axis=0, return_inverse=True)
        unweighted = dense.own[row[at]] & (dense.get_buffer("start_S").cpu().numpy()[row[at]] == 0)
        rules.append(
            RuleRows(
                MissingRule(int(rule)),
                None if every else put(at),
                put(patterns),
                put(pattern.ravel()),
                put(unweighted) if unweighted.any() else None,
            )
        )
    return DenseBlock(
        put(row - (start[nodes.min()] if len(nodes) else 0)),
        put(np.repeat(np.arange(len(nodes)), n_rows)),
        put(first_row),
        put(n_rows),
        put(dense.centred[row]),
        put(dense.softplus[row]),
        None if plain.all() else put(plain),
        rules,
        None if len(rules) == 1 else put(np.argsort(np.argsort(rule_of_row, kind="stable"))),
        put(dense.missing_right[nodes])[:, None],
        to_device(tests, sentinel, device),
        margin_rows(tests, sentinel, device) if learned else None,
        RowParameters(*(starts[name].to(device)[row] for name in RowParameters._fields)),
        put(dense.start_b[nodes]),
    )


def in_block_order(parameters: RowParameters, block: DenseBlock) -> RowParameters:
    """Put the parameters of a block's rows, in the forest's order, into the block's."""
    return RowParameters(*(part.index_select(0, block.order) for part in parameters))


@torch.no_grad()
def untouched(parameters: RowParameters, b: Tensor, block: DenseBlock) -> Tensor:
    """Return which nodes have rows and thresholds where they started, bool (n_nodes,)."""
    moved = b.new_zeros((len(block.order), 1))
    for now, start in zip(parameters, block.start, strict=True):
        moved = moved + (now != start.to(now.dtype)).reshape(len(now), -1).sum(1, keepdim=True)
    still = sums(moved, block.node, len(b))[:, 0] == 0
    return still & (b == block.start_b.to(b.dtype))


@torch.no_grad()
def exact_outcomes(block: DenseBlock, Zt: Tensor) -> Tensor:
    """Return h of the forest's own tests, (n_nodes, batch)."""
    if block.learned is not None:
        return feature_margins.margins(block.learned, Zt)[2]
    return decide(block.tests, Zt, torch.arange(len(block.n_rows), device=Zt.device))[1]


def _columns_by_rule(columns: list[StandardColumns]) -> dict[MissingRule, StandardColumns]:
    return {part.rule: part for part in columns}


def _offset(parameters: RowParameters, block: DenseBlock, shift: Tensor) -> Tensor:
    """Return what is added to S · (standardised columns), (n_rows,)."""
    return torch.where(block.centred, 0.0, parameters.S @ shift)


def margins(
    parameters: RowParameters,
    b: Tensor,
    block: DenseBlock,
    columns: list[StandardColumns],
    shift: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Return m = z − b in margin units, and where it is missing, if anywhere.

    Parameters
    ----------
    parameters : RowParameters
        In the block's order.
    b : float, (n_nodes,)
    shift : float, (n_columns,)
        Center over spread of the columns.

    Returns
    -------
    float and bool, (n_nodes, batch)
    """
    plain, by_rule = block.plain is None, _columns_by_rule(columns)
    start = _offset(parameters, block, shift)
    if plain:
        start = start - b
    values, absent = [], []
    for part in block.rules:
        standard, own, begin = by_rule[part.rule], parameters.S, start
        if part.rows is not None:
            own, begin = own.index_select(0, part.rows), begin.index_select(0, part.rows)
        values.append(torch.addmm(begin[:, None], own, standard.value))
        absent.append(part.missing(standard, own))
    value, missing = values[0], absent[0]
    if block.back is not None:
        value = torch.cat(values).index_select(0, block.back)
        if any(one is not None for one in absent):
            parts = zip(absent, values, strict=True)
            masks = [
                like.new_zeros(like.shape, dtype=torch.bool) if one is None else one
                for one, like in parts
            ]
            missing = torch.cat(masks).index_select(0, block.back)
    if plain:
        return value, missing
    n_nodes = len(block.n_rows)
    z = sums(_shaped(value, parameters, block, None), block.node, n_nodes)
    if missing is not None:
        missing = sums(missing.to(value.dtype), block.node, n_nodes) > 0
    return z - b[:, None], missing


def _shaped(
    value: Tensor, parameters: RowParameters, block: DenseBlock, row: Tensor | None
) -> Tensor:
    """Return r · activation(value − offset), or the value itself of a plain row.

    `row` names the row of each value; without it they are (n_rows, batch).
    """
    assert block.plain is not None

    def of(parts: Tensor) -> Tensor:
        return parts[:, None] if row is None else parts[row]

    moved = value - of(parameters.offset)
    moved = torch.where(of(block.softplus), softplus(moved), moved)
    return torch.where(of(block.plain), value, of(parameters.r) * moved)


class _PairDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, S: Tensor, columns: Tensor, row: Tensor, at: Tensor) -> Tensor:
        ctx.save_for_backward(columns, row, at)
        ctx.n_rows = S.shape[0]
        return (S.index_select(0, row) * columns.index_select(0, at)).sum(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        columns, row, at = ctx.saved_tensors
        terms = columns.index_select(0, at).mul_(grads[0][:, None])
        total = columns.new_zeros((ctx.n_rows, columns.shape[1]))
        return total.index_add_(0, row, terms), None, None, None


def pair_dot(S: Tensor, columns: Tensor, row: Tensor, at: Tensor) -> Tensor:
    """Return the products of rows of S, (n_rows, n), and of `columns`, (batch, n), for pairs.

    Differentiable in S, and keeps no product of a pair for that.
    """
    result: Tensor = _PairDot.apply(S, columns, row, at)  # type: ignore[no-untyped-call]
    return result


def pair_margins(
    parameters: RowParameters,
    b: Tensor,
    block: DenseBlock,
    columns: list[StandardColumns],
    shift: Tensor,
    *,
    node: Tensor,
    at: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Return m and where it is missing for pairs of a node and a row of the batch.

    Parameters
    ----------
    node, at : int64, (n_pairs,)
        Nodes of the block, and rows of the batch.

    Returns
    -------
    float and bool, (n_pairs,)
    """
    by_rule = _columns_by_rule(columns)
    row, pair = node, None
    if block.plain is not None:
        row, pair = _rows_of(node, block)
        at = at[pair]
    value = _offset(parameters, block, shift)[row]
    missing: Tensor | None = None
    for part in block.rules:
        standard, own = by_rule[part.rule], _of_rule(row, part, len(block.order))
        its_row, its_at = (row, at) if own is None else (row[own], at[own])
        dot = pair_dot(parameters.S, standard.value.T.contiguous(), its_row, its_at)
        value = value + dot if own is None else value.index_add(0, own, dot)
        if standard.missing is not None:
            line = its_row if part.rows is None else torch.searchsorted(part.rows, its_row)
            S = parameters.S if part.rows is None else parameters.S.index_select(0, part.rows)
            blocks = part.blocks(S, line)
            gone = (blocks & standard.missing.T[its_at]).any(dim=1)
            if missing is None:
                missing = torch.zeros(len(row), dtype=torch.bool, device=row.device)
            missing = gone if own is None else missing.index_copy(0, own, gone)
    if pair is not None:
        shaped = _shaped(value, parameters, block, row)
        value = value.new_zeros(len(node)).index_add(0, pair, shaped)
        if missing is not None:
            missing = value.new_zeros(len(node)).index_add(0, pair, missing.to(value.dtype)) > 0
    return value - b[node], missing


def _rows_of(node: Tensor, block: DenseBlock) -> tuple[Tensor, Tensor]:
    """Return the rows of S of nodes one after the other, and which of the nodes each belongs to."""
    count = block.n_rows[node]
    pair = torch.repeat_interleave(torch.arange(len(node), device=node.device), count)
    begin = block.first_row[node] - (torch.cumsum(count, 0) - count)
    return begin[pair] + torch.arange(len(pair), device=node.device), pair


def _of_rule(row: Tensor, part: RuleRows, n_rows: int) -> Tensor | None:
    """Return which of the rows read missing values by a rule; None if all do."""
    if part.rows is None:
        return None
    member = torch.zeros(n_rows, dtype=torch.bool, device=row.device)
    member[part.rows] = True
    return torch.nonzero(member[row])[:, 0]
