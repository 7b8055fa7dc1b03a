"""Margins of nodes whose rows of S are the forest's own, as a tracer can follow them.

A value that is missing by a node's rule is turned into NaN once, by column and rule. NaN then goes
where a missing value goes: into z, and out of it by the node's own direction. Truth values are
combined by and, or, not: onnxruntime selects no truth values.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import ranges
from bitvec.core.node_tests import WORD_BITS, ZERO_THRESHOLD, MissingRule
from bitvec.runtime.export.onnx.soft.traceable import hold, softplus, sums
from bitvec.runtime.predict.torch.outcomes import DeviceTests
from bitvec.runtime.train.relax.fixed_margins import FixedBlock

BYTE = 8


class MissingAsNaN(nn.Module):
    """Columns with NaN where a rule calls a value missing: one copy for each rule, below another.

    Parameters
    ----------
    rules : list of MissingRule
    sentinel : float, optional
        The forest's `inputs.missing_sentinel`.
    dtype : torch.dtype
        Of the columns.
    """

    def __init__(
        self, rules: list[MissingRule], sentinel: float | None, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.rules, self.has_sentinel = rules, sentinel is not None
        held = 0.0 if sentinel is None else sentinel
        for name, number in (("zero", ZERO_THRESHOLD), ("sentinel", held)):
            self.register_buffer(name, torch.tensor(number, dtype=dtype), persistent=False)

    def forward(self, raw: Tensor) -> Tensor:
        """Return (n_rules · n_columns, batch) of columns (n_columns, batch)."""
        copies = [self._of(raw, rule) for rule in self.rules]
        return copies[0] if len(copies) == 1 else torch.cat(copies)

    def _of(self, raw: Tensor, rule: MissingRule) -> Tensor:
        if rule == MissingRule.NAN_OR_ZERO:
            return torch.where(raw.abs() <= self.get_buffer("zero"), torch.nan, raw)
        if rule == MissingRule.NAN_OR_SENTINEL and self.has_sentinel:
            return torch.where(raw == self.get_buffer("sentinel"), torch.nan, raw)
        return raw


Found = tuple[Tensor, Tensor, Tensor]
"""Margins, where they pass hard, and h there, or everywhere on request; (n_nodes, batch)."""


class FixedNodes(nn.Module):
    """Nodes whose rows of S are the forest's own.

    Parameters
    ----------
    block : FixedBlock
    rules : list of MissingRule
        Those of the copies of columns.
    n_columns : int
    """

    line: Tensor
    b: Tensor
    scale: Tensor
    missing_right: Tensor
    accepts_tie: Tensor | None
    accepts_more: Tensor | None
    passes_hard: Tensor | None

    def __init__(self, block: FixedBlock, rules: list[MissingRule], n_columns: int) -> None:
        super().__init__()
        tests = block.tests
        copy_of = torch.zeros(len(MissingRule), dtype=torch.int64)
        copy_of[[int(rule) for rule in rules]] = torch.arange(len(rules)) * n_columns
        copy = copy_of[tests.missing_rule.long()]
        accepts_tie = tests.accepts_equal | tests.is_equal
        any_tie, any_equal = bool(accepts_tie.any()), bool(tests.is_equal.any())
        hold(
            self,
            line=tests.feature + copy,
            b=tests.b[:, None],
            scale=block.scale,
            missing_right=tests.missing_right[:, None],
            accepts_tie=accepts_tie[:, None] if any_tie else None,
            accepts_more=~tests.is_equal[:, None] if any_equal else None,
            passes_hard=block.passes_hard,
        )
        self.wide = None if tests.only_one_hot else WideRows(tests, copy)
        self.sets = SetTests(tests) if tests.has_sets else None

    def forward(self, readable: Tensor, dtype: torch.dtype) -> Found:
        """Return margins in `dtype`, where they pass hard, and h everywhere."""
        z = readable.index_select(0, self.line)
        if self.wide is not None:
            z = self.wide(z, readable)
        right = z > self.b
        if self.accepts_more is not None:
            right = right & self.accepts_more
        if self.accepts_tie is not None:
            right = right | ((z == self.b) & self.accepts_tie)
        if self.sets is not None:
            right = self.sets(z, right)
        right = right | (z.isnan() & self.missing_right)
        margin = ((z - self.b) / self.scale).to(dtype)
        hard = ~(margin.abs() < torch.inf)
        if self.passes_hard is not None:
            hard = hard | self.passes_hard
        return torch.where(hard, 0.0, margin), hard, right


class WideRows(nn.Module):
    """z of nodes that read more than one column as it is: entry by entry, in the stored order.

    Parameters
    ----------
    tests : DeviceTests
    copy : int64, (n_nodes,)
        Where the copy of columns that each node reads begins.
    """

    line: Tensor
    weight: Tensor
    row: Tensor
    offset: Tensor
    r: Tensor
    node: Tensor
    place: Tensor
    softplus: Tensor | None
    substitute: Tensor | None
    indicator: Tensor | None

    def __init__(self, tests: DeviceTests, copy: Tensor) -> None:
        super().__init__()
        node_ptr, row_ptr = tests.node_ptr.numpy(), tests.row_ptr.numpy()
        at = np.flatnonzero(~tests.one_hot.numpy())
        count = np.diff(node_ptr)[at]
        rows, node = ranges(node_ptr[at], count), np.repeat(np.arange(len(at)), count)
        n_entries = np.diff(row_ptr)[rows]
        entry = torch.tensor(ranges(row_ptr[rows], n_entries))
        row = torch.tensor(np.repeat(np.arange(len(rows)), n_entries))
        place = np.arange(len(copy))
        place[at] = len(copy) + np.arange(len(at))
        own, its_node = torch.tensor(rows), torch.tensor(node)
        substitute, indicator, softplus = tests.substitute, tests.indicator, tests.softplus[own]
        if substitute is not None:
            substitute = substitute[entry][:, None]
        if indicator is not None:
            indicator = indicator[entry][:, None]
        hold(
            self,
            line=tests.column[entry] + copy[torch.tensor(at)][its_node[row]],
            weight=tests.weight[entry][:, None],
            row=row[:, None],
            offset=tests.offset[own][:, None],
            r=tests.r[own][:, None],
            node=its_node[:, None],
            place=torch.tensor(place),
            softplus=softplus[:, None] if bool(softplus.any()) else None,
            substitute=substitute,
            indicator=indicator,
        )
        self.n_rows, self.n_nodes = len(rows), len(at)

    def forward(self, z: Tensor, readable: Tensor) -> Tensor:
        """Return z, (n_nodes, batch), with that of these nodes set."""
        x = readable.index_select(0, self.line)
        if self.substitute is not None:
            x = torch.where(x.isnan() & ~self.substitute.isnan(), self.substitute, x)
        if self.indicator is not None:
            is_code = (x == self.indicator.to(x.dtype)).to(x.dtype)
            x = torch.where((self.indicator >= 0) & ~x.isnan(), is_code, x)
        value = sums(self.weight * x, self.row, self.n_rows) - self.offset
        if self.softplus is not None:
            value = torch.where(self.softplus, softplus(value), value)
        own = sums(self.r * value, self.node, self.n_nodes)
        return torch.cat((z, own)).index_select(0, self.place)


class SetTests(nn.Module):
    """h of nodes that look a code up in a set, whose codes are bits.

    Parameters
    ----------
    tests : DeviceTests
    """

    at: Tensor
    place: Tensor
    first: Tensor
    n_codes: Tensor
    exact: Tensor
    truncates: Tensor
    other_right: Tensor
    codes: Tensor
    bit: Tensor

    def __init__(self, tests: DeviceTests) -> None:
        super().__init__()
        at = torch.nonzero(tests.is_set)[:, 0]
        place = torch.arange(len(tests.b))
        place[at] = len(tests.b) + torch.arange(len(at))
        words = tests.set_words.numpy().astype("<u4")
        codes = torch.tensor(np.append(words.view(np.uint8), np.uint8(0)))
        first, last = tests.set_ptr[at], tests.set_ptr[at + 1]
        hold(
            self,
            at=at,
            place=place,
            first=first[:, None] * (WORD_BITS // BYTE),
            n_codes=((last - first) * WORD_BITS)[:, None],
            exact=tests.exact_code[at][:, None],
            truncates=tests.truncated_code[at][:, None],
            other_right=tests.other_right[at][:, None],
            codes=codes,
            bit=torch.tensor([1 << place for place in range(BYTE)], dtype=torch.uint8),
        )

    def forward(self, z: Tensor, right: Tensor) -> Tensor:
        """Return h, (n_nodes, batch), with that of these nodes set; false for NaN."""
        x = z.index_select(0, self.at)
        whole = x.trunc()
        readable = (x > -1) & (self.truncates | (x >= 0)) & (~self.exact | (x == whole))
        readable = readable & (whole < self.n_codes.to(whole.dtype))
        code = torch.where(readable, whole, 0.0).to(torch.int64)
        byte = torch.where(readable, self.first + code // BYTE, 0)
        held = self.codes[byte] & self.bit[code % BYTE]
        own = (readable & (held != 0)) | (~readable & self.other_right & ~x.isnan())
        return torch.cat((right, own)).index_select(0, self.place)
