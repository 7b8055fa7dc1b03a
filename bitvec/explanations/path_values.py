"""Shapley values by cover, by quadrature along the edges of trees, for blocks of rows.

    P[0] = 1
    for step in tree:                                       # 64 rows at a time
        if step goes down:   state = state[above] and row goes along the edge
                             P[depth] = P[depth - 1] * factor(state, state[above])
        if step goes up:     G[depth - 1] += G[depth]
                             total[feature] += sum over points of G[depth] * psi(states)
        if step is subtree:  pattern = bits of its nodes, and of states of edges above
                             G[depth] (+)= P[depth] * table[pattern]
                             total[feature] += sum over points of P[depth] * its table[pattern]

P and G have a value a point, and G one an output. A step costs about ten instructions for each
point and vector of rows (AVX-512), and an edge to a node is stepped over twice.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, call-arg, var-annotated, unreachable"

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.explanations.bottom_subtrees import PATTERNS
from bitvec.explanations.contributions import centred, tree_outputs
from bitvec.explanations.covers import reached, shares
from bitvec.explanations.edge_steps import (
    ABOVE,
    DEPTH,
    IS_FIRST,
    NODE,
    STEP,
    SUBTREE,
    EdgeSteps,
    Step,
    edge_steps,
    other_edges,
)
from bitvec.explanations.edge_vectors import (
    COEFFICIENTS,
    ROWS,
    add_bit,
    add_looked_up,
    add_pair,
    carry,
    down,
    keep_added,
    outcome,
    up,
)
from bitvec.explanations.outcome_bytes import OutcomeBytes
from bitvec.explanations.subtree_tables import SubtreeTables
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import aligned, constant, on_lines, size_of

TOGETHER = 512
"""Steps, at least, whose values are summed in float32 before the sums go on in float64."""
PAIR_ROWS = 128
"""Rows of a block for interactions, whose totals then stay in the cache."""

_DOWN, _UP = int(Step.DOWN), int(Step.UP)
_down, _down_again = down(False), down(True)
_up_first, _up_second, _up_again_first, _up_again_second = [
    up(repeated, first) for repeated in (False, True) for first in (True, False)
]
_carry_first, _carry_second = carry(True), carry(False)


@inner
def _go_up(again, is_first, source, target, record, q, state, above, sums, few, like):
    if again:
        if is_first:
            _up_again_first(source, target, record, q, state, above, sums, few, like)
        else:
            _up_again_second(source, target, record, q, state, above, sums, few, like)
    elif is_first:
        _up_first(source, target, record, q, state, above, sums, few, like)
    else:
        _up_second(source, target, record, q, state, above, sums, few, like)


@inner
def pair_place(a, b):
    """Return the place of a pair of columns below a diagonal."""
    return max(a, b) * (max(a, b) - 1) // 2 + min(a, b)


@inner
def _add_pairs(
    kept, other, first, last, f, feature, steps, first_point, at_psi, state, sums, q, few, like
):
    """Add what was kept of feature f to its pairs with the features of some other edges.

    `sums` is where the sums of pairs begin, and the bytes from one to the next.
    """
    start, step = sums
    for m in range(first, last):
        edge = other[m]
        at = at_psi + first_point[edge] * 2 * size_of(like)
        total = start + pair_place(f, feature[steps[edge, NODE]]) * step
        add_pair(kept, at, q, state[steps[edge, DEPTH]], total, few, like)


@inner
def _move(sums, wide):
    """Add sums to wider ones, and begin anew."""
    sums, wide = sums.reshape(-1), wide.reshape(-1)
    for k in range(sums.size):
        wide[k] += sums[k]
        sums[k] = 0


@kernel
def _add_values(
    binned, bin_column, least, feature, steps, tree_ptr, points, first_point, coefficients,
    subtrees, trees, other_ptr, other, psi, table_ptr, table,
    first_tree, last_tree, n_rows, work, state, total, pairs, wide_total, wide_pairs,
):  # fmt: skip
    """Add what some trees give to `total`, (n_outputs, n_features, width), for bytes of outcomes.

    The first subtree of these trees is that with which the tables begin.

    `pairs` is (n_outputs, n_features (n_features - 1) / 2, width), for interactions twice their
    size, or has no pairs. `work` is (2 + most outputs of a tree, depth + 1, most points, 64): P,
    G of each output, and at its last depth what is kept; `state` int64 (depth + 1,). All are of
    one dtype. If that is float32, sums go on to float64, `wide_total` and `wide_pairs`, at times.
    """
    bytes_of_rows, at_work = np.int64(binned.ctypes.data), np.int64(work.ctypes.data)
    at_coefficients, at_total = np.int64(coefficients.ctypes.data), np.int64(total.ctypes.data)
    at_table, size = np.int64(table.ctypes.data), work.itemsize
    level, record_of_point = work.shape[2] * ROWS * size, COEFFICIENTS * size
    plane = work.shape[1] * level
    n_features, width, room = total.shape[1], total.shape[2], binned.shape[1]
    at_psi, at_pairs, n_pairs = (
        np.int64(psi.ctypes.data),
        np.int64(pairs.ctypes.data),
        pairs.shape[1],
    )
    kept = at_work + (work.shape[0] - 1) * plane
    patterns = np.zeros(ROWS, np.uint8)
    at_patterns = np.int64(patterns.ctypes.data)
    few = np.int64(n_rows <= 64 // size)
    state[0], n_summed = -1, 0
    work[0, 0] = 1.0
    like = work[0, 0, 0, 0]
    at_first = -1
    for tree in range(first_tree, last_tree):
        q = points[tree]
        first, last = trees.output_ptr[tree], trees.output_ptr[tree + 1]
        outputs = trees.output[first:last]
        for row in range(0, n_rows, ROWS):
            for k in range(tree_ptr[tree], tree_ptr[tree + 1]):
                step, depth, node = steps[k, STEP], steps[k, DEPTH], steps[k, NODE]
                above, again = state[steps[k, ABOVE]], steps[k, ABOVE] > 0
                record, is_first = (
                    at_coefficients + first_point[k] * record_of_point,
                    steps[k, IS_FIRST],
                )
                p = at_work + depth * level
                if step == _DOWN:
                    bits = outcome(bytes_of_rows + bin_column[node] * room + row, least[node])
                    state[depth] = above & (bits if not is_first else ~bits)
                    if again:
                        _down_again(p - level, p, record, q, state[depth], above, few, like)
                    else:
                        _down(p - level, p, record, q, state[depth], above, few, like)
                    continue
                if step == _UP:
                    for j in range(len(outputs)):
                        g, f, s = p + (j + 1) * plane, feature[node], state[depth]
                        sums = ((outputs[j] * n_features + f) * width + row) * size + at_total
                        if n_pairs:
                            keep_added(g, kept, record, q, s, above, few, like)
                            start = at_pairs + (outputs[j] * n_pairs * width + row) * size
                            _add_pairs(
                                kept, other, other_ptr[k], other_ptr[k + 1], f, feature, steps,
                                first_point, at_psi, state, (start, width * size), q, few, like,
                            )  # fmt: skip
                        _go_up(again, is_first, g, g - level, record, q, s, above, sums, few, like)
                    continue
                t = steps[k, SUBTREE]
                at_first = t if at_first < 0 else at_first
                for place in range(subtrees.n_bits[t]):
                    source = subtrees.bit[t, place]
                    if source < 0:
                        bits = state[~source]
                    else:
                        bits = outcome(
                            bytes_of_rows + bin_column[source] * room + row, least[source]
                        )
                    add_bit(at_patterns, bits, place)
                at = at_table + (table_ptr[t] - table_ptr[at_first]) * PATTERNS * size
                slots = subtrees.feature[subtrees.slot_ptr[t] : subtrees.slot_ptr[t + 1]]
                one = q * PATTERNS * size
                for j in range(len(outputs)):
                    g = p + (j + 1) * plane
                    if is_first:
                        _carry_first(p, g, at_patterns, at, q, few, like)
                    else:
                        _carry_second(p, g, at_patterns, at, q, few, like)
                    at_pair = at + (1 + len(slots)) * one
                    for slot in range(len(slots)):
                        at += one
                        f = slots[slot]
                        sums = ((outputs[j] * n_features + f) * width + row) * size + at_total
                        add_looked_up(p, at_patterns, at, q, sums, few, like)
                        if n_pairs:
                            _carry_first(p, kept, at_patterns, at, q, few, like)
                            start = at_pairs + (outputs[j] * n_pairs * width + row) * size
                            _add_pairs(
                                kept, other, other_ptr[k], other_ptr[k + 1], f, feature, steps,
                                first_point, at_psi, state, (start, width * size), q, few, like,
                            )  # fmt: skip
                            for b in range(slot):
                                total_at = start + pair_place(f, slots[b]) * width * size
                                add_looked_up(p, at_patterns, at_pair, q, total_at, few, like)
                                at_pair += one
                    at = at_pair
        n_summed += tree_ptr[tree + 1] - tree_ptr[tree]
        if size == 4 and (n_summed >= TOGETHER or tree + 1 == last_tree):
            _move(total, wide_total)
            _move(pairs, wide_pairs)
            n_summed = 0
    # numba frees an array after its last use by name, and addresses are none.
    return (
        total.size + binned.size + coefficients.size + psi.size + pairs.size + table.size
        + patterns.size + work.size
    )  # fmt: skip


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
    dtype : float32 or float64
        Of products and sums; sums of float32 go on to float64 every few trees.
    """

    block = 512
    """Rows that are explained together; more where tables are made anew for them."""
    described = "by cover"

    def __init__(self, forest: Forest, dtype: DTypeLike = np.float32) -> None:
        self._forest, self._share, self._dtype = forest, shares(forest), np.dtype(dtype)
        outputs, mean = centred(forest, tree_outputs(forest), reached(forest, self._share))
        self.base = forest.output.base_score.astype(np.float64) + mean
        self._scale = 1.0
        if self._dtype == np.float32:  # so that no leaf is too large for it
            self._scale = 2.0 ** (math.frexp(np.abs(outputs.value).max(initial=0.0))[1] - 1)
        self._outputs = outputs._replace(value=constant(outputs.value / self._scale))
        self._steps: EdgeSteps = edge_steps(forest, self._share)
        self._outcomes = OutcomeBytes(forest)
        self._shape = forest.n_outputs, forest.n_features
        most = int(self._steps.points.max(initial=0))
        self._work = 2 + self._outputs.most, self._steps.depth + 1, most, ROWS
        self._feature = forest.tests.feature
        nodes = (self._outcomes.bin_column, self._outcomes.least, self._feature)
        steps = self._steps
        given = (steps.steps, steps.tree_ptr, steps.points, steps.first_point)
        self._arrays = (
            *map(constant, (*nodes, *given)),
            self._numbers(steps.coefficients),
            steps.subtrees,
            self._outputs,
        )
        none = np.zeros(0, np.int64)
        self._no_others = constant(none), constant(none), self._numbers(np.zeros((0, 2)))
        self._tables = self._made_tables(pairs=False)
        if not self._tables.is_kept:
            self.block = 8 * self.block

    def _numbers(self, array: Array) -> Array:
        return on_lines(array.astype(self._dtype, copy=False))

    def _made_tables(self, *, pairs: bool) -> SubtreeTables:
        given = self._forest, self._steps, self._outputs, self._share, self._dtype
        return SubtreeTables(*given, pairs=pairs)

    @cached_property
    def _others(self) -> tuple[tuple[Array, ...], SubtreeTables]:
        others = other_edges(self._steps, self._feature)
        found = constant(others.ptr), constant(others.edge), self._numbers(others.psi)
        return found, self._made_tables(pairs=True)

    def values(self, X: Array) -> Float64[Array, "n_rows n_features n_outputs"]:
        """Return the values of at most `block` rows of floats."""
        return self._run(X, self._no_others, self._tables, 0)[0][:, :, : len(X)].transpose(2, 1, 0)

    def interactions(self, X: Array) -> Float64[Array, "n_rows n_features n_features n_outputs"]:
        """Return the interactions of at most `block` rows of floats."""
        n_features = self._shape[1]
        n_pairs = n_features * (n_features - 1) // 2
        out = np.empty((len(X), n_features, n_features, self._shape[0]))
        for start in range(0, len(X), PAIR_ROWS):
            part = X[start : start + PAIR_ROWS]
            found = squares(*self._run(part, *self._others, n_pairs), len(part))
            out[start : start + PAIR_ROWS] = found
        return out

    def _run(
        self, X: Array, others: tuple[Array, ...], tables: SubtreeTables, n_pairs: int
    ) -> tuple[Array, Array]:
        """Return values (n_outputs, n_features, width), and twice the interactions of pairs."""
        n_outputs, n_features = self._shape
        work, state = self._zeros(*self._work), np.empty(self._work[1], np.int64)
        width = -(-len(X) // ROWS) * ROWS
        total = self._zeros(n_outputs, n_features, width)
        pairs = self._zeros(n_outputs, n_pairs, width)
        is_wide = self._dtype == np.float64
        wide = (
            total if is_wide else np.zeros(total.shape),
            pairs if is_wide else np.zeros(pairs.shape),
        )
        if work.size:
            binned = self._outcomes.fill(X)
            for first, last, table in tables.parts():
                part = tables.ptr, table, first, last
                sums = total, pairs, *wide
                _add_values(binned, *self._arrays, *others, *part, len(X), work, state, *sums)
        for scaled in wide:
            scaled *= self._scale
        return wide

    def _zeros(self, *shape: int) -> Array:
        n_bytes = math.prod(shape) * self._dtype.itemsize
        found: Array = aligned(n_bytes).view(self._dtype).reshape(shape)
        found[...] = 0
        return found
