"""Rows that bring every node of a forest to every outcome of its test, and to the values around it.

For each node the path's region (`regions`) says which values a row may hold to come by; each target
of the node (`targets`) then fixes the column that it tests: the tie, one ulp to either side,
infinities, signed zeros, NaN, each code. All other columns keep a base row's values, pushed into
the region. Every row is sent down its tree by the literal tests before it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int32

from bitvec import tree_paths
from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.forest import Forest
from bitvec.probing.base_rows import BaseRows
from bitvec.probing.float_keys import floats, keys
from bitvec.probing.found_rows import FoundRows, walk
from bitvec.probing.projection import bisect, project
from bitvec.probing.regions import Plan, Region, ancestors, plan, regions
from bitvec.probing.targets import Outcome, Targets, targets
from bitvec.reference import columns, outcomes

BLOCK = 1 << 22
"""Elements of X held at a time, about."""
TARGETS_PER_NODE = 10
FIRST_ROWS = 2048
"""Base rows sent through trees with tests of several columns, as starts for the search."""
ATTEMPTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """What rows have shown at each node, as bits of `Outcome`.

    `needed` holds the outcomes that the node's path admits, `seen` those that rows have shown there
    (a set's codes only if each of them was shown). `reachable` is false where no row can come by.
    """

    reachable: Bool[Array, " n_nodes"]
    needed: Int32[Array, " n_nodes"]
    seen: Int32[Array, " n_nodes"]

    @property
    def is_covered(self) -> Bool[Array, " n_nodes"]:
        """Whether a node is reachable and showed every outcome that it can."""
        covered: Array = self.reachable & (self.needed & ~self.seen == 0)
        return covered

    @property
    def fraction(self) -> float:
        """Covered nodes over reachable ones; 1 for a forest without nodes."""
        reachable = int(self.reachable.sum())
        return int(self.is_covered.sum()) / reachable if reachable else 1.0

    def missed(self, node: int) -> Outcome:
        """Return the outcomes that a node can show and has not."""
        return (
            Outcome(int(self.needed[node] & ~self.seen[node]))
            if self.reachable[node]
            else Outcome(0)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """Rows for a forest, made anew, and alike, by each `blocks()`.

    Parameters
    ----------
    forest : Forest
    seed : int
    base_rows : F, (n, n_features), optional
        Rows from which the columns off a node's path are taken; else values near the forest's
        thresholds are drawn.
    missing, infinite : bool
        Whether rows may hold NaN and infinities. Without them, an outcome that needs one is not
        asked for, and a node that needs one is not reachable.
    """

    forest: Forest
    seed: int = 0
    base_rows: Float[Array, "n n_features"] | None = None
    missing: bool = True
    infinite: bool = True

    def blocks(self) -> Iterator[tuple[Float[Array, "n n_features"], Coverage]]:
        """Yield distinct rows and the coverage so far; the last coverage is the whole forest's.

        Notes
        -----
        O(nodes x depth) tests and O(nodes x n_features) values, in blocks of about 2**22 values.
        """
        if self.forest.feature_map is not None:
            yield from _mapped_blocks(self)
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
) -> Probes:
    """Return rows that reach every node of a forest and show every outcome there; see `Probes`.

    Raises
    ------
    InputError
        If `base_rows` does not have the forest's columns.

    Examples
    --------
    >>> from bitvec.forest import from_matrices
    >>> stump = from_matrices([[1, 0]], [0.5], [[0], [1]], [10, 20])
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
    return Probes(forest, seed, base_rows, missing, infinite)


def _allowed(X: Array, *, missing: bool, infinite: bool) -> Array:
    if not missing:
        X = np.where(np.isnan(X), X.dtype.type(0), X)
    most = np.finfo(X.dtype).max
    return X if infinite else np.clip(X, -most, most)


def _blocks(probes: Probes) -> Iterator[tuple[Array, Coverage]]:
    forest = probes.forest
    facts = plan(forest, missing=probes.missing, infinite=probes.infinite)
    state = _State(probes, facts)
    for nodes in _node_blocks(forest, facts):
        for region in regions(facts, nodes):
            yield from state.probe(region)
    if forest.n_nodes == 0:
        yield state.base.draw(1, np.random.default_rng(probes.seed)), state.coverage


def _node_blocks(forest: Forest, facts: Plan) -> Iterator[Array]:
    """Split the nodes; where tests of several columns are about, by depth, parents first."""
    size = max(1, BLOCK // (TARGETS_PER_NODE * max(forest.n_features, 1)))
    mixed_trees = np.zeros(forest.n_trees, bool)
    mixed_trees[facts.tree[facts.is_below_mixed]] = True
    simple = np.flatnonzero(~mixed_trees[facts.tree])
    for start in range(0, simple.size, size):
        yield simple[start : start + size]
    others = np.flatnonzero(mixed_trees[facts.tree])
    if others.size:
        depth = tree_paths.node_depth(forest.bitvectors)[others]
        for level in range(int(depth.max()) + 1):
            nodes = others[depth == level]
            for start in range(0, nodes.size, size):
                yield nodes[start : start + size]


class _State:
    """What has been shown so far, and rows known to reach nodes below tests of several columns."""

    def __init__(self, probes: Probes, facts: Plan) -> None:
        n_nodes = probes.forest.n_nodes
        self.probes, self.facts, self.forest = probes, facts, probes.forest
        self.base = BaseRows(self.forest, probes.base_rows)
        self.coverage = Coverage(
            np.zeros(n_nodes, bool), np.zeros(n_nodes, np.int32), np.zeros(n_nodes, np.int32)
        )
        self.finds: FoundRows | None = None
        if facts.is_below_mixed.any():
            first = self.base.draw(FIRST_ROWS, np.random.default_rng(probes.seed))
            self.finds = FoundRows(self.forest, first)

    def probe(self, region: Region) -> Iterator[tuple[Array, Coverage]]:
        """Make the rows of a region's targets, check them and record what they show."""
        coverage, nodes = self.coverage, region.nodes
        rng = np.random.default_rng([self.probes.seed, int(nodes[0])])
        coverage.reachable[nodes] = region.reachable
        wanted = targets(self.facts, region, self.base.draw(nodes.size, rng))
        needed = wanted.take(np.flatnonzero(wanted.needed))
        np.bitwise_or.at(coverage.needed, nodes[needed.at], needed.outcome)
        failed_node, failed_outcome = [], []
        step = max(1, BLOCK // max(self.forest.n_features, 1))
        for start in range(0, wanted.at.size, step):
            part = wanted.take(np.arange(start, min(start + step, wanted.at.size)))
            X, shown = self._rows(region, part, rng)
            node = nodes[part.at]
            np.bitwise_or.at(coverage.seen, node[shown], part.outcome[shown])
            failed = ~shown & part.needed
            failed_node.append(node[failed])
            failed_outcome.append(part.outcome[failed])
            yield _distinct(X), coverage
        # An outcome of several targets (each code of a set) is seen if every one of them was.
        for node, outcome in zip(failed_node, failed_outcome, strict=True):
            np.bitwise_and.at(coverage.seen, node, ~outcome)
        if self.finds is not None:
            yield from self._edges(nodes[self.facts.feature[nodes] < 0])

    def _rows(
        self, region: Region, wanted: Targets, rng: np.random.Generator
    ) -> tuple[Array, Bool[Array, " n"]]:
        """Return one row per target, and whether it really shows the target's outcome."""
        X = self.base.draw(wanted.at.size, rng)
        node = region.nodes[wanted.at]
        if self.finds is None:
            X = self._into_region(region, wanted, X)
            return X, self._shows(X, node, wanted)
        found, is_answer = self.finds.best(node, wanted)
        X[found >= 0] = self.finds.rows(found[found >= 0])
        X = np.where(is_answer[:, None], X, self._into_region(region, wanted, X))
        shown = self._shows(X, node, wanted)
        for attempt in range(ATTEMPTS):
            # Where no row was found to come by, the search for the parent's side has failed.
            worth = self.facts.is_below_mixed[node] & (found >= 0)
            if attempt:
                worth &= wanted.needed
            bad = np.flatnonzero(~shown & worth)
            if bad.size == 0:
                break
            part = wanted.take(bad)
            if attempt:
                X[bad] = self._into_region(region, part, self.base.draw(bad.size, rng))
            side = np.select(
                [part.outcome == Outcome.LEFT, part.outcome == Outcome.RIGHT], [0, 1], -1
            )
            bounds = self._bounds(region, part, X[bad])
            X[bad] = project(self.facts, X[bad], node[bad], side, *bounds, rng)
            shown[bad] = self._shows(X[bad], node[bad], part)
        self.finds.add(X[shown], node[shown], wanted.outcome[shown])
        return X, shown

    def _into_region(self, region: Region, wanted: Targets, X: Array) -> Array:
        """Return rows with every column of the path admitted and the target's column in place."""
        X = X.copy()
        low, high = self._limits(region)
        at, used = wanted.at, region.columns
        x = np.minimum(np.maximum(X[:, used], low[at]), high[at])  # NaN stays
        must = np.isnan(x) & ~region.may_miss[at]
        x[must] = np.clip(X.dtype.type(0), low[at][must], high[at][must])
        for j, atoms in region.atoms.items():
            key = keys(x[:, j])
            atom = np.clip(np.searchsorted(atoms.first, key, side="right") - 1, 0, None)
            move = np.flatnonzero(~np.isnan(x[:, j]) & ~atoms.admitted[at, atom])
            unbounded = np.full(move.size, self.facts.top)
            fitted, _ = region.fit(at[move], j, -unbounded, unbounded, key[move])
            x[move, j] = floats(fitted, X.dtype)
        x[~region.has_value[at]] = np.nan
        fixed = np.flatnonzero((wanted.column >= 0) & ~wanted.missing)
        x[fixed, wanted.column[fixed]] = floats(wanted.wish[fixed], X.dtype)
        x[wanted.minus_zero, wanted.column[wanted.minus_zero]] = -0.0
        x[wanted.missing, wanted.column[wanted.missing]] = np.nan
        X[:, used] = x
        return X

    def _limits(self, region: Region) -> tuple[Array, Array]:
        top, dtype = self.facts.top, self.forest.dtype
        low, high = (np.clip(bound, -top, top) for bound in (region.low, region.high))
        return floats(low, dtype), floats(high, dtype)

    def _bounds(self, region: Region, wanted: Targets, X: Array) -> tuple[Array, Array, Array]:
        """Return the box that each row may move in, and where it may be missing."""
        most = np.finfo(X.dtype).max
        low, high = np.full(X.shape, -most), np.full(X.shape, most)
        low[:, region.columns], high[:, region.columns] = (
            limit[wanted.at] for limit in self._limits(region)
        )
        pinned = region.columns[list(region.atoms)]
        low[:, pinned] = high[:, pinned] = X[:, pinned]
        own = np.flatnonzero((wanted.column >= 0) & ~wanted.missing)
        column = region.columns[wanted.column[own]]
        low[own, column] = floats(wanted.low[own], X.dtype)
        high[own, column] = floats(wanted.high[own], X.dtype)
        may_miss = np.zeros(X.shape, bool)
        may_miss[:, region.columns] = region.may_miss[wanted.at]
        return low, high, may_miss

    def _shows(self, X: Array, node: Array, wanted: Targets) -> Bool[Array, " n"]:
        """Send rows down the paths to their nodes, by the literal tests."""
        shown = np.ones(len(X), bool)
        for position, above, right in ancestors(self.facts, node):
            shown[position] &= outcomes(self.forest, X, position, above) == right
        sided = np.flatnonzero((wanted.outcome == Outcome.LEFT) | (wanted.outcome == Outcome.RIGHT))
        goes_right = outcomes(self.forest, X, sided, node[sided])
        shown[sided] &= goes_right == (wanted.outcome[sided] == Outcome.RIGHT)
        return shown

    def _edges(self, nodes: Array) -> Iterator[tuple[Array, Coverage]]:
        assert self.finds is not None
        pair = self.finds.found[nodes, :2]
        nodes, pair = nodes[np.all(pair >= 0, axis=1)], pair[np.all(pair >= 0, axis=1)]
        if nodes.size == 0:
            return
        left, right = self.finds.rows(pair[:, 0]), self.finds.rows(pair[:, 1])
        ends = bisect(self.facts, left, right, nodes)
        shown = np.ones(nodes.size, bool)
        for X in ends:
            for position, above, right in ancestors(self.facts, nodes):
                shown[position] &= outcomes(self.forest, X, position, above) == right
        self.coverage.seen[nodes[shown]] |= int(Outcome.EDGE)
        yield _distinct(np.concatenate(ends)), self.coverage


def _mapped_blocks(probes: Probes) -> Iterator[tuple[Array, Coverage]]:
    """A feature map cannot be inverted: show what base rows show, ask for both sides everywhere."""
    forest = probes.forest
    X = probes.base_rows
    if X is None:
        rng = np.random.default_rng(probes.seed)
        X = rng.standard_normal((FIRST_ROWS, forest.n_features)).astype(forest.dtype)
    sides = int(Outcome.LEFT | Outcome.RIGHT)
    coverage = Coverage(
        np.ones(forest.n_nodes, bool),
        np.full(forest.n_nodes, sides, np.int32),
        np.zeros(forest.n_nodes, np.int32),
    )
    step = max(1, BLOCK // max(forest.n_features, forest.n_trees, 1))
    for start in range(0, len(X), step):
        rows = X[start : start + step]
        for _, node, goes_right in walk(forest, columns(forest, rows)):
            shown = np.where(goes_right, int(Outcome.RIGHT), int(Outcome.LEFT)).astype(np.int32)
            np.bitwise_or.at(coverage.seen, node, shown)
        yield _distinct(rows), coverage


def _distinct(X: Array) -> Array:
    """Drop rows whose bytes occur before (so -0.0 and 0.0 stay apart)."""
    if X.shape[1] == 0:
        return X[:1]
    rows = np.ascontiguousarray(X).view(np.dtype((np.void, X.dtype.itemsize * X.shape[1]))).ravel()
    return X[np.sort(np.unique(rows, return_index=True)[1])]
