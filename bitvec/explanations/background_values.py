"""Interventional Shapley values: unknown columns take the values of background rows.

At a leaf under edges of k features, a row satisfies a set p of these features, and a background row
a set c. The leaf is reached where each feature is in p and known, or in c and unknown. With A the
features not in c, all of which must be in p, and B those not in p, a = |A| and b = |B|,

    phi_j = v (a - 1)! b! / (a + b)! for j in A,   -v a! (b - 1)! / (a + b)! for j in B.

Leaf by leaf, the background rows are counted by c. Where there are few features a table over all p
is made, by the integral of which these factorials are the values: at each point t of an exact
quadrature, F[p] = sum over c of share[c] prod over i of f(p_i, c_i), with f(1, 1) = 1, f(1, 0) = t,
f(0, 1) = 1 - t and f(0, 0) = 0, one feature after the other; the factor of j is replaced by
p_j - c_j in the same way. It costs k^2 2^k / 2 and serves all rows of a block; otherwise the
formula above is summed for each row and each distinct c.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from math import comb

import numpy as np

from bitvec.core import tree_paths
from bitvec.core.arrays import Array, Float64
from bitvec.core.forest import Forest
from bitvec.errors import UnsupportedModelError
from bitvec.explanations.contributions import contribution_sums
from bitvec.explanations.edge_steps import rule
from bitvec.explanations.outcome_bytes import OutcomeBytes
from bitvec.explanations.path_values import squares, tree_outputs
from bitvec.runtime.predict.cpu.compiling import inner, kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant
from bitvec.runtime.predict.predictor import compile

MOST_FEATURES = 63
"""Features of a path, at most: a set of them is the bits of an int64."""
MOST_TABLE = 13
"""Features of a leaf with a table, at most: 1 MiB for values, 6 for interactions."""


@inner
def _fill_sets(bytes_of_rows, n_rows, bin_column, least, node, right, slot, sets):
    """Fill which of a leaf's features each row satisfies, from its path and their slots."""
    full = np.int64(0)
    for m in range(len(node)):
        full |= np.int64(1) << slot[m]
    sets[:n_rows] = full
    for m in range(len(node)):
        row, bound = bytes_of_rows[bin_column[node[m]]], np.uint8(least[node[m]])
        without = ~(np.int64(1) << slot[m])
        for r in range(n_rows):
            if (row[r] >= bound) != right[m]:
                sets[r] &= without
    return full


@inner
def _replaced(F, bit, t, out):
    """Fill F with the factor of one feature replaced by p - c."""
    step = 1 << bit
    for low in range(0, len(F), 2 * step):
        for p in range(low, low + step):
            satisfied = F[p] / (1 - t)  # the part of c, all of F where the row is not in p
            out[p] = -satisfied
            out[p + step] = (F[p + step] - satisfied) / t


@inner
def _fill_tables(share, k, points, weights, with_pairs, F, R, D, table):
    """Fill the values of each feature by p, and behind them those of each pair."""
    size = 1 << k
    table[:, :size] = 0.0
    for q in range(len(points)):
        t, w = points[q], weights[q]
        F[:size] = share[:size]
        for bit in range(k):
            step = 1 << bit
            for low in range(0, size, 2 * step):
                for p in range(low, low + step):
                    satisfied = F[p + step]
                    F[p + step] = t * F[p] + satisfied
                    F[p] = (1 - t) * satisfied
        pair = k
        for i in range(k):
            _replaced(F[:size], i, t, R[:size])
            for p in range(size):
                table[i, p] += w * R[p]
            if with_pairs:
                for j in range(i):
                    _replaced(R[:size], j, t, D[:size])
                    for p in range(size):
                        table[pair, p] += w * D[p]
                    pair += 1


@inner
def _listed(features, k, out):
    """Fill the features of a set of k at most, and return their number."""
    n = 0
    for i in range(k):
        if (features >> i) & 1:
            out[n] = i
            n += 1
    return n


