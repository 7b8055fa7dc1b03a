"""Single trees: a tree of scikit-learn's, retrained with S, b and v free."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import dataclass
from typing import Final

from sklearn.tree import DecisionTreeClassifier

import bitvec
from benchmarks.report import Row
from benchmarks.retrain.data import split
from benchmarks.retrain.scores import score_of, told

MOVED: Final = "S, b, v"


@dataclass(frozen=True, slots=True)
class TreeCase:
    """One tree of one data set.

    Parameters
    ----------
    size : dict
        What limits scikit-learn's tree.
    goal : float, optional
        The mean test accuracy that is asked for.
    most_leaves : int, optional
        The most leaves that any seed's tree may have.
    published : float, optional
        DTSemNet's test accuracy at the same depth, on splits of its own.
    never_worse : bool
        Whether no seed's tree may be worse on the test rows than the one it came from.
    times : int
        How many times as many seeds: few rows say little.
    """

    data: str
    size: tuple[tuple[str, int], ...]
    goal: float | None = None
    most_leaves: int | None = None
    published: float | None = None
    never_worse: bool = False
    times: int = 1

    @property
    def name(self) -> str:
        """Name of the case."""
        words = {"max_depth": "depth {}", "max_leaf_nodes": "{} leaves"}
        return ", ".join([self.data, *(words[key].format(value) for key, value in self.size)])


def _depth(depth: int) -> tuple[tuple[str, int], ...]:
    return (("max_depth", depth),)


CASES: Final = (
    TreeCase("letter", _depth(10), goal=0.92, most_leaves=463),
    TreeCase("letter", _depth(8), goal=0.87),
    TreeCase("letter", _depth(6), goal=0.785),
    TreeCase("letter", (("max_leaf_nodes", 64),), goal=0.79, most_leaves=64),
    TreeCase("pendigits", _depth(8), goal=0.970, published=0.9702),
    TreeCase("satimage", _depth(8), goal=0.885, published=0.8755),
    TreeCase("optdigits", _depth(8), goal=0.955),
    TreeCase("optdigits", _depth(4), published=0.933),
    TreeCase("segment", _depth(8), goal=0.955, published=0.9610, times=3),
    TreeCase("segmentation", _depth(8), never_worse=True, times=3),
    TreeCase("banknote", _depth(4), published=0.998, times=3),
    TreeCase("balance", _depth(4), published=0.902, times=3),
    TreeCase("blood", _depth(4), published=0.785, times=3),
    TreeCase("sonar", _depth(4), published=0.821, times=3),
)


def measure(case: TreeCase, seed: int, options: Namespace) -> list[Row]:
    """Return the row of one case and one seed."""
    rows = split(options.data, case.data, seed)
    # Entropy, because retraining keeps the topology: a tree that Gini grew ends points below.
    model = DecisionTreeClassifier(criterion="entropy", random_state=seed, **dict(case.size))
    forest = bitvec.convert(model.fit(*rows.fit))
    start = time.process_time()
    result = bitvec.retrain(
        forest,
        *rows.fit,
        validation=rows.held_out,
        budget="quick" if options.quick else "normal",
        seed=seed,
        prune_dead=True,
    )
    seconds = time.process_time() - start
    before, after = (score_of(tree, rows.test) for tree in (forest, result.forest))
    return [
        {
            "source": "DecisionTreeClassifier, entropy",
            **told(MOVED, result.forest, before, after, seconds),
            "held_out_gain": result.score - result.start_score,
            "improved": result.improved,
            "leaves_unpruned": forest.n_leaves,
            "recipe": result.chosen.recipe if result.chosen else "",
            "published": case.published,
        }
    ]
