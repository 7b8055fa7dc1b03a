"""The tests of a soft machine: margins made ready, what of S may move, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from bitvec.core.arrays import Array
from bitvec.core.node_tests import Kind, NodeTests
from bitvec.errors import InvalidForestError
from bitvec.runtime.train.relax.dense_rows import is_plain
from bitvec.runtime.train.relax.leaf_functions import LeafRows


@dataclass(frozen=True, slots=True, eq=False)
class MachineRows:
    """Rows made ready for a soft machine.

    Parameters
    ----------
    margin : float, (n_nodes, batch)
        Where the machine started, in units of each node's scale; 0 where `hard`.
    hard : bool, (n_nodes, batch)
        Where a test passes as 0 or 1: missing values, set and equality tests, what is not finite.
    right : bool, (n_nodes, batch)
        h where the machine started.
    columns : float, (n_columns, batch)
        What S reads, standardised; 0 where it is not finite. No column where S may not move.
    leaves : LeafRows
    """

    margin: Tensor
    hard: Tensor
    right: Tensor
    columns: Tensor
    leaves: LeafRows

    def __len__(self) -> int:
        return self.margin.shape[1]

    def take(self, rows: Tensor) -> MachineRows:
        """Return some rows."""
        return MachineRows(
            self.margin[:, rows],
            self.hard[:, rows],
            self.right[:, rows],
            self.columns[:, rows],
            self.leaves.take(rows),
        )


@dataclass(frozen=True, slots=True, eq=False)
class MachineUnits:
    """Units of a soft machine's columns and margins.

    Parameters
    ----------
    center, spread : float64, (n_columns,)
        Mean and standard deviation of each column that S reads.
    margin : float64, (n_nodes,)
        Standard deviation of each node's margin over all rows, for a machine has no paths.
    """

    center: Array
    spread: Array
    margin: Array


def tests_hard(tests: NodeTests) -> Array:
    """Return the nodes whose tests have no margin: sets and equalities."""
    hard: Array = (tests.kind == Kind.SET) | (tests.kind == Kind.EQUAL)
    return hard


def may_move(tests: NodeTests) -> Array:
    """Return the nodes whose entries of S may move."""
    special = np.zeros(tests.column.size, bool)
    if tests.substitute is not None:
        special |= ~np.isnan(tests.substitute)
    if tests.indicator is not None:
        special |= tests.indicator >= 0
    has_special = np.bincount(entry_nodes(tests), special, minlength=tests.n_nodes) > 0
    may: Array = (tests.kind == Kind.MARGIN) & is_plain(tests) & ~has_special
    return may


def entry_nodes(tests: NodeTests) -> Array:
    """Return the node of each entry of S."""
    row = np.repeat(np.arange(tests.n_rows), np.diff(tests.row_ptr))
    node: Array = np.repeat(np.arange(tests.n_nodes), np.diff(tests.node_ptr))[row]
    return node


def moved_tests(tests: NodeTests, units: MachineUnits, S: Array, b: Array) -> NodeTests:
    """Return tests whose entries of S and thresholds have moved, rounded to their dtype.

    Parameters
    ----------
    S : float64, (n_entries,)
        By how much, in units of the node's margin and the column's spread; 0 is untouched.
    b : float64, (n_nodes,)
        By how much, in units of the node's margin; 0 is untouched.

    Raises
    ------
    InvalidForestError
        If a number that has moved is not finite in the dtype.
    """
    node = entry_nodes(tests)
    threshold, weight, offset = tests.b.copy(), tests.weight.copy(), tests.offset.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        at = np.flatnonzero((b != 0) & ~tests_hard(tests))
        threshold[at] += (b * units.margin)[at]
        slope = S * units.margin[node] / units.spread[tests.column] * may_move(tests)[node]
        entry = np.flatnonzero(slope)
        weight[entry] += slope[entry]
        # Columns are read from their centers; where S moves, a node has one row.
        shift = np.zeros(tests.n_rows)
        np.add.at(shift, tests.node_ptr[node[entry]], (slope * units.center[tests.column])[entry])
        row = np.flatnonzero(shift)
        offset[row] += shift[row]
    for name, new, old in (("b", threshold, tests.b), ("S", weight, tests.weight)):
        if not np.all(np.isfinite(new) | ~np.isfinite(old)):
            raise InvalidForestError(
                f"what has moved in `{name}` must be finite in {tests.dtype} to be hardened, got "
                "infinity: lower the learning rate."
            )
    return replace(tests, b=threshold, weight=weight, offset=offset)