@inner
def _fill_absent(sets, full, k, absent, lists, shares):
    """Fill the distinct complements of sets, as bits and as lists, their number at k; and shares.

    Return how many are distinct.
    """
    ordered = np.sort(sets)
    n = 0
    for at in range(len(ordered)):
        if at == 0 or ordered[at] != ordered[at - 1]:
            absent[n] = full & ~ordered[at]
            lists[n, k] = _listed(absent[n], k, lists[n])
            shares[n] = 0.0
            n += 1
        shares[n - 1] += 1 / len(ordered)
    return n


@inner
def _add_pairs(present, a, missing, b, share, beta, column, outputs, v, pairs, row):
    """Add the pairs of one row and one distinct c: A are the `present` features, B the missing."""
    for i in range(a + b):
        for m in range(i):
            x = column[present[i]] if i < a else column[missing[i - a]]
            y = column[present[m]] if m < a else column[missing[m - a]]
            pair = max(x, y) * (max(x, y) - 1) // 2 + min(x, y)
            if i < a:
                added = share * beta[a - 2, b]
            elif m < a:
                added = -share * beta[a - 1, b - 1]
            else:
                added = share * beta[a, b - 2]
            for j in range(len(outputs)):
                pairs[outputs[j], pair, row] += v[j] * added


