"""The bandwidth by cross-validation of the whole tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.kernels import FeatureKernel
from bitvec.core.shape_annotations import Bool, Float, Int64
from bitvec.learners.kddt.events import Densities, ascending, densities_of, events_of
from bitvec.learners.kddt.shapes import scaled
from bitvec.learners.kddt.tree import GrownTree, Limits, Targets, grow_tree, stopping

Score = Callable[[GrownTree, Array, Array], Array]
"""Function from a tree, its bandwidths, (n_features,), and the numbers of rows to its score: the
sum over rows, for each way to predict."""


@dataclass(frozen=True, slots=True)
class Search:
    """Scores of all bandwidths.

    Parameters
    ----------
    grid : float64, (n_bandwidths,)
        In standard deviations of each feature.
    score : float64, (n_bandwidths, n_kinds)
        Mean over the rows of all folds; NaN where a bandwidth could no longer win.
    n_grown : int
        Trees that were grown.
    """

    grid: Float[Array, " n_bandwidths"]
    score: Float[Array, "n_bandwidths n_kinds"]
    n_grown: int

    def best(self, kind: int = 0) -> float:
        """Return the best bandwidth of a way to predict, the smallest among equals."""
        return float(self.grid[int(np.nanargmax(self.score[:, kind]))])


def search(
    X: Float[Array, "n_rows n_features"],
    targets: Targets,
    weight: Float[Array, " n_rows"],
    shapes: Sequence[FeatureKernel],
    sigma: Float[Array, " n_features"],
    *,
    folds: Int64[Array, " n_rows"],
    grid: Float[Array, " n_bandwidths"],
    limits: Limits,
    score: Score,
    n_kinds: int = 1,
    most_per_row: float = 1.0,
    finish: Callable[[GrownTree], GrownTree] = lambda tree: tree,
    n_jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Search:
    """Grow a tree for each bandwidth without each fold and score it there.

    Orders are sorted once and shared by all folds and bandwidths. A bandwidth is left as soon as
    it could not reach the best even if all rows that it has not seen scored the most, which changes
    no choice and spares the trees of wide kernels, by far the largest.

    Parameters
    ----------
    sigma : float64, (n_features,)
        What a bandwidth of 1 is for each feature.
    folds : int64, (n_rows,)
        The fold of each row, 0 ... n_folds − 1.
    most_per_row : float
        The most that a row of weight 1 may score: 1 of accuracy, 0 of minus the squared error.
    progress : callable, optional
        Called with the number of trees done and of all.
    """
    n_folds = int(folds.max()) + 1
    order = ascending(X)
    rows_of = [np.flatnonzero(folds == fold) for fold in range(n_folds)]
    most = most_per_row * np.array([float(weight[rows].sum()) for rows in rows_of])
    scored = np.zeros((grid.size, n_kinds))
    complete: Bool[Array, " n_bandwidths"] = np.zeros(grid.size, bool)
    n_grown = 0

    def one(width: float, fold: int) -> Float[Array, " n_kinds"]:
        bandwidth = width * sigma
        rest = np.flatnonzero(folds != fold)
        densities: Densities = densities_of(X[rest], scaled(shapes, bandwidth))
        events = events_of(densities, _among(order, folds != fold))
        tree = grow_tree(densities, events, targets.take(rest), weight[rest], limits, stop=stop)
        return score(finish(tree), bandwidth, rows_of[fold])

    with ThreadPoolExecutor(n_jobs) as pool, stopping() as stop:
        for at, width in enumerate(grid):
            best = scored[complete].max(axis=0, initial=-np.inf)
            for begin in range(0, n_folds, n_jobs):
                now = range(begin, min(begin + n_jobs, n_folds))
                for answer in pool.map(lambda fold, width=width: one(width, fold), now):
                    scored[at] += answer
                n_grown += len(now)
                if progress is not None:
                    progress(at * n_folds + now[-1] + 1, grid.size * n_folds)
                if np.all(scored[at] + most[now[-1] + 1 :].sum() < best):
                    break
            else:
                complete[at] = True
    scored[~complete] = np.nan
    return Search(grid, scored / weight.sum(), n_grown)


def _among(
    order: Int64[Array, "n_features n_rows"], kept: Bool[Array, " n_rows"]
) -> Int64[Array, "n_features n_kept"]:
    """Return the order of some rows only, by their numbers among these."""
    number = np.cumsum(kept) - 1
    return number[order[kept[order]].reshape(len(order), -1)]
