"""Binned columns of a whole forest: those of thresholds, oblique tests and sets, side by side."""

from __future__ import annotations

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.remembered import remembered
from bitvec.runtime.predict.cpu.bins import set_bins
from bitvec.runtime.predict.cpu.bins.binners import MOST_BINNED, BinnedColumns, Binner
from bitvec.runtime.predict.cpu.bins.oblique_bins import bin_oblique
from bitvec.runtime.predict.cpu.bins.threshold_bins import (
    MOST_THRESHOLDS,
    ThresholdBinner,
    bin_thresholds,
)


def unsupported_reason(forest: Forest, *, counts: bool = True) -> str | None:
    """Return why a forest's nodes cannot read binned columns, or None.

    Without `counts`, what only making the binned columns would tell is left out.
    """
    reason = set_bins.unsupported_reason(forest)
    # A node reads one binned column and adds at most two thresholds; beyond that only a count
    # tells.
    if reason is not None or not counts or 2 * forest.n_nodes + 8 <= MOST_THRESHOLDS:
        return reason
    binned = bin_forest(forest)
    if binned.n_binned >= MOST_BINNED:
        return f"its nodes read {binned.n_binned} binned columns, {MOST_BINNED} or more"
    most = max(
        (m.most_thresholds for m in binned.binners if isinstance(m, ThresholdBinner)), default=0
    )
    if most > MOST_THRESHOLDS:
        return f"a column has {most} thresholds, more than {MOST_THRESHOLDS}"
    return None


@remembered
def bin_forest(forest: Forest) -> BinnedColumns:
    """Return the binned columns of a forest whose sets have some."""
    tests = forest.tests
    is_set = tests.kind == Kind.SET
    is_oblique = ~tests.is_one_hot
    bin_column = np.zeros(forest.n_nodes, np.int32)
    least = np.zeros(forest.n_nodes, np.uint8)
    binners: list[Binner] = []
    n_binned = 0
    node = np.flatnonzero(~is_set & ~is_oblique)
    if node.size:
        bin_column[node], least[node], n_binned, bins = bin_thresholds(forest, node)
        binners.append(bins)
    node = np.flatnonzero(is_oblique)
    if node.size:
        bin_column[node], least[node], n_more, oblique = bin_oblique(forest, node, n_binned)
        binners.append(oblique)
        n_binned += n_more
    node = np.flatnonzero(is_set)
    if node.size:
        bin_column[node], least[node], n_more, sets = set_bins.bin_sets(forest, node, n_binned)
        binners.append(sets)
        n_binned += n_more
    return BinnedColumns(bin_column, least, n_binned, tuple(binners))
