"""Growing a tree: level by level, or best leaf first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Float64, Int64
from bitvec.learners.growth.checkpoints import GrowthCheckpoint
from bitvec.learners.growth.stump_test import Rule
from bitvec.learners.growth.stumps import Stump, StumpTraining, train_stumps
from bitvec.learners.growth.targets import Target

NO_GAIN = 1e-10
"""A gain below this share of a node's impurity is rounding."""


@dataclass(frozen=True, slots=True)
class GrowthOptions:
    """Limits of a tree's growth.

    Parameters
    ----------
    best_first : bool
        Split the leaf of largest gain first, gain counted over its rows, instead of whole levels.
    max_depth : int, optional
    max_leaves : int, optional
    min_rows : int
        Of a node that is split.
    min_gain : float
        Decrease of the mean impurity of all rows that a split must exceed.
    retries : int
        How often a stump that splits nothing is trained anew, from another start.
    seed : int
    """

    best_first: bool
    max_depth: int | None
    max_leaves: int | None
    min_rows: int
    min_gain: float
    retries: int
    seed: int


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """A state of a growing tree.

    Parameters
    ----------
    depth : int
        Of the nodes split last.
    n_nodes, n_leaves : int
    objective : float
        Mean impurity of the training rows at their leaves.
    """

    depth: int
    n_nodes: int
    n_leaves: int
    objective: float


@dataclass(frozen=True, slots=True, eq=False)
class GrownTree:
    """A tree as it has grown, before its leaves are filled.

    Parameters
    ----------
    left, right : int64, (n_nodes,)
        Children: a node by its index, a leaf as `~leaf`.
    rules : tuple of Rule
    threshold : float64, (n_nodes,)
        A row goes right where its rule's margin exceeds this.
    leaf : int64, (n_rows,)
        The leaf of each training row.
    steps : tuple of GrowthStep
    """

    left: Int64[Array, " n_nodes"]
    right: Int64[Array, " n_nodes"]
    rules: tuple[Rule, ...]
    threshold: Float64[Array, " n_nodes"]
    leaf: Int64[Array, " n_rows"]
    steps: tuple[GrowthStep, ...]


@dataclass(slots=True, eq=False)
class _Leaf:
    """A leaf for now: its rows, and how to find it again in any tree of the same seed."""

    rows: Array
    impurity: float
    depth: int
    place: int  # 1 at the root, 2 · place and 2 · place + 1 below
    parent: int = -1
    is_right: bool = False


@dataclass(slots=True, eq=False)
class _Split:
    leaf: _Leaf
    rule: Rule
    threshold: float
    gain: float


@dataclass(slots=True, eq=False)
class _Growth:
    X: Array
    target: Target
    weight: Array
    training: StumpTraining
    options: GrowthOptions
    progress: Callable[[GrowthStep], None] | None
    kept: GrowthCheckpoint | None
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    leaves: list[_Leaf] = field(default_factory=list)
    steps: list[GrowthStep] = field(default_factory=list)
    objective: float = 0.0

    def root(self) -> _Leaf:
        leaf = _Leaf(np.arange(len(self.X)), self.target.impurity(self.weight), 0, 1)
        self.objective = leaf.impurity
        return leaf

    def may_split(self, leaf: _Leaf) -> bool:
        """Return whether a leaf may grow a stump."""
        deep = self.options.max_depth is not None and leaf.depth >= self.options.max_depth
        small = leaf.rows.size < max(self.options.min_rows, 2)
        return not deep and not small and not self.target.take(leaf.rows).is_pure()

    def splits(self, leaves: Sequence[_Leaf]) -> list[_Split]:
        """Train stumps and return those that gain enough; leaves without one stay leaves."""
        found: dict[int, _Split] = {}
        todo = [leaf for leaf in leaves if self.may_split(leaf)]
        total = float(self.weight.sum())
        for attempt in range(self.options.retries + 1):
            if not todo:
                break
            stumps = self.trained(todo, attempt)
            failed = []
            for leaf, stump in zip(todo, stumps, strict=True):
                gain = leaf.impurity - stump.cost
                if gain > max(NO_GAIN * leaf.impurity, self.options.min_gain * total):
                    found[leaf.place] = _Split(leaf, stump.rule, stump.threshold, gain)
                else:
                    failed.append(leaf)
            todo = failed
        self.leaves += [leaf for leaf in leaves if leaf.place not in found]
        return [found[leaf.place] for leaf in leaves if leaf.place in found]

    def trained(self, leaves: Sequence[_Leaf], attempt: int) -> list[Stump]:
        """Train a stump for each leaf, or take those that an earlier run has trained."""
        names = [(leaf.place, attempt) for leaf in leaves]
        if self.kept is not None:
            stumps = self.kept.take(names)
            if stumps is not None:
                return stumps
        generators = [generator_of(self.options.seed, leaf.place, attempt) for leaf in leaves]
        rows = [leaf.rows for leaf in leaves]
        stumps = train_stumps(self.X, self.target, self.weight, rows, generators, self.training)
        if self.kept is not None:
            self.kept.put(names, stumps)
        return stumps

    def apply(self, split: _Split) -> tuple[_Leaf, _Leaf]:
        """Turn a leaf into a node and return its children."""
        leaf, node = split.leaf, len(self.rules)
        if leaf.parent >= 0:
            (self.right if leaf.is_right else self.left)[leaf.parent] = node
        self.left.append(0)
        self.right.append(0)
        self.rules.append(split.rule)
        self.threshold.append(split.threshold)
        goes_right = split.rule.margins(self.X[leaf.rows]) > split.threshold
        children = []
        for is_right, rows in ((False, leaf.rows[~goes_right]), (True, leaf.rows[goes_right])):
            impurity = self.target.take(rows).impurity(self.weight[rows])
            place = 2 * leaf.place + is_right
            children.append(_Leaf(rows, impurity, leaf.depth + 1, place, node, is_right))
        self.objective += children[0].impurity + children[1].impurity - leaf.impurity
        return children[0], children[1]

    def tell(self, depth: int) -> None:
        n = len(self.rules)
        mean = max(self.objective / float(self.weight.sum()), 0.0)
        self.steps.append(GrowthStep(depth, n, n + 1, mean))
        if self.progress is not None:
            self.progress(self.steps[-1])

    def finished(self) -> GrownTree:
        """Name the leaves, whose parents know them by place only."""
        of_row = np.zeros(len(self.X), np.int64)
        for number, leaf in enumerate(self.leaves):
            of_row[leaf.rows] = number
            if leaf.parent >= 0:
                (self.right if leaf.is_right else self.left)[leaf.parent] = ~number
        return GrownTree(
            np.array(self.left, np.int64),
            np.array(self.right, np.int64),
            tuple(self.rules),
            np.array(self.threshold, np.float64),
            of_row,
            tuple(self.steps),
        )


