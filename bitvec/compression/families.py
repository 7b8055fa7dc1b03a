"""Families of candidates: the given model made smaller, forests and single trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.compression.candidate_recipes import Candidate, Room, candidate, least
from bitvec.compression.lessons import Lessons
from bitvec.compression.model_costs import largest
from bitvec.compression.problem import Problem
from bitvec.compression.storage import STORAGES, Storage, plain
from bitvec.compression.subtrees import pruned
from bitvec.converters.dispatch import convert_forest
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.errors import UnsupportedModelError
from bitvec.runtime.predict.cpu.engine import NumbaEngine
from bitvec.runtime.train.update.anchored_leaves import anchored, table
from bitvec.runtime.train.update.update_run import loss_of

ALPHAS = 40
"""Complexity prices that are tried, each half as large again as the one before."""
PATIENCE = 2
MOST_REFITTED = 4096
"""Leaves up to which the given model's leaves are solved for anew."""
TREE_SHARES = (0.5, 0.1)
"""Parts of the given model's trees that are kept and pruned."""
OF_FORESTS = (STORAGES[0], STORAGES[2], STORAGES[4])
"""Forms of random forests and single trees."""
FOREST_LEAVES = (16, 64, 256)
"""Leaves of a tree of the random forests that are tried."""


def stored(
    problem: Problem, room: Room, recipe: str, forest: Forest, storages: Iterable[Storage]
) -> Iterator[Candidate]:
    """Yield the forest in each form in which it fits."""
    for storage in storages:
        small = storage(forest, problem.fit.X)
        if room.holds(small):
            yield candidate(problem, f"{recipe}{storage}", small)


def small_forests(problem: Problem, room: Room) -> Iterator[Candidate]:
    """Yield the best random forest of few leaves."""
    yield from least(_small_forests(problem, room))


def _small_forests(problem: Problem, room: Room) -> Iterator[Candidate]:
    width = max(problem.n_classes, 1)
    for leaves in FOREST_LEAVES:
        n_trees = min(room.trees(leaves, width), 200)
        if n_trees < 3 or room.over():
            continue
        whole = _fitted_forest(problem, leaves, n_trees)
        for storage in OF_FORESTS:
            found = _largest_forest(problem, room, whole, storage, n_trees)
            if found is not None:
                recipe = ForestRecipe(leaves, found[0], storage)
                yield candidate(problem, str(recipe), found[1], recipe)


@dataclass(frozen=True, slots=True)
class ForestRecipe:
    """A random forest of few leaves, and its form.

    Parameters
    ----------
    leaves, n_trees : int
    storage : Storage
    """

    leaves: int
    n_trees: int
    storage: Storage

    def __str__(self) -> str:
        return f"forest of {self.n_trees} trees, {self.leaves} leaves{self.storage}"

    def again(self, lessons: Lessons, room: Room) -> Forest | None:
        """Return the forest of the rows of some lessons, of fewer trees where it must be."""
        whole = _fitted_forest(lessons.problem, self.leaves, self.n_trees)
        found = _largest_forest(lessons.problem, room, whole, self.storage, self.n_trees)
        return None if found is None else found[1]


def _fitted_forest(problem: Problem, leaves: int, n_trees: int) -> Forest:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    options = {"max_leaf_nodes": leaves, "random_state": problem.seed, "n_jobs": 1}
    if problem.n_classes:
        model: Any = RandomForestClassifier(n_trees, **options)
    else:
        model = RandomForestRegressor(n_trees, max_features=1 / 3, **options)
    model.fit(_filled(problem), problem.y, sample_weight=problem.fit.weight)
    return _smoothed(problem, convert_forest(model))


def _largest_forest(
    problem: Problem, room: Room, whole: Forest, storage: Storage, most: int
) -> tuple[int, Forest] | None:
    def made(n: int) -> Forest:
        return problem.named(storage(plain(first_trees(whole, n)), problem.fit.X))

    return largest(made, room.cost, most, room.limit)


def single_trees(problem: Problem, room: Room) -> Iterator[Candidate]:
    """Yield the best CART."""
    yield from least(_single_trees(problem, room))


def _single_trees(problem: Problem, room: Room) -> Iterator[Candidate]:
    width = max(problem.n_classes, 1)
    leaves = 8
    while room.trees(leaves, width) and leaves < 2 * len(problem.fit):
        forest = _fitted_tree(problem, leaves)
        for storage in OF_FORESTS:
            small = storage(forest, problem.fit.X)
            if room.holds(small):
                recipe = TreeRecipe(leaves, storage)
                text = f"CART of {forest.n_leaves} leaves{storage}"
                yield candidate(problem, text, small, recipe)
        leaves *= 2


@dataclass(frozen=True, slots=True)
class TreeRecipe:
    """A CART of at most so many leaves, and its form.

    Parameters
    ----------
    leaves : int
    storage : Storage
    """

    leaves: int
    storage: Storage

    def again(self, lessons: Lessons, room: Room) -> Forest | None:
        """Return the tree of the rows of some lessons, None where it does not fit."""
        problem = lessons.problem
        small = self.storage(_fitted_tree(problem, self.leaves), problem.fit.X)
        return small if room.holds(small) else None


