"""A forest's trees as scikit-learn's Tree objects, one for each tree and set of leaf values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import NodeTests, Relation
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.errors import needs

with needs("scikit-learn", "sklearn", "Writing a scikit-learn model"):
    from sklearn.tree._tree import NODE_DTYPE, Tree

LEAF = -1
UNDEFINED = -2
"""Entries of scikit-learn for the children, and for the feature and threshold, of a leaf."""


def node_arrays(forest: Forest) -> list[tuple[Array, Int64[Array, " n_leaves"]]]:
    """Return, per tree, scikit-learn's node records, and at which of them each leaf stands.

    No float32 lies between b and the next float64 below it, by which `greater` replaces b.
    """
    B, tests = forest.bitvectors, forest.tests
    left, right = structure.children(B)
    threshold = greater(tests)
    node_cover, leaf_cover = covers(forest)
    of_nodes, of_leaves = numbering(forest)
    result = []
    for tree in range(forest.n_trees):
        nodes = slice(int(B.node_ptr[tree]), int(B.node_ptr[tree + 1]))
        leaves = slice(int(B.leaf_ptr[tree]), int(B.leaf_ptr[tree + 1]))
        of_node, of_leaf = of_nodes[nodes], of_leaves[leaves]
        record = np.zeros(of_node.size + of_leaf.size, NODE_DTYPE)
        for name, child in (("left_child", left[nodes]), ("right_child", right[nodes])):
            record[name] = LEAF
            record[name][of_node] = np.where(
                child >= 0,
                of_nodes[np.maximum(child, 0)] if child.size else child,
                of_leaves[np.maximum(~child, 0)] if child.size else child,
            )
        for name, value in (("feature", tests.feature[nodes]), ("threshold", threshold[nodes])):
            record[name] = UNDEFINED
            record[name][of_node] = value
        record["missing_go_to_left"][of_node] = ~tests.missing_right[nodes]
        for position, cover in ((of_node, node_cover[nodes]), (of_leaf, leaf_cover[leaves])):
            record["weighted_n_node_samples"][position] = cover
            record["n_node_samples"][position] = np.clip(cover, 0, 2**62)
        result.append((record, of_leaf))
    return result


def new_tree(
    n_features: int,
    n_classes: Sequence[int],
    record: Array,
    of_leaf: Int64[Array, " n_leaves"],
    value: Float64[Array, "n_leaves n_targets max_n_classes"],
    depth: int,
) -> Any:
    """Return a Tree; its inner nodes have the value 0."""
    tree = Tree(n_features, np.array(n_classes, np.intp), len(n_classes))
    values = np.zeros((len(record), *value.shape[1:]))
    values[of_leaf] = value
    state = {"max_depth": depth, "node_count": len(record), "nodes": record, "values": values}
    tree.__setstate__(state)
    return tree


def greater(tests: NodeTests) -> Float64[Array, " n_nodes"]:
    """Return the thresholds that x must exceed to go right, whatever the relation.

    Where x must be at least b, it is the next float64 below b.
    """
    threshold = tests.b.astype(np.float64)
    at_least = tests.relation == Relation.GREATER_EQUAL
    threshold[at_least] = np.nextafter(threshold[at_least], -np.inf)
    return threshold


def numbering(forest: Forest) -> tuple[Int64[Array, " n_nodes"], Int64[Array, " n_leaves"]]:
    """Return the position of each node and leaf in its tree: the source's own if it has them all.

    Any other tree stands breadth first, leaves last.
    """
    B, source = forest.bitvectors, forest.source
    n_leaves = np.diff(B.leaf_ptr)
    node = np.arange(forest.n_nodes) - np.repeat(B.node_ptr[:-1], n_leaves - 1)
    leaf = np.arange(forest.n_leaves) - np.repeat(B.leaf_ptr[:-1], n_leaves)
    leaf += np.repeat(n_leaves - 1, n_leaves)
    if source is None or source.library != "sklearn":
        return node, leaf
    if source.node_id is None or source.leaf_id is None:
        return node, leaf
    for tree in range(forest.n_trees):
        own = [
            source.node_id[B.node_ptr[tree] : B.node_ptr[tree + 1]],
            source.leaf_id[B.leaf_ptr[tree] : B.leaf_ptr[tree + 1]],
        ]
        ids = np.concatenate(own)
        # The root must come first, as scikit-learn begins there.
        if not np.array_equal(np.sort(ids), np.arange(ids.size)) or ids[0] != 0:
            return node, leaf
    return source.node_id, source.leaf_id


def covers(forest: Forest) -> tuple[Float64[Array, " n_nodes"], Float64[Array, " n_leaves"]]:
    """Return the training weights of nodes and leaves, or how many leaves each spans."""
    source, B = forest.source, forest.bitvectors
    if source is not None and source.node_cover is not None and source.leaf_cover is not None:
        known = np.concatenate([source.node_cover, source.leaf_cover])
        if np.all(np.isfinite(known)) and np.all(known >= 0):
            return source.node_cover, source.leaf_cover
    return (B.hi - B.lo).astype(np.float64), np.ones(forest.n_leaves)
