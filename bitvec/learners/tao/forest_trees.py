"""From one tree of a Forest to the tree that is optimised, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Activation, Kind, NodeTests, Relation
from bitvec.core.reference.node_outcomes import outcomes
from bitvec.core.shape_annotations import Bool, Int64, UInt8
from bitvec.core.source import Source, retrained_source
from bitvec.core.structure import Bitvectors
from bitvec.learners.tao.tree import NodeKind, Tree

BLOCK = 1 << 20
"""Pairs of a row and a node that are looked at at a time."""


def kinds_of(forest: Forest) -> UInt8[Array, " n_nodes"]:
    """Return the `NodeKind` of each node of a forest.

    Comparisons of one column and of a plain weighted sum can move; sets, equalities, polytopes,
    rows with substitutes or indicators, and sums that are added in another order than that of the
    columns are fixed.
    """
    tests = forest.tests
    kind = np.full(tests.n_nodes, NodeKind.FIXED, np.uint8)
    one_row = np.diff(tests.node_ptr) == 1
    row = tests.node_ptr[:-1]
    plain = (
        one_row
        & (tests.kind == Kind.MARGIN)
        & (tests.offset[row] == 0)
        & (tests.r[row] == 1)
        & (tests.activation[row] == Activation.IDENTITY)
    )
    odd = np.zeros(tests.column.size, bool)
    odd[1:] = np.diff(tests.column) <= 0
    odd[tests.row_ptr[:-1][tests.row_ptr[:-1] < odd.size]] = False
    if tests.indicator is not None:
        odd |= tests.indicator >= 0
    if tests.substitute is not None:
        odd |= ~np.isnan(tests.substitute)
    odd |= tests.weight == 0
    n_odd = np.concatenate([[0], np.cumsum(odd)])
    plain &= n_odd[tests.row_ptr[row + 1]] == n_odd[tests.row_ptr[row]]
    plain &= tests.row_ptr[row + 1] > tests.row_ptr[row]
    kind[plain] = NodeKind.OBLIQUE
    kind[tests.is_one_hot & (tests.kind == Kind.MARGIN)] = NodeKind.AXIS
    return kind


def tree_of(forest: Forest) -> Tree:
    """Return a forest's only tree with nodes and leaves in the forest's order.

    Linear terms of leaves are left out; `fixed_outcomes` gives what fixed nodes answer.
    """
    tests = forest.tests
    n = tests.n_nodes
    kind = kinds_of(forest)
    left, right = structure.children(forest.bitvectors)
    n_columns = forest.n_features
    if forest.feature_map is not None:
        n_columns = forest.feature_map.n_features
    oblique = np.flatnonzero(kind == NodeKind.OBLIQUE)
    W = np.zeros((n if oblique.size else 0, n_columns), tests.dtype)
    for node in oblique:
        row = tests.node_ptr[node]
        entries = slice(tests.row_ptr[row], tests.row_ptr[row + 1])
        W[node, tests.column[entries]] = tests.weight[entries]
    sentinel = forest.inputs.missing_sentinel
    return Tree(
        left=left,
        right=right,
        kind=kind,
        feature=np.where(kind == NodeKind.AXIS, tests.feature, 0).astype(np.int64),
        threshold=tests.b,
        above=np.ones(n, bool),
        at_least=tests.relation == Relation.GREATER_EQUAL,
        missing_right=tests.missing_right,
        missing_rule=tests.missing_rule,
        W=W,
        V=forest.leaves.v,
        sentinel=float("nan") if sentinel is None else float(sentinel),
    )


def fixed_outcomes(
    forest: Forest, kind: UInt8[Array, " n_nodes"], Z: Array
) -> tuple[Bool[Array, "n_fixed n_rows"], Int64[Array, " n_nodes"]]:
    """Return what the fixed nodes of a tree answer for each row, and where each node's row is.

    One byte for each row and fixed node.
    """
    fixed = np.flatnonzero(kind == NodeKind.FIXED)
    result = np.zeros((fixed.size, len(Z)), bool)
    for k, node in enumerate(fixed):
        for start in range(0, len(Z), BLOCK):
            row = np.arange(start, min(start + BLOCK, len(Z)))
            result[k, row] = outcomes(forest, Z, row, np.full(row.size, node))
    place = np.zeros(kind.size, np.int64)
    place[fixed] = np.arange(fixed.size)
    return result, place


def joined(forest: Forest, trees: Sequence[Tree | None]) -> Forest:
    """Return the forest with some trees, each as `tree_of` gave it, as they have moved.

    Where what lies above a threshold now goes left, the children change places: then nodes and
    leaves are numbered anew, and a missing value still goes to the same subtree. Nodes and leaves
    that have not moved keep every bit. A node that is still axis-aligned stays so. The source's ids
    go with nodes and leaves, but for those of a library that numbers a right child right after the
    left one, see `_in_place`.
    """
    if all(tree is None for tree in trees):
        return forest
    B = forest.bitvectors
    left, right = (side.copy() for side in structure.children(B))
    v = forest.leaves.v.copy()
    moved: dict[int, tuple[Tree, int]] = {}
    swapped = np.zeros(forest.n_nodes, bool)
    for number, tree in enumerate(trees):
        if tree is None:
            continue
        first, first_leaf = int(B.node_ptr[number]), int(B.leaf_ptr[number])
        v[first_leaf : first_leaf + tree.n_leaves] = tree.V
        swapped[first : first + tree.n_nodes] = ~tree.above
        moved |= {first + node: (tree, node) for node in range(tree.n_nodes)}
    source = retrained_source(forest.source)
    if source is not None:
        source = _in_place(source, B, left, right, swapped)
    left[swapped], right[swapped] = right[swapped], left[swapped]
    tests = _moved_tests(forest.tests, moved)
    tests = replace(tests, missing_right=tests.missing_right ^ swapped)
    result = replace(
        forest,
        tests=tests,
        leaves=replace(forest.leaves, v=v),
        source=source,
    )
    if not swapped.any():
        return result
    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    bitvectors, order = structure.arrange(left, right, roots)
    leaf = ~order.leaf
    return replace(
        result,
        tests=tests.take(order.node),
        bitvectors=bitvectors,
        leaves=result.leaves.take(leaf),
        source=None if result.source is None else result.source.take(order.node, leaf),
    )


def _moved_tests(tests: NodeTests, moved: dict[int, tuple[Tree, int]]) -> NodeTests:
    """Return tests with the one row of S, the threshold and relation of nodes that have moved."""
    b, relation, missing_right = tests.b.copy(), tests.relation.copy(), tests.missing_right.copy()
    feature = tests.feature
    rows: dict[int, tuple[Array, Array]] = {}
    for node, (tree, at) in moved.items():
        kind = tree.kind[at]
        if kind == NodeKind.FIXED:
            continue
        b[node] = tree.threshold[at]
        relation[node] = Relation.GREATER_EQUAL if tree.at_least[at] else Relation.GREATER
        row = int(tests.node_ptr[node])
        if kind == NodeKind.OBLIQUE:
            column = np.flatnonzero(tree.W[at])
            if not column.size:  # a row of zeros still needs an entry, and missing values a side
                column = tests.column[tests.row_ptr[row] :][:1]
                missing_right[node] = b[node] < 0 or (b[node] == 0 and tree.at_least[at])
            rows[row] = column, tree.W[at, column]
        elif feature[node] != tree.feature[at]:
            rows[row] = tree.feature[at : at + 1], np.ones(1, tests.dtype)
    return replace(_with_rows(tests, rows), b=b, relation=relation, missing_right=missing_right)


def _with_rows(tests: NodeTests, rows: dict[int, tuple[Array, Array]]) -> NodeTests:
    """Return tests with some rows of S replaced by plain ones of these columns and weights."""
    if not rows:
        return tests
    count = np.diff(tests.row_ptr)
    new_count = count.copy()
    for row, (column, _) in rows.items():
        new_count[row] = column.size
    row_ptr = np.concatenate([[0], np.cumsum(new_count)]).astype(np.int64)
    blank: dict[str, Any] = {"substitute": np.nan, "indicator": -1}
    taken: dict[str, Any] = {}
    kept = np.ones(tests.n_rows, bool)
    kept[list(rows)] = False
    old_entry = np.flatnonzero(np.repeat(kept, count))
    new_entry = np.flatnonzero(np.repeat(kept, new_count))
    for field in ("column", "weight", "substitute", "indicator"):
        values = getattr(tests, field)
        if values is None:
            continue
        array = np.full(int(row_ptr[-1]), blank.get(field, 0), values.dtype)
        array[new_entry] = values[old_entry]
        taken[field] = array
    for row, (column, weight) in rows.items():
        part = slice(int(row_ptr[row]), int(row_ptr[row + 1]))
        taken["column"][part], taken["weight"][part] = column, weight
    return replace(tests, row_ptr=row_ptr, **taken)


def _in_place(
    source: Source,
    B: Bitvectors,
    left: Int64[Array, " n_nodes"],
    right: Int64[Array, " n_nodes"],
    swapped: Bool[Array, " n_nodes"],
) -> Source:
    """Return the source record in which children that change places exchange their ids.

    That is done where nodes and leaves share one numbering in which siblings are neighbours, as
    xgboost demands: the ids are then still those that it gives the forest once it is written back.
    """
    if source.node_id is None or source.leaf_id is None:
        return source
    ids = np.concatenate([source.node_id, source.leaf_id])
    tree = np.concatenate([B.tree_of_node, np.repeat(np.arange(B.n_trees), np.diff(B.leaf_ptr))])
    if np.unique(np.stack([tree, ids]), axis=1).shape[1] < ids.size:
        return source
    first, second = (np.where(side >= 0, side, left.size + ~side) for side in (left, right))
    if np.any(np.abs(ids[second] - ids[first]) != 1):
        return source
    first, second = first[swapped], second[swapped]
    ids[first], ids[second] = ids[second], ids[first]
    return replace(source, node_id=ids[: left.size], leaf_id=ids[left.size :])
