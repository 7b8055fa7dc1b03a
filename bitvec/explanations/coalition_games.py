"""Coalitions of k columns, and the Shapley values and interactions that their worths make.

All 2 ** k subsets make exact ones. Random orders, in which columns become known one by one,
sample them: a column adds the difference of the worths with and without it. Each column j adds such
a difference to each prefix of an order; where the prefix grows by i, this difference changes by
what i and j add together, to the columns before i apart from j. In random orders these are as many
as 0, ..., k - 2 with the same chance, so that means are unbiased for the interaction index of
Grabisch and Roubens 1999, as those of single columns are for Shapley's value.

Each order is used with its reverse; a pair of these makes one estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Int

Estimates = Callable[[Array], Array]
"""Worths, (n_coalitions, n_outputs), to independent estimates, (n_estimates, ..., n_outputs)."""
Game = tuple[Array, Estimates]
"""Coalitions, bool (n_coalitions, k), and what makes estimates of their worths."""


def subset_values(k: int) -> Game:
    """Return all coalitions of k columns, and what makes exact values of their worths."""
    coalitions = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1 == 1
    size = coalitions.sum(axis=1)
    joins = np.array([1 / (k * comb(k - 1, s - 1)) if s else 0.0 for s in range(k + 1)])
    stays = np.array([1 / (k * comb(k - 1, s)) if s < k else 0.0 for s in range(k + 1)])
    weights = np.where(coalitions.T, joins[size], -stays[size])
    return coalitions, lambda worths: (weights @ worths)[None]


def subset_interactions(k: int) -> Game:
    """Return all coalitions of k columns, and what makes exact interactions of their worths."""
    coalitions, values = subset_values(k)
    i, j = np.triu_indices(k, 1)
    a, b = coalitions.T[i], coalitions.T[j]
    others = coalitions.sum(axis=1) - a.astype(int) - b
    share = np.array([1 / (2 * (k - 1) * comb(k - 2, s)) for s in range(k - 1)])
    weights = np.where(a == b, 1.0, -1.0) * (share[others] if k > 1 else 0.0)
    diagonal = np.arange(k)

    def interactions(worths: Array) -> Array:
        out = np.zeros((k, k, worths.shape[1]))
        out[i, j] = out[j, i] = weights @ worths
        out[diagonal, diagonal] = values(worths)[0] - out.sum(axis=1)
        return out[None]

    return coalitions, interactions


def random_orders(k: int, permutations: int, seed: int) -> Int[Array, "permutations k"]:
    """Return orders of k columns."""
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(k) for _ in range(permutations)]).reshape(permutations, k)


def order_values(order: Int[Array, "permutations k"]) -> Game:
    """Return coalitions, and what makes estimates of values, (permutations, k), of their worths."""
    place, known = _prefixes(order)
    coalitions, at = _distinct(known)

    def estimates(worths: Array) -> Any:
        return _in_place(np.diff(worths[at], axis=2), place).mean(axis=1)

    return coalitions, estimates


def order_interactions(order: Int[Array, "permutations k"]) -> Game:
    """Return coalitions, and what makes estimates of interactions, (permutations, k, k).

    Each of the two places of a pair has half of what it adds; the diagonal has the rest of the
    values of `order_values`. A pair of orders has 2 k (k + 1) coalitions at most.
    """
    place, known = _prefixes(order)
    diagonal = np.arange(order.shape[1])
    prefix = known[:, :, :, None, :]
    toggled = prefix ^ np.eye(diagonal.size, dtype=bool)
    coalitions, at = _distinct(np.concatenate([prefix, toggled], axis=3))

    def estimates(worths: Array) -> Any:
        whole, other = worths[at[..., 0]], worths[at[..., 1:]]
        added = np.where(known[..., None], 1.0, -1.0) * (whole[:, :, :, None] - other)
        halves = _in_place(np.diff(added, axis=2), place).mean(axis=1) / 4
        halves += np.swapaxes(halves, 1, 2).copy()
        halves[:, diagonal, diagonal] = 0
        values = _in_place(np.diff(whole, axis=2), place).mean(axis=1)
        halves[:, diagonal, diagonal] = values - halves.sum(axis=2)
        return halves

    return coalitions, estimates


def _prefixes(order: Array) -> tuple[Array, Array]:
    """Return the places of columns (permutations, 2, k), and the prefixes (.., k + 1, k)."""
    place = np.argsort(np.stack([order, order[:, ::-1]], axis=1), axis=2)
    return place, place[:, :, None, :] < np.arange(order.shape[1] + 1)[:, None]


def _distinct(known: Array) -> tuple[Bool[Array, "n k"], Array]:
    """Return the distinct coalitions, and which of them each is."""
    k = known.shape[-1]
    packed, at = np.unique(np.packbits(known.reshape(-1, k), axis=1), axis=0, return_inverse=True)
    return np.unpackbits(packed, axis=1, count=k).astype(bool), at.reshape(known.shape[:-1])


def _in_place(added: Array, place: Array) -> Any:
    """Return what was added at each place of an order, by the columns that stand there."""
    return np.take_along_axis(added, place.reshape(*place.shape, *(1,) * (added.ndim - 3)), axis=2)