def _fitted_tree(problem: Problem, leaves: int) -> Forest:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    made = DecisionTreeClassifier if problem.n_classes else DecisionTreeRegressor
    model = made(max_leaf_nodes=leaves, random_state=problem.seed)
    model.fit(_filled(problem), problem.y, sample_weight=problem.fit.weight)
    return problem.named(plain(_smoothed(problem, convert_forest(model))))


def _smoothed(problem: Problem, forest: Forest) -> Forest:
    """Return a forest of probabilities, each leaf mixed with a row of the classes' shares."""
    if not problem.n_classes:
        return forest
    X = problem.fit.X.astype(forest.dtype)
    weight = leaf_weights(forest, X, problem.fit.weight)[:, None]
    share = np.bincount(problem.y, problem.fit.weight, problem.n_classes)
    v = (forest.leaves.v * weight + share / share.sum()) / (weight + 1)
    return replace(forest, leaves=replace(forest.leaves, v=v.astype(forest.leaves.v.dtype)))


def _filled(problem: Problem) -> Array:
    """Return the rows to fit as scikit-learn's trees take them: without infinities."""
    return np.nan_to_num(problem.fit.X, nan=np.nan)


def given(problem: Problem, room: Room) -> Iterator[Candidate]:
    """Yield the given model itself where it fits; and pruned, with fewer trees, leaves refitted.

    Raises
    ------
    UnsupportedModelError
        If it is no sum or mean of trees, or float32 cannot hold it.
    """
    forest = problem.forest
    if forest.output.aggregate not in (Aggregate.SUM, Aggregate.MEAN):
        raise UnsupportedModelError("the given model is no sum or mean of trees")
    whole = problem.kept(plain(replace(forest, source=None)))
    yield from stored(problem, room, "given model", whole, STORAGES[:3])
    found = sorted(_pruned(problem, room), key=lambda one: one.loss)
    yield from found[:1]
    for one in found[:1]:
        if one.forest.n_leaves <= MOST_REFITTED and not room.over():
            yield from least(_refitted(problem, room, one))


def _pruned(problem: Problem, room: Room) -> Iterator[Candidate]:
    """Yield the model with fewer trees, each pruned until it fits, in one form without loss."""
    forest, X = problem.forest, problem.fit.X
    each = trees_a_round(forest)
    n_rounds = forest.n_trees // each
    rounds = {max(round(n_rounds * share), 1) for share in TREE_SHARES}
    for n in sorted(rounds, reverse=True):
        if room.over():
            return
        part = problem.kept(plain(replace(first_trees(forest, n * each), source=None)))
        weight = leaf_weights(part, X, problem.fit.weight)
        size = np.ptp(part.leaves.v.astype(np.float64)) ** 2 * problem.fit.weight.sum()
        prices = size * 1.5 ** -np.arange(ALPHAS, dtype=np.float64)
        for storage in (STORAGES[2], STORAGES[4]):

            def made(
                k: int, part: Forest = part, weight: Array = weight, storage: Storage = storage,
                prices: Array = prices,
            ) -> Forest:  # fmt: skip
                return storage(pruned(part, weight, float(prices[k - 1])), X)

            found = _last_that_fits(made, room, ALPHAS)
            if found is not None:
                recipe = f"given model, {n * each} trees, pruned to {found.n_leaves} leaves"
                yield candidate(problem, recipe + str(storage), found)


def _last_that_fits(made: Callable[[int], Forest], room: Room, most: int) -> Forest | None:
    """Return the forest of the largest k up to `most` that fits, by bisection."""
    low, high, best = 0, most, None
    while low < high:
        middle = (low + high + 1) // 2
        forest = made(middle)
        if room.holds(forest):
            low, best = middle, forest
        else:
            high = middle - 1
    return best


def _refitted(problem: Problem, room: Room, one: Candidate) -> Iterator[Candidate]:
    """Yield the candidate with leaves solved for anew under pulls toward what they were."""
    data = problem.fit
    objective = loss_of(one.forest, data.target, "auto")
    best, since = one.loss, 0
    for pull, forest in anchored(one.forest, objective, data, table(one.forest, data)):
        forest = problem.kept(forest)
        for bits in (8, 16):
            small = Storage(bits)(forest, data.X)
            if room.holds(small):
                found = candidate(problem, f"{one.recipe}, refitted by {pull:g}", small)
                yield found
                best, since = (found.loss, 0) if found.loss < best else (best, since + 1)
        if since >= 2 * PATIENCE or room.over():
            return


def leaf_weights(forest: Forest, X: Array, weight: Array) -> Array:
    """Return the weight of the rows that reach each leaf, (n_leaves,)."""
    exits = NumbaEngine(forest).exit_leaves(X).astype(np.int64)
    leaf = exits + forest.bitvectors.leaf_ptr[:-1]
    spread = np.repeat(weight, forest.n_trees)
    return np.bincount(leaf.ravel(), spread, forest.n_leaves)


def trees_a_round(forest: Forest) -> int:
    """Return the trees of a boosting round; 1 where trees are averaged."""
    iteration = forest.output.iteration
    if iteration is None or forest.output.aggregate is Aggregate.MEAN:
        return 1
    _, count = np.unique(iteration, return_counts=True)
    return int(count[0]) if np.all(count == count[0]) else forest.n_trees


def first_trees(forest: Forest, n: int) -> Forest:
    """Return the first n trees; of a mean, their mean."""
    return forest.take(np.arange(n))
