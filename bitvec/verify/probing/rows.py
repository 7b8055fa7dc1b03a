"""Rows that bring every node of a forest to every outcome of its test, and to the values around it.

For each node the path's region (`regions`) says which values a row may hold to come by; each target
of the node (`targets`) then fixes the column that it tests: the tie, one ulp to either side,
infinities, signed zeros, NaN, each code. All other columns keep a base row's values, pushed into
the region. Every row is sent down its tree by the literal tests before it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import NodeTests
from bitvec.core.shape_annotations import Float
from bitvec.core.value_sets import n_codes
from bitvec.errors import InputError
from bitvec.verify.probing.base_rows import BaseRows
from bitvec.verify.probing.coverage import Coverage
from bitvec.verify.probing.found_rows import FoundRows
from bitvec.verify.probing.mapped_rows import mapped_rows
from bitvec.verify.probing.mixed_trials import MixedTrials
from bitvec.verify.probing.regions import Plan, plan, regions
from bitvec.verify.probing.trials import Trials, rows_at_a_time

TARGETS_PER_NODE = 10
TARGETS_PER_CODE = 3
MOST_CODES = 1 << 16
"""Codes of a node that count for its cost, at most: of larger ranges few are shown, as a rule."""
FIRST_ROWS = 2048
"""Base rows sent through trees with tests of several columns, as starts for the search."""


@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """Rows for a forest, made anew, and alike, by each `blocks()`.

    Parameters
    ----------
    forest : Forest
    seed : int
    base_rows : F, (n, n_features), optional
        Rows from which columns off a node's path are taken, beside values near thresholds.
    missing, infinite : bool
        Whether rows may hold NaN and infinities. Without them, an outcome that needs one is not
        asked for, and a node that needs one is not reachable.
    keep : callable, optional
        From rows to those of them that count, where a forest has a feature map.
    others : NodeTests, optional
        Of what the forest is compared with: their thresholds and codes are drawn from as well.
    """

    forest: Forest
    seed: int = 0
    base_rows: Float[Array, "n n_features"] | None = None
    missing: bool = True
    infinite: bool = True
    keep: Callable[[Array], Array] | None = None
    others: NodeTests | None = None

    def blocks(self) -> Iterator[tuple[Float[Array, "n n_features"], Coverage]]:
        """Yield distinct rows and the coverage so far; the last coverage is the whole forest's.

        Notes
        -----
        O(nodes x depth) tests and O(nodes x n_features) values, in blocks of about 2**22 values.
        """
        if self.forest.feature_map is not None:
            found = mapped_rows(
                self.forest,
                self.base_rows,
                missing=self.missing,
                infinite=self.infinite,
                keep=self.keep,
                seed=self.seed,
            )
            yield from ((_distinct(rows), coverage) for rows, coverage in found)
        else:
            yield from _blocks(self)

    def collect(self) -> tuple[Float[Array, "n n_features"], Coverage]:
        """Return all rows at once, for a small forest."""
        parts = list(self.blocks())
        return np.concatenate([rows for rows, _ in parts]), parts[-1][1]


def probe_rows(
    forest: Forest,
    *,
    seed: int = 0,
    base_rows: Array | None = None,
    missing: bool = True,
    infinite: bool = True,
    keep: Callable[[Array], Array] | None = None,
    others: NodeTests | None = None,
) -> Probes:
    """Return rows that reach every node of a forest and show every outcome there; see `Probes`.

    Raises
    ------
    InputError
        If `base_rows` does not have the forest's columns.

    Examples
    --------
    >>> from bitvec.core.forest import Forest
    >>> stump = Forest.from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
    >>> rows, coverage = probe_rows(stump).collect()
    >>> coverage.fraction, 0.5 in rows[:, 0], np.nextafter(0.5, 1) in rows[:, 0]
    (1.0, True, True)
    """
    if base_rows is not None:
        base_rows = np.asarray(base_rows)
        if base_rows.ndim != 2 or base_rows.shape[1] != forest.n_features or not len(base_rows):
            raise InputError(
                f"`base_rows` must have shape (n, {forest.n_features}) with n >= 1, "
                f"got {base_rows.shape}: pass rows of the training columns."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            base_rows = base_rows.astype(forest.dtype)
        base_rows = _allowed(base_rows, missing=missing, infinite=infinite)
    return Probes(forest, seed, base_rows, missing, infinite, keep, others)


def _allowed(X: Array, *, missing: bool, infinite: bool) -> Array:
    if not missing:
        X = np.where(np.isnan(X), X.dtype.type(0), X)
    most = np.finfo(X.dtype).max
    return X if infinite else np.clip(X, -most, most)


def _blocks(probes: Probes) -> Iterator[tuple[Array, Coverage]]:
    forest = probes.forest
    facts = plan(forest, missing=probes.missing, infinite=probes.infinite)
    base = BaseRows(forest, probes.base_rows, others=probes.others, missing=probes.missing)
    n_nodes = forest.n_nodes
    coverage = Coverage(
        np.zeros(n_nodes, bool), np.zeros(n_nodes, np.int32), np.zeros(n_nodes, np.int32)
    )
    trials = Trials(facts, base, coverage)
    if facts.is_below_mixed.any():
        first = base.draw(FIRST_ROWS, np.random.default_rng(probes.seed))
        trials = MixedTrials(facts, base, coverage, FoundRows(forest, first))
    for nodes in _node_blocks(forest, facts):
        for region in regions(facts, nodes):
            rng = np.random.default_rng([probes.seed, int(nodes[0])])
            for rows in trials.probe(region, rng):
                yield _distinct(rows), coverage
    if n_nodes == 0:
        yield base.draw(1, np.random.default_rng(probes.seed)), coverage


def _node_blocks(forest: Forest, facts: Plan) -> Iterator[Array]:
    """Split the nodes; where tests of several columns are about, by depth, parents first."""
    tests, every = forest.tests, np.arange(forest.n_nodes)
    cost = TARGETS_PER_NODE + TARGETS_PER_CODE * np.minimum(n_codes(tests, every), MOST_CODES)
    mixed_trees = np.zeros(forest.n_trees, bool)
    mixed_trees[facts.tree[facts.is_below_mixed]] = True
    is_mixed = mixed_trees[facts.tree]
    parts = [np.flatnonzero(~is_mixed)]
    if is_mixed.any():
        depth = tree_paths.node_depth(forest.bitvectors)
        last = int(depth[is_mixed].max())
        parts += [np.flatnonzero(is_mixed & (depth == level)) for level in range(last + 1)]
    for nodes in parts:
        block = np.cumsum(cost[nodes]) // rows_at_a_time(forest.n_features)
        yield from np.split(nodes, np.flatnonzero(np.diff(block)) + 1) if nodes.size else []


def _distinct(X: Array) -> Array:
    """Drop rows whose bytes occur before (so -0.0 and 0.0 stay apart)."""
    if X.shape[1] == 0:
        return X[:1]
    Z = np.ascontiguousarray(X)
    rows = Z.view(np.dtype((np.void, Z.dtype.itemsize * Z.shape[1]))).ravel()
    first = np.sort(np.unique(rows, return_index=True)[1])
    return X if first.size == len(X) else X[first]
