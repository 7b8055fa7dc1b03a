"""One numbering for the nodes and leaves of a tree, as formats have that keep both in one array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Int64

MOST_DELETED: Final = 64
"""Deleted nodes for each leaf of a forest; ids that lie farther apart are numbered anew."""

Sides: TypeAlias = tuple[Int64[Array, " n_nodes"], Int64[Array, " n_nodes"]]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Places of the nodes and leaves of a forest, when trees follow each other by their own ids.

    Parameters
    ----------
    start : int64, (n_trees + 1,)
        Where each tree begins.
    node_id, leaf_id : int64, (n_nodes,) and (n_leaves,)
        Ids within the tree; the root is 0.
    node, leaf : int64, (n_nodes,) and (n_leaves,)
        Places in the arrays of all trees.
    """

    start: Int64[Array, " n_trees_plus_1"]
    node_id: Int64[Array, " n_nodes"]
    leaf_id: Int64[Array, " n_leaves"]
    node: Int64[Array, " n_nodes"]
    leaf: Int64[Array, " n_leaves"]

    def child(self, side: Int64[Array, " n_nodes"]) -> Int64[Array, " n_nodes"]:
        """Return the ids of children."""
        is_leaf = side < 0
        return np.where(
            is_leaf, self.leaf_id[np.where(is_leaf, ~side, 0)], self.node_id[np.maximum(side, 0)]
        )


def places(
    forest: Forest, library: str, sides: Sides, *, siblings: bool = False, gaps: bool = False
) -> Places:
    """Number nodes and leaves: by the ids of a library where the forest has them, else by pairs.

    The root is 0, and the children of the k-th node of a tree, breadth first, are 2k + 1 and
    2k + 2.

    Parameters
    ----------
    forest : Forest
    library : str
        The library whose own ids are kept.
    sides : two of int64, (n_nodes,)
        The children of each node, as `bitvec.core.structure.children` gives them, as they are
        written.
    siblings : bool
        Whether a right child must come right behind its left one.
    gaps : bool
        Whether ids may be left out, for nodes that pruning deleted.
    """
    B, source = forest.bitvectors, forest.source
    tree_of_leaf = np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))
    if source is not None and source.library == library:
        node_id, leaf_id = source.node_id, source.leaf_id
        if node_id is not None and leaf_id is not None:
            own = _placed(forest, node_id, leaf_id, tree_of_leaf)
            fits = own is not None and (gaps or own.start[-1] == B.n_nodes + B.n_leaves)
            if own is not None and fits:
                left, right = (own.child(side) for side in sides)
                if not siblings or np.array_equal(right, left + 1):
                    return own
    node_id, leaf_id = np.zeros(B.n_nodes, np.int64), np.zeros(B.n_leaves, np.int64)
    place_in_tree = np.arange(B.n_nodes) - B.node_ptr[B.tree_of_node]
    for first, side in enumerate(sides, start=1):
        is_leaf = side < 0
        leaf_id[~side[is_leaf]] = 2 * place_in_tree[is_leaf] + first
        node_id[side[~is_leaf]] = 2 * place_in_tree[~is_leaf] + first
    placed = _placed(forest, node_id, leaf_id, tree_of_leaf)
    assert placed is not None
    return placed


def _placed(forest: Forest, node_id: Array, leaf_id: Array, tree_of_leaf: Array) -> Places | None:
    """Return the places that ids give, None where these number no tree."""
    B = forest.bitvectors
    size = np.zeros(B.n_trees, np.int64)
    most = MOST_DELETED * B.n_leaves
    for tree, ids in ((B.tree_of_node, node_id), (tree_of_leaf, leaf_id)):
        if np.any(ids < 0) or np.any(ids >= most):
            return None
        np.maximum.at(size, tree, ids + 1)
    roots = np.diff(B.leaf_ptr) > 1
    if np.any(node_id[B.node_ptr[:-1][roots]]) or np.any(leaf_id[B.leaf_ptr[:-1][~roots]]):
        return None
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    node, leaf = start[B.tree_of_node] + node_id, start[tree_of_leaf] + leaf_id
    if start[-1] > most or np.any(np.bincount(np.concatenate([node, leaf])) > 1):
        return None
    return Places(start, node_id, leaf_id, node, leaf)
