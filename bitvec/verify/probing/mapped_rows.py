"""Rows for a forest with a feature map: those at hand, and those that its key tables admit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.reference import columns
from bitvec.core.shape_annotations import Float
from bitvec.core.structure import children
from bitvec.verify.probing.coverage import Coverage
from bitvec.verify.probing.found_rows import walk
from bitvec.verify.probing.key_parts import can_be_searched
from bitvec.verify.probing.key_paths import KeyPaths
from bitvec.verify.probing.key_rows import with_keys
from bitvec.verify.probing.probe_targets import Outcome
from bitvec.verify.probing.trials import BLOCK

FIRST_ROWS = 2048
"""Rows drawn at random where none are given."""
FOUND_ROWS = 512
"""Rows found for paths that are sent through all trees at a time."""


def mapped_rows(
    forest: Forest,
    base: Float[Array, "n n_features"] | None,
    *,
    missing: bool,
    infinite: bool,
    keep: Callable[[Array], Array] | None,
    seed: int,
) -> Iterator[tuple[Float[Array, "n n_features"], Coverage]]:
    """Yield rows and the coverage so far, which asks for both sides of each node.

    Where all columns of the map are those of X or of key tables, rows are searched for each side
    that the rows at hand do not show, and sides are proved to have none. Of other maps, coverage
    counts what the rows at hand show.
    """
    rng = np.random.default_rng(seed)
    X = base
    if X is None:
        X = rng.standard_normal((FIRST_ROWS, forest.n_features)).astype(forest.dtype)
        with_keys(forest, X, rng, missing=missing, infinite=infinite)
    sides = int(Outcome.LEFT | Outcome.RIGHT)
    coverage = Coverage(
        np.ones(forest.n_nodes, bool),
        np.full(forest.n_nodes, sides, np.int32),
        np.zeros(forest.n_nodes, np.int32),
    )
    step = max(1, BLOCK // max(forest.n_features, forest.n_trees, 1))
    for start in range(0, len(X), step):
        rows = X[start : start + step]
        if keep is not None:
            rows = keep(rows)
        _note(coverage, walk(forest, columns(forest, rows)))
        yield rows, coverage
    if keep is not None or not can_be_searched(forest):
        return
    search = KeyPaths(forest, X, missing=missing, infinite=infinite, seed=seed)
    for rows in _searched(search, coverage):
        _note(coverage, walk(forest, columns(forest, rows)))
        yield rows, coverage


def _note(coverage: Coverage, ways: Iterator[tuple[Array, Array, Array]]) -> None:
    for _, node, goes_right in ways:
        shown = np.where(goes_right, int(Outcome.RIGHT), int(Outcome.LEFT)).astype(np.int32)
        np.bitwise_or.at(coverage.seen, node, shown)


def _searched(search: KeyPaths, coverage: Coverage) -> Iterator[Array]:
    """Yield rows for sides that were not shown; where there are none, neither is one asked for."""
    B = search.forest.bitvectors
    parent, from_right = tree_paths.parents(B)
    below = children(B)
    found: list[Array] = []
    for tree in range(B.n_trees):
        nodes = np.arange(B.node_ptr[tree], B.node_ptr[tree + 1])
        if np.all(coverage.needed[nodes] & ~coverage.seen[nodes] == 0):
            continue
        paths = search.of_tree(nodes)
        for node in nodes.tolist():  # parents first
            for right, side in ((False, Outcome.LEFT), (True, Outcome.RIGHT)):
                if coverage.seen[node] & side or not coverage.reachable[node]:
                    continue
                verdict = paths.solve(_path(node, right, parent, from_right))
                if verdict.none:
                    coverage.needed[node] &= ~int(side)
                    first, last = (B.mid, B.hi) if right else (B.lo, B.mid)
                    inside = (B.lo[nodes] >= first[node]) & (B.hi[nodes] <= last[node])
                    coverage.reachable[nodes[inside]] = False
                elif verdict.rows is not None and verdict.outcomes is not None:
                    _note(coverage, _ways(nodes[0], verdict.outcomes, below))
                    found.append(verdict.rows)
        if sum(map(len, found)) >= FOUND_ROWS:
            yield np.concatenate(found)
            found = []
    if found:
        yield np.concatenate(found)


def _ways(root: int, h: Array, below: tuple[Array, Array]) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the same as `walk` for one tree, of which all outcomes are known."""
    row, node = np.arange(len(h)), np.full(len(h), root)
    while node.size:
        goes_right = h[row, node - root]
        yield row, node, goes_right
        node = np.where(goes_right, below[1][node], below[0][node])
        row, node = row[node >= 0], node[node >= 0]


def _path(node: int, right: bool, parent: Array, from_right: Array) -> list[tuple[int, bool]]:
    path = [(node, right)]
    while parent[node] >= 0:
        path.append((int(parent[node]), bool(from_right[node])))
        node = int(parent[node])
    return path[::-1]
