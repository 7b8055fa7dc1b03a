"""Matching of the nodes and leaves of two forests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.core.structure import Bitvectors, children
from bitvec.core.tree_paths import parents


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Pairs of nodes and of leaves, as indices into the arrays of two forests.

    Parameters
    ----------
    how : str
        "structure" where the trees are the same, "source ids" where one forest's are those of the
        other with nodes taken out, else "nothing": no pair is known.
    nodes, leaves : two of int64
        Of the first forest and of the second.
    """

    how: str
    nodes: tuple[Int64[Array, " n_nodes"], Int64[Array, " n_nodes"]]
    leaves: tuple[Int64[Array, " n_leaves"], Int64[Array, " n_leaves"]]


def match(before: Forest, after: Forest) -> Matching:
    """Return the nodes and leaves that two forests have in common."""
    nothing = np.zeros(0, np.int64)
    if _same_trees(before.bitvectors, after.bitvectors):
        nodes, leaves = np.arange(before.n_nodes), np.arange(before.n_leaves)
        return Matching("structure", (nodes, nodes), (leaves, leaves))
    is_reduced = after.n_nodes <= before.n_nodes
    whole, part = (before, after) if is_reduced else (after, before)
    found = _by_ids(whole, part)
    if found is None:
        return Matching("nothing", (nothing, nothing), (nothing, nothing))
    nodes_of_part, leaves, leaves_of_part = found
    in_whole, in_part = nodes_of_part, np.arange(part.n_nodes)
    pairs = ((in_whole, in_part), (leaves, leaves_of_part))
    if not is_reduced:
        pairs = (pairs[0][::-1], pairs[1][::-1])
    return Matching("source ids", *pairs)


def _same_trees(a: Bitvectors, b: Bitvectors) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("leaf_ptr", "lo", "mid")
    )


def _by_ids(whole: Forest, part: Forest) -> tuple[Array, Array, Array] | None:
    """Return the node of `whole` for each of `part`, and leaves of both, or None.

    Ids alone do not tell: two trees that were grown apart number their nodes alike. So each node
    must lie, in `whole`, on that side of its parent on which it lies in `part`.
    """
    if whole.n_trees != part.n_trees or whole.source is None or part.source is None:
        return None
    if whole.source.library != part.source.library:
        return None
    ids = whole.source.node_id, part.source.node_id
    trees = whole.bitvectors.tree_of_node, part.bitvectors.tree_of_node
    if ids[0] is None or ids[1] is None:
        return None
    node = _lookup(trees[0], ids[0], trees[1], ids[1])
    if node is None or np.any(node < 0):
        return None
    parent, is_right = parents(part.bitvectors)
    below = np.flatnonzero(parent >= 0)
    if not np.all(_on_side(whole, node[below], node[parent[below]], is_right[below])):
        return None
    return node, *_leaves(whole, part, node)


def _on_side(whole: Forest, node: Array, above: Array, is_right: Array) -> Bool[Array, " n"]:
    B = whole.bitvectors
    start, end = np.where(is_right, B.mid[above], B.lo[above]), B.hi[above]
    end = np.where(is_right, end, B.mid[above])
    inside: Array = (start <= B.lo[node]) & (B.hi[node] <= end)
    return inside


def _leaves(whole: Forest, part: Forest, node: Array) -> tuple[Array, Array]:
    """Return pairs of leaves: by ids, or by the sides of nodes on which both have a leaf."""
    assert whole.source is not None
    assert part.source is not None
    ids = whole.source.leaf_id, part.source.leaf_id
    if ids[0] is not None and ids[1] is not None:
        leaf = _lookup(_tree_of_leaf(whole), ids[0], _tree_of_leaf(part), ids[1])
        if leaf is not None:
            known = np.flatnonzero(leaf >= 0)
            return leaf[known], known
    pairs = []
    for of_whole, of_part in zip(
        children(whole.bitvectors), children(part.bitvectors), strict=True
    ):
        both = (of_whole[node] < 0) & (of_part < 0)
        pairs.append((~of_whole[node[both]], ~of_part[both]))
    whole_leaves, part_leaves = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return whole_leaves, part_leaves


def _tree_of_leaf(forest: Forest) -> Array:
    return np.repeat(np.arange(forest.n_trees), np.diff(forest.bitvectors.leaf_ptr))


def _lookup(tree: Array, ids: Array, other_tree: Array, other_ids: Array) -> Array | None:
    """Return where each of the other ids stands, -1 if nowhere; None if ids are not distinct."""
    n = len(ids)
    _, number = np.unique(np.concatenate([ids, other_ids]), return_inverse=True)
    key = np.concatenate([tree, other_tree]) * (int(number.max(initial=0)) + 1) + number
    place = np.full(int(key.max(initial=-1)) + 1, -1, np.int64)
    place[key[:n]] = np.arange(n)
    if np.any(place[key[:n]] != np.arange(n)) or np.unique(key[n:]).size < len(other_ids):
        return None
    found: Array = place[key[n:]]
    return found
