"""Trees as lists of steps along their edges, with the coefficients of quadrature at each.

A leaf of value v under edges of the features 1 ... k, of which feature i has the share z_i of cover
(the product over its edges) and the state s_i (whether the row goes along all of them), adds

    phi_j = v (s_j - z_j) integral over t from 0 to 1 of prod over i != j of f_i(t),

with f_i(t) = z_i + (s_i - z_i) t. The integrand has degree k - 1: Gauss-Legendre quadrature with
ceil(k / 2) points is exact. With psi(z, s) = (s - z) / f, so psi(z, 1) = (1 - z) / (z + (1 - z) t)
and psi(z, 0) = -1 / (1 - t), it is the sum over points of w v P psi_j, P = prod over i of f_i.
P is carried down the tree and G, the sum of v P over leaves below, up; an edge adds to its feature
w G (psi(here) - psi(above)), where above is the last edge above it of the same feature.

Notes
-----
The integral is the one of Linear TreeShap (Yu et al. 2022) in another basis: values at points.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import numpy as np

from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant


class Step(IntEnum):
    """Passing of an edge."""

    DOWN = 0
    """To a node: P is carried down."""
    LEAF = 1
    """To a leaf and back."""
    UP = 2
    """Back from a node: G is carried up."""


FIELDS = ("step", "depth", "above", "node", "is_left", "leaf", "down")
STEP, DEPTH, ABOVE, NODE, IS_LEFT, LEAF, DOWN = range(len(FIELDS))
"""Fields of a step: its kind; the depth of the edge's lower end; that of the last edge above of the
same feature, 0 without one; the node at the upper end; whether the edge is its left one; the leaf;
the number, within the forest, of the step that went down the edge."""

COEFFICIENTS = ("yes", "no", "dead", "psi_yes", "psi_no")
"""At each point: what P is multiplied by where the row goes along the edge, where it goes along
those above of the same feature but not along it, and where along none; and w (psi(here) -
psi(above)) in the first two cases, 0 in the third."""


@dataclass(frozen=True, slots=True, eq=False)
class EdgeSteps:
    """The steps of all trees, and the coefficients of each.

    Parameters
    ----------
    steps : int64, (n_steps, 7)
        By FIELDS.
    tree_ptr : int64, (n_trees + 1,)
    points : int64, (n_trees,)
        Points of each tree's quadrature.
    share, share_above : float64, (n_steps,)
        z of the edge's feature from the root to the edge, and to the last edge above of it.
    first_point : int64, (n_steps,)
        Where the points of a step begin in `coefficients`.
    coefficients : float64, (n_points, 5)
        By COEFFICIENTS.
    """

    steps: Int64[Array, "n_steps n_fields"]
    tree_ptr: Int64[Array, " n_trees_plus_1"]
    points: Int64[Array, " n_trees"]
    share: Float64[Array, " n_steps"]
    share_above: Float64[Array, " n_steps"]
    first_point: Int64[Array, " n_steps"]
    coefficients: Float64[Array, "n_points 5"]

    @property
    def depth(self) -> int:
        """Depth of the deepest leaf."""
        return int(self.steps[:, DEPTH].max(initial=0))


_DOWN, _LEAF, _UP = int(Step.DOWN), int(Step.LEAF), int(Step.UP)


@kernel
def _fill_steps(left, right, feature, shares, roots, depth, steps, share, above, tree_ptr, most):
    """Fill steps, shares, where trees end, and the most distinct features of a path of each tree.

    Depth first, left edges before right ones; `roots` are nodes, or -1 for trees of one leaf.
    """
    on_path = np.empty(depth + 1, np.int64)  # the step down to each depth
    distinct = np.zeros(depth + 1, np.int64)
    todo = np.empty(2 * depth + 4, np.int64)  # 2 node + is right of edges, ~step of those to leave
    k = 0
    for tree in range(len(roots)):
        n_todo = 0
        if roots[tree] >= 0:
            todo[0], todo[1] = 2 * roots[tree] + 1, 2 * roots[tree]
            n_todo = 2
        at = 1  # depth of the next edge's lower end
        while n_todo:
            n_todo -= 1
            edge = todo[n_todo]
            if edge < 0:
                steps[k] = steps[~edge]
                steps[k, STEP] = _UP
                share[k], above[k] = share[~edge], above[~edge]
                at = steps[k, DEPTH]
                k += 1
                continue
            node, side = edge // 2, edge % 2
            child = right[node] if side else left[node]
            same = at - 1
            while same > 0 and feature[steps[on_path[same], NODE]] != feature[node]:
                same -= 1
            above[k] = share[on_path[same]] if same else 1.0
            share[k] = above[k] * shares[node, side]
            steps[k, STEP] = _DOWN if child >= 0 else _LEAF
            steps[k, DEPTH], steps[k, ABOVE] = at, same
            steps[k, NODE], steps[k, IS_LEFT] = node, 1 - side
            steps[k, LEAF], steps[k, DOWN] = ~child, k
            distinct[at] = distinct[at - 1] + (same == 0)
            most[tree] = max(most[tree], distinct[at])
            on_path[at] = k
            if child >= 0:
                todo[n_todo], todo[n_todo + 1], todo[n_todo + 2] = ~k, 2 * child + 1, 2 * child
                n_todo += 3
                at += 1
            k += 1
        tree_ptr[tree + 1] = k


def edge_steps(forest: Forest, shares: Float64[Array, "n_nodes 2"]) -> EdgeSteps:
    """Return the steps of a forest whose nodes read one column each.

    Parameters
    ----------
    shares : float64, (n_nodes, 2)
        Of the left and right side of each node; see `covers.shares`.
    """
    B = forest.bitvectors
    left, right = structure.children(B)
    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], -1)
    to_nodes = int(np.sum(left >= 0) + np.sum(right >= 0))
    n_steps = 2 * forest.n_nodes + to_nodes
    steps = np.zeros((n_steps, len(FIELDS)), np.int64)
    share, above = np.zeros(n_steps), np.zeros(n_steps)
    tree_ptr, most = np.zeros(forest.n_trees + 1, np.int64), np.zeros(forest.n_trees, np.int64)
    depth = int(tree_paths.leaf_depth(B).max(initial=0))
    given = (left, right, forest.tests.feature, shares, roots)
    _fill_steps(*map(constant, given), depth, steps, share, above, tree_ptr, most)
    points = (most + 1) // 2
    of_step = np.repeat(points, np.diff(tree_ptr))
    of_step[steps[:, STEP] == Step.UP] = 0
    first_point = np.cumsum(of_step) - of_step
    coefficients = np.empty((int(of_step.sum()), len(COEFFICIENTS)))
    for q in np.unique(of_step[of_step > 0]).tolist():
        at = np.flatnonzero(of_step == q)
        block = _coefficients(share[at, None], above[at, None], q)
        coefficients[first_point[at, None] + np.arange(q)] = block
    first_point = first_point[steps[:, DOWN]]
    return EdgeSteps(
        *map(constant, (steps, tree_ptr, points, share, above, first_point, coefficients))
    )


@dataclass(frozen=True, slots=True, eq=False)
class OtherEdges:
    """The edges above each step up that are the last of another feature than its own.

    Parameters
    ----------
    ptr : int64, (n_steps + 1,)
    edge : int64
        The steps down these edges.
    psi : float64, (n_points, 2)
        For each point of the coefficients, psi(share, 1) and psi(share, 0) of the step's edge.
    """

    ptr: Int64[Array, " n_steps_plus_1"]
    edge: Int64[Array, " n_edges"]
    psi: Float64[Array, "n_points 2"]

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays, as kernels take them."""
        return tuple(map(constant, (self.ptr, self.edge, self.psi)))


