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
from typing import Any

import numpy as np

from bitvec.core import structure, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.explanations.bottom_subtrees import MOST_BITS, Subtrees, find_subtree, place_of_feature
from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant


class Step(IntEnum):
    """Passing of an edge."""

    DOWN = 0
    """To a node: P is carried down."""
    UP = 1
    """Back from a node: G is carried up."""
    SUBTREE = 2
    """All of a subtree at once: its tables make G of P."""


FIELDS = ("step", "depth", "above", "node", "is_first", "subtree", "down")
STEP, DEPTH, ABOVE, NODE, IS_FIRST, SUBTREE, DOWN = range(len(FIELDS))
"""Fields of a step: its kind; the depth of the edge's lower end; that of the last edge above of the
same feature, 0 without one; the node at the upper end; whether the edge is its left one, whose G
comes up first; the subtree; the number, within the forest, of the step that went down the edge. A
subtree has the depth of its node, and is first where all leaves below that are its own."""

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
    subtrees : Subtrees
    """

    steps: Int64[Array, "n_steps n_fields"]
    tree_ptr: Int64[Array, " n_trees_plus_1"]
    points: Int64[Array, " n_trees"]
    share: Float64[Array, " n_steps"]
    share_above: Float64[Array, " n_steps"]
    first_point: Int64[Array, " n_steps"]
    coefficients: Float64[Array, "n_points 5"]
    subtrees: Subtrees

    @property
    def depth(self) -> int:
        """Depth of the deepest edge that is stepped along."""
        return int(self.steps[:, DEPTH].max(initial=0))


_DOWN, _UP, _SUBTREE = int(Step.DOWN), int(Step.UP), int(Step.SUBTREE)


@kernel
def _fill_steps(
    left, right, lo, mid, hi, feature, shares, roots, depth, steps, share, above, tree_ptr, most,
    subtrees,
):  # fmt: skip
    """Fill steps, shares, where trees end, and the most distinct features of a path of each tree.

    Depth first, left edges before right ones; `roots` are nodes, or -1 for trees of one leaf.
    Returns the numbers of steps and of subtrees.
    """
    on_path = np.empty(depth + 1, np.int64)  # the step down to each depth
    of_path, z = np.empty(depth + 1, np.int64), np.empty(depth + 1)  # its feature and share
    distinct = np.zeros(depth + 1, np.int64)
    todo = np.empty(2 * depth + 4, np.int64)  # 2 node + is right of edges, ~step of those to leave
    k = s = 0
    for tree in range(len(roots)):
        n_todo, at, entered = 0, 0, roots[tree]
        while n_todo or entered >= 0:
            if entered >= 0:  # a node at depth `at`
                node, side, entered = entered, 0, -1
                first, last = lo[node], hi[node]
                if last - first - 1 > MOST_BITS:
                    fits = False
                else:
                    fits, new = find_subtree(
                        subtrees, s, node, first, last, left, right, mid, feature, at, of_path, z
                    )
                if not fits:
                    todo[n_todo], todo[n_todo + 1] = 2 * node + 1, 2 * node
                    n_todo += 2
                    continue
            else:
                n_todo -= 1
                edge = todo[n_todo]
                if edge < 0:
                    steps[k] = steps[~edge]
                    steps[k, STEP] = _UP
                    share[k], above[k] = share[~edge], above[~edge]
                    at = steps[k, DEPTH] - 1
                    k += 1
                    continue
                node, side = edge // 2, edge % 2
                child = right[node] if side else left[node]
                if child >= 0:
                    at += 1
                    same = at - 1
                    while same > 0 and of_path[same] != feature[node]:
                        same -= 1
                    above[k] = z[same] if same else 1.0
                    share[k] = above[k] * shares[node, side]
                    steps[k, STEP], steps[k, DEPTH], steps[k, ABOVE] = _DOWN, at, same
                    steps[k, NODE], steps[k, IS_FIRST], steps[k, DOWN] = node, 1 - side, k
                    distinct[at] = distinct[at - 1] + (same == 0)
                    on_path[at], of_path[at], z[at] = k, feature[node], share[k]
                    todo[n_todo] = ~k
                    n_todo += 1
                    entered = child
                    k += 1
                    continue
                first = mid[node] if side else lo[node]
                last = hi[node] if side else mid[node]
                fits, new = find_subtree(
                    subtrees, s, node, first, last, left, right, mid, feature, at, of_path, z
                )
            steps[k, STEP], steps[k, DEPTH], steps[k, NODE] = _SUBTREE, at, node
            steps[k, IS_FIRST], steps[k, SUBTREE], steps[k, DOWN] = 1 - side, s, k
            most[tree] = max(most[tree], distinct[at] + new)
            k += 1
            s += 1
        tree_ptr[tree + 1] = k
    return k, s


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
    n_steps = 2 * int(np.sum(left >= 0) + np.sum(right >= 0)) + forest.n_leaves
    steps = np.zeros((n_steps, len(FIELDS)), np.int64)
    share, above = np.zeros(n_steps), np.zeros(n_steps)
    tree_ptr, most = np.zeros(forest.n_trees + 1, np.int64), np.zeros(forest.n_trees, np.int64)
    depth = int(tree_paths.leaf_depth(B).max(initial=0))
    subtrees = Subtrees.of(forest.n_leaves, forest.n_leaves + forest.n_nodes)
    given = map(constant, (left, right, B.lo, B.mid, B.hi, forest.tests.feature, shares, roots))
    n_steps, n = _fill_steps(*given, depth, steps, share, above, tree_ptr, most, subtrees)
    steps, share, above = steps[:n_steps], share[:n_steps], above[:n_steps]
    points = (most + 1) // 2
    of_step = np.repeat(points, np.diff(tree_ptr))
    of_step[steps[:, STEP] != Step.DOWN] = 0
    first_point = np.cumsum(of_step) - of_step
    coefficients = np.empty((int(of_step.sum()), len(COEFFICIENTS)))
    for q in np.unique(of_step[of_step > 0]).tolist():
        at = np.flatnonzero(of_step == q)
        block = _coefficients(share[at, None], above[at, None], q)
        coefficients[first_point[at, None] + np.arange(q)] = block
    first_point = first_point[steps[:, DOWN]]
    found = steps, tree_ptr, points, share, above, first_point, coefficients
    arrays: list[Any] = [*map(constant, found), subtrees.cut(n)]
    return EdgeSteps(*arrays)


@dataclass(frozen=True, slots=True, eq=False)
class OtherEdges:
    """The edges above each step up, or subtree, that are the last of a feature that it has not.

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
def _fill_others(steps, feature, subtrees, on_path, ptr, edge):
    """Fill where the other edges of each step end, and if `edge` has room, these edges."""
    n = 0
    for k in range(len(steps)):
        end, node = steps[k, DEPTH], steps[k, NODE]
        if steps[k, STEP] == _DOWN:
            on_path[end], end = k, 0
        elif steps[k, STEP] == _SUBTREE:
            end, s = end + 1, steps[k, SUBTREE]
            n_slots = subtrees.slot_ptr[s + 1] - subtrees.slot_ptr[s]
        for at in range(1, end):
            other = feature[steps[on_path[at], NODE]]
            if steps[k, STEP] == _SUBTREE:
                is_last = place_of_feature(subtrees, s, n_slots, other) == n_slots
            else:
                is_last = other != feature[node]
            for later in range(at + 1, end):
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
    given = constant(steps.steps), constant(feature), steps.subtrees, on_path, ptr
    _fill_others(*given, np.zeros(0, np.int64))
    edge = np.zeros(int(ptr[-1]), np.int64)
    _fill_others(*given, edge)
    is_down = steps.steps[:, STEP] == Step.DOWN
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
