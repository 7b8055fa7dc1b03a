"""Shapley values by cover, by quadrature along the edges of trees, for blocks of rows.

    P[0] = 1
    for step in tree:                                       # 64 rows at a time
        if step goes down:   state = state[above] and row goes along the edge
                             P[depth] = P[depth - 1] * factor(state, state[above])
        if step goes up:     source = G[depth], or at a leaf v P[depth - 1] factor
                             G[depth - 1] += source
                             total[feature] += sum over points of source * psi(state, state[above])

P and G have a value a point, and G one an output. A step costs about ten instructions for each
point and 8 rows (AVX-512), and an edge to a node is stepped over twice.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, var-annotated, unreachable"

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.explanations.contributions import leaf_contributions
from bitvec.explanations.covers import shares
from bitvec.explanations.edge_steps import (
    ABOVE,
    DEPTH,
    IS_LEFT,
    LEAF,
    NO_OTHERS,
    NODE,
    STEP,
    EdgeSteps,
    OtherEdges,
    Step,
    edge_steps,
    other_edges,
)
from bitvec.explanations.edge_vectors import (
    LANES,
    RECORD,
    ROWS,
    add_pair,
    added,
    down,
    outcome,
    up,
)
from bitvec.explanations.outcome_bytes import OutcomeBytes
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant

PAIR_ROWS = 128
"""Rows of a block for interactions, whose totals then stay in the cache."""

_DOWN, _LEAF, _UP = int(Step.DOWN), int(Step.LEAF), int(Step.UP)
_down, _down_again = down(False), down(True)
_from_node = [up(repeated, False, first) for repeated in (False, True) for first in (True, False)]
_from_leaf = [up(repeated, True, first) for repeated in (False, True) for first in (True, False)]
_node_first, _node_second, _node_again_first, _node_again_second = _from_node
_node_added, _leaf_added = added(False), added(True)
_leaf_first, _leaf_second, _leaf_again_first, _leaf_again_second = _from_leaf


@inner
def _go_up(step, again, is_left, source, target, record, q, state, above, v, sums, few):
    if step == _LEAF:
        if again:
            if is_left:
                _leaf_again_first(source, target, record, q, state, above, v, sums, few)
            else:
                _leaf_again_second(source, target, record, q, state, above, v, sums, few)
        elif is_left:
            _leaf_first(source, target, record, q, state, above, v, sums, few)
        else:
            _leaf_second(source, target, record, q, state, above, v, sums, few)
    elif again:
        if is_left:
            _node_again_first(source, target, record, q, state, above, v, sums, few)
        else:
            _node_again_second(source, target, record, q, state, above, v, sums, few)
    elif is_left:
        _node_first(source, target, record, q, state, above, v, sums, few)
    else:
        _node_second(source, target, record, q, state, above, v, sums, few)


@inner
def pair_place(a, b):
    """Return the place of a pair of columns below a diagonal."""
    return max(a, b) * (max(a, b) - 1) // 2 + min(a, b)


@kernel
def _add_values(
    binned, bin_column, least, feature, steps, tree_ptr, points, first_point, coefficients,
    trees, other_ptr, other, psi,
    n_rows, work, state, total, pairs,
):  # fmt: skip
    """Add to `total`, float64 (n_outputs, n_features, width), for a block of bytes of outcomes.

    `pairs` is float64 (n_outputs, n_features (n_features - 1) / 2, width), for interactions twice
    their size, or has no pairs. `work` is float64 (2 + most outputs of a tree, depth + 1, most
    points, 64): P, G of each output, and at its last depth what is kept; `state` int64
    (depth + 1,).
    """
    bytes_of_rows, at_work = np.int64(binned.ctypes.data), np.int64(work.ctypes.data)
    at_coefficients, at_total = np.int64(coefficients.ctypes.data), np.int64(total.ctypes.data)
    level = work.shape[2] * ROWS * 8
    plane = work.shape[1] * level
    n_features, width, room = total.shape[1], total.shape[2], binned.shape[1]
    at_psi, at_pairs, n_pairs = (
        np.int64(psi.ctypes.data),
        np.int64(pairs.ctypes.data),
        pairs.shape[1],
    )
    kept = at_work + (work.shape[0] - 1) * plane
    few = np.int64(n_rows <= LANES)
    state[0] = -1
    work[0, 0] = 1.0
    for tree in range(len(points)):
        q = points[tree]
        first, last = trees.output_ptr[tree], trees.output_ptr[tree + 1]
        outputs = trees.output[first:last]
        for row in range(0, n_rows, ROWS):
            for k in range(tree_ptr[tree], tree_ptr[tree + 1]):
                step, depth, node = steps[k, STEP], steps[k, DEPTH], steps[k, NODE]
                above, again = state[steps[k, ABOVE]], steps[k, ABOVE] > 0
                record = at_coefficients + first_point[k] * RECORD
                p = at_work + depth * level
                if step != _UP:
                    bits = outcome(bytes_of_rows + bin_column[node] * room + row, least[node])
                    state[depth] = above & (~bits if steps[k, IS_LEFT] else bits)
                if step == _DOWN:
                    if again:
                        _down_again(p - level, p, record, q, state[depth], above, few)
                    else:
                        _down(p - level, p, record, q, state[depth], above, few)
                    continue
                for j in range(len(outputs)):
                    g = p + (j + 1) * plane
                    source, v = g, 0.0
                    if step == _LEAF:
                        at = trees.value_at[steps[k, LEAF]] + j
                        source, v = p - level, trees.value[at]
                    f = feature[node]
                    sums = ((outputs[j] * n_features + f) * width + row) * 8 + at_total
                    is_left, s = steps[k, IS_LEFT], state[depth]
                    if n_pairs:
                        if step == _LEAF:
                            _leaf_added(source, kept, record, q, s, above, v, few)
                        else:
                            _node_added(source, kept, record, q, s, above, v, few)
                        for m in range(other_ptr[k], other_ptr[k + 1]):
                            edge = other[m]
                            a, b = f, feature[steps[edge, NODE]]
                            pair = pair_place(a, b)
                            sum_at = ((outputs[j] * n_pairs + pair) * width + row) * 8 + at_pairs
                            at = at_psi + first_point[edge] * 16
                            add_pair(kept, at, q, state[steps[edge, DEPTH]], sum_at, few)
                    _go_up(
                        step, again, is_left, source, g - level, record, q, s, above, v, sums, few
                    )
    # numba frees an array after its last use by name, and addresses are none.
    work[0, 0, 0, 0] = total[0, 0, 0] + binned[0, 0] + coefficients.size + psi.size + pairs.size


class TreeOutputs(NamedTuple):
    """The outputs that trees add to, and the contributions of leaves to these, as kernels take it.

    Parameters
    ----------
    output_ptr : int64, (n_trees + 1,)
    output : int64
        The outputs of each tree.
    value_at : int64, (n_leaves,)
        Where the contributions of a leaf begin in `value`, one for each output of its tree.
    value : float64
    """

    output_ptr: Any
    output: Any
    value_at: Any
    value: Any

    @property
    def most(self) -> int:
        """The outputs of the tree that has most."""
        return int(np.diff(self.output_ptr).max(initial=0))


def tree_outputs(forest: Forest) -> TreeOutputs:
    """Return the outputs of the trees of a forest."""
    value, n_outputs = leaf_contributions(forest), forest.n_outputs
    leaf_ptr, named = forest.bitvectors.leaf_ptr, forest.leaves.output
    if named is None:
        every = np.tile(np.arange(n_outputs), forest.n_trees)
        ptr = np.arange(forest.n_trees + 1) * n_outputs
        value_at = np.arange(forest.n_leaves) * n_outputs
        return TreeOutputs(*map(constant, (ptr, every, value_at, value.ravel())))
    tree = np.repeat(np.arange(forest.n_trees), np.diff(leaf_ptr))
    pairs, which = np.unique(tree * n_outputs + named, return_inverse=True)
    output_ptr = np.searchsorted(pairs, np.arange(forest.n_trees + 1) * n_outputs)
    width = np.diff(output_ptr)[tree]
    value_at = np.cumsum(width) - width
    spread = np.zeros(int(width.sum()))
    spread[value_at + which.ravel() - output_ptr[tree]] = value[:, 0]
    return TreeOutputs(*map(constant, (output_ptr, pairs % n_outputs, value_at, spread)))


@kernel
def _fill_squares(total, pairs, out):
    """Fill interactions, float64 (n_rows, n_features, n_features, n_outputs)."""
    n_outputs, n_features = total.shape[:2]
    for row in range(len(out)):
        for o in range(n_outputs):
            for a in range(n_features):
                out[row, a, a, o] = total[o, a, row]
            pair = 0
            for a in range(n_features):
                for b in range(a):
                    half = pairs[o, pair, row] / 2
                    pair += 1
                    out[row, a, b, o] = half
                    out[row, b, a, o] = half
                    out[row, a, a, o] -= half
                    out[row, b, b, o] -= half


def squares(
    total: Float64[Array, "n_outputs n_features width"],
    pairs: Float64[Array, "n_outputs n_pairs width"],
    n_rows: int,
) -> Float64[Array, "n_rows n_features n_features n_outputs"]:
    """Return interactions of the first rows from values, and from twice those of pairs."""
    n_outputs, n_features, _ = total.shape
    out = np.empty((n_rows, n_features, n_features, n_outputs))
    _fill_squares(total, pairs, out)
    return out


class PathValues:
    """Shapley values and interactions of a forest by its covers.

    Parameters
    ----------
    forest : Forest
        With covers, and supported: see `unsupported.require_supported`.
    """

    block = 512
    """Rows that are explained together."""
    described = "by cover"

    def __init__(self, forest: Forest) -> None:
        share = shares(forest)
        self.base = _mean_by_cover(forest, share)
        self._steps: EdgeSteps = edge_steps(forest, share)
        self._outcomes = OutcomeBytes(forest)
        self._outputs = tree_outputs(forest)
        self._shape = forest.n_outputs, forest.n_features
        self._feature = forest.tests.feature
        nodes = (self._outcomes.bin_column, self._outcomes.least, self._feature)
        steps = self._steps
        given = (steps.steps, steps.tree_ptr, steps.points, steps.first_point, steps.coefficients)
        self._arrays = (*map(constant, (*nodes, *given)), self._outputs)

    @cached_property
    def _others(self) -> OtherEdges:
        return other_edges(self._steps, self._feature)

    def values(self, X: Array) -> Float64[Array, "n_rows n_features n_outputs"]:
        """Return the values of at most `block` rows of floats."""
        return self._run(X, NO_OTHERS, 0)[0][:, :, : len(X)].transpose(2, 1, 0)

    def interactions(self, X: Array) -> Float64[Array, "n_rows n_features n_features n_outputs"]:
        """Return the interactions of at most `block` rows of floats."""
        n_features = self._shape[1]
        n_pairs = n_features * (n_features - 1) // 2
        out = np.empty((len(X), n_features, n_features, self._shape[0]))
        for start in range(0, len(X), PAIR_ROWS):
            part = X[start : start + PAIR_ROWS]
            found = squares(*self._run(part, self._others, n_pairs), len(part))
            out[start : start + PAIR_ROWS] = found
        return out

    def _run(self, X: Array, others: OtherEdges, n_pairs: int) -> tuple[Array, Array]:
        """Return values (n_outputs, n_features, width), and twice the interactions of pairs."""
        steps, (n_outputs, n_features) = self._steps, self._shape
        most = int(steps.points.max(initial=0))
        work = np.empty((2 + self._outputs.most, steps.depth + 1, most, ROWS))
        width = -(-len(X) // ROWS) * ROWS
        total = np.zeros((n_outputs, n_features, width))
        pairs = np.zeros((n_outputs, n_pairs, width))
        if steps.coefficients.size:
            state = np.empty(steps.depth + 1, np.int64)
            given = (*self._arrays, *others.arrays, len(X), work, state, total, pairs)
            _add_values(self._outcomes.fill(X), *given)
        return total, pairs


def _mean_by_cover(
    forest: Forest, share: Float64[Array, "n_nodes 2"]
) -> Float64[Array, " n_outputs"]:
    """Return the base score and, for each tree, the mean of its leaves by their shares."""
    B = forest.bitvectors
    of_node, of_leaf = np.ones(forest.n_nodes), np.ones(forest.n_leaves)
    left, right = structure.children(B)
    level = B.node_ptr[:-1][np.diff(B.leaf_ptr) > 1]
    while level.size:
        below = []
        for side, child in enumerate((left[level], right[level])):
            reached = of_node[level] * share[level, side]
            of_node[child[child >= 0]] = reached[child >= 0]
            of_leaf[~child[child < 0]] = reached[child < 0]
            below.append(child[child >= 0])
        level = np.concatenate(below)
    added = of_leaf[:, None] * leaf_contributions(forest)
    base = forest.output.base_score.astype(np.float64)
    if forest.leaves.output is None:
        return base + added.sum(axis=0)
    return base + np.bincount(forest.leaves.output, added[:, 0], forest.n_outputs)
