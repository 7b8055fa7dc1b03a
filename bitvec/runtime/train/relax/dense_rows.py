"""Rows of S that may move: dense over all columns, in standardised units, as parameters."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bitvec.core.arrays import Array, ranges
from bitvec.core.node_tests import Activation, Kind, MissingRule, NodeTests, Relation
from bitvec.runtime.train.relax.dtypes import OfDtype
from bitvec.runtime.train.relax.scaling import Scaling
from bitvec.runtime.train.relax.trainable import Trainable

TIED = 2.0**-18
"""Distance of a soft threshold from b where no value equals b, in margin scales: more than the
rounding of standardised columns, so that the same values equal b in float32."""
LARGEST_SIZE = 1e30
"""Nodes with a threshold or product beyond this keep their rows of S."""


class RowParameters(NamedTuple):
    """S, offset and r of some rows, as they are read: what may not move is where it started."""

    S: Tensor
    offset: Tensor
    r: Tensor


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


class DenseRows(OfDtype):
    """The rows of S of some nodes as a dense matrix over standardised columns.

    A plain node's row is divided by the node's margin scale; any other node's r is. So every z is
    in units of its node's margin.

    Parameters
    ----------
    tests : NodeTests
    nodes : int64, (n,)
        The nodes whose rows these are, rising, as positions in `tests`.
    scaling : Scaling
        Its `margin` in the order of `tests`.
    trainable : Trainable
    dtype : torch.dtype

    Attributes
    ----------
    S, offset, r : Parameter, (n_rows, n_columns), (n_rows,), (n_rows,)
    rows, row_node : int64, (n_rows,)
        Each row's position in `tests`, and its node's in `nodes`.
    plain_row, centred, softplus : bool, (n_rows,)
        Whether the row is a plain node's; whether it reads columns less their centers; whether it
        is activated.
    rules : list of MissingRule
        The missing rules among these nodes.
    own : bool, (n_rows, n_columns)
        The columns that the row reads in the forest.
    """

    shift: Tensor
    S_moves: Tensor
    r_moves: Tensor
    r_stays_positive: Tensor

    def __init__(
        self,
        tests: NodeTests,
        nodes: Array,
        scaling: Scaling,
        *,
        trainable: Trainable,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(dtype)
        self._made = partial(DenseRows, tests, nodes, scaling, trainable=trainable)
        n_rows = np.diff(tests.node_ptr)[nodes]
        self.nodes, self.n_nodes = nodes, len(nodes)
        self.rows = ranges(tests.node_ptr[nodes], n_rows)
        self.row_node = row_node = np.repeat(np.arange(len(nodes)), n_rows)
        plain = is_plain(tests)[nodes]
        self.plain_row = plain_row = plain[row_node]
        margin = scaling.margin[nodes]
        n_entries = np.diff(tests.row_ptr)[self.rows]
        entry = ranges(tests.row_ptr[self.rows], n_entries)
        at = (np.repeat(np.arange(len(self.rows)), n_entries), tests.column[entry])
        raw = np.zeros((len(self.rows), scaling.center.size))
        np.add.at(raw, at, tests.weight[entry].astype(np.float64))
        self.own = np.zeros(raw.shape, bool)
        self.own[at] = True
        self.row_moves = trainable.S[nodes][row_node]
        # A centre moves into b or an offset, so only where that one may move.
        both = self.row_moves & trainable.b[nodes][row_node]
        self.centred = centred = np.where(plain_row, both, self.row_moves)
        S = raw * scaling.spread / np.where(plain_row, margin[row_node], 1.0)[:, None]
        offset = tests.offset[self.rows] - np.where(centred & ~plain_row, raw @ scaling.center, 0.0)
        r = tests.r[self.rows] / np.where(plain_row, 1.0, margin[row_node])
        cut = scaling.cut[nodes]
        if scaling.measured:
            side = np.where(tests.relation[nodes] == Relation.GREATER_EQUAL, TIED, -TIED)
            cut = np.where(cut == 0, side * margin, cut)
        at_center = np.bincount(row_node, np.where(centred & plain_row, raw @ scaling.center, 0.0))
        self.start_b = (tests.b[nodes] - cut - at_center) / margin
        self.rule_of_row = tests.missing_rule[nodes][row_node]
        self.rules = [MissingRule(int(rule)) for rule in np.unique(self.rule_of_row)]
        self.missing_right = tests.missing_right[nodes]
        self.softplus = tests.activation[self.rows] == Activation.SOFTPLUS
        self.imputed = scaling.imputed

        def parameter(value: Array, moves: Array) -> nn.Parameter:
            return nn.Parameter(torch.tensor(value, dtype=dtype), requires_grad=bool(moves.any()))

        r_moves = trainable.r[nodes][row_node] & ~plain_row
        self.S = parameter(S, self.row_moves)
        self.offset = parameter(offset, self.row_moves & ~plain_row)
        self.r = parameter(r, r_moves)
        self._all_S, self._all_r = bool(self.row_moves.all()), bool(r_moves.all())
        buffers = {
            "shift": torch.tensor(scaling.center / scaling.spread, dtype=dtype),
            "S_moves": torch.tensor(self.row_moves),
            "r_moves": torch.tensor(r_moves),
            "r_stays_positive": torch.tensor(tests.r[self.rows] >= 0),
        }
        for name in ("S", "offset", "r"):
            buffers[f"start_{name}"] = getattr(self, name).detach().clone()
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)

    def starts(self) -> dict[str, Tensor]:
        """Return the exact numbers that parameters and buffers started from."""
        exact = self._made(dtype=torch.float64)
        names = ("S", "offset", "r", "start_S", "start_offset", "start_r", "shift")
        return {name: getattr(exact, name).detach() for name in names}

    def read(self) -> RowParameters:
        """Return the parameters; where they may not move, what they started at."""
        S: Tensor = self.S
        offset: Tensor = self.offset
        r: Tensor = self.r
        if not self._all_S:
            S = torch.where(self.S_moves[:, None], S, self.get_buffer("start_S"))
            offset = torch.where(self.S_moves, offset, self.get_buffer("start_offset"))
        if not self._all_r:
            r = torch.where(self.r_moves, r, self.get_buffer("start_r"))
        return RowParameters(S, offset, r)

    def missing_columns(self, rows: Array) -> Array:
        """Return which missing columns make each of some rows missing, bool (n, n_columns).

        A dense row turns every column without a substitute into one that may be missing.
        """
        unsubstituted = ~self.imputed[self.rule_of_row[rows]] & self.row_moves[rows, None]
        blocks: Array = self.own[rows] | unsubstituted
        return blocks

    def moved(self, b: Array) -> Array:
        """Return which nodes have a row, r or threshold that is not where it started.

        Parameters
        ----------
        b : (n,)
            The module's thresholds of these nodes.
        """
        started = torch.tensor(self.start_b, dtype=self.S.dtype).numpy()
        row = np.zeros(len(self.rows), bool)
        for name, now in self.read()._asdict().items():
            differs = (now.detach() != self.get_buffer(f"start_{name}")).cpu().numpy()
            row |= differs.reshape(len(row), -1).any(axis=1)
        count = np.bincount(self.row_node, row, minlength=self.n_nodes)
        moved: Array = (count > 0) | (b != started)
        return moved

    @torch.no_grad()
    def keep_signs(self) -> None:
        """Set an r that was not negative at the start and has become so back to 0."""
        self.r.copy_(torch.where(self.r_stays_positive, self.r.clamp_min(0), self.r))
