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

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.explanations.contributions import leaf_contributions
from bitvec.explanations.covers import shares
from bitvec.explanations.edge_steps import (
    ABOVE,
    DEPTH,
    IS_LEFT,
    LEAF,
    NODE,
    STEP,
    EdgeSteps,
    Step,
    edge_steps,
)
from bitvec.explanations.edge_vectors import RECORD, ROWS, down, outcome, up
from bitvec.explanations.outcome_bytes import ROOM, OutcomeBytes
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant

_DOWN, _LEAF, _UP = int(Step.DOWN), int(Step.LEAF), int(Step.UP)
_down, _down_again = down(False), down(True)
_from_node = [up(repeated, False, first) for repeated in (False, True) for first in (True, False)]
_from_leaf = [up(repeated, True, first) for repeated in (False, True) for first in (True, False)]
_node_first, _node_second, _node_again_first, _node_again_second = _from_node
_leaf_first, _leaf_second, _leaf_again_first, _leaf_again_second = _from_leaf


@inner
def _go_up(step, again, is_left, source, target, record, q, state, above, v, sums):
    if step == _LEAF:
        if again:
            if is_left:
                _leaf_again_first(source, target, record, q, state, above, v, sums)
            else:
                _leaf_again_second(source, target, record, q, state, above, v, sums)
        elif is_left:
            _leaf_first(source, target, record, q, state, above, v, sums)
        else:
            _leaf_second(source, target, record, q, state, above, v, sums)
    elif again:
        if is_left:
            _node_again_first(source, target, record, q, state, above, v, sums)
        else:
            _node_again_second(source, target, record, q, state, above, v, sums)
    elif is_left:
        _node_first(source, target, record, q, state, above, v, sums)
    else:
        _node_second(source, target, record, q, state, above, v, sums)


@kernel
def _add_values(
    binned, bin_column, least, feature, steps, tree_ptr, points, first_point, coefficients,
    output_ptr, output, value_at, value, n_rows, work, state, total,
):  # fmt: skip
    """Add to `total`, float64 (n_outputs, n_features, ROOM), for a block of bytes of outcomes.

    `work` is float64 (1 + most outputs of a tree, depth + 1, most points, 64): P, then G; `state`
    int64 (depth + 1,).
    """
    bytes_of_rows, at_work = np.int64(binned.ctypes.data), np.int64(work.ctypes.data)
    at_coefficients, at_total = np.int64(coefficients.ctypes.data), np.int64(total.ctypes.data)
    level = work.shape[2] * ROWS * 8
    plane = work.shape[1] * level
    n_features, room = total.shape[1], total.shape[2]
    state[0] = -1
    work[0, 0] = 1.0
    for tree in range(len(points)):
        q = points[tree]
        outputs = output[output_ptr[tree] : output_ptr[tree + 1]]
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
                        _down_again(p - level, p, record, q, state[depth], above)
                    else:
                        _down(p - level, p, record, q, state[depth], above)
                    continue
                for j in range(len(outputs)):
                    g = p + (j + 1) * plane
                    source, v = g, 0.0
                    if step == _LEAF:
                        source, v = p - level, value[value_at[steps[k, LEAF]] + j]
                    sums = ((outputs[j] * n_features + feature[node]) * room + row) * 8 + at_total
                    is_left, s = steps[k, IS_LEFT], state[depth]
                    _go_up(step, again, is_left, source, g - level, record, q, s, above, v, sums)
    # numba frees an array after its last use by name, and addresses are none.
    work[0, 0, 0, 0] = total[0, 0, 0] + binned[0, 0] + coefficients.size


@dataclass(frozen=True, slots=True, eq=False)
class TreeOutputs:
    """The outputs that trees add to, and the contributions of leaves to these.

    Parameters
    ----------
    output_ptr : int64, (n_trees + 1,)
    output : int64
        The outputs of each tree.
    value_at : int64, (n_leaves,)
        Where the contributions of a leaf begin in `value`, one for each output of its tree.
    value : float64
    """

    output_ptr: Int64[Array, " n_trees_plus_1"]
    output: Int64[Array, " n"]
    value_at: Int64[Array, " n_leaves"]
    value: Float64[Array, " n_values"]

    @property
    def most(self) -> int:
        """The outputs of the tree that has most."""
        return int(np.diff(self.output_ptr).max(initial=0))

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All arrays, as kernels take them."""
        return tuple(map(constant, (self.output_ptr, self.output, self.value_at, self.value)))


def tree_outputs(forest: Forest) -> TreeOutputs:
    """Return the outputs of the trees of a forest."""
    value, n_outputs = leaf_contributions(forest), forest.n_outputs
    leaf_ptr, named = forest.bitvectors.leaf_ptr, forest.leaves.output
    if named is None:
        every = np.tile(np.arange(n_outputs), forest.n_trees)
        ptr = np.arange(forest.n_trees + 1) * n_outputs
        return TreeOutputs(ptr, every, np.arange(forest.n_leaves) * n_outputs, value.ravel())
    tree = np.repeat(np.arange(forest.n_trees), np.diff(leaf_ptr))
    pairs, which = np.unique(tree * n_outputs + named, return_inverse=True)
    output_ptr = np.searchsorted(pairs, np.arange(forest.n_trees + 1) * n_outputs)
    width = np.diff(output_ptr)[tree]
    value_at = np.cumsum(width) - width
    spread = np.zeros(int(width.sum()))
    spread[value_at + which.ravel() - output_ptr[tree]] = value[:, 0]
    return TreeOutputs(output_ptr, pairs % n_outputs, value_at, spread)


class PathValues:
    """Shapley values of a forest by its covers.

    Parameters
    ----------
    forest : Forest
        With covers, and supported: see `unsupported.require_supported`.
    """

    def __init__(self, forest: Forest) -> None:
        share = shares(forest)
        self._steps: EdgeSteps = edge_steps(forest, share)
        self._outcomes = OutcomeBytes(forest)
        self._outputs = tree_outputs(forest)
        self._shape = forest.n_outputs, forest.n_features
        nodes = (self._outcomes.bin_column, self._outcomes.least, forest.tests.feature)
        steps = self._steps
        given = (steps.steps, steps.tree_ptr, steps.points, steps.first_point, steps.coefficients)
        self._arrays = (*map(constant, (*nodes, *given)), *self._outputs.arrays)

    def values(self, X: Array) -> Float64[Array, "n_rows n_features n_outputs"]:
        """Return the values of at most ROOM rows of floats."""
        steps = self._steps
        most = int(steps.points.max(initial=0))
        work = np.empty((1 + self._outputs.most, steps.depth + 1, most, ROWS))
        state = np.empty(steps.depth + 1, np.int64)
        total = np.zeros((*self._shape, ROOM))
        if steps.coefficients.size:
            _add_values(self._outcomes.fill(X), *self._arrays, len(X), work, state, total)
        return total[:, :, : len(X)].transpose(2, 1, 0)
