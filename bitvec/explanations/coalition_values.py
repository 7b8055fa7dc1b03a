"""Interventional Shapley values of any forest, from its predictions for mixed rows.

Where the columns of a coalition are known, the rows are those of the background with x in these
columns, and the worth of the coalition is their mean prediction. Trees that are added are games of
their own, of the columns that they read: a column that is not read adds nothing.

Worths of all subsets of columns give exact values and interactions, those of the prefixes of random
orders sample them (`coalition_games`). Whatever is drawn, values sum to the difference of the
prediction and the base value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Bool, Float64, Int
from bitvec.errors import InputError
from bitvec.explanations.coalition_games import (
    Game,
    order_interactions,
    order_values,
    random_orders,
    subset_interactions,
    subset_values,
)
from bitvec.explanations.contributions import in_float64
from bitvec.explanations.unsupported import MOST_COLUMNS, Response
from bitvec.runtime.predict.predictor import compile

CELLS = 1 << 18
"""Values of mixed rows that are held at a time: 2 MiB, for each thread."""
Answer = Callable[[Array], Array]
"""Predictions, (n, n_outputs), for rows of floats."""


@dataclass(frozen=True)
class Part:
    """A part of a forest, and the coalitions of its columns whose worths are asked for.

    Parameters
    ----------
    answer : callable
    columns : (n_columns,)
        The columns that the part reads.
    make_values, make_interactions : callable
        Their games, each made when it is first played.
    """

    answer: Answer
    columns: Int[Array, " n_columns"]
    make_values: Callable[[], Game]
    make_interactions: Callable[[], Game]

    @cached_property
    def values(self) -> Game:
        """The game of values, (n_estimates, n_columns, n_outputs)."""
        return self.make_values()

    @cached_property
    def interactions(self) -> Game:
        """The game of interactions, (n_estimates, n_columns, n_columns, n_outputs)."""
        return self.make_interactions()


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
            order = random_orders(players.size, permutations, seed)
            n_coalitions = len(order_values(order)[0])
            self.is_sampled = widest > MOST_COLUMNS or n_coalitions * forest.n_trees < cost
        elif widest > MOST_COLUMNS:
            raise InputError(
                f"sums over all subsets of columns need a game of at most {MOST_COLUMNS} columns, "
                f"got {widest} that are read together: pass `permutations`, such as 10, to sample "
                "the values."
            )
        if self.is_sampled:
            games = partial(order_values, order), partial(order_interactions, order)
            self._parts = [Part(every, players, *games)]
            self.described = f"with background rows, sampled by {permutations} permutations"
            return
        self.described = "with background rows"
        forest = _divided(forest)
        self._parts = [
            Part(
                every if trees.size == forest.n_trees else _answer(_taken(forest, trees), response),
                columns,
                partial(subset_values, columns.size),
                partial(subset_interactions, columns.size),
            )
            for trees, columns in parts
        ]

    def values(self, X: Array) -> Float64[Array, "n_rows n_features n_outputs"]:
        """Return the values of rows of floats."""
        return self.estimates(X)[..., 0, :]

    def interactions(self, X: Array) -> Float64[Array, "n_rows n_features n_features n_outputs"]:
        """Return the interactions of rows of floats."""
        return self.interaction_estimates(X)[..., 0, :]

    def estimates(self, X: Array) -> Float64[Array, "n_rows n_features 2 n_outputs"]:
        """Return values and their standard errors: 0 where they are exact."""
        return self._estimated(X, (self._shape[0],), [part.values for part in self._parts])

    def interaction_estimates(
        self, X: Array
    ) -> Float64[Array, "n_rows n_features n_features 2 n_outputs"]:
        """Return interactions and their standard errors: 0 where they are exact."""
        shape = self._shape[0], self._shape[0]
        return self._estimated(X, shape, [part.interactions for part in self._parts])

    def _estimated(self, X: Array, shape: tuple[int, ...], games: list[Game]) -> Array:
        out = np.zeros((len(X), *shape, 2, self._shape[1]))
        for part, game in zip(self._parts, games, strict=True):
            at = np.ix_(*[part.columns] * len(shape))
            coalitions, estimates = game
            for x, found in zip(X, out, strict=True):
                each = estimates(self._worths(part, coalitions, x))
                found[..., 0, :][at] += each.mean(axis=0)
                if self.is_sampled:
                    found[..., 1, :][at] = each.std(axis=0, ddof=1) / np.sqrt(len(each))
        return out

    def _worths(
        self, of: Part, coalitions: Array, x: Array
    ) -> Float64[Array, "n_coalitions n_outputs"]:
        """Return the mean prediction for the background with each coalition's columns from x."""
        Z, n = self._background, len(coalitions)
        step = max(1, CELLS // max(Z.size, 1))
        worths = []
        for start in range(0, n, step):
            part = coalitions[start : start + step]
            known = np.zeros((len(part), 1, Z.shape[1]), bool)
            known[:, 0, of.columns] = part
            mixed = np.where(known, x.astype(Z.dtype, copy=False), Z)
            found = of.answer(mixed.reshape(-1, Z.shape[1]))
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
