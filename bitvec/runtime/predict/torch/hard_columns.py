"""Compared columns by functional tensor operations alone, as compilers of graphs take them.

They are those that `compared_columns` lays out. All that decides is a buffer, and no step depends
on the values of rows. Sums of a row of S run in the order of storage: entries beyond a row's last
leave its sum as it is.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import (
    WORD_BITS,
    ZERO_THRESHOLD,
    Activation,
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
)
from bitvec.core.softplus import ARTANH, EXP, FAR, LN2_HIGH, LN2_LOW, LOG2_E, POWERS
from bitvec.runtime.predict.torch.compared_columns import ComparedColumns
from bitvec.runtime.predict.torch.host_arrays import register


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
            _Copies(c.columns, c.value, c.rule, sentinel) for c in compared.copies
        ]
        for sets in compared.sets:
            rules = sets.rule, sets.code_rule
            parts.append(_TableSets(sets.table, sets.column, *rules, sentinel))
        decided = compared.decided.numpy()
        groups = _alike(forest.tests, decided)
        for group in groups:
            is_set = forest.tests.kind[group[0]] == Kind.SET
            parts.append((_WordSets if is_set else _Margins)(forest.tests, group, sentinel))
        self.parts = nn.ModuleList(parts)
        # Groups of decided nodes go back to the order in which they were laid out.
        order = np.arange(compared.n_compared)
        first = order.size - decided.size
        if groups:
            order[first:] = first + np.argsort(np.concatenate(groups))
        self.in_order = bool(np.all(order == np.arange(order.size)))
        register(self, order=order)

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

    is_zero_rule: Tensor
    is_sentinel_rule: Tensor

    def __init__(self, rules: Array, sentinel: float | None) -> None:
        super().__init__()
        self.sentinel = sentinel
        zero, marked = rules == MissingRule.NAN_OR_ZERO, rules == MissingRule.NAN_OR_SENTINEL
        self.has_zero, self.has_sentinel = bool(zero.any()), bool(marked.any())
        register(self, is_zero_rule=zero, is_sentinel_rule=marked)

    def forward(self, x: Tensor) -> Tensor:
        missing = torch.isnan(x)
        if self.has_zero:
            missing = missing | (self.is_zero_rule & (x.abs() <= ZERO_THRESHOLD))
        if self.has_sentinel and self.sentinel is not None:
            missing = missing | (self.is_sentinel_rule & (x == self.sentinel))
        return missing


class _Copies(nn.Module):
    """Columns of x with `value` in place of what is missing by one rule."""

    columns: Tensor

    def __init__(
        self, columns: Tensor, value: float, rule: MissingRule, sentinel: float | None
    ) -> None:
        super().__init__()
        self.value = value
        self.missing = _Missing(np.array([rule]), sentinel)
        register(self, columns=columns)

    def forward(self, x: Tensor) -> Tensor:
        x = x.index_select(1, self.columns)
        return x.masked_fill(self.missing(x), self.value)


def _codes(x: Tensor, rule: CodeRule) -> tuple[Tensor, Tensor]:
    """Return whole codes and where there is one, before any upper limit."""
    whole = torch.trunc(x)
    readable = x > -1
    if rule != CodeRule.TRUNCATE:
        readable = readable & (x >= 0)
    if rule == CodeRule.EXACT:
        readable = readable & (x == whole)
    return whole, readable


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
        whole, readable = _codes(x, self.code_rule)
        code = torch.where(readable & (whole < self.other), whole, self.other).to(torch.int64)
        return self.table.index_select(0, torch.where(self.missing(x), self.other + 1, code))


class _WordSets(nn.Module):
    """Outcomes of sets that no table holds, from the words of their bits."""

    feature: Tensor
    n_codes: Tensor
    first: Tensor
    words: Tensor
    truncates: Tensor
    is_exact: Tensor
    other_right: Tensor
    missing_right: Tensor

    def __init__(self, tests: NodeTests, nodes: Array, sentinel: float | None) -> None:
        super().__init__()
        self.missing = _Missing(tests.missing_rule[nodes], sentinel)
        register(
            self,
            feature=tests.feature[nodes].astype(np.int64),
            n_codes=np.diff(tests.set_ptr)[nodes] * float(WORD_BITS),
            first=tests.set_ptr[nodes],
            words=np.append(tests.set_words, 0).astype(np.int64),
            truncates=tests.code_rule[nodes] == CodeRule.TRUNCATE,
            is_exact=tests.code_rule[nodes] == CodeRule.EXACT,
            other_right=tests.other_right[nodes],
            missing_right=tests.missing_right[nodes],
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x.index_select(1, self.feature)
        whole, readable = _codes(x, CodeRule.TRUNCATE)
        readable = readable & (self.truncates | (x >= 0)) & (~self.is_exact | (x == whole))
        readable = readable & (whole.to(torch.float64) < self.n_codes)
        code = torch.where(readable, whole, 0).to(torch.int64)
        word = self.words[torch.where(readable, self.first + code // WORD_BITS, 0)]
        bit = ((word >> (code % WORD_BITS)) & 1) == 1
        right = (readable & bit) | (~readable & self.other_right)
        return _or_missing(self.missing(x), self.missing_right, right, x.dtype)


def _or_missing(
    missing: Tensor, missing_right: Tensor, right: Tensor, dtype: torch.dtype
) -> Tensor:
    """Return outcomes as 0 and 1, chosen as numbers: onnxruntime chooses no truth values."""
    return torch.where(missing, missing_right.to(dtype), right.to(dtype))


class _Margins(nn.Module):
    """Outcomes of nodes with equally many rows of S, each any sum, and those that test equality."""

    b: Tensor
    accepts_equal: Tensor
    is_equal: Tensor
    missing_right: Tensor

    def __init__(self, tests: NodeTests, nodes: Array, sentinel: float | None) -> None:
        super().__init__()
        n_rows = int(np.diff(tests.node_ptr)[nodes[0]])
        self.rows = nn.ModuleList(_Rows(tests, nodes, k, sentinel) for k in range(n_rows))
        kind = tests.kind[nodes]
        self.has_equal = bool(np.any(kind == Kind.EQUAL))
        register(
            self,
            b=tests.b[nodes],
            accepts_equal=tests.relation[nodes] == Relation.GREATER_EQUAL,
            is_equal=kind == Kind.EQUAL,
            missing_right=tests.missing_right[nodes],
        )

    def forward(self, x: Tensor) -> Tensor:
        z, missing = self.rows[0](x)
        for row in self.rows[1:]:
            term, absent = row(x)
            z, missing = z + term, missing | absent
        right = (z > self.b) | (self.accepts_equal & (z == self.b))
        if self.has_equal:
            right = (self.is_equal & (z == self.b)) | (~self.is_equal & right)
        return _or_missing(missing | torch.isnan(z), self.missing_right, right, x.dtype)


class _Rows(nn.Module):
    """r · activation(S x − offset) for the k-th row of some nodes, and what is missing."""

    column: Tensor
    weight: Tensor
    is_entry: Tensor
    substitute: Tensor
    indicator: Tensor
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
        entry = np.where(is_entry, tests.row_ptr[row] + level, 0)
        self.all_entries = is_entry.all(axis=1).tolist()
        self.has_substitutes = tests.substitute is not None
        self.has_indicators = tests.indicator is not None
        is_soft = tests.activation[row] == Activation.SOFTPLUS
        self.has_soft = bool(is_soft.any())
        register(
            self,
            column=tests.column[entry].astype(np.int64),
            weight=tests.weight[entry],
            is_entry=is_entry,
            offset=tests.offset[row],
            r=tests.r[row],
            is_soft=is_soft,
        )
        if tests.substitute is not None:
            register(self, substitute=tests.substitute[entry])
        if tests.indicator is not None:
            register(self, indicator=tests.indicator[entry].astype(tests.dtype))
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
            value = torch.where(self.is_soft, _softplus(value, self.powers), value)
        return self.r * value, missing

    def _term(self, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        value = x.index_select(1, self.column[k])
        absent = self.missing(value)
        if self.has_substitutes:
            substitute = self.substitute[k]
            replaced = absent & ~torch.isnan(substitute)
            value, absent = torch.where(replaced, substitute, value), absent & ~replaced
        if self.has_indicators:
            code = self.indicator[k]
            value = torch.where(code >= 0, (value == code).to(value.dtype), value)
        return self.weight[k] * value, absent


def _softplus(x: Tensor, powers: Tensor) -> Tensor:
    """Return `bitvec.core.softplus.softplus`, the same operations in the same order."""
    wide = x.to(torch.float64)
    magnitude = wide.abs()
    u = torch.where(magnitude < FAR, magnitude, FAR)
    k = torch.floor(u * LOG2_E + 0.5)
    r = (k * LN2_HIGH - u) + k * LN2_LOW
    t = _polynomial(EXP, r) * powers[k.to(torch.int64)]
    s = t / (2.0 + t)
    tail = (s + s) * _polynomial(ARTANH, s * s)
    return (torch.where(wide < 0, 0.0, wide) + tail).to(x.dtype)


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = x * coefficients[-1] + coefficients[-2]
    for one in reversed(coefficients[:-2]):
        value = value * x + one
    return value
