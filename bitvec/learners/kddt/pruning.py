"""Smaller trees: the weakest link is cut while it pays, and leaves that say the same are merged."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.learners.kddt.tree import GrownTree


@dataclass(frozen=True, slots=True)
class PruningPath:
    """The trees of minimal cost-complexity pruning, from the whole tree to its root.

    Parameters
    ----------
    alpha : float64, (n_cuts,), rising
        The price of a leaf at which each cut pays, for each unit of weight of all rows.
    node : int64, (n_cuts,)
        The node that becomes a leaf there.
    n_leaves : int64, (n_cuts,)
        Leaves that are left.
    loss : float64, (n_cuts,)
        Mean loss of the tree that is left.
    """

    alpha: Float[Array, " n_cuts"]
    node: Int64[Array, " n_cuts"]
    n_leaves: Int64[Array, " n_cuts"]
    loss: Float[Array, " n_cuts"]


def pruning_path(tree: GrownTree) -> PruningPath:
    """Return the cuts of minimal cost-complexity pruning, weakest link first.

    Notes
    -----
    "Classification and Regression Trees" (Breiman et al., 1984), chapter 3; weights for counts.
    """
    n = tree.left.size
    parent = np.full(n, -1, np.int64)
    inner = np.flatnonzero(~tree.is_leaf)
    parent[tree.left[inner]] = parent[tree.right[inner]] = inner
    leaves, below = np.ones(n, np.int64), tree.loss.copy()
    for node in inner[::-1]:
        sides = tree.left[node], tree.right[node]
        leaves[node] = sum(int(leaves[side]) for side in sides)
        below[node] = sum(float(below[side]) for side in sides)

    def link(node: int) -> float:
        return float(tree.loss[node] - below[node]) / float(leaves[node] - 1)

    version = np.zeros(n, np.int64)
    queue = [(link(node), node, 0) for node in inner.tolist()]
    heapq.heapify(queue)
    gone = np.zeros(n, bool)
    cuts: list[tuple[float, int, int, float]] = []
    alpha = 0.0
    while queue:
        strength, node, asked = heapq.heappop(queue)
        if gone[node] or asked != version[node]:
            continue
        # Rounding alone can make a later link weaker than an earlier one.
        alpha = max(alpha, strength)
        _bury(tree, node, gone)
        less, fewer = float(tree.loss[node] - below[node]), int(leaves[node]) - 1
        gone[node] = True
        at = node
        while at >= 0:
            below[at] += less
            leaves[at] -= fewer
            at = int(parent[at])
            if at >= 0:
                version[at] += 1
        at = int(parent[node])
        while at >= 0:
            heapq.heappush(queue, (link(at), at, int(version[at])))
            at = int(parent[at])
        cuts.append(
            (alpha / tree.weight[0], node, int(leaves[0]), float(below[0] / tree.weight[0]))
        )
    alphas, nodes, left, losses = zip(*cuts, strict=True) if cuts else ((), (), (), ())
    return PruningPath(
        np.array(alphas, float),
        np.array(nodes, np.int64),
        np.array(left, np.int64),
        np.array(losses, float),
    )


def _bury(tree: GrownTree, node: int, gone: Bool[Array, " n"]) -> None:
    todo = [int(tree.left[node]), int(tree.right[node])]
    while todo:
        at = todo.pop()
        if not gone[at]:
            gone[at] = True
            if tree.left[at] >= 0:
                todo += [int(tree.left[at]), int(tree.right[at])]


def pruned(tree: GrownTree, alpha: float) -> GrownTree:
    """Return the tree after every cut whose price is at most `alpha`."""
    path = pruning_path(tree)
    at = np.zeros(tree.left.size, bool)
    at[path.node[path.alpha <= alpha]] = True
    return tree.cut(at)


def merged(tree: GrownTree, *, labels: bool) -> GrownTree:
    """Return the tree in which sibling leaves that say the same are one, until none do.

    Parameters
    ----------
    labels : bool
        Whether leaves say their most probable class only: crisp labels stay as they are, and
        probabilities become the mean over what was merged. Else equal values are merged.
    """
    value = tree.value
    said = value.argmax(axis=1) if labels else None
    is_leaf = tree.is_leaf.copy()
    for node in np.flatnonzero(~tree.is_leaf)[::-1]:
        left, right = tree.left[node], tree.right[node]
        if not (is_leaf[left] and is_leaf[right]):
            continue
        if said is not None:
            is_leaf[node] = said[left] == said[right]
            # The mean of two distributions has the same first maximum, but for rounding.
            is_leaf[node] &= said[node] == said[left]
        else:
            is_leaf[node] = np.array_equal(value[left], value[right])
    return tree.cut(is_leaf & ~tree.is_leaf)
