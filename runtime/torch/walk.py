"""Walking all trees of axis-aligned comparisons at once, on flat tables of slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bitvec import structure, tree_paths
from bitvec.arrays import Array
from bitvec.forest import Forest
from bitvec.node_tests import Kind, MissingRule, Relation

ROWS = {"cpu": 1024}
"""Rows walked at a time: on a CPU, few enough that their columns and places stay in its cache."""
PAIRS = 1 << 24
"""(tree, row) pairs walked at a time, on any device."""
LEVELS = 8
"""Levels between two looks at which pairs still move: finding them costs about two levels."""


def is_plain_tree(forest: Forest) -> Array:
    """Return which trees hold only comparisons of one column for which no number is missing.

    bool, (n_trees,): with each relation by itself, `plain[tree]` is that all nodes of a tree are
    such comparisons and have one relation.
    """
    tests, B = forest.tests, forest.bitvectors
    rule = tests.missing_rule
    only_nan = rule == MissingRule.NAN
    if forest.inputs.missing_sentinel is None:
        only_nan |= rule == MissingRule.NAN_OR_SENTINEL
    compares = (tests.kind == Kind.MARGIN) | (tests.kind == Kind.KERNEL)
    fits = tests.is_one_hot & compares & only_nan
    n_nodes = np.diff(B.node_ptr)
    n_fitting = np.bincount(B.tree_of_node, fits, minlength=B.n_trees)
    n_greater = np.bincount(B.tree_of_node, tests.relation == Relation.GREATER, B.n_trees)
    plain: Array = (n_fitting == n_nodes) & ((n_greater == 0) | (n_greater == n_nodes))
    return plain


@dataclass(frozen=True, slots=True, eq=False)
class FlatTrees:
    """Trees that share one relation, as tables over slots: one slot per node and per leaf.

    Slots of one tree lie together, in breadth-first order, so the right child of a slot follows its
    left one and a step is `first[slot] + h`. A leaf is its own first child and its threshold is
    NaN, so that h is 0 there and a walk that has arrived stays.

    Parameters
    ----------
    trees : int64, (n_trees,)
        The deepest first, so that those with a next level are always a prefix.
    n_moving : tuple of int
        How many trees have a level 0, 1, 2 ...
    root : int32, (n_trees,)
    column, first : int32, (n_slots,)
    b : F, (n_slots,)
    missing_right : bool, (n_slots,)
    leaf : int64, (n_slots,)
        The leaf's number within its tree; 0 at a node.
    accepts_equal : bool
        Whether h is x >= b rather than x > b.
    some_right : bool
        Whether any node sends a missing value to the right.
    """

    trees: Tensor
    n_moving: tuple[int, ...]
    root: Tensor
    column: Tensor
    first: Tensor
    b: Tensor
    missing_right: Tensor
    leaf: Tensor
    accepts_equal: bool
    some_right: bool

    def exits(self, Z: Tensor) -> Tensor:
        """Return exit leaves within their trees, int64 (n_trees, batch), for Z (batch, n_columns).

        Cost: about 4 ns per (tree, row, level) on one core, most of it three gathers.
        """
        step = ROWS.get(Z.device.type, len(Z) + 1)
        step = max(1, min(step, PAIRS // len(self.trees), 2**31 // (Z.shape[1] + 1)))
        parts = [self._exits(Z[start : start + step]) for start in range(0, len(Z), step)]
        if not parts:
            return torch.zeros((len(self.trees), 0), dtype=torch.int64, device=Z.device)
        return torch.cat(parts, dim=1)

    def _exits(self, Z: Tensor) -> Tensor:
        batch, n_columns = Z.shape
        checks_missing = self.some_right and bool(torch.isnan(Z).any())
        values = Z.reshape(-1)
        start = torch.arange(batch, device=Z.device, dtype=torch.int32) * n_columns
        place = self.root[:, None].expand(-1, batch).reshape(-1).clone()
        start = start.expand(len(self.trees), -1).reshape(-1)
        # What moves is a prefix of `place` until the walk is narrowed to some of its elements.
        at, narrowed = place, None
        for level, n_trees in enumerate(self.n_moving):
            if level % LEVELS == 0 and level:
                node = at if narrowed is not None else at[: n_trees * batch]
                moving = torch.nonzero(self.first.index_select(0, node) != node)[:, 0]
                if 2 * len(moving) < len(node):
                    if narrowed is not None:
                        place[narrowed] = at
                        narrowed = narrowed[moving]
                    else:
                        narrowed = moving
                    at, start = place[narrowed], start[moving]
            count = len(at) if narrowed is not None else n_trees * batch
            node = at[:count]
            x = values.index_select(0, self.column.index_select(0, node) + start[:count])
            b = self.b.index_select(0, node)
            right = x >= b if self.accepts_equal else x > b
            if checks_missing:
                right |= torch.isnan(x) & self.missing_right.index_select(0, node)
            torch.add(self.first.index_select(0, node), right, out=node)
        if narrowed is not None:
            place[narrowed] = at
        return self.leaf.index_select(0, place).view(len(self.trees), batch)


def flatten(forest: Forest, trees: Array, device: torch.device) -> list[FlatTrees]:
    """Return plain trees as tables, by relation; see `is_plain_tree`."""
    B = forest.bitvectors
    has_nodes = np.diff(B.leaf_ptr) > 1
    accepts = np.zeros(B.n_trees, bool)
    roots = B.node_ptr[:-1][has_nodes]
    accepts[has_nodes] = forest.tests.relation[roots] == Relation.GREATER_EQUAL
    groups = ((trees[accepts[trees] == which], which) for which in (False, True))
    return [_table(forest, part, which, device) for part, which in groups if part.size]


def _table(forest: Forest, trees: Array, accepts_equal: bool, device: torch.device) -> FlatTrees:
    tests, B = forest.tests, forest.bitvectors
    depth = np.maximum.reduceat(tree_paths.leaf_depth(B), B.leaf_ptr[:-1])[trees]
    deepest_first = np.argsort(-depth, kind="stable")
    trees, depth = trees[deepest_first], depth[deepest_first]
    B, order = structure.select(B, trees)
    n_slots = B.n_trees + 2 * B.n_nodes
    # The slots of tree t begin at 2 · node_ptr[t] + t: its root, then a pair for each of its nodes.
    pair = 2 * np.arange(B.n_nodes) + B.tree_of_node + 1
    root = 2 * B.node_ptr[:-1] + np.arange(B.n_trees)
    slot_of_node = np.empty(B.n_nodes, np.int64)
    slot_of_leaf = np.empty(B.n_leaves, np.int64)
    single = np.diff(B.leaf_ptr) == 1
    slot_of_node[B.node_ptr[:-1][~single]] = root[~single]
    slot_of_leaf[B.leaf_ptr[:-1][single]] = root[single]
    for side, child in enumerate(structure.children(B)):
        is_node = child >= 0
        slot_of_node[child[is_node]] = pair[is_node] + side
        slot_of_leaf[~child[~is_node]] = pair[~is_node] + side
    index = np.int32 if n_slots < 2**31 else np.int64
    first = np.arange(n_slots, dtype=index)
    first[slot_of_node] = pair
    column, leaf = np.zeros(n_slots, np.int32), np.zeros(n_slots, np.int64)
    column[slot_of_node] = tests.feature[order.node]
    leaf[slot_of_leaf] = np.arange(B.n_leaves) - np.repeat(B.leaf_ptr[:-1], np.diff(B.leaf_ptr))
    b = np.full(n_slots, np.nan, tests.dtype)
    b[slot_of_node] = tests.b[order.node]
    missing_right = np.zeros(n_slots, bool)
    missing_right[slot_of_node] = tests.missing_right[order.node]

    def put(array: Array) -> Tensor:
        return torch.tensor(array, device=device)

    return FlatTrees(
        put(trees),
        tuple(int(np.count_nonzero(depth > level)) for level in range(int(depth.max(initial=0)))),
        put(root.astype(index)),
        put(column),
        put(first),
        put(b),
        put(missing_right),
        put(leaf),
        accepts_equal,
        bool(missing_right.any()),
    )
