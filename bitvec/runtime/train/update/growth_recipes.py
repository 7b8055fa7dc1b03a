"""Recipes of growth, which are tried on all but the newest rows and blended by these."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.train.grow.newton_rounds import Growth
from bitvec.runtime.train.retrain.selection import Evaluation
from bitvec.runtime.train.update.forest_blend import ALONE, Member, Start, weights
from bitvec.runtime.train.update.grown_update import Growing, Grown, Share
from bitvec.runtime.train.update.update_result import Trial
from bitvec.runtime.train.update.update_run import Run

MOST, FEW = 64, 16
"""Leaves of new trees at most. Behind refreshed leaves trees are smaller: less is left to be
learned, and members of a blend gain by being unlike each other."""
STEP: Final = 20
"""Rounds between stops; fewer where no three stops have room."""
ALL, NEW = 0, -1
"""Mixes: old rows and new ones, and new ones alone."""
STAGE, BLEND = "trees", "a blend"


class Recipe(NamedTuple):
    """Trees to be grown: behind what, on which rows, and of how many leaves at most.

    Each stop on the way is a candidate for the blend: before the first round where old trees
    answer, and every `STEP` rounds, up to two thirds of the most behind old trees.
    """

    start: Start
    mix: int
    leaves: int

    def stops(self, most: int) -> list[int]:
        """Return after how many rounds the recipe is judged."""
        step = min(STEP, max(1, round(most / 3)))
        if self.start.alone:
            return sorted({*range(step, most, step), most})
        last = 2 * most // 3 if self.leaves else 0
        return sorted({*range(0, last, step), last})


RECIPES: Final = (
    Recipe(Start(), NEW, MOST),
    Recipe(Start(30.0), NEW, FEW),
    Recipe(Start(300.0), NEW, 0),
    Recipe(Start(0.0), NEW, 0),
    Recipe(ALONE, NEW, MOST),
    Recipe(ALONE, ALL, MOST),
)
"""In the order in which they are tried while time is left."""


def blended(run: Run, way: Growing) -> tuple[Grown, list[Trial]]:
    """Offer the best blend to the choice, and return it with what was tried."""
    members = list(_members(run, way))
    share = weights([stop.held for member in members for stop in member.stops], run.choice)
    grown = way.joined(_shared(members, share), way.scene)
    run.choice.consider(grown.forest, STAGE, len(grown.blend), len(members))
    return grown, _trials(run, way, members, grown)


def _members(run: Run, way: Growing) -> Iterator[Member]:
    """Yield what becomes of each recipe while time is left, of one in any case."""
    n_mixes, has_leaves = len(way.mixes), way.forest.leaves.v.size > 0
    recipes = [
        recipe
        for recipe in RECIPES
        if (recipe.mix == NEW or n_mixes > 1) and (recipe.start.alone or has_leaves)
    ]
    for number, recipe in enumerate(recipes):
        if number and time.monotonic() > way.deadline:
            return
        growth = Growth(leaves=way.leaves(recipe.leaves)) if recipe.leaves else None
        mix, stops = recipe.mix % n_mixes, recipe.stops(way.most)
        member = way.member(recipe.start, mix, growth, stops, run.choice.score_of)
        best = max(stop.score for stop in member.stops)
        run.tell(Evaluation(STAGE, number + 1, len(recipes), best, np.nan, np.nan, False))
        yield member


def _shared(
    members: Sequence[Member], share: Float64[Array, " n_candidates"]
) -> list[tuple[Member, Share]]:
    """Return members up to the last round that has a weight."""
    found, left = [], iter(share)
    for member in members:
        weight = np.zeros(1 + len(member.rounds))
        for stop in member.stops:
            weight[: 1 + stop.rounds] += next(left)
        n = int(np.count_nonzero(weight))
        if n:
            found.append((replace(member, rounds=member.rounds[: n - 1]), weight[:n]))
    return found


def _trials(run: Run, way: Growing, members: Sequence[Member], grown: Grown) -> list[Trial]:
    """Return what was tried, each at its best stop, and the blend."""
    tried = []
    for member in members:
        best = max(member.stops, key=lambda stop: stop.score)
        steps = 0 if member.growth is None else way.most
        tried.append(
            Trial(
                member.recipe, member.start.told, way.mixes[member.mix].replay, best.rounds, steps,
                best.score, member.seconds,
            )
        )  # fmt: skip
    main = max(grown.blend, key=lambda one: one[1][0])[0]
    n = sum(len(member.rounds) for member, _ in grown.blend)
    score, replay = run.choice.history[-1].score, way.mixes[main.mix].replay
    seconds = sum(member.seconds for member in members)
    return [*tried, Trial(BLEND, np.nan, replay, n, 0, score, seconds)]
