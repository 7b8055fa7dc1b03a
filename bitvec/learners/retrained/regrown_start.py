"""A tree whose tests are trained anew, from the root down, to begin a retraining with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.learners.growth.grow import NO_GAIN
from bitvec.learners.growth.linear import Linear, LinearRule
from bitvec.learners.growth.stump_losses import LOSSES
from bitvec.learners.growth.stumps import Stump, StumpTraining, train_stumps
from bitvec.learners.growth.targets import Labels, Target, Values
from bitvec.learners.retrained.other_starts import recounted
from bitvec.learners.sizes import LARGEST, LEAST_SPREAD
from bitvec.learners.tao.forest_trees import joined, tree_of
from bitvec.learners.tao.tree import NodeKind, Tree
from bitvec.runtime.train.retrain import leaf_counts
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.schedules import steepness
from bitvec.runtime.train.retrain.training_data import Data

STEPS, RESTARTS, BATCH, RATE, GAMMA = 200, 2, 4096, 0.05, (1.0, 8.0)
"""Training of a node, that of an End-to-End Decision Tree by default."""
DRAWS, NUMBERS = 5, 1 << 22
"""Times that the whole tree is trained, each from other directions, the one of least training loss
kept: fewer where so many times the numbers in X are more than NUMBERS, and once at least."""
LOSS: Final = {"cross_entropy": "likelihood", "squared": "variance"}


def regrown(forest: Forest, objective: Objective, data: Data, seed: int) -> Forest | None:
    """Return a tree of the same shape whose tests are trained anew, each on the rows it is asked.

    A test becomes a weighted sum of all columns that hold plain numbers, trained softly to part
    classes or values; its more impure side goes to the child of more leaves. Where rows are too few
    or of one class, tests stay. Leaves are counted anew.

    None where nothing was parted, tests read no plain numbers, or leaves are not counted.

    Notes
    -----
    Greedy growth of Hehn, Kooij and Hamprecht, "End-to-end Learning of Decision Trees and Forests"
    (2020), but for the shape.
    """
    if objective.loss not in LOSS or leaf_counts.best_vectors(forest, objective) is None:
        return None
    tree, rows = tree_of(forest), data.weight > 0
    X = data.X[rows].astype(np.float64)
    columns = np.flatnonzero(_is_plain(X))
    if not tree.n_nodes or not columns.size or np.any(tree.kind == NodeKind.FIXED):
        return None
    training = StumpTraining(
        Linear(), LOSSES[LOSS[objective.loss]], STEPS, RESTARTS, BATCH, RATE,
        steepness(GAMMA, "linear"), columns=lambda _: columns,
    )  # fmt: skip
    growth = _Regrowth(
        tree,
        np.diff([forest.bitvectors.lo, forest.bitvectors.hi], axis=0)[0].astype(np.int64),
        np.where(np.isfinite(X), X, 0.0),  # of columns that are not read
        _target(forest, data.target[rows]),
        data.weight[rows] / data.weight[rows].mean(),
        training,
    )
    draws = min(DRAWS, max(1, NUMBERS // X.size))
    found = [growth.run((seed, draw)) for draw in range(draws)]
    best = max(found, key=lambda one: one.gain)
    return recounted(joined(forest, [best.tree]), objective, data) if best.gain > 0 else None


def _is_plain(X: Float64[Array, "n n_features"]) -> Array:
    """Return which columns hold finite numbers whose squares neither overflow nor vanish."""
    with np.errstate(invalid="ignore"):
        most, spread = np.abs(X).max(axis=0), np.ptp(X, axis=0)
        plain: Array = (most <= LARGEST) & (spread >= LEAST_SPREAD)
    return plain


def _target(forest: Forest, target: Array) -> Target:
    if forest.output.is_classifier:
        return Labels(target[:, 0].astype(np.int64), forest.n_outputs)
    return Values(target.astype(np.float64))


class _Grown(NamedTuple):
    """A tree with new tests, and by how much they lower the impurity of the rows."""

    tree: Tree
    gain: float


@dataclass(frozen=True, slots=True, eq=False)
class _Regrowth:
    """Training of all tests of a tree, level by level.

    Parameters
    ----------
    tree : Tree
        Whose shape is kept.
    size : int64, (n_nodes,)
        Leaves below each node.
    X : float64, (n_rows, n_features)
    target : Target
    weight : float64, (n_rows,)
        Positive.
    training : StumpTraining
    """

    tree: Tree
    size: Int64[Array, " n_nodes"]
    X: Float64[Array, "n_rows n_features"]
    target: Target
    weight: Float64[Array, " n_rows"]
    training: StumpTraining

    def run(self, seed: Sequence[int]) -> _Grown:
        """Return the tree with the tests that start from one draw."""
        tree = self.tree
        W = np.zeros((tree.n_nodes, self.X.shape[1]), tree.threshold.dtype)
        W[: len(tree.W)] = tree.W
        kind, threshold = tree.kind.copy(), tree.threshold.copy()
        above, at_least = tree.above.copy(), tree.at_least.copy()
        gain, level = 0.0, [(0, np.arange(len(self.X)))]
        while level:
            below: list[tuple[int, Array]] = []
            for node, rows, stump, gained in self._stumps(level, seed):
                theta, cut, right = self._turned(node, rows, stump)
                with np.errstate(over="ignore"):
                    test = np.append(theta, cut).astype(W.dtype)
                if not np.all(np.isfinite(test)):
                    continue
                W[node], threshold[node] = test[:-1], test[-1]
                kind[node], above[node], at_least[node] = NodeKind.OBLIQUE, True, False
                gain += gained
                sides = (tree.left[node], rows[~right]), (tree.right[node], rows[right])
                below += [(int(child), own) for child, own in sides if child >= 0]
            level = below
        new = replace(tree, kind=kind, W=W, threshold=threshold, above=above, at_least=at_least)
        return _Grown(new, gain)

    def _stumps(
        self, level: list[tuple[int, Array]], seed: Sequence[int]
    ) -> Iterator[tuple[int, Array, Stump, float]]:
        """Yield the nodes that can be parted, their rows and stumps, and what these gain."""
        todo = [
            (node, rows)
            for node, rows in level
            if rows.size >= self.target.min_rows and not self.target.take(rows).is_pure()
        ]
        if not todo:
            return
        generators = [np.random.default_rng([*seed, node]) for node, _ in todo]
        stumps = train_stumps(
            self.X, self.target, self.weight, [rows for _, rows in todo], generators, self.training
        )
        for (node, rows), stump in zip(todo, stumps, strict=True):
            impurity = self._impurity(rows)
            if impurity - stump.cost > NO_GAIN * impurity:
                yield node, rows, stump, impurity - stump.cost

    def _impurity(self, rows: Int64[Array, " n"]) -> float:
        return self.target.take(rows).impurity(self.weight[rows])

    def _turned(self, node: int, rows: Array, stump: Stump) -> tuple[Array, float, Array]:
        """Return θ, the threshold and which rows go right: more leaves for the more impure side."""
        rule = stump.rule
        assert isinstance(rule, LinearRule)
        right = rule.margins(self.X[rows]) > stump.threshold
        more = self._impurity(rows[right]) - self._impurity(rows[~right])
        children = self.tree.left[node], self.tree.right[node]
        left_leaves, right_leaves = (self.size[one] if one >= 0 else 1 for one in children)
        if more * (right_leaves - left_leaves) < 0:
            return -rule.theta, -stump.threshold, ~right
        return rule.theta, stump.threshold, right
