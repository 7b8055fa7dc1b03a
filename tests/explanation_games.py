"""Shapley values and interactions, literally: games of a forest over all subsets of columns.

The oracle of the fast algorithms, for forests of a few columns: 2 ** n_features games a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, combinations
from math import comb

import numpy as np

from bitvec.core import reference, structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float
from bitvec.explanations.contributions import contribution_sums, leaf_contributions
from bitvec.explanations.covers import shares

Game = Callable[[frozenset[int]], Array]
"""Raw scores, float64 (n_outputs,), where only the columns of a set are known."""


def path_game(forest: Forest, x: Float[Array, " n_features"]) -> Game:
    """Return the game by cover: a test of an unknown column averages its two sides by their share.

    Notes
    -----
    Algorithm 1 of Lundberg et al., "Consistent Individualized Feature Attribution for Tree
    Ensembles" (2018).
    """
    B, share = forest.bitvectors, shares(forest)
    left, right = structure.children(B)
    goes_right = reference.hard_tests(forest, reference.columns(forest, x[None]))[0]
    feature, value = forest.tests.feature, leaf_contributions(forest)

    def expected(at: int, known: frozenset[int]) -> Array:
        if at < 0:
            vector = np.zeros(forest.n_outputs)
            target = slice(None) if forest.leaves.output is None else forest.leaves.output[~at]
            vector[target] = value[~at] if forest.leaves.output is None else value[~at, 0]
            return vector
        if int(feature[at]) in known:
            return expected(int(right[at] if goes_right[at] else left[at]), known)
        sides = expected(int(left[at]), known), expected(int(right[at]), known)
        return share[at, 0] * sides[0] + share[at, 1] * sides[1]

    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1]).tolist()

    @cache
    def game(known: frozenset[int]) -> Array:
        base = forest.output.base_score.astype(np.float64)
        return base + sum(expected(root, known) for root in roots)

    return game


def background_game(
    forest: Forest, x: Float[Array, " n_features"], background: Float[Array, "n n_features"]
) -> Game:
    """Return the interventional game: unknown columns take the values of each background row."""

    def answer(rows: Array) -> Array:
        return contribution_sums(forest, reference.exit_leaves(forest, rows))

    return mixed_game(answer, x, background)


def mixed_game(
    answer: Callable[[Array], Array],
    x: Float[Array, " n_features"],
    background: Float[Array, "n n_features"],
) -> Game:
    """Return the same game of any function of rows, (n, n_outputs)."""

    @cache
    def game(known: frozenset[int]) -> Array:
        mixed = background.copy()
        mixed[:, list(known)] = x[list(known)]
        return answer(mixed).astype(np.float64).mean(axis=0)

    return game


def shapley_values(game: Game, n_features: int) -> Float[Array, "n_features n_outputs"]:
    """Return the Shapley value of each column.

    Notes
    -----
    Shapley, "A Value for n-Person Games" (1953).
    """
    values = []
    for j in range(n_features):
        others = [i for i in range(n_features) if i != j]
        values.append(
            sum(
                (game(known | {j}) - game(known)) / (n_features * comb(n_features - 1, len(known)))
                for known in _subsets(others)
            )
        )
    return np.array(values)


def shapley_interactions(
    game: Game, n_features: int
) -> Float[Array, "n_features n_features n_outputs"]:
    """Return the interaction values: halves off the diagonal, and rows that sum to the values.

    Notes
    -----
    Eq. (3) to (5), Lundberg et al. 2018.
    """
    first = shapley_values(game, n_features)
    found = np.zeros((n_features, *first.shape))
    for i, j in combinations(range(n_features), 2):
        others = [k for k in range(n_features) if k not in (i, j)]
        pair = sum(
            (game(known | {i, j}) - game(known | {i}) - game(known | {j}) + game(known))
            / (2 * (n_features - 1) * comb(n_features - 2, len(known)))
            for known in _subsets(others)
        )
        found[i, j] = found[j, i] = pair
    every = np.arange(n_features)
    found[every, every] = first - found.sum(axis=1)
    return found


def _subsets(columns: list[int]) -> Iterator[frozenset[int]]:
    sizes = range(len(columns) + 1)
    return map(frozenset, chain.from_iterable(combinations(columns, size) for size in sizes))