NO_OTHERS = OtherEdges(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2)))
"""For values without interactions."""


@kernel
def _fill_others(steps, feature, on_path, ptr, edge):
    """Fill where the other edges of each step end, and if `edge` has room, these edges."""
    n = 0
    for k in range(len(steps)):
        depth = steps[k, DEPTH]
        on_path[depth] = steps[k, DOWN]
        own = feature[steps[k, NODE]]
        for at in range(1, depth if steps[k, STEP] != _DOWN else 1):
            other = feature[steps[on_path[at], NODE]]
            is_last = other != own
            for later in range(at + 1, depth):
                is_last &= steps[on_path[later], ABOVE] != at
            if is_last:
                if len(edge):
                    edge[n] = on_path[at]
                n += 1
        ptr[k + 1] = n


def other_edges(steps: EdgeSteps, feature: Array) -> OtherEdges:
    """Return the other edges of all steps, for interactions."""
    ptr = np.zeros(len(steps.steps) + 1, np.int64)
    on_path = np.zeros(steps.depth + 1, np.int64)
    given = constant(steps.steps), constant(feature), on_path, ptr
    _fill_others(*given, np.zeros(0, np.int64))
    edge = np.zeros(int(ptr[-1]), np.int64)
    _fill_others(*given, edge)
    is_down = steps.steps[:, STEP] != Step.UP
    n_points = np.repeat(steps.points, np.diff(steps.tree_ptr))[is_down]
    z = np.repeat(steps.share[is_down], n_points)
    t = np.concatenate([np.zeros(0), *(rule(int(q))[0] for q in n_points)])
    return OtherEdges(ptr, edge, np.stack([psi(z, t), -1 / (1 - t)], axis=1))


@cache
def rule(q: int) -> tuple[Float64[Array, " q"], Float64[Array, " q"]]:
    """Return points and weights of Gauss-Legendre quadrature on [0, 1], exact to degree 2q - 1."""
    t, w = np.polynomial.legendre.leggauss(q)
    return (t + 1) / 2, w / 2


def psi(z: Array, t: Array) -> Array:
    """Return psi(z, 1) at points: (1 - z) / (z + (1 - z) t)."""
    return (1 - z) / (z + (1 - z) * t)


def _coefficients(
    z: Float64[Array, "n 1"], above: Float64[Array, "n 1"], q: int
) -> Float64[Array, "n q 5"]:
    t, w = rule(q)
    f_above = above + (1 - above) * t
    yes, no = (z + (1 - z) * t) / f_above, z * (1 - t) / f_above
    # Where `above` is 0, P is 0 already in the third case.
    dead = np.broadcast_to(np.divide(z, above, out=np.zeros_like(z), where=above > 0), yes.shape)
    gone = -1 / (1 - t)
    return np.stack(
        [yes, no, dead, w * (psi(z, t) - psi(above, t)), w * (gone - psi(above, t))], axis=2
    )
