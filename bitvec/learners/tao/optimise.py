"""Tree alternating optimisation: passes over the depths of a tree until nothing is gained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Int64
from bitvec.learners.tao.losses import Loss, leaf_step
from bitvec.learners.tao.node_step import (
    NodeStatistics,
    Step,
    Verdict,
    level_step,
    new_statistics,
    norms,
)
from bitvec.learners.tao.training_rows import Rows, reroute, route
from bitvec.learners.tao.tree import NodeKind, Tree

MAX_ITER = 14
"""Passes, as in the supplement of the paper; about 7 are typical of oblique trees, 2 to 4 of
axis-aligned ones."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """One pass.

    Parameters
    ----------
    iteration : int
        0 for the tree as it started, its leaves fitted.
    objective : float
        Loss and penalty, summed over rows and nodes.
    loss : float
        The sum over rows of weight times loss.
    penalty : float
        λ Σ |w_j| · scale_j of "l1", or ½ Σ (w_j · scale_j)² / C of "l2", which is not part of the
        objective: hard routes do not change with the size of weights.
    accepted : int
        Nodes that took another test.
    """

    iteration: int
    objective: float
    loss: float
    penalty: float
    accepted: int


Progress = Callable[[Iteration], None]
"""Called after each pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimised:
    """Result of the passes over a tree.

    Parameters
    ----------
    tree : Tree
        The one of least objective on the way; of sparse trees without `monotone`, after a pass.
    leaf : int64, (n_rows,)
        The leaf of each row.
    objective : float
        Of this tree.
    history : tuple of Iteration
    nodes : NodeStatistics
        Of the last pass.
    start : float
        The objective of the tree as it came, before its leaves were fitted.
    """

    tree: Tree
    leaf: Int64[Array, " n_rows"]
    objective: float
    history: tuple[Iteration, ...]
    nodes: NodeStatistics
    start: float


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """Number of passes, and the nodes and leaves that they visit.

    Parameters
    ----------
    nodes : bool, (n_nodes,)
        Nodes that may move; fixed ones never do.
    leaves : bool, (n_leaves,), optional
        Leaves that may move; all if not given.
    tol : float
        The passes end where one lowers the objective, divided by the sum of weights, by less.
    max_iter : int
    progress : callable, optional
    """

    nodes: Bool[Array, " n_nodes"]
    leaves: Bool[Array, " n_leaves"] | None = None
    tol: float = 0.0
    max_iter: int = MAX_ITER
    progress: Progress | None = None


def optimise(tree: Tree, rows: Rows, loss: Loss, step: Step, passes: Passes) -> Optimised:
    """Return the tree after passes from the deepest nodes up to the root, and then its leaves.

    With `step.monotone` no pass raises the objective; without, passes that end above the start are
    followed by passes from the start that do not. Nodes that rows do not reach, and leaves that
    none reaches, stay as they are.

    Notes
    -----
    Cost of a pass: each row walks to both sides of every node on its path, O(n depth²) tests, and
    the solvers. Memory: one integer for each row and level.
    """
    trainable = passes.nodes & (tree.kind != NodeKind.FIXED)
    depth = tree.depth
    paths = route(rows, tree)
    start = _look(0, tree, rows, loss, step, paths, 0).objective
    tree = leaf_step(tree, rows, loss, ~paths[-1], passes.leaves)
    weight = max(float(loss.weight.sum()), np.finfo(np.float64).tiny)
    statistics = _start(tree, trainable)
    history = [_look(0, tree, rows, loss, step, paths, 0)]
    first, best = tree, (tree, paths)
    before = least = history[0].objective
    if step.penalty and not step.monotone:
        least = np.inf  # the size of the first weights, which no machine chose, says nothing
    _tell(passes, history)
    for iteration in range(1, passes.max_iter + 1):
        statistics, changed = _start(tree, trainable), np.zeros(tree.n_nodes, bool)
        for level in range(int(depth.max(initial=-1)), -1, -1):
            at = paths[level]
            tree, moved = level_step(tree, rows, loss, at, trainable, step, statistics)
            changed |= moved
        paths = reroute(rows, tree, changed, paths)
        tree = leaf_step(tree, rows, loss, ~paths[-1], passes.leaves)
        look = _look(iteration, tree, rows, loss, step, paths, int(changed.sum()))
        gain, before = before - look.objective, look.objective
        if look.objective <= least:
            best, least = (tree, paths), look.objective
        history.append(look)
        _tell(passes, history)
        if changed.any() and gain >= passes.tol * weight:
            continue
        if step.monotone or best[0] is not first:
            break
        # Nothing that the free passes found is better than the start: go on from there with care.
        step, (tree, paths), before = replace(step, monotone=True), best, least
    if not np.isfinite(least):
        least = history[0].objective
    return Optimised(best[0], ~best[1][-1], least, tuple(history), statistics, start)


def _start(tree: Tree, trainable: Array) -> NodeStatistics:
    statistics = new_statistics(tree.n_nodes)
    statistics.verdict[~trainable] = Verdict.FIXED
    return statistics


def _look(
    iteration: int, tree: Tree, rows: Rows, loss: Loss, step: Step, paths: Array, accepted: int
) -> Iteration:
    every = np.arange(rows.n_rows)
    lost = float(loss.of(tree, rows, every, ~paths[-1]).sum())
    if step.svm.penalty == "l1":
        penalty = step.penalty * float(norms(tree, rows.scale).sum())
        return Iteration(iteration, lost + penalty, lost, penalty, accepted)
    squares = (tree.W.astype(np.float64) * rows.scale) ** 2
    return Iteration(iteration, lost, lost, float(squares.sum()) / (2 * step.svm.C), accepted)


def _tell(passes: Passes, history: list[Iteration]) -> None:
    if passes.progress is not None:
        passes.progress(history[-1])
