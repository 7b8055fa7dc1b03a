"""Subtrees: they tile the leaves, are the largest that fit, and their slots are what they test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import ONE_HOT, examples, forests

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.source import Source
from bitvec.explanations.bottom_subtrees import MOST_BITS
from bitvec.explanations.covers import shares
from bitvec.explanations.edge_steps import DEPTH, STEP, SUBTREE, Step, edge_steps


def counted(forest: Forest) -> Forest:
    """Return a forest with covers."""
    covers = np.ones(forest.n_nodes), np.ones(forest.n_leaves)
    return replace(forest, source=Source("test", "1", node_cover=covers[0], leaf_cover=covers[1]))


@given(st.data())
@examples(60)
def test_subtrees_tile_the_leaves_and_are_the_largest_of_few_bits(data):
    forest = counted(data.draw(forests(kinds=ONE_HOT, max_leaves=40, linear=False)))
    B, feature = forest.bitvectors, forest.tests.feature
    steps = edge_steps(forest, shares(forest))
    subtrees = steps.subtrees
    ptr, path_node, _ = tree_paths.path_table(B)

    def below(leaves: Array, depth: int) -> tuple[set[int], int]:
        """Return the features of the nodes above some leaves from a depth on, and their bits."""
        nodes = {
            n for leaf in leaves for n in path_node[ptr[leaf] : ptr[leaf + 1]][depth:].tolist()
        }
        inside = set(feature[[*nodes]].tolist())
        above = feature[path_node[ptr[leaves[0]] :][:depth]].tolist()
        return inside, len(nodes) + len(inside.intersection(above))

    of_subtree = steps.steps[steps.steps[:, STEP] == Step.SUBTREE]
    np.testing.assert_array_equal(of_subtree[:, SUBTREE], np.arange(len(subtrees.node)))
    first = B.leaf_ptr[B.tree_of_node[subtrees.node]]
    tiled = [np.arange(*leaf) + start for leaf, start in zip(subtrees.leaf, first, strict=True)]
    is_tree = np.repeat(np.diff(B.leaf_ptr) > 1, np.diff(B.leaf_ptr))
    found = np.concatenate([np.zeros(0, np.int64), *tiled])
    np.testing.assert_array_equal(found, np.flatnonzero(is_tree))
    for s, (node, leaves) in enumerate(zip(subtrees.node, tiled, strict=True)):
        path = path_node[ptr[leaves[0]] : ptr[leaves[0] + 1]].tolist()
        depth = path.index(node)
        assert of_subtree[s, DEPTH] == depth
        inside, n_bits = below(leaves, depth)
        assert subtrees.n_bits[s] == n_bits <= MOST_BITS
        slots = subtrees.feature[subtrees.slot_ptr[s] : subtrees.slot_ptr[s + 1]]
        assert sorted(slots.tolist()) == sorted(inside)
        # The next larger subtree is that of the node above, or where one leaf is taken, the node's.
        is_whole = len(leaves) == B.hi[node] - B.lo[node]
        if not is_whole or depth:
            upper = path[depth - 1] if is_whole else node
            larger = first[s] + np.arange(B.lo[upper], B.hi[upper])
            assert below(larger, depth - is_whole)[1] > MOST_BITS
