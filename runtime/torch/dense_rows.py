"""Rows of S that may move: dense over all columns, in standardised units, as parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bitvec.arrays import Array, ranges
from bitvec.node_tests import Activation, Kind, MissingRule, NodeTests
from bitvec.runtime.torch.scaling import Scaling

LARGEST_SIZE = 1e30
"""Nodes with a threshold or product beyond this keep their rows of S."""


@dataclass(frozen=True, slots=True, eq=False)
class StandardColumns:
    """Standardised columns, (n_columns, batch), and where they are missing, if anywhere."""

    rule: MissingRule
    value: Tensor
    missing: Tensor | None

    def take(self, rows: Tensor) -> StandardColumns:
        """Return some rows of the batch."""
        missing = None if self.missing is None else self.missing[:, rows]
        return StandardColumns(self.rule, self.value[:, rows], missing)


def is_plain(tests: NodeTests) -> Array:
    """Return which nodes have one row without offset, activation and r, so that z is linear."""
    one_row = np.diff(tests.node_ptr) == 1
    first = tests.node_ptr[:-1]
    plain: Array = (
        one_row
        & (tests.activation[first] == Activation.IDENTITY)
        & (tests.offset[first] == 0)
        & (tests.r[first] == 1)
    )
    return plain


def may_turn_dense(tests: NodeTests, scaling: Scaling) -> Array:
    """Return which nodes have rows that a dense row can express.

    They are margins of plain columns, without substitutes or indicators, whose thresholds and
    products stay far from overflow in float32.
    """
    special = np.zeros(tests.column.size, bool)
    if tests.substitute is not None:
        special |= ~np.isnan(tests.substitute)
    if tests.indicator is not None:
        special |= tests.indicator >= 0
    row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))
    node = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))
    bad = np.bincount(node[row], special, minlength=tests.n_nodes) > 0
    reach = np.abs(scaling.center) + scaling.spread
    product = np.abs(tests.weight.astype(np.float64)) * reach[tests.column]
    size = np.bincount(row, product, minlength=tests.n_rows) + np.abs(tests.offset)
    size = np.bincount(node, np.abs(tests.r) * size, minlength=tests.n_nodes)
    with np.errstate(invalid="ignore", over="ignore"):
        small = np.maximum(size, np.abs(tests.b.astype(np.float64))) / scaling.margin < LARGEST_SIZE
    may: Array = (tests.kind == Kind.MARGIN) & ~bad & small
    return may


class DenseRows(nn.Module):
    """The rows of S of some nodes as a dense matrix over standardised columns.

    A plain node's row is divided by the node's margin scale; any other node's r is. So every z is
    in units of its node's margin.

    Parameters
    ----------
    tests : NodeTests
    nodes : int64, (n,)
        The nodes whose rows these are, as positions in `tests`.
    scaling : Scaling
        Its `margin` in the order of `tests`.
    moves_S, moves_r, moves_b : bool
    """

    own: Tensor
    imputed: Tensor
    shift: Tensor
    centred: Tensor
    row_node: Tensor
    softplus: Tensor
    plain_row: Tensor
    missing_right: Tensor

    def __init__(
        self,
        tests: NodeTests,
        nodes: Array,
        scaling: Scaling,
        *,
        moves_S: bool,
        moves_r: bool,
        moves_b: bool,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        n_rows = np.diff(tests.node_ptr)[nodes]
        self.nodes = nodes
        self.rows = ranges(tests.node_ptr[nodes], n_rows)
        row_node = np.repeat(np.arange(len(nodes)), n_rows)
        plain = is_plain(tests)[nodes]
        plain_row = plain[row_node]
        margin = scaling.margin[nodes]
        n_entries = np.diff(tests.row_ptr)[self.rows]
        entry = ranges(tests.row_ptr[self.rows], n_entries)
        at = (np.repeat(np.arange(len(self.rows)), n_entries), tests.column[entry])
        raw = np.zeros((len(self.rows), scaling.center.size))
        np.add.at(raw, at, tests.weight[entry].astype(np.float64))
        own = np.zeros(raw.shape, bool)
        own[at] = True
        # A centre moves into b or an offset, so only where that one may move.
        centred = np.where(plain_row, moves_S and moves_b, moves_S)
        S = raw * scaling.spread / np.where(plain_row, margin[row_node], 1.0)[:, None]
        offset = tests.offset[self.rows] - np.where(centred & ~plain_row, raw @ scaling.center, 0.0)
        r = tests.r[self.rows] / np.where(plain_row, 1.0, margin[row_node])
        self.start_b = (
            tests.b[nodes]
            - np.bincount(row_node, np.where(centred & plain_row, raw @ scaling.center, 0.0))
        ) / margin
        self.moves_S, self.moves_r = moves_S, moves_r
        self.any_shaped = not plain.all()
        self.n_nodes = len(nodes)
        self.rule_of_row = tests.missing_rule[nodes][row_node]
        self.r_stays_positive = tests.r[self.rows] >= 0

        def parameter(value: Array, moves: bool) -> nn.Parameter:
            return nn.Parameter(torch.tensor(value, dtype=dtype), requires_grad=moves)

        self.S = parameter(S, moves_S)
        self.offset = parameter(offset, moves_S and self.any_shaped)
        self.r = parameter(r, moves_r and self.any_shaped)
        self._start = {
            name: getattr(self, name).detach().numpy().copy() for name in ("S", "offset", "r")
        }
        imputed = scaling.imputed if moves_S else np.zeros_like(scaling.imputed)
        buffers = {
            "own": torch.tensor(own),
            "imputed": torch.tensor(imputed),
            "shift": torch.tensor(scaling.center / scaling.spread, dtype=dtype),
            "centred": torch.tensor(centred),
            "row_node": torch.tensor(row_node),
            "softplus": torch.tensor(tests.activation[self.rows] == Activation.SOFTPLUS),
            "plain_row": torch.tensor(plain_row),
            "missing_right": torch.tensor(tests.missing_right[nodes]),
        }
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)

    def moved(self, b: Array) -> Array:
        """Return which nodes have a row, r or threshold that is not where it started.

        Parameters
        ----------
        b : (n,)
            The module's thresholds of these nodes.
        """
        started = torch.tensor(self.start_b, dtype=self.S.dtype).numpy()
        row = np.zeros(len(self.rows), bool)
        for name, start in self._start.items():
            now = getattr(self, name).detach().cpu().numpy()
            row |= (now != start).reshape(len(row), -1).any(axis=1)
        count = np.bincount(self.row_node.cpu().numpy(), row, minlength=self.n_nodes)
        moved: Array = (count > 0) | (b != started)
        return moved

    @property
    def rules(self) -> list[MissingRule]:
        """The missing rules among these nodes."""
        return [MissingRule(int(rule)) for rule in np.unique(self.rule_of_row)]

    def forward(self, columns: list[StandardColumns]) -> tuple[Tensor, Tensor | None]:
        """Return z in margin units, (n, batch), and where it is missing, if anywhere."""
        value = self.S.new_empty((len(self.rows), columns[0].value.shape[1]))
        missing: Tensor | None = None
        for part in columns:
            at = np.flatnonzero(self.rule_of_row == part.rule)
            index = torch.as_tensor(at, device=self.S.device)
            every = len(at) == len(self.rows)
            product = (self.S if every else self.S[index]) @ part.value
            value = product if every else value.index_copy(0, index, product)
            if part.missing is not None:
                # A dense row turns every column without a substitute into one that may be missing.
                blocks = self.own[index] | (~self.imputed[part.rule] & self.moves_S)
                absent = blocks.to(product.dtype) @ part.missing.to(product.dtype) > 0
                if missing is None:
                    missing = torch.zeros(value.shape, dtype=torch.bool, device=value.device)
                missing[index] = absent
        value = value + torch.where(self.centred, 0.0, self.S @ self.shift)[:, None]
        if not self.any_shaped:
            return value, missing
        shaped = value - self.offset[:, None]
        shaped = torch.where(self.softplus[:, None], F.softplus(shaped), shaped)
        value = torch.where(self.plain_row[:, None], value, self.r[:, None] * shaped)
        shape = (self.n_nodes, value.shape[1])
        z = value.new_zeros(shape).index_add(0, self.row_node, value)
        if missing is not None:
            count = value.new_zeros(shape).index_add(0, self.row_node, missing.to(value.dtype))
            missing = count > 0
        return z, missing

    @torch.no_grad()
    def keep_signs(self) -> None:
        """Set an r that was not negative at the start and has become so back to 0."""
        stays = torch.as_tensor(self.r_stays_positive, device=self.r.device)
        self.r.copy_(torch.where(stays, self.r.clamp_min(0), self.r))
