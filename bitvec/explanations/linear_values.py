"""Interventional Shapley values of forests with leaves that are linear in columns.

A leaf under edges of some features, with terms w_m x_m, is a product of factors, one for each
column that it reads: i satisfies the leaf by the row (p_i) and by the background row (c_i). What
makes a term missing fails the column as well, but for the leaf's constant v, so that a leaf adds

    v I + (constant - v) J + sum over m of w_m x_m J,

with I the product over the path, and J that over the path and the columns of terms. With A the
columns of p alone, B those of c alone, a = |A| and b = |B|, a product has the values

    beta(a - 1, b) for j in A,   -beta(a, b - 1) for j in B,   beta(a, b) = a! b! / (a + b + 1)!

if each column is in p or c, and else none. x_m is the row's where m is known, else z_m of the
background row: x_m J is x_m times J for m in A, z_m times J for m in B, and otherwise
z_m J + (x_m - z_m) J', with J' the product in which m has moved to A.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.shape_annotations import Float64
from bitvec.errors import UnsupportedModelError
from bitvec.explanations.contributions import in_float64, leaf_contributions
from bitvec.explanations.outcome_bytes import OutcomeBytes
from bitvec.explanations.path_values import pair_place, squares
from bitvec.explanations.pattern_values import orders
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.predictor import compile

MOST_READ = 62
"""Columns of a leaf, at most: a set of them is the bits of an int64."""


@inner
def _fill_satisfied(outcomes, n_rows, bin_column, least, node, right, slot, sets):
    """Take from sets of a leaf's columns those of which a row goes along another edge."""
    for m in range(len(node)):
        row, bound = outcomes[bin_column[node[m]]], np.uint8(least[node[m]])
        without = ~(np.int64(1) << slot[m])
        for r in range(n_rows):
            if (row[r] >= bound) != right[m]:
                sets[r] &= without


@inner
def _fill_present(X, column, slot, sets):
    """Take from sets of a leaf's columns those whose values in X are missing."""
    for m in range(len(column)):
        without = ~(np.int64(1) << slot[m])
        for r in range(len(X)):
            if np.isnan(X[r, column[m]]):
                sets[r] &= without


@inner
def _add_product(p, c, k, size, moved, beta, column, sums, pairs, row):
    """Add the values of a product times `size`, and of the products in which columns have moved.

    `moved` holds for each column that is in p and in c the factor of the product in which it is in
    p alone.
    """
    a, b, every = 0, 0, 0.0
    for i in range(k):
        in_p, in_c = (p >> i) & 1, (c >> i) & 1
        a += in_p & ~in_c
        b += in_c & ~in_p
        every += moved[i]
    for i in range(k):
        is_gained, is_lost = not (c >> i) & 1, not (p >> i) & 1
        if is_gained:
            sums[column[i], row] += size * beta[a - 1, b] + every * beta[a, b]
        elif is_lost:
            sums[column[i], row] -= size * beta[a, b - 1] + every * beta[a + 1, b - 1]
        else:
            sums[column[i], row] += moved[i] * beta[a, b]
        for m in range(i if len(pairs) else 0):
            lost = int(is_lost) + int(not (p >> m) & 1)
            gained = int(is_gained) + int(not (c >> m) & 1)
            if lost + gained == 2:
                sign = -1.0 if lost == 1 else 1.0
                added = size * beta[a - gained, b - lost] + every * beta[a + 1 - gained, b - lost]
            else:  # one of both, or neither, has moved
                sign = -1.0 if lost == 1 else 1.0
                added = (moved[i] + moved[m]) * beta[a - gained, b - lost]
                added = added if lost + gained == 1 else 0.0
            pairs[pair_place(column[i], column[m]), row] += sign * added


@kernel
def _add_linear(
    outcomes, X, of_background, Z, bin_column, least, path_ptr, path_node, path_right, path_slot,
    column_ptr, columns, term_ptr, term_column, term_slot, weight, v, base, output_of, beta,
    total, pairs,
):  # fmt: skip
    """Add to `total` and `pairs`, as `path_values` has them; X and Z are what terms read."""
    n, share = len(Z), 1.0 / len(Z)
    P, C = np.empty((2, len(X)), np.int64), np.empty((2, n), np.int64)
    moved, still = np.empty(64), np.zeros(64)
    for leaf in range(len(path_ptr) - 1):
        column = columns[column_ptr[leaf] : column_ptr[leaf + 1]]
        k = len(column)
        full = (np.int64(1) << k) - 1
        path = slice(path_ptr[leaf], path_ptr[leaf + 1])
        terms = slice(term_ptr[leaf], term_ptr[leaf + 1])
        edges = bin_column, least, path_node[path], path_right[path], path_slot[path]
        P[:], C[:] = full, full
        _fill_satisfied(outcomes, len(X), *edges, P[0])
        _fill_satisfied(of_background, n, *edges, C[0])
        _fill_present(X, term_column[terms], term_slot[terms], P[1])
        _fill_present(Z, term_column[terms], term_slot[terms], C[1])
        for r in range(len(X) if k else 0):
            for z in range(n):
                p, c = P[0, r], C[0, z]
                if p | c != full:
                    continue
                q, d = p & P[1, r], c & C[1, z]
                for o in range(v.shape[1]):
                    to = output_of[leaf, o]
                    size = base[leaf, o]
                    if q != p or d != c:
                        given = still, beta, column, total[to], pairs[to], r
                        _add_product(p, c, k, share * v[leaf, o], *given)
                        size -= v[leaf, o]
                        if q | d != full:
                            continue
                    moved[:k] = 0.0
                    for t in range(terms.start, terms.stop):
                        i, w = term_slot[t], weight[t, o]
                        x, y = X[r, term_column[t]], Z[z, term_column[t]]
                        if not (d >> i) & 1:
                            size += w * x
                        else:
                            size += w * y
                            if (q >> i) & 1:
                                moved[i] += share * w * (x - y)
                    given = moved, beta, column, total[to], pairs[to], r
                    _add_product(q, d, k, share * size, *given)


