"""A blend of forests that share their old trees: weights found by adding the best one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.train.grow.appended_trees import NewTree
from bitvec.runtime.train.grow.newton_rounds import Growth
from bitvec.runtime.train.update.update_choice import Choice

PICKS = 5
"""Members that are added to a blend one by one, of which one may stand for several."""
LEVEL = 1.0
"""Standard errors behind the best up to which a member may be as good."""


@dataclass(frozen=True, slots=True)
class Start:
    """Old answers that new trees are grown behind.

    Parameters
    ----------
    pull : float, optional
        Under which old leaves are refreshed, in rows; None where they stay.
    alone : bool
        Whether new trees stand without the old ones, whose leaves are then 0.
    """

    pull: float | None = None
    alone: bool = False

    @property
    def told(self) -> float:
        """The pull, NaN where there is none."""
        return np.nan if self.pull is None else self.pull


ALONE = Start(alone=True)


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A forest that was tried: old trees with leaves of its own, and new trees behind them.

    Parameters
    ----------
    start : Start
    mix : int
        The rows that it was fitted to.
    growth : Growth, optional
    v : float64, (n_leaves, width)
        The leaves of the old trees.
    rounds : tuple of lists of NewTree
    held : float64, (n_held_out, n_outputs)
        Raw scores of the rows held out.
    early : float64, (n_held_out, n_outputs), optional
        The same after the first rounds of trees that stand alone.
    score : float
    seconds : float
    """

    start: Start
    mix: int
    growth: Growth | None
    v: Array
    rounds: tuple[list[NewTree], ...]
    held: Array
    early: Array | None
    score: float
    seconds: float

    @property
    def recipe(self) -> str:
        """Name for people."""
        if self.growth is None:
            return "leaves, tree by tree"
        behind = " alone" if self.start.alone else " behind the old ones"
        return f"trees of {self.growth.leaves} leaves{behind}"


def weights(members: Sequence[Member], choice: Choice) -> Float64[Array, " n_members"]:
    """Return how much of each member makes the best blend, of sum 1.

    Half of the blend is the mean of all members that the rows held out cannot tell from the best,
    since what is best on the few of the newest rows need not be on the next. Then the member that
    raises the score of the mean most is added, `PICKS` times (Caruana et al., "Ensemble selection
    from libraries of models", 2004). Raw scores are averaged, and each member holds the same base
    score, so that the blend is one forest.
    """
    best = max(members, key=lambda member: member.score)
    level = np.array(
        [
            member is best or choice.errors_behind(member.held, best.held) <= LEVEL
            for member in members
        ]
    )
    picked = PICKS * level / level.sum()
    total = np.zeros_like(best.held)
    for one in np.flatnonzero(level).tolist():
        total += picked[one] * members[one].held
    for count in range(PICKS + 1, 2 * PICKS + 1):
        scores = [choice.score_of((total + member.held) / count) for member in members]
        found = int(np.argmax(scores))
        total += members[found].held
        picked[found] += 1
    return picked / picked.sum()
