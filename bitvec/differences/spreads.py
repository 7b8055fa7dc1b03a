"""The units of change: how far a node's margin and a column spread over rows."""

from __future__ import annotations

import numpy as np

from bitvec.core import reference
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float

PAIRS = 1 << 24
"""Entries of S times rows that are evaluated, unless a few rows take more."""
BLOCK = 1 << 18
"""Pairs of a row and a node that are held at a time."""
ROWS = 1000
"""Most rows by which the margins of oblique nodes are measured; they are spread evenly over X."""


def of_columns(
    Z: Float[Array, "n_rows n_columns"],
) -> tuple[Float[Array, " n_columns"], Float[Array, " n_columns"]]:
    """Return the mean and standard deviation of each column's finite values, NaN without any."""
    mean, spread = np.full(Z.shape[1], np.nan), np.full(Z.shape[1], np.nan)
    for column in range(Z.shape[1]):
        mean[column], spread[column] = _moments(Z[:, column])
    return mean, spread


def of_margins(
    forest: Forest, Z: Float[Array, "n_rows n_columns"], nodes: Array
) -> tuple[Float[Array, " n_nodes"], Float[Array, " n_nodes"]]:
    """Return the mean and standard deviation of the margins z of some nodes, missing ones apart."""
    tests = forest.tests
    column = tests.feature[nodes]
    column_mean, column_spread = of_columns(Z)
    mean, spread = np.full(len(nodes), np.nan), np.full(len(nodes), np.nan)
    one_hot = column >= 0
    mean[one_hot], spread[one_hot] = column_mean[column[one_hot]], column_spread[column[one_hot]]
    wide = np.flatnonzero(~one_hot)
    if not wide.size or not len(Z):
        return mean, spread
    row_of_node = tests.node_ptr[nodes[wide]], tests.node_ptr[nodes[wide] + 1]
    n_entries = int((tests.row_ptr[row_of_node[1]] - tests.row_ptr[row_of_node[0]]).sum())
    n_rows = min(len(Z), ROWS, max(32, PAIRS // max(n_entries, 1)))
    sample = Z[np.linspace(0, len(Z) - 1, n_rows).astype(np.int64)]
    for block in np.array_split(wide, -(-wide.size * n_rows // BLOCK)):
        row, node = np.tile(np.arange(n_rows), block.size), np.repeat(nodes[block], n_rows)
        z, missing = reference.margins(tests, sample, row, node, forest.inputs.missing_sentinel)
        for k, at in enumerate(block):
            own = slice(k * n_rows, (k + 1) * n_rows)
            mean[at], spread[at] = _moments(z[own][~missing[own]])
    return mean, spread


def _moments(values: Float[Array, " n"]) -> tuple[float, float]:
    known = values[np.isfinite(values)].astype(np.float64)
    if not known.size:
        return np.nan, np.nan
    with np.errstate(over="ignore", invalid="ignore"):
        return float(known.mean()), float(known.std())


def in_units(values: Array, spread: Array) -> Array:
    """Return values / spread, NaN where nothing spreads."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        result: Array = np.where(spread > 0, values / spread, np.nan)
    return result
