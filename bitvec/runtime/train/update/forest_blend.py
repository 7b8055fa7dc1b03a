"""A blend of forests that share their old trees: weights found by adding the best one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.train.grow.appended_trees import NewTree
from bitvec.runtime.train.grow.newton_rounds import Growth
from bitvec.runtime.train.update.update_choice import Choice

PICKS = 5
"""Candidates that are added to a blend one by one, of which one may stand for several."""
LEVEL = 1.0
"""Standard errors behind the best up to which a candidate may be as good."""


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


class Stop(NamedTuple):
    """A member after some rounds: a candidate for the blend.

    Parameters
    ----------
    rounds : int
    score : float
    held : float64, (n_held_out, n_outputs)
        Raw scores of the rows held out.
    """

    rounds: int
    score: float
    held: Array


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
    stops : tuple of Stop
    seconds : float
    """

    start: Start
    mix: int
    growth: Growth | None
    v: Array
    rounds: tuple[list[NewTree], ...]
    stops: tuple[Stop, ...]
    seconds: float

    @property
    def recipe(self) -> str:
        """Name for people."""
        if self.growth is None:
            return "leaves, tree by tree"
        behind = " alone" if self.start.alone else " behind the old ones"
        return f"trees of {self.growth.leaves} leaves{behind}"


def weights(held: Sequence[Array], choice: Choice) -> Float64[Array, " n_candidates"]:
    """Return how much of each candidate makes the best blend, of sum 1.

    Half of the blend is the mean of all candidates that the rows held out cannot tell from the
    best, since what is best on the few of the newest rows need not be on the next. Then the one
    that raises the score of the mean most is added, `PICKS` times (Caruana et al., "Ensemble
    selection from libraries of models", 2004). Raw scores are averaged, and each candidate holds
    the same base score, so that the blend is one forest.

    Parameters
    ----------
    held : sequence of float64, (n_held_out, n_outputs)
        Raw scores of the rows held out, by each candidate.
    choice : Choice
    """
    best = int(np.argmax([choice.score_of(raw) for raw in held]))
    level = np.array([choice.errors_behind(raw, held[best]) <= LEVEL for raw in held])
    level[best] = True
    picked = PICKS * level / level.sum()
    total = np.zeros_like(held[best])
    for one in np.flatnonzero(level).tolist():
        total += picked[one] * held[one]
    for count in range(PICKS + 1, 2 * PICKS + 1):
        found = int(np.argmax([choice.score_of((total + raw) / count) for raw in held]))
        total += held[found]
        picked[found] += 1
    return picked / picked.sum()
