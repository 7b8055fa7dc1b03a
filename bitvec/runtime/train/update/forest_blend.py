"""A blend of forests that share their old trees: weights found by adding the best one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64
from bitvec.runtime.train.grow.appended_trees import NewTree
from bitvec.runtime.train.grow.newton_rounds import Growth

PICKS = 5
"""Members of a blend, of which one may stand for several."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A forest that was tried: old trees with leaves of its own, and new trees behind them.

    Parameters
    ----------
    share : float
        What old leaves are multiplied by; 0 where new trees stand alone.
    pull : float
        Under which old leaves were refreshed, in rows; NaN where they are as they were.
    mix : int
        The rows that it was fitted to.
    growth : Growth, optional
    v : float64, (n_leaves, width)
        The leaves of the old trees.
    rounds : tuple of lists of NewTree
    held : float64, (n_held_out, n_outputs)
        Raw scores of the rows held out.
    score : float
    seconds : float
    """

    share: float
    pull: float
    mix: int
    growth: Growth | None
    v: Array
    rounds: tuple[list[NewTree], ...]
    held: Array
    score: float
    seconds: float

    @property
    def recipe(self) -> str:
        """Name for people."""
        if self.growth is None:
            return "leaves, tree by tree"
        behind = "" if self.share == 0 else " behind the old ones"
        behind = " behind half of the old ones" if 0 < self.share < 1 else behind
        return f"trees of {self.growth.leaves} leaves{behind or ' alone'}"


def weights(
    members: Sequence[Member], score_of: Callable[[Array], float]
) -> Float64[Array, " n_members"]:
    """Return how much of each member makes the best blend, of sum 1.

    The member that raises the score of the mean most is added, `PICKS` times (Caruana et al.,
    "Ensemble selection from libraries of models", 2004). Raw scores are averaged, and each member
    holds the same base score, so that the blend is one forest.
    """
    total, picked = np.zeros_like(members[0].held), np.zeros(len(members))
    for count in range(1, PICKS + 1):
        scores = [score_of((total + member.held) / count) for member in members]
        best = int(np.argmax(scores))
        total += members[best].held
        picked[best] += 1
    return picked / PICKS
