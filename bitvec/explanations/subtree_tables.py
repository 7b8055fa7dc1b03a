"""Tables of subtrees: G of a subtree, and what it adds to its features or their pairs, over P.

A row of patterns p of a subtree has, where P is 1 above it,

    G[p] = sum over leaves of v prod over features of their factors,
    added[feature, p] = w G of the leaves (psi(at the leaf) - psi(above the subtree)),

and for two features the difference of products of psi. Tables are (outputs of the tree, one for G,
features or pairs, points, PATTERNS), a subtree after the other.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.explanations.bottom_subtrees import PATTERNS, place_of_feature, place_of_node
from bitvec.explanations.edge_steps import EdgeSteps, rule
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant

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
    table,
):  # fmt: skip
    """Fill `table`, zero before; `t` and `w` are (most points + 1, most points)."""
    most = 0
    for s in range(len(tree)):
        most = max(most, subtrees.slot_ptr[s + 1] - subtrees.slot_ptr[s])
    state, z = np.empty((most, PATTERNS), np.int64), np.empty(most)
    G, above, here = np.empty(PATTERNS), np.empty((most, PATTERNS)), np.empty((most, PATTERNS))
    for s in range(len(tree)):
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
                    v, row = trees.value[value_at + j], ptr[s] + j * n_rows + i
                    if not pairs:
                        for p in range(PATTERNS):
                            table[row, p] += v * G[p]
                    v *= w[q, i]
                    for a in range(n_slots):
                        for b in range(a if pairs else 0):
                            for p in range(PATTERNS):
                                product = here[a, p] * here[b, p] - above[a, p] * above[b, p]
                                table[row, p] += v * G[p] * product
                            row += q
                        row += 0 if pairs else q
                        for p in range(0 if pairs else PATTERNS):
                            table[row, p] += v * G[p] * (here[a, p] - above[a, p])


def subtree_tables(
    forest: Forest,
    steps: EdgeSteps,
    trees: tuple[Array, ...],
    shares: Float64[Array, "n_nodes 2"],
    *,
    pairs: bool = False,
) -> tuple[Int64[Array, " n_subtrees_plus_1"], Float64[Array, "n_rows n_patterns"]]:
    """Return where the tables of each subtree begin, and the tables: of features, or of pairs.

    Parameters
    ----------
    trees : TreeOutputs
    """
    B, subtrees = forest.bitvectors, steps.subtrees
    tree, n_slots = B.tree_of_node[subtrees.node], np.diff(subtrees.slot_ptr)
    n_tables = n_slots * (n_slots - 1) // 2 if pairs else n_slots + 1
    n_rows = n_tables * steps.points[tree] * np.diff(trees[0])[tree]
    ptr = np.concatenate([[0], np.cumsum(n_rows)])
    table = np.zeros((int(ptr[-1]), PATTERNS))
    most = int(steps.points.max(initial=0))
    t, w = np.zeros((2, most + 1, most))
    for q in range(1, most + 1):
        t[q, :q], w[q, :q] = rule(q)
    nodes = (forest.tests.feature, *structure.children(B), B.mid, shares)
    given = map(constant, (tree, steps.points, t, w))
    _fill_tables(
        subtrees, *given, trees, constant(B.leaf_ptr), *map(constant, nodes), pairs, ptr, table
    )
    return constant(ptr), table
