"""Tests that a node may be given, and trees with some tests replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float
from bitvec.learners.tao.tree import NodeKind, Tree, Walk
from bitvec.runtime.predict.cpu.kernel_arrays import constant


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A test for one node; fields as those of `Tree`, for the node alone."""

    kind: NodeKind
    feature: int
    threshold: np.floating
    above: bool
    w: Float[Array, " n_features"] | None


def with_tests(tree: Tree, chosen: Mapping[int, Candidate]) -> Tree:
    """Return the tree with the tests of some nodes replaced."""
    if not chosen:
        return tree
    arrays = {
        name: getattr(tree, name).copy() for name in ("kind", "feature", "threshold", "above")
    }
    W = tree.W.copy()
    if not len(W) and any(test.w is not None for test in chosen.values()):
        W = np.zeros((tree.n_nodes, tree.n_features), tree.dtype)
    for node, test in chosen.items():
        for name, array in arrays.items():
            array[node] = getattr(test, name)
        if len(W):
            W[node] = 0 if test.w is None else test.w
    return replace(tree, W=W, **arrays)


def stump(tree: Tree, node: int, test: Candidate) -> Walk:
    """Return what kernels walk of one node with another test, as node 0."""
    part = slice(node, node + 1)
    W = np.zeros((0, tree.n_features), tree.dtype) if test.w is None else test.w[None]
    return Walk(
        left=constant(np.array([~0])),
        right=constant(np.array([~1])),
        kind=constant(np.array([test.kind], np.uint8)),
        feature=constant(np.array([test.feature])),
        threshold=constant(np.array([test.threshold], tree.dtype)),
        above=constant(np.array([test.above])),
        at_least=constant(tree.at_least[part]),
        missing_right=constant(tree.missing_right[part]),
        missing_rule=constant(tree.missing_rule[part]),
        W=constant(W),
        outcomes=constant(np.zeros((0, 0), bool)),
        outcome_row=constant(np.zeros(1, np.int64)),
        sentinel=tree.dtype.type(tree.sentinel),
    )


def holds(tree: Tree, node: int, test: Candidate) -> bool:
    """Return whether a node has an oblique test already."""
    if tree.kind[node] != test.kind or tree.threshold[node] != test.threshold:
        return False
    return test.w is not None and bool(np.array_equal(tree.W[node], test.w))
