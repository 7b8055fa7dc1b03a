"""Interventional values of one leaf or group of leaves, for patterns of rows and of a background.

At a leaf under edges of k features, a row satisfies a set p of these features, and a background row
a set c. The leaf is reached where each feature is in p and known, or in c and unknown. With A the
features not in c, all of which must be in p, and B those not in p, a = |A| and b = |B|, a leaf of
value v adds to the features j, and to the pairs i, j,

    v (a - 1)! b! / (a + b)!            for j in A,
    -v a! (b - 1)! / (a + b)!           for j in B,
    v (a - 2)! b! / (a + b - 1)!        for i and j in A,
    -v (a - 1)! (b - 1)! / (a + b - 1)! for i in A and j in B,
    v a! (b - 2)! / (a + b - 1)!        for i and j in B,

where a pair gets twice its interaction. The sums are over distinct p and c, the innermost loops
over p: a distinct c costs about 4 + a operations for each p.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache
from math import comb
from typing import Any, Final, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.explanations.pattern_groups import CARE, SLOT, WANT
from bitvec.runtime.predict.cpu.compiling import inner

MOST_FEATURES: Final = 63
"""Features of a leaf, at most: a set of them is the bits of an int64."""
CHUNK: Final = 256
"""Patterns of rows whose sums stay in the cache."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Sets(NamedTuple):
    """Room for patterns or sets of n rows, the distinct ones, and what they weigh.

    Parameters
    ----------
    byte : uint8, (n,)
    key, which : int64, (n,)
        Each row's pattern, and its place among the distinct ones.
    found : int64, (n,)
        The distinct ones.
    weight : float64, (n,)
        Their weights.
    slots : int64
        Of a hash table, a power of 2 that is at least 2 n.
    """

    byte: Any
    key: Any
    which: Any
    found: Any
    weight: Any
    slots: Any

    @classmethod
    def of(cls, n: int) -> Sets:
        """Return room for n rows."""
        slots = np.empty(1 << max(6, (2 * n - 1).bit_length()), np.int64)
        key, which, found = (np.empty(n, np.int64) for _ in range(3))
        return cls(np.empty(n, np.uint8), key, which, found, np.empty(n), slots)


@cache
def orders() -> Float64[Array, "64 64"]:
    """Return a! b! / (a + b + 1)!: the share of orders in which one element comes between sets."""
    every = range(MOST_FEATURES + 1)
    return np.array([[1 / ((a + b + 1) * comb(a + b, a)) for b in every] for a in every])


@inner
def find_distinct(sets, n, weights):
    """Fill the distinct ones of n keys, which each is and the sums of weights; return how many."""
    size = 64
    while size < 2 * n:
        size *= 2
    sets.slots[:size] = -1
    n_found = 0
    for r in range(n):
        key = sets.key[r]
        at = np.int64((np.uint64(key) * _MIX) >> np.uint64(33)) & (size - 1)
        while sets.slots[at] >= 0 and sets.found[sets.slots[at]] != key:
            at = (at + 1) & (size - 1)
        if sets.slots[at] < 0:
            sets.slots[at] = n_found
            sets.found[n_found], sets.weight[n_found] = key, 0.0
            n_found += 1
        sets.which[r] = sets.slots[at]
        sets.weight[sets.slots[at]] += weights[r]
    return n_found


@inner
def find_leaf_sets(patterns, n, items, sets):
    """Fill which of a leaf's features each of n patterns satisfies; return how many are distinct.

    `patterns` are distinct themselves, with weights.
    """
    sets.key[:n] = 0
    for i in range(len(items)):
        care, want = np.int64(items[i, CARE]), np.int64(items[i, WANT])
        if care == 0:
            care = np.int64(1) << np.int64(items[i, SLOT])
            want = care
        for r in range(n):
            sets.key[r] |= np.int64((patterns.found[r] & care) == want) << i
    return find_distinct(sets, n, patterns.weight)


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
def _fill_orders(missing, n, k, less_a, less_b, orders, out):
    """Fill orders[a - less_a, b - less_b] for a up to k; what is negative is not read."""
    for a in range(k + 1):
        for r in range(n):
            out[a, r] = orders[max(a - less_a, 0), max(missing[r] - less_b, 0)]


@inner
def fill_leaf_values(sets, n, backgrounds, weights, k, orders, pairs, room, out):
    """Fill the values of the features of a leaf of value 1, or of their pairs, for n sets of rows.

    The background has distinct sets, and a weight for each; those that reach the leaf with no row
    are passed over. `out` is (k, CHUNK), or
    (k (k - 1) / 2, CHUNK) of pairs, `room` (4 k + 5, CHUNK), and n at most CHUNK.
    """
    full = np.int64((np.uint64(1) << np.uint64(k)) - np.uint64(1))
    listed, missing = np.empty(MOST_FEATURES, np.int64), np.empty(CHUNK, np.int64)
    missing[:n], any_row = k, np.int64(0)
    for r in range(n):
        any_row |= sets[r]
    for i in range(k):
        for r in range(n):
            missing[r] -= (sets[r] >> i) & 1
    # Sums of weights: of all c, of those whose A has a feature, and of those that have both of two.
    reached, of_none, of_one = room[0], room[1], room[2 : 2 + k] if pairs else out
    of_none[:n] = 0.0
    for i in range(k):
        of_one[i, :n] = 0.0
    fewer = 1 if pairs else 0
    none, one, two = room[2 + k :], room[3 + 2 * k :], room[4 + 3 * k :]
    _fill_orders(missing, n, k, 0, 1 + fewer, orders, none)
    _fill_orders(missing, n, k, 1, fewer, orders, one)
    if pairs:
        _fill_orders(missing, n, k, 2, 0, orders, two)
        out[:, :n] = 0.0
    for c in range(len(backgrounds)):
        absent, weight, n_reached = full & ~backgrounds[c], weights[c], 0
        if absent & ~any_row:
            continue
        for r in range(n):
            is_reached = (absent & ~sets[r]) == 0
            n_reached += is_reached
            reached[r] = weight if is_reached else 0.0
        if n_reached == 0:
            continue
        a = _listed(absent, k, listed)
        for r in range(n):
            of_none[r] += reached[r] * none[a, r]
        for i in range(a):
            sums = of_one[listed[i]]
            for r in range(n):
                sums[r] += reached[r] * one[a, r]
        for i in range(a if pairs else 0):
            for m in range(i):
                sums = out[listed[i] * (listed[i] - 1) // 2 + listed[m]]
                for r in range(n):
                    sums[r] += reached[r] * two[a, r]
    if not pairs:
        for i in range(k):
            for r in range(n):
                if not (sets[r] >> i) & 1:
                    out[i, r] = -of_none[r]
        return
    pair = 0
    for i in range(k):
        for m in range(i):
            for r in range(n):
                has_i, has_m = (sets[r] >> i) & 1, (sets[r] >> m) & 1
                if has_i != has_m:
                    out[pair, r] = -(of_one[i, r] if has_i else of_one[m, r])
                elif not has_i:
                    out[pair, r] = of_none[r]
            pair += 1
