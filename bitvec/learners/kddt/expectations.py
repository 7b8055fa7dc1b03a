"""Answers of a grown tree for rows of given densities, to score bandwidths by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float
from bitvec.learners.kddt.events import Densities
from bitvec.learners.kddt.stacks import FRAME, Stacks, entered
from bitvec.learners.kddt.tree import GrownTree
from bitvec.learners.kddt.weights import everywhere
from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.predict.cpu.kernel_arrays import borrowed


class Nodes(NamedTuple):
    """Fields of `GrownTree` that its answers are made of."""

    left: Array
    right: Array
    feature: Array
    threshold: Array
    value: Array


def expectations(tree: GrownTree, densities: Densities) -> Float[Array, "n_rows n_outputs"]:
    """Return the expectation of a tree's values under the density of each row.

    Equal to that of its converted forest but for rounding: a row's weights are multiplied node by
    node, all rows of a node at once, where the forest's engine follows row by row.
    """
    nodes = Nodes(tree.left, tree.right, tree.feature, tree.threshold, tree.value)
    return expected(nodes, densities.flat, densities.at.shape[1])


@kernel
def expected(tree, densities, n_rows):  # type: ignore[no-untyped-def]
    """Return the mean of values over the leaves that each row's density reaches, depth first.

        def visit(node, rows, box):
            answer[rows] += weight of each row in the box * value of the node, if it is a leaf
            visit(left, rows, box below the threshold)
            visit(right, rows, box above the threshold)

    The calls are frames on `Stacks`.
    """
    tree, densities = borrowed(tree), borrowed(densities)
    n_features, n_outputs = len(densities.share), tree.value.shape[1]
    rows, u = np.arange(2 * n_rows + 1).astype(np.int32), np.ones(2 * n_rows + 1)
    stacks, box = Stacks(np.zeros(64, FRAME), rows, u), everywhere(n_features)
    stacks.frames[0].n = n_rows
    answer = np.zeros((n_rows, n_outputs))
    depth = 0
    while depth >= 0:
        node, n_entered = stacks.frames[depth].node, stacks.frames[depth].n_entered
        if tree.left[node] < 0:
            first, n = stacks.frames[depth].first, stacks.frames[depth].n
            rows, u, value = stacks.rows, stacks.u, tree.value[node]
            for k in range(first, first + n):
                for c in range(n_outputs):
                    answer[rows[k], c] += u[k] * value[c]
            depth -= 1
            continue
        j = tree.feature[node]
        if n_entered == 2:
            box.low[j] = stacks.frames[depth].bound
            depth -= 1
            continue
        t, at, share = tree.threshold[node], densities.at[j], densities.share[j]
        stacks = entered(stacks, depth, j, t, at, share, box, 0.0)
        depth += 1
        stacks.frames[depth].node = tree.right[node] if n_entered else tree.left[node]
    return answer
