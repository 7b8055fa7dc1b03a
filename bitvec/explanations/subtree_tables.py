"""Tables of subtrees: G of a subtree, and what it adds to its features or their pairs, over P.

A row of patterns p of a subtree has, where P is 1 above it,

    G[p] = sum over leaves of v prod over features of their factors,
    added[feature, p] = w G of the leaves (psi(at the leaf) - psi(above the subtree)),

and for two features the difference of products of psi. Tables are (outputs of the tree, one for G,
its features and perhaps their pairs, points, PATTERNS), a subtree after the other.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64
from bitvec.explanations.bottom_subtrees import PATTERNS, place_of_feature, place_of_node
from bitvec.explanations.contributions import TreeOutputs
from bitvec.explanations.edge_steps import EdgeSteps, rule
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant, on_lines

KEPT_BYTES: Final = 512 << 20
"""Tables that are held, or made and dropped, at once."""
_DEAD, _NO, _YES = range(3)
"""States of a feature: where the row leaves its edges above, in the subtree, or nowhere."""


@inner
def _fill_states(subtrees, s, leaf, n_slots, feature, left, right, mid, shares, state, z):
    """Fill the states of a leaf's features for all patterns, and z; return the features as bits."""
    first, n_bits, seen, node = subtrees.slot_ptr[s], subtrees.n_bits[s], 0, subtrees.node[s]
    for slot in range(n_slots):
        above = subtrees.above[first + slot]
        z[slot] = subtrees.share[first + slot]
        for p in range(PATTERNS):
            state[slot, p] = _YES if above < 0 or (p >> above) & 1 else _DEAD
    while node >= 0:
        side = 1 if leaf >= mid[node] else 0
        bit = place_of_node(subtrees, s, n_bits, node)
        slot = place_of_feature(subtrees, s, n_slots, feature[node])
        seen |= 1 << slot
        z[slot] *= shares[node, side]
        for p in range(PATTERNS):
            if (p >> bit) & 1 != side:
                state[slot, p] = min(state[slot, p], _NO)
        node = right[node] if side else left[node]
    return seen


@inner
def _chosen(state, dead, no, yes):
    return yes if state == _YES else no if state == _NO else dead


@kernel
def _fill_tables(
    subtrees, tree, points, t, w, trees, leaf_ptr, feature, left, right, mid, shares, pairs, ptr,
    start, table,
):  # fmt: skip
    """Fill `table`, zero before, of the subtrees from `start` on, as far as it goes.

    `t` and `w` are (most points + 1, most points).
    """
    most = 0
    for s in range(len(tree)):
        most = max(most, subtrees.slot_ptr[s + 1] - subtrees.slot_ptr[s])
    state, z = np.empty((most, PATTERNS), np.int64), np.empty(most)
    G, above, here = np.empty(PATTERNS), np.empty((most, PATTERNS)), np.empty((most, PATTERNS))
    for s in range(start, len(tree)):
        if ptr[s + 1] - ptr[start] > len(table):
            break
        first, n_slots = subtrees.slot_ptr[s], subtrees.slot_ptr[s + 1] - subtrees.slot_ptr[s]
        q, n_outputs = points[tree[s]], trees.output_ptr[tree[s] + 1] - trees.output_ptr[tree[s]]
        n_rows = (ptr[s + 1] - ptr[s]) // n_outputs
        for leaf in range(subtrees.leaf[s, 0], subtrees.leaf[s, 1]):
            seen = _fill_states(
                subtrees, s, leaf, n_slots, feature, left, right, mid, shares, state, z
            )
            value_at = trees.value_at[leaf_ptr[tree[s]] + leaf]
            for i in range(q):
                at, gone = t[q, i], -1 / (1 - t[q, i])
                G[:] = 1.0
                for slot in range(n_slots):
                    z_above = subtrees.share[first + slot]
                    f_above, f = z_above + (1 - z_above) * at, z[slot] + (1 - z[slot]) * at
                    psi_above, psi = (1 - z_above) / f_above, (1 - z[slot]) / f
                    yes, no = f / f_above, z[slot] * (1 - at) / f_above
                    dead = z[slot] / z_above if z_above > 0 else 0.0
                    if not (seen >> slot) & 1:
                        yes, no, dead = 1.0, 1.0, 1.0
                    for p in range(PATTERNS):
                        G[p] *= _chosen(state[slot, p], dead, no, yes)
                        here[slot, p] = psi if state[slot, p] == _YES else gone
                        above[slot, p] = gone if state[slot, p] == _DEAD else psi_above
                for j in range(n_outputs):
                    v, row = trees.value[value_at + j], ptr[s] - ptr[start] + j * n_rows + i
                    for p in range(PATTERNS):
                        table[row, p] += v * G[p]
                    v *= w[q, i]
                    for a in range(n_slots):
                        row += q
                        for p in range(PATTERNS):
                            table[row, p] += v * G[p] * (here[a, p] - above[a, p])
                    for a in range(n_slots if pairs else 0):
                        for b in range(a):
                            row += q
                            for p in range(PATTERNS):
                                product = here[a, p] * here[b, p] - above[a, p] * above[b, p]
                                table[row, p] += v * G[p] * product


