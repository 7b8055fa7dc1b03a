"""Boosters as candidates: as they are, in fewer bytes, and with leaves solved for anew."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bitvec.compression import boosters
from bitvec.compression.boosters import Boosted, Setting
from bitvec.compression.candidate_recipes import Candidate, Family, Room, candidate, least
from bitvec.compression.lessons import Lessons
from bitvec.compression.model_costs import largest
from bitvec.compression.problem import Problem
from bitvec.compression.storage import STORAGES, Storage
from bitvec.core.forest import Forest
from bitvec.runtime.train.update.anchored_leaves import anchored, table
from bitvec.runtime.train.update.update_run import loss_of

BEST_FITS = 2
"""Boosters of the first way to grow, of which the other ways are tried."""
WEAKEST_PULL = 100.0
"""The last pull that is tried: weaker ones take longest, and fit the rows too closely."""
MOST_SOLVED = 20_000
"""Leaves up to which they are solved for anew."""


@dataclass(frozen=True, slots=True)
class BoosterRecipe:
    """A booster with its number of rounds and its form.

    Parameters
    ----------
    setting : Setting
    rounds : int
    storage : Storage
    pull : float, optional
        Of the leaves toward what they were, where they are solved for anew.
    """

    setting: Setting
    rounds: int
    storage: Storage
    pull: float | None = None

    def __str__(self) -> str:
        solved = "" if self.pull is None else f", leaves solved for by a pull of {self.pull:g}"
        return f"{self.setting}, {self.rounds} rounds{self.storage}{solved}"

    def again(self, lessons: Lessons, room: Room) -> Forest | None:
        """Return the booster of the rows of some lessons, of fewer rounds where it must be."""
        problem = lessons.problem
        whole = boosters.grown(problem, replace(self.setting, rounds=self.rounds))
        each = self.setting.bags * problem.n_outputs

        def made(rounds: int) -> Forest:
            part = first_rounds(whole, rounds, each)
            if self.pull is None:
                return self.storage(part, problem.fit.X)
            moved = self.storage.moved(part, problem.fit.X)
            return self.storage.rounded(
                dict(solved(problem, moved, self.pull)).get(self.pull, moved)
            )

        found = largest(made, room.cost, min(self.rounds, whole.n_trees // each), room.limit)
        return None if found is None else found[1]


def first_rounds(forest: Forest, rounds: int, each: int) -> Forest:
    """Return the forest of the first rounds of so many trees each."""
    return forest.take(np.arange(rounds * each))


def solved(problem: Problem, forest: Forest, weakest: float) -> Iterator[tuple[float, Forest]]:
    """Yield (pull, forest) down to the weakest pull: leaves of all trees solved for together."""
    data = problem.fit
    for pull, found in anchored(
        forest, loss_of(forest, data.target, "auto"), data, table(forest, data)
    ):
        yield pull, problem.kept(found)
        if pull <= weakest:
            return


def boosted(library: str) -> Family:
    """Return the family of one library's boosters.

    The first is what a user would take at this size, with all options tuned: it is always a
    candidate. The second is the best in few bytes: of each way to grow, and of means of boosters
    where rows or columns are drawn, as it is or with leaves solved for anew.
    """

    def family(problem: Problem, room: Room) -> Iterator[Candidate]:
        fits = _fitted(problem, room, library)
        yield from least(_boosted(problem, room, fits, STORAGES[:1]))
        yield from least(_small(problem, room, fits))

    return family


def _fitted(problem: Problem, room: Room, library: str) -> list[Boosted]:
    """Return the boosters of a library by their loss; of the best ones other ways to grow too."""
    fits: list[Boosted] = []
    for setting in boosters.settings(problem, boosters.libraries(problem)[0], room.trees):
        if setting.library == library and not (fits and room.over()):
            fits.append(boosters.fitted(problem, setting))
    best = sorted(fits, key=_least_loss)[:BEST_FITS]
    for fit, way in itertools.product(best, boosters.LIBRARIES[library].ways[1:]):
        if not room.over():
            fits.append(boosters.fitted(problem, replace(fit.setting, way=way)))
    return sorted(fits, key=_least_loss)


def _small(problem: Problem, room: Room, fits: list[Boosted]) -> Iterator[Candidate]:
    """Yield the best booster of each way and its mean in few bytes, then with other leaves."""
    best: dict[tuple[str, int], Boosted] = {}
    for fit in fits:
        best.setdefault(fit.setting.group, fit)
    for fit in [*best.values()]:
        if boosters.draws(fit.setting) and not room.over():
            bag = boosters.fitted(problem, fit.setting.in_bags())
            best[bag.setting.group] = bag
    for fit in best.values():
        for one in least(_boosted(problem, room, [fit], STORAGES[1:])):
            yield one
            if isinstance(one.again, BoosterRecipe) and not room.over():
                yield from _solved(problem, room, fit, one.again)


def _least_loss(fit: Boosted) -> float:
    return float(fit.by_round.min())


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
                return storage(first_rounds(fit.forest, rounds, fit.trees_a_round), X)

            most = fit.best(len(fit.by_round))
            found = largest(made, room.cost, most, room.limit)
            if found is None:
                continue
            rounds = fit.best(found[0])
            forest = found[1] if rounds == found[0] else made(rounds)
            recipe = BoosterRecipe(fit.setting, rounds, storage)
            yield candidate(problem, str(recipe), forest, recipe)


def _solved(
    problem: Problem, room: Room, fit: Boosted, recipe: BoosterRecipe
) -> Iterator[Candidate]:
    """Yield the booster of a recipe with leaves solved for anew, while the loss falls."""
    best = np.inf
    part = first_rounds(fit.forest, recipe.rounds, fit.trees_a_round)
    if part.n_leaves > MOST_SOLVED:
        return
    moved = recipe.storage.moved(part, problem.fit.X)
    for pull, forest in solved(problem, moved, WEAKEST_PULL):
        small = recipe.storage.rounded(forest)
        way = replace(recipe, pull=pull)
        found = candidate(problem, str(way), small, way)
        if room.holds(small):
            yield found
        if found.loss >= best or room.over():
            return
        best = found.loss
