"""Compared columns by functional tensor operations alone, as compilers of graphs take them.

They are those that `compared_columns` lays out. All that decides is a buffer, and no step depends
on the values of rows. Sums of a row of S run in the order of storage: entries beyond a row's last
leave its sum as it is.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, CodeRule, Kind, MissingRule, NodeTests, Relation
from bitvec.core.softplus import POWERS
from bitvec.runtime.predict.torch.compared_columns import ComparedColumns
from bitvec.runtime.predict.torch.host_arrays import register
from bitvec.runtime.predict.torch.node_rules import (
    code_sets,
    entry,
    exceeds,
    in_sets,
    is_missing,
    missing_flags,
    softplus,
)


class HardColumns(nn.Module):
    """All compared columns of rows: (batch, n_features) to (batch, n_compared).

    Parameters
    ----------
    forest : Forest
    compared : ComparedColumns
    """

    order: Tensor

    def __init__(self, forest: Forest, compared: ComparedColumns) -> None:
        super().__init__()
        sentinel = forest.inputs.missing_sentinel
        if sentinel is not None:
            sentinel = float(forest.dtype.type(sentinel))
        parts: list[nn.Module] = [
            _Copies(c.columns, c.value, c.rule, sentinel, forest.n_features)
            for c in compared.copies
        ]
        for sets in compared.sets:
            rules = sets.rule, sets.code_rule
            parts.append(_TableSets(sets.table, sets.column, *rules, sentinel))
        decided = compared.decided
        self.n_compared, self.n_decided = compared.n_compared, decided.size
        groups = _alike(forest.tests, decided)
        for group in groups:
            is_set = forest.tests.kind[group[0]] == Kind.SET
            parts.append((_WordSets if is_set else _Margins)(forest.tests, group, sentinel))
        self.parts = nn.ModuleList(parts)
        self.only_nan = bool(parts) and all(
            isinstance(part, _Copies) and part.rule is MissingRule.NAN for part in parts
        )
        # Groups of decided nodes go back to the order in which they were laid out.
        order = np.arange(compared.n_compared)
        first = order.size - decided.size
        if groups:
            order[first:] = first + np.argsort(np.concatenate(groups))
        self.in_order = bool(np.all(order == np.arange(order.size)))
        register(self, order=order)

    def source(self) -> Tensor:
        """Return the columns of x that the compared ones copy, int64 (n_compared,)."""
        copied = [part.columns for part in self.parts if isinstance(part, _Copies)]
        return torch.cat([torch.arange(self.n_compared - sum(map(len, copied))), *copied])

    def are_copies(self, x: Tensor) -> bool:
        """Return whether a look at rows shows that compared columns are no more than copies.

        A sum is finite where no value is missing. NumPy's takes no threads.
        """
        if not self.only_nan:
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            return math.isfinite(np.add.reduce(x.detach().numpy(), axis=None))

    def forward(self, x: Tensor) -> Tensor:
        """Return F (batch, n_compared) of rows F (batch, n_features)."""
        if not self.parts:
            return x
        V = torch.cat([x, *(part(x) for part in self.parts)], dim=1)
        return V if self.in_order else V.index_select(1, self.order)


def _alike(tests: NodeTests, nodes: Array) -> list[Array]:
    """Return nodes in groups of one kind, number of rows and, up to twice, length of rows."""
    n_rows = np.diff(tests.node_ptr)[nodes]
    if not nodes.size:
        return []
    longest = np.maximum.reduceat(np.append(np.diff(tests.row_ptr), 0), tests.node_ptr[:-1])[nodes]
    size = np.ceil(np.log2(np.maximum(longest, 1)))
    key = np.stack([tests.kind[nodes] == Kind.SET, n_rows, size])
    kinds, group = np.unique(key, axis=1, return_inverse=True)
    return [nodes[group.ravel() == k] for k in range(kinds.shape[1])]


class _Missing(nn.Module):
    """Missing values of columns, each by its own rule."""

    by_zero: Tensor | None
    by_sentinel: Tensor | None

    def __init__(self, rules: Array, sentinel: float | None) -> None:
        super().__init__()
        self.sentinel = sentinel
        register(self, **missing_flags(rules))

    def forward(self, x: Tensor) -> Tensor:
        return is_missing(x, self.by_zero, self.by_sentinel, self.sentinel)


class _Copies(nn.Module):
    """Columns of x with `value` in place of what is missing by one rule."""

    columns: Tensor

    def __init__(
        self,
        columns: Tensor,
        value: float,
        rule: MissingRule,
        sentinel: float | None,
        n_features: int,
    ) -> None:
        super().__init__()
        self.rule, self.value = rule, value
        self.takes_all = columns.tolist() == list(range(n_features))
        self.missing = _Missing(np.array([rule]), sentinel)
        register(self, columns=columns)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.takes_all else x.index_select(1, self.columns)
        return x.masked_fill(self.missing(x), self.value)


class _TableSets(nn.Module):
    """Outcomes of the sets of one column, from a table of all codes, one other and none."""

    table: Tensor

    def __init__(
        self,
        table: Tensor,
        column: int,
        rule: MissingRule,
        code_rule: CodeRule,
        sentinel: float | None,
    ) -> None:
        super().__init__()
        self.column, self.code_rule, self.other = column, code_rule, len(table) - 2
        self.missing = _Missing(np.array([rule]), sentinel)
        register(self, table=table)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, self.column]
        whole, readable = torch.trunc(x), x > -1
        if self.code_rule != CodeRule.TRUNCATE:
            readable = readable & (x >= 0)
        if self.code_rule == CodeRule.EXACT:
            readable = readable & (x == whole)
        code = torch.where(readable & (whole < self.other), whole, self.other).to(torch.int64)
        return self.table.index_select(0, torch.where(self.missing(x), self.other + 1, code))


class _WordSets(nn.Module):
    """Outcomes of sets that no table holds, from the words of their bits."""

    feature: Tensor
    missing_right: Tensor

    def __init__(self, tests: NodeTests, nodes: Array, sentinel: float | None) -> None:
        super().__init__()
        self.missing = _Missing(tests.missing_rule[nodes], sentinel)
        sets = code_sets(tests, nodes)
        self.names = tuple(sets)
        register(
            self,
            feature=tests.feature[nodes].astype(np.int64),
            missing_right=tests.missing_right[nodes],
            **sets,
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x.index_select(1, self.feature)
        right = in_sets(x, **{name: getattr(self, name) for name in self.names})
        return _or_missing(self.missing(x), self.missing_right, right, x.dtype)


def _or_missing(
    missing: Tensor, missing_right: Tensor, right: Tensor, dtype: torch.dtype
) -> Tensor:
    """Return outcomes as 0 and 1, chosen as numbers: onnxruntime chooses no truth values."""
    return torch.where(missing, missing_right.to(dtype), right.to(dtype))


class _Margins(nn.Module):
    """Outcomes of nodes with equally many rows of S, each any sum, and those that test equality."""

    b: Tensor
    ties: Tensor
    is_equal: Tensor | None
    missing_right: Tensor

    def __init__(self, tests: NodeTests, nodes: Array, sentinel: float | None) -> None:
        super().__init__()
        n_rows = int(np.diff(tests.node_ptr)[nodes[0]])
        self.rows = nn.ModuleList(_Rows(tests, nodes, k, sentinel) for k in range(n_rows))
        is_equal = tests.kind[nodes] == Kind.EQUAL
        register(
            self,
            b=tests.b[nodes],
            ties=is_equal | (tests.relation[nodes] == Relation.GREATER_EQUAL),
            is_equal=is_equal if is_equal.any() else None,
            missing_right=tests.missing_right[nodes],
        )

    def forward(self, x: Tensor) -> Tensor:
        z, missing = self.rows[0](x)
        for row in self.rows[1:]:
            term, absent = row(x)
            z, missing = z + term, missing | absent
        right = exceeds(z, self.b, self.ties, self.is_equal)
        return _or_missing(missing | torch.isnan(z), self.missing_right, right, x.dtype)


class _Rows(nn.Module):
    """r · activation(S x − offset) for the k-th row of some nodes, and what is missing."""

    column: Tensor
    weight: Tensor
    is_entry: Tensor
    substitute: Tensor | None
    indicator: Tensor | None
    offset: Tensor
    r: Tensor
    is_soft: Tensor
    powers: Tensor

    def __init__(self, tests: NodeTests, nodes: Array, k: int, sentinel: float | None) -> None:
        super().__init__()
        self.missing = _Missing(tests.missing_rule[nodes], sentinel)
        row = tests.node_ptr[nodes] + k
        size = np.diff(tests.row_ptr)[row]
        self.width = max(1, int(size.max()))
        level = np.arange(self.width)[:, None]
        is_entry = level < size
        at = np.where(is_entry, tests.row_ptr[row] + level, 0)
        self.all_entries = is_entry.all(axis=1).tolist()
        # The column of a level where all nodes read one, as those of dense rows do.
        first = tests.column[at[:, 0]]
        self.shared = [
            int(one) if np.all(tests.column[level] == one) else None
            for one, level in zip(first, at, strict=True)
        ]
        is_soft = tests.activation[row] == Activation.SOFTPLUS
        self.has_soft = bool(is_soft.any())
        register(
            self,
            column=tests.column[at].astype(np.int64),
            weight=tests.weight[at],
            is_entry=is_entry,
            offset=tests.offset[row],
            r=tests.r[row],
            is_soft=is_soft,
            substitute=None if tests.substitute is None else tests.substitute[at],
            indicator=None if tests.indicator is None else tests.indicator[at].astype(tests.dtype),
        )
        if self.has_soft:
            register(self, powers=POWERS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total, missing = self._term(x, 0)
        for k in range(1, self.width):
            term, absent = self._term(x, k)
            if self.all_entries[k]:
                total, missing = total + term, missing | absent
            else:
                total = torch.where(self.is_entry[k], total + term, total)
                missing = missing | (self.is_entry[k] & absent)
        value = total - self.offset
        if self.has_soft:
            value = torch.where(self.is_soft, softplus(value, self.powers), value)
        return self.r * value, missing

    def _term(self, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        one = self.shared[k]
        value = x.index_select(1, self.column[k]) if one is None else x[:, one : one + 1]
        substitute = None if self.substitute is None else self.substitute[k]
        code = None if self.indicator is None else self.indicator[k]
        value, absent = entry(value, self.missing(value), substitute, code)
        return self.weight[k] * value, absent
