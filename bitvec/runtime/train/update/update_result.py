"""Result of an update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.train.retrain.history import History
from bitvec.runtime.train.update.moved_parts import Moved

UNCHANGED = (
    "Nothing was clearly better on the rows held out, so the forest is as it was. If rows are not "
    "in the order of time, shuffle them, or give rows of your own as `validation`."
)
TOO_FEW = (
    "Fewer than 10 rows were held out, too few to choose by, so the forest is as it was: pass more "
    "rows, or a larger `validation`."
)
OUT_OF_TIME = (
    "The budget was over before the chosen recipe was fitted to all rows: what comes back is "
    "fitted to those that were not held out."
)


@dataclass(frozen=True, slots=True)
class Trial:
    """A recipe that was tried.

    Parameters
    ----------
    recipe : str
        "as it was", "leaves", or "thresholds" or "leaves and thresholds"; of a forest that may grow
        "leaves, tree by tree", new trees of some size alone or behind the old ones, and "a blend".
    pull : float
        Of the leaves toward the old ones, in rows; NaN where they did not move.
    replay : float
        The weight that old rows were multiplied by; NaN where there are none.
    step, steps : int
        The best place on the way, and its length; 0 where there is none. Of new trees, rounds.
    score : float
        On the rows held out, the best on the way; more is better.
    seconds : float
        Wall time.
    """

    recipe: str
    pull: float
    replay: float
    step: int
    steps: int
    score: float
    seconds: float

    def record(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Growth:
    """Trees and leaves that an update has added and dropped."""

    trees_added: int
    leaves_added: int
    trees_dropped: int
    leaves_dropped: int

    def __str__(self) -> str:
        """Return the counts as a sentence."""
        return (
            f"{self.trees_added:,} trees of {self.leaves_added:,} leaves added; "
            f"{self.trees_dropped:,} trees of {self.leaves_dropped:,} leaves dropped"
        )


def growth_of(before: Forest, after: Forest, drop: Array) -> Growth:
    """Return what was added and dropped, from which of the old trees are not there any more."""
    dropped = int(np.diff(before.bitvectors.leaf_ptr)[drop].sum())
    n_kept = before.n_trees - int(drop.sum())
    left = before.n_leaves - dropped
    return Growth(after.n_trees - n_kept, after.n_leaves - left, int(drop.sum()), dropped)


@dataclass(frozen=True, slots=True, eq=False)
class UpdateResult:
    """Result of `update`.

    Parameters
    ----------
    forest : Forest
        The same trees with other thresholds and leaves, and new trees behind them where it may
        grow; the one that went in, itself, where nothing was clearly better.
    updated : bool
        Whether `forest` is another one.
    metric : str
        What `start_score`, `score` and those of the trials are; more is better.
    start_score, score : float
        On the rows held out, before and after.
    before, after : mapping from names to float
        All scores on the rows held out. `after` is of the candidate that has not seen them.
    old_before, old_after : mapping from names to float
        The same on the replayed rows that were held out; empty where there are none.
    chosen : Trial
    tried : tuple of Trial
        The forest as it was, and each recipe.
    refitted : bool
        Whether the chosen recipe was fitted again to all rows, those held out among them.
    moved : Moved
        What has moved, of the trees that were there; `print(result.moved)` says it.
    seconds : float
        Wall time of all.
    history : History
        Every candidate; `history.plot()` draws them.
    note : str
    growth : Growth
        Trees and leaves that were added and dropped.
    monotone : mapping from columns to 1 or -1, optional
        Directions that the raw scores of `forest` keep, by an exact check of the boxes of its
        leaves, tree by tree; None where nothing was to be kept.
    """

    forest: Forest
    updated: bool
    metric: str
    start_score: float
    score: float
    before: Mapping[str, float]
    after: Mapping[str, float]
    old_before: Mapping[str, float]
    old_after: Mapping[str, float]
    chosen: Trial
    tried: tuple[Trial, ...]
    refitted: bool
    moved: Moved
    seconds: float
    history: History
    growth: Growth = Growth(0, 0, 0, 0)
    note: str = ""
    monotone: Mapping[str | int, int] | None = None

    def __repr__(self) -> str:
        """Return the scores, what was chosen, and the note."""
        if self.updated:
            what = (
                f"{self.metric} {self.start_score:.6g} -> {self.score:.6g} by {self.chosen.recipe}"
            )
        else:
            what = f"forest unchanged: {self.metric} {self.start_score:.6g} not clearly raised"
        return f"UpdateResult({what}{', note: ' + self.note if self.note else ''})"
