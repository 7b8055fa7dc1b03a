"""Margins of a relaxed forest as a tracer can follow them: no gradient, no branch on values."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bitvec.core.node_tests import MissingRule
from bitvec.runtime.export.onnx.soft.fixed import FixedNodes, Found
from bitvec.runtime.export.onnx.soft.traceable import hold, softplus, sums
from bitvec.runtime.train.relax.dense_margins import DenseBlock
from bitvec.runtime.train.relax.dense_rows import RowParameters
from bitvec.runtime.train.relax.tree_blocks import BlockParameters, TreeBlock


class DenseNodes(nn.Module):
    """Nodes whose rows of S are dense over standardised columns, as they are now.

    Parameters
    ----------
    block : DenseBlock
    parameters : RowParameters
        In the block's order.
    b : float, (n_nodes,)
    shift : float, (n_columns,)
        Center over spread of the columns.
    rules : list of MissingRule
        Those of the copies of columns.
    """

    S: Tensor
    start: Tensor
    patterns: Tensor
    b: Tensor
    missing_right: Tensor
    node: Tensor | None
    order: Tensor | None
    pattern: Tensor
    plain: Tensor | None
    offset: Tensor | None
    softplus: Tensor | None
    r: Tensor | None

    def __init__(
        self,
        block: DenseBlock,
        parameters: RowParameters,
        b: Tensor,
        shift: Tensor,
        rules: list[MissingRule],
    ) -> None:
        super().__init__()
        n_rows, n_columns = parameters.S.shape
        every = torch.arange(n_rows)
        by_rule = [every if part.rows is None else part.rows for part in block.rules]
        self.parts = [
            (rules.index(part.rule) * n_columns, len(own))
            for part, own in zip(block.rules, by_rule, strict=True)
        ]
        self.n_columns = n_columns
        stands = torch.cat(by_rule)
        blocks = torch.cat([part.blocks for part in block.rules])
        patterns, pattern = torch.unique(blocks, dim=0, return_inverse=True)
        start = torch.where(block.centred, 0.0, parameters.S @ shift)
        self.is_plain = block.plain is None
        shaped = not self.is_plain
        hold(
            self,
            S=parameters.S[stands],
            start=start[stands][:, None],
            b=b[:, None],
            missing_right=block.missing_right,
            order=None if bool((stands == every).all()) else torch.argsort(stands),
            patterns=patterns,
            pattern=pattern,
            node=block.node[:, None] if shaped else None,
            plain=block.plain[:, None] if block.plain is not None else None,
            offset=parameters.offset[:, None] if shaped else None,
            softplus=block.softplus[:, None] if shaped else None,
            r=parameters.r[:, None] if shaped else None,
        )
        self.n_nodes = len(block.n_rows)

    def forward(self, standard: Tensor, absent: Tensor) -> Found:
        """Return margins, where they pass hard, and h there.

        Parameters
        ----------
        standard, absent : float and bool, (n_rules · n_columns, batch)
            Standardised columns, 0 where missing, and where they are.
        """
        value, first, missing = [], 0, []
        for begin, n_rows in self.parts:
            rows, lines = slice(first, first + n_rows), slice(begin, begin + self.n_columns)
            value.append(self.S[rows] @ standard[lines])
            hits = self.patterns.to(standard.dtype) @ absent[lines].to(standard.dtype)
            missing.append((hits > 0).index_select(0, self.pattern[rows]))
            first += n_rows
        m, gone = torch.cat(value) + self.start, torch.cat(missing)
        if self.order is not None:
            m, gone = m.index_select(0, self.order), gone.index_select(0, self.order)
        if self.node is not None:
            m, gone = self._shaped(m), sums(gone.to(m.dtype), self.node, self.n_nodes) > 0
            m = sums(m, self.node, self.n_nodes)
        m = m - self.b
        return m, gone, self.missing_right.expand(gone.shape)

    def _shaped(self, value: Tensor) -> Tensor:
        assert self.plain is not None
        assert self.softplus is not None
        assert self.offset is not None
        assert self.r is not None
        moved = value - self.offset
        moved = torch.where(self.softplus, softplus(moved), moved)
        return torch.where(self.plain, value, self.r * moved)


class NodeMargins(nn.Module):
    """Margins of all nodes in level order.

    Parameters
    ----------
    block : TreeBlock
        Of all trees.
    parameters : BlockParameters
    shift : float, (n_columns,)
    rules : list of MissingRule
        Those of the copies of columns.
    n_columns : int
    decided : bool
        Whether h is wanted everywhere.
    """

    b: Tensor | None
    stands: Tensor | None
    accepts_equal: Tensor
    untouched: Tensor

    def __init__(
        self,
        block: TreeBlock,
        parameters: BlockParameters,
        shift: Tensor,
        rules: list[MissingRule],
        *,
        n_columns: int,
        decided: bool,
    ) -> None:
        super().__init__()
        self.decided = decided
        b, rows = parameters.b, parameters.rows
        self.fixed = self.dense = None
        if block.fixed is not None:
            self.fixed = FixedNodes(block.fixed, rules, n_columns)
        if block.dense is not None:
            assert rows is not None
            self.dense = DenseNodes(block.dense, rows, b[block.dense_at], shift, rules)
        both = self.fixed is not None and self.dense is not None
        moved = b[block.fixed_at]
        hold(
            self,
            b=moved[:, None] if bool((moved != 0).any()) else None,
            stands=block.stands if both else None,
            accepts_equal=block.accepts_equal,
            untouched=block.is_fixed & (b == 0)[:, None],
        )

    def forward(
        self, readable: Tensor, standard: Tensor, absent: Tensor, dtype: torch.dtype
    ) -> Found:
        """Return margins in `dtype`, where they pass hard, and h."""
        found: list[Found] = []
        if self.dense is not None:
            found.append(self.dense(standard, absent))
        if self.fixed is not None:
            value, hard, right = self.fixed(readable, dtype)
            found.append((value if self.b is None else value - self.b, hard, right))
        value, hard, right = found[0]
        if self.stands is not None:
            value, hard, right = (
                torch.cat(pair).index_select(0, self.stands) for pair in zip(*found, strict=True)
            )
        if self.decided:
            turned = (value > 0) | ((value == 0) & self.accepts_equal)
            given = hard | self.untouched
            right = (given & right) | (~given & turned)
        return value, hard, right
