"""Rows that bring every node of a forest to every outcome of its test, and to the values around it.

For each node the path's region (`bitvec.regions`) says which values a row may hold to come by; each
target of the node (`bitvec.targets`) then fixes the column that it tests: the tie, one ulp to either
side, infinities, signed zeros, NaN, each code. All other columns keep a base row's values, pushed
into the region. Every row is sent down its tree by the literal tests before it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int32

from bitvec import structure
from bitvec.arrays import Array
from bitvec.errors import InputError
from bitvec.float_keys import floats, keys
from bitvec.forest import Forest
from bitvec.node_tests import Kind
from bitvec.projection import bisect, project
from bitvec.reference import columns, outcomes
from bitvec.regions import Plan, Region, ancestors, plan, regions
from bitvec.targets import Outcome, Targets, targets
from bitvec.value_sets import n_codes

BLOCK = 1 << 22
"""Elements of X held at a time, about."""
TARGETS_PER_NODE = 10
FIRST_ROWS = 2048
"""Base rows that are sent through a tree with tests of several columns, as starts for the search."""
ATTEMPTS = 4


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
        return self.reachable & (self.needed & ~self.seen == 0)

    @property
    def fraction(self) -> float:
        """Covered nodes over reachable ones; 1 for a forest without nodes."""
        reachable = int(self.reachable.sum())
        return int(self.is_covered.sum()) / reachable if reachable else 1.0

    def missed(self, node: int) -> Outcome:
        """Return the outcomes that a node can show and has not."""
        return Outcome(int(self.needed[node] & ~self.seen[node])) if self.reachable[node] else Outcome(0)


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


class _Base:
    """Draws base rows: rows of X, or values near the thresholds and among the codes of each column."""

    def __init__(self, probes: Probes) -> None:
        self.X = probes.base_rows
        forest = probes.forest
        self.shape = forest.n_features, forest.dtype
        if self.X is not None:
            return
        tests, feature = forest.tests, forest.tests.feature
        ordered = (feature >= 0) & (tests.kind != Kind.SET) & np.isfinite(tests.b)
        order = np.lexsort((tests.b[ordered], feature[ordered]))
        self.b = tests.b[ordered][order]
        self.start = np.searchsorted(feature[ordered][order], np.arange(forest.n_features + 1))
        self.codes = np.zeros(forest.n_features, np.int64)
        for node in np.flatnonzero(tests.kind == Kind.SET):
            self.codes[feature[node]] = max(self.codes[feature[node]], n_codes(forest, int(node)))
        self.several = np.zeros(forest.n_features, bool)
        row_feature = np.repeat(feature, np.diff(tests.row_ptr[tests.node_ptr]))
        self.several[tests.column[row_feature < 0]] = True
        if tests.indicator is not None:
            np.maximum.at(self.codes, tests.column, tests.indicator.astype(np.int64) + 2)

    def draw(self, n: int, rng: np.random.Generator) -> Float[Array, "n n_features"]:
        if self.X is not None:
            return self.X[rng.integers(len(self.X), size=n)]
        n_features, dtype = self.shape
        X = np.zeros((n, n_features), dtype)
        for j in range(n_features):
            first, last = int(self.start[j]), int(self.start[j + 1])
            if self.codes[j]:
                X[:, j] = rng.integers(self.codes[j], size=n)
            elif self.several[j]:
                X[:, j] = rng.standard_normal(n) * np.exp2(rng.integers(-2, 4, n))
            if last > first:
                i = rng.integers(first, last, n)
                between = self.b[i] / 2 + self.b[np.minimum(i + 1, last - 1)] / 2
                mixed = bool(self.codes[j]) or self.several[j]
                X[:, j] = np.where(rng.random(n) < 0.5, between, X[:, j]) if mixed else between
        return X


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
        depth = structure.node_depth(forest.bitvectors)[others]
        for level in range(int(depth.max()) + 1):
            nodes = others[depth == level]
            for start in range(0, nodes.size, size):
                yield nodes[start : start + size]


class _State:
    """What has been shown so far, and rows known to reach nodes below tests of several columns."""

    def __init__(self, probes: Probes, facts: Plan) -> None:
        n_nodes = probes.forest.n_nodes
        self.probes, self.facts, self.forest = probes, facts, probes.forest
        self.base = _Base(probes)
        self.coverage = Coverage(
            np.zeros(n_nodes, bool), np.zeros(n_nodes, np.int32), np.zeros(n_nodes, np.int32)
        )
        self.finds = _Finds(self.forest, self.base, probes) if facts.is_below_mixed.any() else None

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
            bad = np.flatnonzero(~shown & self.facts.is_below_mixed[node])
            if bad.size == 0:
                break
            part = wanted.take(bad)
            if attempt:
                X[bad] = self._into_region(region, part, self.base.draw(bad.size, rng))
            side = np.select([part.outcome == Outcome.LEFT, part.outcome == Outcome.RIGHT], [0, 1], -1)
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
        ends = bisect(self.facts, *(self.finds.rows(pair[:, side]) for side in (0, 1)), nodes)
        shown = np.ones(nodes.size, bool)
        for X in ends:
            for position, above, right in ancestors(self.facts, nodes):
                shown[position] &= outcomes(self.forest, X, position, above) == right
        self.coverage.seen[nodes[shown]] |= int(Outcome.EDGE)
        yield _distinct(np.concatenate(ends)), self.coverage


class _Finds:
    """Rows known to go left (0) or right (1) at a node, or to come by (2), as numbers in `found`."""

    def __init__(self, forest: Forest, base: _Base, probes: Probes) -> None:
        self.left, self.right = structure.children(forest.bitvectors)
        self.found = np.full((forest.n_nodes, 3), -1, np.int64)
        if base.X is not None:
            X = base.X[:FIRST_ROWS]
        else:
            X = base.draw(FIRST_ROWS, np.random.default_rng(probes.seed))
        self.parts, self.size = [X], len(X)
        for row, node, goes_right in _walk(forest, X):
            self.found[node, goes_right.astype(np.int64)] = row
            self.found[node, 2] = row

    def rows(self, number: Array) -> Array:
        """Return rows by their numbers."""
        if len(self.parts) > 1:
            self.parts = [np.concatenate(self.parts)]
        return self.parts[0][number]

    def best(self, node: Array, wanted: Targets) -> tuple[Array, Array]:
        """Return a row to start from for each target (-1: none), and whether it shows the target."""
        side = np.select([wanted.outcome == Outcome.LEFT, wanted.outcome == Outcome.RIGHT], [0, 1], 2)
        same = self.found[node, side]
        return np.where(same >= 0, same, self.found[node, 2]), (same >= 0) & (side < 2)

    def add(self, X: Array, node: Array, outcome: Array) -> None:
        """Keep the rows that are the first to go left or right at a node."""
        for side, (bit, child) in enumerate(((Outcome.LEFT, self.left), (Outcome.RIGHT, self.right))):
            new = np.flatnonzero((outcome == bit) & (self.found[node, side] < 0))
            number = self.size + np.arange(new.size)
            self.found[node[new], side] = number
            self.found[node[new], 2] = number
            below = child[node[new]]
            self.found[below[below >= 0], 2] = number[below >= 0]
            self.parts.append(X[new])
            self.size += new.size


def _walk(forest: Forest, Z: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Yield (row, node, goes right) for every node that a row comes by, level by level."""
    B = forest.bitvectors
    left, right = structure.children(B)
    roots = B.node_ptr[:-1][np.diff(B.leaf_ptr) > 1]
    row, node = np.repeat(np.arange(len(Z)), roots.size), np.tile(roots, len(Z))
    while node.size:
        goes_right = outcomes(forest, Z, row, node)
        yield row, node, goes_right
        node = np.where(goes_right, right[node], left[node])
        row, node = row[node >= 0], node[node >= 0]


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
        for _, node, goes_right in _walk(forest, columns(forest, rows)):
            shown = np.where(goes_right, int(Outcome.RIGHT), int(Outcome.LEFT)).astype(np.int32)
            np.bitwise_or.at(coverage.seen, node, shown)
        yield _distinct(rows), coverage


def _distinct(X: Array) -> Array:
    """Drop rows whose bytes occur before (so -0.0 and 0.0 stay apart)."""
    if X.shape[1] == 0:
        return X[:1]
    rows = np.ascontiguousarray(X).view(np.dtype((np.void, X.dtype.itemsize * X.shape[1]))).ravel()
    return X[np.sort(np.unique(rows, return_index=True)[1])]