class LinearValues:
    """Interventional Shapley values and interactions of a forest with linear leaves.

    Parameters
    ----------
    forest : Forest
        Its nodes read one column each, and its trees are added or averaged.
    background : (n, n_features)
        Rows in the forest's dtype.

    Raises
    ------
    UnsupportedModelError
        If a leaf reads more than 62 columns.
    """

    block = 256
    """Rows that are explained together."""
    described = "with background rows"

    def __init__(self, forest: Forest, background: Array) -> None:
        B, leaves, linear = forest.bitvectors, forest.leaves, forest.leaves.linear
        assert linear is not None
        self._dtype, self._zero_threshold = forest.dtype, linear.zero_threshold
        self._shape, n_leaves = (forest.n_outputs, forest.n_features), forest.n_leaves
        self.base = compile(in_float64(forest), n_jobs=1).engine.raw(background).mean(axis=0)
        path_ptr, node, right = tree_paths.path_table(B)
        path_leaf = np.repeat(np.arange(n_leaves), np.diff(path_ptr))
        term_leaf = np.repeat(np.arange(n_leaves), np.diff(linear.leaf_ptr))
        read = np.append(forest.tests.feature[node], linear.column).astype(np.int64)
        leaf = np.append(path_leaf, term_leaf)
        distinct, at = np.unique(leaf * forest.n_features + read, return_inverse=True)
        column_ptr = np.searchsorted(distinct, np.arange(n_leaves + 1) * forest.n_features)
        most = int(np.diff(column_ptr).max(initial=0))
        if most > MOST_READ:
            raise UnsupportedModelError(
                f"a leaf must read at most {MOST_READ} columns to be explained with `background`, "
                f"got {most}: predict with it, or train a tree of fewer leaves."
            )
        slot = at.ravel() - column_ptr[leaf]
        size = leaf_contributions(
            replace(forest, leaves=Leaves(np.ones_like(leaves.v), leaves.output))
        )
        v = leaves.v * size
        is_linear = (np.diff(linear.leaf_ptr) > 0)[:, None]
        base = np.where(is_linear, linear.constant * size, v)
        named = np.arange(v.shape[1])[None] if leaves.output is None else leaves.output[:, None]
        self._outcomes = outcomes = OutcomeBytes(forest)
        self._background = constant(outcomes.fill(background)), constant(self._terms(background))
        arrays = (
            outcomes.bin_column, outcomes.least, path_ptr, node, right, slot[: node.size],
            column_ptr, distinct % max(forest.n_features, 1), linear.leaf_ptr,
            linear.column.astype(np.int64), slot[node.size :], linear.weight * size[term_leaf], v,
            base, np.broadcast_to(named, v.shape).astype(np.int64), orders(),
        )  # fmt: skip
        self._arrays = tuple(map(constant, arrays))

    def values(self, X: Array) -> Float64[Array, "n_rows n_features n_outputs"]:
        """Return the values of at most `block` rows of floats."""
        return self._run(X, 0)[0].transpose(2, 1, 0)

    def interactions(self, X: Array) -> Float64[Array, "n_rows n_features n_features n_outputs"]:
        """Return the interactions of at most `block` rows of floats."""
        n_features = self._shape[1]
        return squares(*self._run(X, n_features * (n_features - 1) // 2), len(X))

    def _terms(self, X: Array) -> Float64[Array, "batch n_features"]:
        """Return what the terms read: small numbers count as 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            x = X.astype(self._dtype, copy=False).astype(np.float64)
        return np.where(np.abs(x) <= self._zero_threshold, 0.0, x)

    def _run(self, X: Array, n_pairs: int) -> tuple[Array, Array]:
        n_outputs, n_features = self._shape
        total = np.zeros((n_outputs, n_features, len(X)))
        pairs = np.zeros((n_outputs, n_pairs, len(X)))
        rows = constant(self._outcomes.fill(X)), constant(self._terms(X))
        _add_linear(*rows, *self._background, *self._arrays, total, pairs)
        return total, pairs