def grow(
    X: Float64[Array, "n_rows n_features"],
    target: Target,
    weight: Float64[Array, " n_rows"],
    training: StumpTraining,
    options: GrowthOptions,
    *,
    progress: Callable[[GrowthStep], None] | None = None,
    kept: GrowthCheckpoint | None = None,
) -> GrownTree:
    """Grow a tree on hard-routed rows.

    Parameters
    ----------
    X
        Finite.
    weight
        Positive.
    progress : callable, optional
        Called with each `GrowthStep`: after each level, or each split of best-first growth.
    kept : GrowthCheckpoint, optional
        Where stumps are kept, and those of an earlier run are taken from.

    Notes
    -----
    A node's stump depends on the seed, its place in the tree and its rows, not on the way in which
    the tree grows.
    """
    growth = _Growth(X, target, weight, training, options, progress, kept)
    (_best_first if options.best_first else _by_level)(growth)
    return growth.finished()


def generator_of(seed: int, place: int, attempt: int) -> np.random.Generator:
    """Return the random numbers of a node, the same in every process."""
    return np.random.default_rng([seed, attempt, place])


def _by_level(growth: _Growth) -> None:
    """Split all leaves of a level that gain by it, those of most gain where leaves are short."""
    frontier, depth = [growth.root()], 0
    while frontier:
        splits = growth.splits(frontier)
        if growth.options.max_leaves is not None:
            room = max(growth.options.max_leaves - len(growth.rules) - 1, 0)
            by_gain = sorted(splits, key=lambda split: -split.gain)
            growth.leaves += [split.leaf for split in by_gain[room:]]
            kept = {split.leaf.place for split in by_gain[:room]}
            splits = [split for split in splits if split.leaf.place in kept]
        frontier = [child for split in splits for child in growth.apply(split)]
        if splits:
            growth.tell(depth)
        depth += 1


def _best_first(growth: _Growth) -> None:
    """Split the leaf of largest gain again and again; a leaf that cannot be split is out for good.

    The gain is that of all rows of the leaf together, not of a row.
    """
    most = growth.options.max_leaves
    waiting: list[tuple[float, int, _Split]] = []

    def add(leaves: Sequence[_Leaf]) -> None:
        for split in growth.splits(leaves):
            heapq.heappush(waiting, (-split.gain, split.leaf.place, split))

    add([growth.root()])
    while waiting and (most is None or len(growth.rules) + 1 < most):
        _, _, split = heapq.heappop(waiting)
        children = growth.apply(split)
        growth.tell(split.leaf.depth)
        add(children)
    growth.leaves += [split.leaf for _, _, split in waiting]