@kernel
def _add_background(
    rows, n_rows, background, n_background, bin_column, least, feature, path_ptr, path_node,
    path_right, tree_of_leaf, output_ptr, output, value_at, value, rule_ptr, points, weights, beta,
    total, pairs,
):  # fmt: skip
    """Add to `total` and `pairs`, as `path_values` has them; `beta` is a! b! / (a + b + 1)!."""
    width = max(n_rows, n_background)
    with_pairs = pairs.shape[1] > 0
    most = MOST_TABLE
    n_tables = most * (most + 1) // 2 if with_pairs else most
    share, F, R = np.zeros(1 << most), np.empty(1 << most), np.empty(1 << most)
    D, table = np.empty(1 << most), np.empty((n_tables, 1 << most))
    sets, sets_of_background = np.empty(width, np.int64), np.empty(width, np.int64)
    slot = np.empty(max(1, np.max(np.diff(path_ptr))), np.int64)
    column, missing, gained = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64)
    absent, shares = np.empty(n_background, np.int64), np.empty(n_background)
    lists = np.empty((n_background, 65), np.int64)
    for leaf in range(len(value_at)):
        node = path_node[path_ptr[leaf] : path_ptr[leaf + 1]]
        right = path_right[path_ptr[leaf] : path_ptr[leaf + 1]]
        k = 0
        for m in range(len(node)):
            slot[m] = 0
            while slot[m] < k and column[slot[m]] != feature[node[m]]:
                slot[m] += 1
            if slot[m] == k:
                column[k] = feature[node[m]]
                k += 1
        if k == 0:
            continue
        given = bin_column, least, node, right, slot
        full = _fill_sets(rows, n_rows, *given, sets)
        _fill_sets(background, n_background, *given, sets_of_background)
        outputs = output[output_ptr[tree_of_leaf[leaf]] : output_ptr[tree_of_leaf[leaf] + 1]]
        v = value[value_at[leaf] : value_at[leaf] + len(outputs)]
        if k <= most and k * k * (1 << k) <= 2 * n_rows * n_background:
            size = 1 << k
            share[:size] = 0.0
            for r in range(n_background):
                share[sets_of_background[r]] += 1.0 / n_background
            first, last = rule_ptr[(k + 1) // 2], rule_ptr[(k + 1) // 2 + 1]
            at = points[first:last], weights[first:last]
            _fill_tables(share, k, *at, with_pairs, F, R, D, table)
            for j in range(len(outputs)):
                pair = k
                for i in range(k):
                    sums = total[outputs[j], column[i]]
                    for r in range(n_rows):
                        sums[r] += v[j] * table[i, sets[r]]
                    for m in range(i if with_pairs else 0):
                        a, b = max(column[i], column[m]), min(column[i], column[m])
                        sums = pairs[outputs[j], a * (a - 1) // 2 + b]
                        for r in range(n_rows):
                            sums[r] += v[j] * table[pair, sets[r]]
                        pair += 1
            continue
        n_distinct = _fill_absent(sets_of_background[:n_background], full, k, absent, lists, shares)
        for r in range(n_rows):
            b = _listed(full & ~sets[r], k, missing)
            gained[:k] = 0.0
            lost = 0.0
            for c in range(n_distinct):
                if absent[c] & ~sets[r]:
                    continue
                a = lists[c, k]
                for m in range(a):
                    gained[lists[c, m]] += shares[c] * beta[a - 1, b]
                lost += shares[c] * beta[a, b - 1] if b else 0.0
                if with_pairs:
                    _add_pairs(
                        lists[c], a, missing, b, shares[c], beta, column, outputs, v, pairs, r
                    )
            for m in range(b):
                gained[missing[m]] = -lost
            for i in range(k):
                for j in range(len(outputs)):
                    total[outputs[j], column[i], r] += v[j] * gained[i]


class BackgroundValues:
    """Interventional Shapley values and interactions of a forest.

    Parameters
    ----------
    forest : Forest
        Supported: see `unsupported.require_supported`.
    background : (n, n_features)
        Rows in the forest's dtype.

    Raises
    ------
    UnsupportedModelError
        If a path reads more than 63 columns.
    """

    block = 4096
    """Rows that are explained together."""
    described = "with background rows"

    def __init__(self, forest: Forest, background: Array) -> None:
        B, feature = forest.bitvectors, forest.tests.feature
        ptr, node, right = tree_paths.path_table(B)
        leaf = np.repeat(np.arange(forest.n_leaves), np.diff(ptr))
        distinct = np.unique(leaf * forest.n_features + feature[node])
        n_distinct = np.bincount(distinct // max(forest.n_features, 1), minlength=forest.n_leaves)
        most = int(n_distinct.max(initial=0))
        if most > MOST_FEATURES:
            raise UnsupportedModelError(
                f"a path must read at most {MOST_FEATURES} columns to be explained with "
                f"`background`, got {most}: explain by cover, without `background`."
            )
        exits = compile(forest, n_jobs=1).exit_leaves(background)
        self.base = contribution_sums(forest, exits).mean(axis=0)
        self._outcomes = OutcomeBytes(forest)
        self._background = constant(self._outcomes.fill(background)), len(background)
        self._shape = forest.n_outputs, forest.n_features
        rules = [rule(q) if q else (np.zeros(0), np.zeros(0)) for q in range(MOST_TABLE // 2 + 2)]
        rule_ptr = np.cumsum([0, *(t.size for t, _ in rules)])
        points, weights = (np.concatenate(part) for part in zip(*rules, strict=True))
        counts = range(most + 1)
        beta = np.array([[1 / ((a + b + 1) * comb(a + b, a)) for b in counts] for a in counts])
        tree = np.repeat(np.arange(forest.n_trees), np.diff(B.leaf_ptr))
        outcomes = self._outcomes
        nodes = (outcomes.bin_column, outcomes.least, feature, ptr, node, right, tree)
        quadrature = (rule_ptr, points, weights, beta)
        outputs = tree_outputs(forest).arrays
        self._arrays = (*map(constant, nodes), *outputs, *map(constant, quadrature))

    def values(self, X: Array) -> Float64[Array, "n_rows n_features n_outputs"]:
        """Return the values of at most `block` rows of floats."""
        return self._run(X, 0)[0][:, :, : len(X)].transpose(2, 1, 0)

    def interactions(self, X: Array) -> Float64[Array, "n_rows n_features n_features n_outputs"]:
        """Return the interactions of at most `block` rows of floats."""
        n_features = self._shape[1]
        return squares(*self._run(X, n_features * (n_features - 1) // 2))

    def _run(self, X: Array, n_pairs: int) -> tuple[Array, Array]:
        n_outputs, n_features = self._shape
        total = np.zeros((n_outputs, n_features, len(X)))
        pairs = np.zeros((n_outputs, n_pairs, len(X)))
        rows = constant(self._outcomes.fill(X)), len(X)
        _add_background(*rows, *self._background, *self._arrays, total, pairs)
        return total, pairs
