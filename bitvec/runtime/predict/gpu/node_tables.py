"""Trees as tables of slots for kernels: full trees by position, others by links.

Word of a slot, 32 bits: (code - 1) << 15 | plane, the code at and above which rows go right
(`code_layout`). So word - (c << 15) is negative where c reaches the code, whatever the plane. A
slot that tests nothing has a code that no row reaches.

Full trees hold the slots 1 to 2 ** depth - 1 as a heap, root 1, children 2 i and 2 i + 1; a row
ends at 2 ** depth + its place. Linked trees hold a slot for each node and leaf, children in pairs;
the link of a node is the slot of its left child, a leaf's is the leaf's own. Where all nodes of a
level of a full tree share one test, as in oblivious trees, there is one slot for each level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Int32
from bitvec.core.structure import Bitvectors
from bitvec.runtime.predict.gpu.code_layout import SHORT_THRESHOLDS, CodeLayout

MOST_PADDED = 4
"""Slots of full trees for each node, at most."""
FULL_DEPTH = 12
"""Depth of full trees, at most."""
PLANE_BITS = 15
"""Bits of the plane in a word."""
NEVER = (1 << 16) - 1
"""Code of a slot that tests nothing, less 1."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeTables:
    """The slots of all trees.

    Parameters
    ----------
    depth : int
        Of full trees; 0 if the trees are linked.
    shared : bool
        Whether slots stand for levels, (n_trees, depth), rather than nodes.
    word, link, plane : int32, (n_slots,)
        `link` only of linked trees, `plane` only where planes or codes do not fit a word, which
        then is the code less 1.
    base : int32, (n_trees,)
        The root's slot of linked trees; the first place, where slot 0 is, of full ones.
    steps : int32, (n_trees,)
        Tests on the longest path.
    slot_leaf : int64, (n_slots,)
        The leaf, in the forest, at which a row that ends in a slot leaves; of full trees at
        base + place.
    """

    depth: int
    shared: bool
    word: Int32[Array, " n_slots"]
    link: Int32[Array, " n_slots"] | None
    plane: Int32[Array, " n_slots"] | None
    base: Int32[Array, " n_trees"]
    steps: Int32[Array, " n_trees"]
    slot_leaf: Array

    @property
    def is_wide(self) -> bool:
        """Return whether planes stand apart from words."""
        return self.plane is not None


def tabulate(B: Bitvectors, depth: Array, layout: CodeLayout, node: Array) -> NodeTables:
    """Return the tables of trees.

    Parameters
    ----------
    depth : integers, (n_trees,)
    layout : CodeLayout
        Of the forest that the trees are from.
    node : integers, (n_nodes,)
        Where each node of B stands in that forest.
    """
    deepest = int(depth.max(initial=0))
    full = 0 < deepest <= FULL_DEPTH and B.n_trees << deepest <= MOST_PADDED * B.n_leaves + 4096
    is_wide = layout.most_thresholds > SHORT_THRESHOLDS or layout.n_planes > 1 << PLANE_BITS
    slot, slot_leaf, link, base = _full(B, deepest) if full else _linked(B)
    code, plane_of = layout.least[node].astype(np.int64) - 1, layout.plane[node]
    if is_wide:
        word = np.full(slot_leaf.size, np.iinfo(np.int32).max, np.int64)
        word[slot] = code
        plane = np.zeros(slot_leaf.size, np.int32)
        plane[slot] = plane_of
    else:
        word = np.full(slot_leaf.size, NEVER << PLANE_BITS, np.int64)
        word[slot] = code << PLANE_BITS | plane_of
        plane = None
    tables: list[Array] = [one for one in (word, plane) if one is not None]
    shared = full and all(_share_levels(one, B.n_trees) for one in tables)
    if shared:
        tables = [one.reshape(B.n_trees, -1)[:, 1 << np.arange(deepest)] for one in tables]
    return NodeTables(
        deepest if full else 0,
        shared,
        tables[0].ravel().astype(np.int32),
        link,
        tables[1].ravel() if is_wide else None,
        base.astype(np.int32),
        depth.astype(np.int32),
        slot_leaf,
    )


def _share_levels(slots: Array, n_trees: int) -> bool:
    """Return whether the slots of each level of full trees are equal."""
    of_tree = slots.reshape(n_trees, -1)
    place = np.arange(1, of_tree.shape[1])
    return bool(np.all(of_tree[:, 1:] == of_tree[:, 1 << np.log2(place).astype(np.int64)]))


def _full(B: Bitvectors, deepest: int) -> tuple[Array, Array, None, Array]:
    """Return the slot of each node, the leaf of each place, no links, and the base of each tree."""
    base = np.arange(B.n_trees, dtype=np.int64) << deepest
    left, right = structure.children(B)
    slot = np.empty(B.n_nodes, np.int64)
    leaf_at = np.empty(B.n_leaves, np.int64)
    level_of_leaf = np.zeros(B.n_leaves, np.int64)
    roots = B.node_ptr[:-1]
    single = np.diff(B.leaf_ptr) == 1
    leaf_at[B.leaf_ptr[:-1][single]] = 1
    node, at = roots[~single], np.ones(int((~single).sum()), np.int64)
    level = 0
    while node.size:
        slot[node] = at
        level += 1
        child = np.concatenate([left[node], right[node]])
        at = np.concatenate([2 * at, 2 * at + 1])
        is_node = child >= 0
        leaf_at[~child[~is_node]] = at[~is_node]
        level_of_leaf[~child[~is_node]] = level
        node, at = child[is_node], at[is_node]
    # A leaf above the full depth stands for all places below it.
    copies = np.int64(1) << (deepest - level_of_leaf)
    slot_leaf = np.repeat(np.arange(B.n_leaves), copies)
    return slot + base[B.tree_of_node], slot_leaf, None, base


def _linked(B: Bitvectors) -> tuple[Array, Array, Array, Array]:
    """Return the slot of each node, the leaf of each slot, links, and the root of each tree."""
    pair = 2 * np.arange(B.n_nodes) + B.tree_of_node + 1
    root = 2 * B.node_ptr[:-1] + np.arange(B.n_trees)
    n_slots = B.n_trees + 2 * B.n_nodes
    slot = np.empty(B.n_nodes, np.int64)
    slot_leaf, link = np.zeros(n_slots, np.int64), np.arange(n_slots)
    single = np.diff(B.leaf_ptr) == 1
    slot[B.node_ptr[:-1][~single]] = root[~single]
    slot_leaf[root[single]] = B.leaf_ptr[:-1][single]
    for side, child in enumerate(structure.children(B)):
        is_node = child >= 0
        slot[child[is_node]] = pair[is_node] + side
        slot_leaf[pair[~is_node] + side] = ~child[~is_node]
    link[slot] = pair
    return slot, slot_leaf, link.astype(np.int32), root
