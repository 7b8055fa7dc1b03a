"""Rows that are known to reach nodes, where that cannot be computed and has to be found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.reference import outcomes
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.verify.probing.probe_targets import Targets, sides


class FoundRows:
    """Rows known to go left (0) or right (1) at a node, or to come by (2): numbers in `found`."""

    def __init__(self, forest: Forest, X: Float[Array, "n n_features"]) -> None:
        self.left, self.right = structure.children(forest.bitvectors)
        self.found = np.full((forest.n_nodes, 3), -1, np.int64)
        self.parts, self.size = [X], len(X)
        for row, node, goes_right in walk(forest, X):
            self.found[node, goes_right.astype(np.int64)] = row
            self.found[node, 2] = row

    def rows(self, number: Array) -> Array:
        """Return rows by their numbers."""
        if len(self.parts) > 1:
            self.parts = [np.concatenate(self.parts)]
        return self.parts[0][number]

    def best(self, node: Array, wanted: Targets) -> tuple[Array, Array]:
        """Return a row to start from per target (-1: none), and whether it shows the target."""
        side = sides(wanted) % 3  # -1, either side, is the last
        same = self.found[node, side]
        return np.where(same >= 0, same, self.found[node, 2]), (same >= 0) & (side < 2)

    def add(
        self,
        X: Float[Array, "n n_features"],
        node: Int64[Array, " n"],
        goes_right: Bool[Array, " n"],
        wanted: Targets,
    ) -> None:
        """Keep the rows that are the first to show a side of a node or to come by a child."""
        side = sides(wanted) % 3
        child = np.where(goes_right, self.right[node], self.left[node])
        # The first target of a node counts: those of its sides come before a missing value.
        opens = np.zeros(node.size, bool)
        opens[np.unique(child, return_index=True)[1]] = True
        opens &= (child >= 0) & (self.found[np.maximum(child, 0), 2] < 0)
        answers = (side < 2) & (self.found[node, side] < 0)
        number = self.size + np.arange(node.size)
        self.found[child[opens], 2] = number[opens]
        self.found[node[answers], side[answers]] = number[answers]
        self.found[node[answers], 2] = number[answers]
        kept = opens | answers
        if kept.any():
            self.parts.append(X)
            self.size += len(X)

    def admit(self, X: Float[Array, "1 n_features"], node: int) -> None:
        """Keep a row that comes by a node."""
        self.found[node, 2] = self.size
        self.parts.append(X)
        self.size += 1


def walk(forest: Forest, Z: Array) -> Iterator[tuple[Array, Array, Array]]:
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
