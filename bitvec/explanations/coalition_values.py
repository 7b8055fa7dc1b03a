"""Interventional Shapley values of any forest, from its predictions for mixed rows.

Where the columns of a coalition are known, the rows are those of the background with x in these
columns, and the worth of the coalition is their mean prediction. Trees that are added are games of
their own, of the columns that they read: a column that is not read adds nothing.

Worths of all subsets of k columns give the exact values, 2 ** k coalitions a game. Permutations
sample them: the columns become known one after the other, in a random order and then in its
reverse, and the mean of what a column adds, over pairs of orders, has no bias. Whatever is drawn,
values sum to the difference of the prediction and the base value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Bool, Float64, Int
from bitvec.errors import InputError
from bitvec.explanations.contributions import in_float64
from bitvec.explanations.unsupported import MOST_COLUMNS, Response
from bitvec.runtime.predict.predictor import compile

CELLS = 1 << 18
"""Values of mixed rows that are held at a time: 2 MiB, for each thread."""
Answer = Callable[[Array], Array]
"""Predictions, (n, n_outputs), for rows of floats."""


@dataclass(frozen=True)
class Game:
    """A part of a forest, and the coalitions of its columns whose worths are asked for.

    Parameters
    ----------
    answer : callable
    columns : (n_players,)
        The columns that the part reads.
    coalitions : bool, (n_coalitions, n_players)
    estimates : callable
        Worths, (n_coalitions, n_outputs), to independent estimates of the values of the players,
        (n_estimates, n_players, n_outputs).
    """

    answer: Answer
    columns: Int[Array, " n_players"]
    coalitions: Bool[Array, "n_coalitions n_players"]
    estimates: Callable[[Array], Array]


class CoalitionValues:
    """Interventional Shapley values of a forest of any kind.

    Parameters
    ----------
    forest : Forest
    background : (n, n_features)
        Rows in the forest's dtype.
    response : str
    at_once : bool
        Whether the response is no sum over trees.
    permutations : int, optional
        Pairs of orders, at least 2, if values are sampled.
    seed : int

    Raises
    ------
    InputError
        If too many columns are read to sum over all subsets, without `permutations`.
    """

    block = 4
    """Rows that are explained together."""

    def __init__(
        self,
        forest: Forest,
        background: Array,
        *,
        response: Response,
        at_once: bool,
        permutations: int | None,
        seed: int,
    ) -> None:
        self._background, self._shape = background, (forest.n_features, forest.n_outputs)
        if response == "raw":
            forest = in_float64(forest)
        every = _answer(forest, response)
        self.base = np.asarray(every(background), np.float64).mean(axis=0)
        read = columns_read(forest)
        players = np.flatnonzero(read.any(axis=0))
        parts = [(np.arange(forest.n_trees), players)] if at_once else _by_columns(read)
        widest = max((columns.size for _, columns in parts), default=0)
        cost = sum(trees.size << columns.size for trees, columns in parts)
        self.is_sampled = False
        if permutations is not None and players.size:
            coalitions, estimates = _permuted(players.size, permutations, seed)
            self.is_sampled = widest > MOST_COLUMNS or len(coalitions) * forest.n_trees < cost
        elif widest > MOST_COLUMNS:
            raise InputError(
                f"sums over all subsets of columns need a game of at most {MOST_COLUMNS} columns, "
                f"got {widest} that are read together: pass `permutations`, such as 10, to sample "
                "the values."
            )
        if self.is_sampled:
            self._games = [Game(every, players, coalitions, estimates)]
            self.described = f"with background rows, sampled by {permutations} permutations"
            return
        self.described = "with background rows"
        forest = _divided(forest)
        self._games = [
            Game(
                every if trees.size == forest.n_trees else _answer(_taken(forest, trees), response),
                columns,
                *_subsets(columns.size),
            )
            for trees, columns in parts
        ]

    def values(self, X: Array) -> Float64[Array, "n_rows n_features n_outputs"]:
        """Return the values of rows of floats."""
        return self.estimates(X)[:, :, 0]

    def estimates(self, X: Array) -> Float64[Array, "n_rows n_features 2 n_outputs"]:
        """Return values and their standard errors: 0 where they are exact."""
        n_features, n_outputs = self._shape
        out = np.zeros((len(X), n_features, 2, n_outputs))
        for game in self._games:
            for x, found in zip(X, out, strict=True):
                each = game.estimates(self._worths(game, x))
                found[game.columns, 0] += each.mean(axis=0)
                if self.is_sampled:
                    found[game.columns, 1] = each.std(axis=0, ddof=1) / np.sqrt(len(each))
        return out

    def interactions(self, X: Array) -> Float64[Array, "n_rows n_features n_features n_outputs"]:
        """Return the interactions of rows of floats.

        Raises
        ------
        InputError
            If values are sampled.
        """
        if self.is_sampled:
            raise InputError(
                "interactions must be summed over all subsets of columns, got an explainer that "
                f"samples: at most {MOST_COLUMNS} columns may be read together, without "
                "`permutations`."
            )
        n_features, n_outputs = self._shape
        out = np.zeros((len(X), n_features, n_features, n_outputs))
        for game in self._games:
            i, j, weights = _pairs(game.coalitions)
            for x, found in zip(X, out, strict=True):
                worths = self._worths(game, x)
                halves = weights @ worths
                a, b = game.columns[i], game.columns[j]
                found[a, b] += halves
                found[b, a] += halves
                found[game.columns, game.columns] += game.estimates(worths)[0]
                np.subtract.at(found, (a, a), halves)
                np.subtract.at(found, (b, b), halves)
        return out

    def _worths(self, game: Game, x: Array) -> Float64[Array, "n_coalitions n_outputs"]:
        """Return the mean prediction for the background with each coalition's columns from x."""
        Z, n = self._background, len(game.coalitions)
        step = max(1, CELLS // max(Z.size, 1))
        worths = []
        for start in range(0, n, step):
            part = game.coalitions[start : start + step]
            known = np.zeros((len(part), 1, Z.shape[1]), bool)
            known[:, 0, game.columns] = part
            mixed = np.where(known, x.astype(Z.dtype, copy=False), Z)
            found = game.answer(mixed.reshape(-1, Z.shape[1]))
            worths.append(found.reshape(len(part), len(Z), -1).mean(axis=1, dtype=np.float64))
        return np.concatenate(worths)


def columns_read(forest: Forest) -> Bool[Array, "n_trees n_features"]:
    """Return which columns of X each tree reads, at nodes and leaves; all under a feature map."""
    B, tests, linear = forest.bitvectors, forest.tests, forest.leaves.linear
    if forest.feature_map is not None:
        return np.ones((forest.n_trees, forest.n_features), bool)
    read = np.zeros((forest.n_trees, forest.n_features), bool)
    entries = np.diff(tests.row_ptr[tests.node_ptr])
    read[np.repeat(B.tree_of_node, entries), tests.column] = True
    if linear is not None:
        leaf = np.repeat(np.arange(forest.n_leaves), np.diff(linear.leaf_ptr))
        read[np.searchsorted(B.leaf_ptr, leaf, side="right") - 1, linear.column] = True
    return read


def _by_columns(read: Bool[Array, "n_trees n_features"]) -> list[tuple[Array, Array]]:
    """Return the trees that read the same columns, and these columns."""
    distinct, which = np.unique(read, axis=0, return_inverse=True)
    which = which.ravel()
    return [(np.flatnonzero(which == at), np.flatnonzero(one)) for at, one in enumerate(distinct)]


def _answer(forest: Forest, response: Response) -> Answer:
    predictor = compile(forest, n_jobs=1)
    raw = predictor.engine.raw
    if response == "raw":
        return raw
    return lambda rows: predictor.from_raw(response, raw(rows))


def _taken(forest: Forest, trees: Array) -> Forest:
    """Return some trees; those without kernel nodes predict hard."""
    hard = replace(forest, kernel=None).take(trees)
    is_soft = bool(np.any(hard.tests.kind == Kind.KERNEL))
    return replace(hard, kernel=forest.kernel) if is_soft else hard


def _divided(forest: Forest) -> Forest:
    """Return the forest whose means divide by a number of their own, whatever trees are taken."""
    output = forest.output
    if output.aggregate is not Aggregate.MEAN or output.divisor is not None:
        return forest
    divisor = np.full(output.n_outputs, forest.n_trees, output.dtype)
    return replace(forest, output=replace(output, divisor=divisor))


def _subsets(k: int) -> tuple[Bool[Array, "n_coalitions k"], Callable[[Array], Array]]:
    """Return all coalitions of k columns, and what makes exact values of their worths."""
    coalitions = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1 == 1
    size = coalitions.sum(axis=1)
    joins = np.array([1 / (k * comb(k - 1, s - 1)) if s else 0.0 for s in range(k + 1)])
    stays = np.array([1 / (k * comb(k - 1, s)) if s < k else 0.0 for s in range(k + 1)])
    weights = np.where(coalitions.T, joins[size], -stays[size])
    return coalitions, lambda worths: (weights @ worths)[None]


def _pairs(coalitions: Bool[Array, "n_coalitions k"]) -> tuple[Array, Array, Array]:
    """Return pairs of columns, and the weights that make halves of their interactions."""
    k = coalitions.shape[1]
    i, j = np.triu_indices(k, 1)
    a, b = coalitions.T[i], coalitions.T[j]
    others = coalitions.sum(axis=1) - a.astype(int) - b
    share = np.array([1 / (2 * (k - 1) * comb(k - 2, s)) for s in range(k - 1)])
    return i, j, np.where(a == b, 1.0, -1.0) * (share[others] if k > 1 else 0.0)


def _permuted(
    k: int, permutations: int, seed: int
) -> tuple[Bool[Array, "n_coalitions k"], Callable[[Array], Array]]:
    """Return the coalitions of random orders, and what makes estimates of their worths."""
    rng = np.random.default_rng(seed)
    order = np.array([rng.permutation(k) for _ in range(permutations)]).reshape(permutations, k)
    place = np.argsort(np.stack([order, order[:, ::-1]], axis=1), axis=2)
    known = place[:, :, None, :] < np.arange(k + 1)[:, None]
    coalitions, at = np.unique(known.reshape(-1, k), axis=0, return_inverse=True)
    at = at.reshape(known.shape[:3])

    def estimates(worths: Array) -> Any:
        added = np.diff(worths[at], axis=2)
        return np.take_along_axis(added, place[..., None], axis=2).mean(axis=1)

    return coalitions, estimates
