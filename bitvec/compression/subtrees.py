"""Pruning by cost and complexity: subtrees become leaves where they change the answers least."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.train.pruning.nesting import around
from bitvec.runtime.train.pruning.prune import restricted


def pruned(forest: Forest, weight: Array, alpha: float) -> Forest:
    """Return the forest of least squared change of its trees' answers plus alpha for each leaf.

    Parameters
    ----------
    forest : Forest
        A sum of constant leaves.
    weight : (n_leaves,)
        Of the rows that reach each leaf.
    alpha : float

    Notes
    -----
    A node that becomes a leaf gets the mean of its leaves. For each tree by itself it is the
    smallest subtree of Breiman et al. (1984), section 3.3, with the change of the tree's own answer
    in the place of the risk: one pass from the leaves up. O(n_leaves · n_outputs).

    Examples
    --------
    >>> tree = Forest.from_matrices([[1], [1]], [0, 5], [[0, 0], [0, 1], [1, 1]], [1, 1.1, 3])
    >>> pruned(tree, np.ones(3), 0.01).v.ravel().tolist()
    [1.05, 3.0]
    """
    B, v = forest.bitvectors, forest.leaves.v.astype(np.float64)
    weight = np.asarray(weight, np.float64)[:, None] + 1e-9
    sums = [
        np.concatenate([np.zeros((1, part.shape[1])), np.cumsum(part, axis=0)])
        for part in (weight, weight * v, weight * v**2)
    ]
    first = B.leaf_ptr[:-1][B.tree_of_node]
    lo, hi = first + B.lo, first + B.hi
    n, total, square = (part[hi] - part[lo] for part in sums)
    change = np.maximum(square - total**2 / n, 0).sum(axis=1)
    depth, _ = around(B.tree_of_node, B.lo, B.hi)
    left, right = structure.children(B)
    cost = np.zeros(forest.n_nodes)
    collapses = np.zeros(forest.n_nodes, bool)
    for level in range(int(depth.max(initial=-1)), -1, -1):
        nodes = np.flatnonzero(depth == level)
        below = sum(
            np.where(side[nodes] >= 0, cost[np.maximum(side[nodes], 0)], alpha)
            for side in (left, right)
        )
        whole = change[nodes] + alpha
        collapses[nodes] = whole <= below
        cost[nodes] = np.minimum(whole, below)
    steps = np.zeros(forest.n_leaves + 1, np.int64)
    np.add.at(steps, lo[collapses] + 1, 1)
    np.add.at(steps, hi[collapses], -1)
    stays = np.cumsum(steps)[:-1] == 0
    value = v.copy()
    # Nodes stand breadth first, so that of nested ones the outermost is written last.
    order = np.flatnonzero(collapses)[::-1]
    value[lo[order]] = (total / n)[order]
    leaves = replace(forest.leaves, v=value.astype(forest.leaves.v.dtype))
    return restricted(replace(forest, leaves=leaves, source=None), stays)