class SubtreeTables:
    """Tables of the subtrees of a forest, with those of pairs or not, made in parts of trees.

    Parameters
    ----------
    forest : Forest
    steps : EdgeSteps
    trees : TreeOutputs
    shares : float64, (n_nodes, 2)
    dtype : float32 or float64
    pairs : bool

    Attributes
    ----------
    ptr : int64, (n_subtrees + 1,)
        Where the tables of each subtree begin: rows of PATTERNS numbers.
    """

    def __init__(
        self,
        forest: Forest,
        steps: EdgeSteps,
        trees: TreeOutputs,
        shares: Float64[Array, "n_nodes 2"],
        dtype: np.dtype,
        *,
        pairs: bool = False,
    ) -> None:
        B, subtrees = forest.bitvectors, steps.subtrees
        tree, n_slots = B.tree_of_node[subtrees.node], np.diff(subtrees.slot_ptr)
        n_tables = 1 + n_slots + (n_slots * (n_slots - 1) // 2 if pairs else 0)
        n_rows = n_tables * steps.points[tree] * np.diff(trees.output_ptr)[tree]
        self.ptr = constant(np.concatenate([[0], np.cumsum(n_rows)]))
        self._of_tree = self.ptr[np.searchsorted(tree, np.arange(forest.n_trees + 1))]
        self._first = np.searchsorted(tree, np.arange(forest.n_trees))
        self._dtype, most = dtype, int(steps.points.max(initial=0))
        t, w = np.zeros((2, most + 1, most))
        for q in range(1, most + 1):
            t[q, :q], w[q, :q] = rule(q)
        nodes = (B.leaf_ptr, forest.tests.feature, *structure.children(B), B.mid, shares)
        given = map(constant, (tree, steps.points, t, w))
        self._given = subtrees, *given, trees, *map(constant, nodes), pairs, self.ptr
        self._whole = self._made(0, forest.n_trees) if self.is_kept else None

    @property
    def is_kept(self) -> bool:
        """True if the tables of all trees are held, and not made anew for each block of rows."""
        return int(self.ptr[-1]) * PATTERNS * self._dtype.itemsize <= KEPT_BYTES

    def parts(self) -> Iterator[tuple[int, int, Array]]:
        """Yield ranges of trees, and their tables, of at most KEPT_BYTES if they are several."""
        if self._whole is not None:
            yield 0, self._first.size, self._whole
            return
        first, most = 0, KEPT_BYTES // (PATTERNS * self._dtype.itemsize)
        while first < self._first.size:
            end = np.searchsorted(self._of_tree, self._of_tree[first] + most, side="right")
            last = max(first + 1, int(end) - 1)
            yield first, last, self._made(first, last)
            first = last

    def _made(self, first: int, last: int) -> Array:
        table = np.zeros((int(self._of_tree[last] - self._of_tree[first]), PATTERNS))
        if len(table):
            _fill_tables(*self._given, int(self._first[first]), table)
        return on_lines(table.astype(self._dtype, copy=False))
