"""Other trees to begin a retraining with: refined by alternating optimisation, and pruned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.shape_annotations import Float64
from bitvec.errors import InputError, UnsupportedModelError
from bitvec.learners.tao.refine import tao_refine
from bitvec.runtime.predict.engine import for_one_call
from bitvec.runtime.train.pruning.prune import prune
from bitvec.runtime.train.retrain import leaf_counts
from bitvec.runtime.train.retrain.objective import Objective
from bitvec.runtime.train.retrain.training_data import Data

ROUNDS = 5
"""Rounds of alternating optimisation; most of what there is to gain comes in the first ones."""
SIZES = 12
"""Pruned trees at most, from a few leaves to all."""
SMOOTHING = 0.1
"""Count that is added to each class of a leaf."""
_OfEnds = Callable[[Array, Array], Array]


def recounted(forest: Forest, objective: Objective, data: Data) -> Forest:
    """Return a single tree with its leaves counted anew; see `leaf_counts.recounted`."""
    if leaf_counts.best_vectors(forest, objective) is None:
        return forest
    leaf = for_one_call(forest, len(data.X)).exit_leaves(data.X)[:, 0].astype(np.int64)
    return leaf_counts.recounted(forest, objective, leaf, data)


def refined(forest: Forest, objective: Objective, data: Data) -> Forest | None:
    """Return a tree refined by oblique alternating optimisation; None where it was not improved.

    Its leaves are counted anew, with smoothing, so that none is certain of a class.
    """
    classes = forest.output.classes
    if classes is None:
        y = data.target if data.target.shape[1] > 1 else data.target[:, 0]
    elif len(classes) == 1 and data.target.dtype.kind != "f":
        y = classes[0][data.target[:, 0]]
    else:
        return None
    try:
        result = tao_refine(
            forest, data.X, y, sample_weight=data.weight, oblique=True, max_iter=ROUNDS, n_jobs=1
        )
    except (InputError, UnsupportedModelError):
        return None
    return recounted(result.forest, objective, data) if result.improved else None


@dataclass(frozen=True, slots=True, eq=False)
class PruningPath:
    """Subtrees of a tree, by the least loss that a leaf may save.

    Parameters
    ----------
    forest : Forest
    objective : Objective
    data : Data
    least : float64, (n_nodes,)
        Of each node, up to which saved training loss for each leaf and row it stays.
    mean : float64, (n_nodes, width)
        The leaf in its place.
    """

    forest: Forest
    objective: Objective
    data: Data
    least: Float64[Array, " n_nodes"]
    mean: Float64[Array, "n_nodes width"]

    def levels(self) -> list[float]:
        """Return thresholds of `least`, rising, of which each gives a smaller tree."""
        known = np.unique(self.least[np.isfinite(self.least) & (self.least >= 0)])
        if len(known) > SIZES:
            known = known[np.unique(np.linspace(0, len(known) - 1, SIZES).round().astype(int))]
        return [float(level) for level in known]

    def pruned(self, level: float) -> Forest:
        """Return the subtree without the nodes that save less than a level or as much."""
        B, v = self.forest.bitvectors, self.forest.leaves.v.copy()
        # From the root down: an outer node overrules those within it.
        for node in np.argsort(B.lo - B.hi, kind="stable")[::-1].tolist():
            if self.least[node] <= level:
                v[B.lo[node] : B.hi[node]] = self.mean[node]
        collapsed = replace(self.forest, leaves=Leaves(v))
        smaller = prune(collapsed, self.data.X, empty=False, unreachable=False).forest
        return recounted(smaller, self.objective, self.data)


def pruning_path(forest: Forest, objective: Objective, data: Data) -> PruningPath | None:
    """Return the subtrees of weakest links of a single tree, None where leaves are not counted.

    Notes
    -----
    Minimal cost-complexity pruning (Breiman, Friedman, Olshen and Stone 1984, section 3.3), with
    the log loss of smoothed counts, or the squared error, as the cost.
    """
    if leaf_counts.best_vectors(forest, objective) is None or forest.n_nodes == 0:
        return None
    if forest.kernel is not None or objective.loss not in ("cross_entropy", "squared"):
        return None
    leaf = for_one_call(forest, len(data.X)).exit_leaves(data.X)[:, 0].astype(np.int64)
    weight = data.weight / data.weight.sum()
    cost, mean = _by_interval(forest, leaf, data.target, weight)
    B = forest.bitvectors
    lo, hi = B.lo.astype(np.int64), B.hi.astype(np.int64)
    as_leaf, vector = cost(lo, hi), mean(lo, hi)
    n = forest.n_leaves
    of_leaf, is_first = cost(np.arange(n), np.arange(n) + 1), np.ones(n)
    least, alive, level = np.full(len(lo), np.inf), np.ones(len(lo), bool), 0.0
    while alive.any():
        loss = np.concatenate([[0.0], np.cumsum(of_leaf)])
        leaves = np.concatenate([[0.0], np.cumsum(is_first)])
        at = np.flatnonzero(alive)
        saved = as_leaf[at] - (loss[hi[at]] - loss[lo[at]])
        link = saved / (leaves[hi[at]] - leaves[lo[at]] - 1)
        weakest = at[int(link.argmin())]
        level = max(level, float(link.min()))
        within = alive & (lo >= lo[weakest]) & (hi <= hi[weakest])
        least[within], alive[within] = level, False
        of_leaf[lo[weakest] : hi[weakest]] = 0.0
        is_first[lo[weakest] : hi[weakest]] = 0.0
        of_leaf[lo[weakest]], is_first[lo[weakest]] = as_leaf[weakest], 1.0
    return PruningPath(forest, objective, data, least, vector.astype(forest.leaves.v.dtype))


def _by_interval(
    forest: Forest, leaf: Array, target: Array, weight: Array
) -> tuple[_OfEnds, _OfEnds]:
    """Return the cost and the leaf vector of intervals of leaves, as functions of their ends."""
    n, width = forest.n_leaves, forest.leaves.v.shape[1]
    if forest.output.is_classifier:
        sums = np.zeros((n, width))
        np.add.at(sums, (leaf, target[:, 0]), weight)
        square = None
        unit = SMOOTHING * float(weight.mean())
    else:
        sums = np.zeros((n, width))
        np.add.at(sums, leaf, weight[:, None] * target)
        square = np.concatenate(
            [[0.0], np.cumsum(np.bincount(leaf, weight * (target**2).sum(axis=1), minlength=n))]
        )
        unit = 0.0
    total = np.concatenate([[0.0], np.cumsum(np.bincount(leaf, weight, minlength=n))])
    running = np.concatenate([np.zeros((1, width)), np.cumsum(sums, axis=0)])

    def mean(lo: Array, hi: Array) -> Array:
        mass = (total[hi] - total[lo])[:, None] + unit * width
        part: Array = (running[hi] - running[lo] + unit) / np.where(mass > 0, mass, 1.0)
        return part

    def cost(lo: Array, hi: Array) -> Array:
        part, vector = running[hi] - running[lo], mean(lo, hi)
        if square is None:
            lost: Array = -(part * np.log(vector)).sum(axis=1)
        else:
            lost = square[hi] - square[lo] - (part * vector).sum(axis=1)
        return lost

    return cost, mean
