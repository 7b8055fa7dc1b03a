"""Families of candidates: the given model made smaller, boosters, forests and single trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.compression import boosters
from bitvec.compression.boosters import Boosted
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

BEST_FITS = 3
"""Boosters of the least loss whose numbers are stored in fewer bytes."""
ALPHAS = 40
"""Complexity prices that are tried, each half as large again as the one before."""
PATIENCE = 2
MOST_REFITTED = 4096
"""Leaves up to which the given model's leaves are solved for anew."""
TREE_SHARES = (0.5, 0.1)
"""Parts of the given model's trees that are kept and pruned."""
FOREST_LEAVES = (16, 64, 256)
"""Leaves of a tree of the random forests that are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A forest that fits the budget.

    Parameters
    ----------
    recipe : str
    forest : Forest
    loss : float
        On the rows held out.
    """

    recipe: str
    forest: Forest
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """Room for a candidate: its cost and the limit.

    Parameters
    ----------
    cost : callable
    limit : float
    kind : str
        Of the budget.
    over : callable
        Whether the time is over.
    """

    cost: Callable[[Forest], float]
    limit: float
    kind: str
    over: Callable[[], bool]

    def holds(self, forest: Forest) -> bool:
        """Return whether a forest costs no more."""
        return self.cost(forest) <= self.limit

    def trees(self, leaves: int, width: int = 1) -> int:
        """Return about how many trees of so many leaves, of `width` bytes, there is room for."""
        each = {"bytes": leaves * (3 + width), "leaves": leaves, "microseconds": 0.01}[self.kind]
        return int(self.limit / each)


Family = Callable[[Problem, Room], Iterator[Candidate]]


def candidate(problem: Problem, recipe: str, forest: Forest) -> Candidate:
    """Return a forest as a candidate, judged on the rows held out."""
    return Candidate(recipe, forest, problem.judged(forest)[0])


def least(found: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the candidate of least loss, if there is one."""
    best = min(found, key=lambda one: one.loss, default=None)
    if best is not None:
        yield best


def stored(
    problem: Problem, room: Room, recipe: str, forest: Forest, storages: Iterable[Storage]
) -> Iterator[Candidate]:
    """Yield the forest in each form in which it fits."""
    for storage in storages:
        small = storage(forest, problem.fit.X)
        if room.holds(small):
            yield candidate(problem, f"{recipe}{storage}", small)


def boosted(library: str) -> Family:
    """Return the family of one library's boosters: as they are, and in fewer bytes.

    The first of the two is what a user would take at this size: it is always a candidate.
    """

    def family(problem: Problem, room: Room) -> Iterator[Candidate]:
        fits: list[Boosted] = []
        n_libraries = boosters.libraries(problem)[0]
        for setting in boosters.settings(problem, n_libraries, room.trees):
            if setting.library == library and not (fits and room.over()):
                fits.append(boosters.fitted(problem, setting))
        yield from least(_boosted(problem, room, fits, STORAGES[:1]))
        fits.sort(key=lambda fit: fit.by_round.min())
        yield from least(_boosted(problem, room, fits[:BEST_FITS], STORAGES[1:]))

    return family


def _boosted(
    problem: Problem, room: Room, fits: list[Boosted], storages: Iterable[Storage]
) -> Iterator[Candidate]:
    """Yield the largest prefix of each booster in each form, or a shorter one of less loss."""
    X = problem.fit.X
    for fit in fits:
        for storage in storages:
            if storage.n_thresholds is not None and storage.changes_nothing(fit.forest):
                continue

            def made(rounds: int, fit: Boosted = fit, storage: Storage = storage) -> Forest:
                return storage(fit.prefix(rounds), X)

            most = fit.best(len(fit.by_round))
            found = largest(made, room.cost, most, room.limit)
            if found is None:
                continue
            rounds = fit.best(found[0])
            forest = found[1] if rounds == found[0] else made(rounds)
            recipe = f"booster of {fit.setting}, {rounds} rounds{storage}"
            yield candidate(problem, recipe, forest)


def small_forests(problem: Problem, room: Room) -> Iterator[Candidate]:
    """Yield the best random forest of few leaves."""
    yield from least(_small_forests(problem, room))


def _small_forests(problem: Problem, room: Room) -> Iterator[Candidate]:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    width = max(problem.n_classes, 1)
    for leaves in FOREST_LEAVES:
        n_trees = min(room.trees(leaves, width), 200)
        if n_trees < 3 or room.over():
            continue
        options = {"max_leaf_nodes": leaves, "random_state": problem.seed, "n_jobs": 1}
        if problem.n_classes:
            model: Any = RandomForestClassifier(n_trees, **options)
        else:
            model = RandomForestRegressor(n_trees, max_features=1 / 3, **options)
        model.fit(_filled(problem), problem.y, sample_weight=problem.fit.weight)
        whole = _smoothed(problem, convert_forest(model))
        for storage in (STORAGES[0], STORAGES[2], STORAGES[4]):

            def made(n: int, whole: Forest = whole, storage: Storage = storage) -> Forest:
                part = plain(first_trees(whole, n))
                return problem.named(storage(part, problem.fit.X))

            found = largest(made, room.cost, n_trees, room.limit)
            if found is not None:
                recipe = f"forest of {found[0]} trees, {leaves} leaves{storage}"
                yield candidate(problem, recipe, found[1])


def single_trees(problem: Problem, room: Room) -> Iterator[Candidate]:
    """Yield the best CART."""
    yield from least(_single_trees(problem, room))


def _single_trees(problem: Problem, room: Room) -> Iterator[Candidate]:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    made = DecisionTreeClassifier if problem.n_classes else DecisionTreeRegressor
    width = max(problem.n_classes, 1)
    leaves = 8
    while room.trees(leaves, width) and leaves < 2 * len(problem.fit):
        model = made(max_leaf_nodes=leaves, random_state=problem.seed)
        model.fit(_filled(problem), problem.y, sample_weight=problem.fit.weight)
        forest = problem.named(plain(_smoothed(problem, convert_forest(model))))
        storages = (STORAGES[0], STORAGES[2], STORAGES[4])
        yield from stored(problem, room, f"CART of {forest.n_leaves} leaves", forest, storages)
        leaves *= 2


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
