"""The node step: the reduced problems of all nodes of a depth, solved side by side.

For the rows that reach a node, e_L and e_R are what each would cost on the left and on the right
side, down the present subtrees. The objective is a constant plus the sum over rows whose sides
differ, the care rows, of |e_L − e_R| where the test sends the row to the worse side, plus the
node's own penalty: exactly, whatever else the tree is (the reduced problem of "Alternating
optimization of decision trees", Carreira-Perpiñán and Tavallali, 2018).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.shape_annotations import Bool, Float64, Int64
from bitvec.learners.tao.axis_solver import best_axis_test
from bitvec.learners.tao.candidates import Candidate, holds, stump, with_tests
from bitvec.learners.tao.losses import ROUNDING, Loss
from bitvec.learners.tao.oblique_solver import Svm, best_oblique_test
from bitvec.learners.tao.training_rows import Rows, sides, turns
from bitvec.learners.tao.tree import NodeKind, Tree, Walk
from bitvec.runtime.predict.threads import for_each_block


class Verdict(IntEnum):
    """Outcome of a pass for a node."""

    FIXED = 0
    """It may not move."""
    UNREACHED = 1
    """No row reaches it."""
    NO_CARE = 2
    """Both sides cost every row of it the same."""
    NO_TEST = 3
    """The solver found no test that the tree can hold."""
    NOT_BETTER = 4
    """The test that was found would have raised the reduced objective, or left it."""
    ACCEPTED = 5


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """The reduced problem of a node.

    Parameters
    ----------
    n_rows : int
        Rows that reach the node.
    care : int64, (n_care,)
    target : bool, (n_care,)
        Whether the right side costs less.
    weight : float64, (n_care,)
        By how much.
    """

    n_rows: int
    care: Int64[Array, " n_care"]
    target: Bool[Array, " n_care"]
    weight: Float64[Array, " n_care"]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Options of moving nodes.

    Parameters
    ----------
    is_oblique : bool
        Whether axis-aligned nodes turn oblique; nodes that are oblique stay so either way.
    monotone : bool
        Accept a test only if it does not raise the reduced objective; else whatever is found at an
        oblique node, as the supplement of the paper does.
    svm : Svm
    penalty : float
        What Σ |w_j| · scale_j of each oblique node counts; 0 unless the penalty is "l1".
    """

    is_oblique: bool
    monotone: bool
    svm: Svm
    penalty: float


@dataclass(frozen=True, slots=True, eq=False)
class NodeStatistics:
    """The reduced problems of the nodes, as they were last looked at.

    Parameters
    ----------
    n_rows, n_care : int64, (n_nodes,)
        Rows that reach the node, and care rows among them.
    before, after : float64, (n_nodes,)
        The weight that the test misroutes, with the node's penalty: as the node was found, and as
        it was left.
    verdict : uint8, (n_nodes,)
        A `Verdict`.
    """

    n_rows: Int64[Array, " n_nodes"]
    n_care: Int64[Array, " n_nodes"]
    before: Float64[Array, " n_nodes"]
    after: Float64[Array, " n_nodes"]
    verdict: Array


def new_statistics(n_nodes: int) -> NodeStatistics:
    """Return statistics of nodes that have not been looked at."""
    return NodeStatistics(
        np.zeros(n_nodes, np.int64),
        np.zeros(n_nodes, np.int64),
        np.zeros(n_nodes),
        np.zeros(n_nodes),
        np.full(n_nodes, Verdict.UNREACHED, np.uint8),
    )


def norms(tree: Tree, scale: Float64[Array, " n_features"]) -> Float64[Array, " n_nodes"]:
    """Return Σ |w_j| · scale_j of each oblique node, 0 at others."""
    if not len(tree.W):
        return np.zeros(tree.n_nodes)
    size: Array = np.abs(tree.W.astype(np.float64)) @ scale
    return np.where(tree.kind == NodeKind.OBLIQUE, size, 0.0)


def reduced_problems(
    tree: Tree,
    rows: Rows,
    loss: Loss,
    at: Int64[Array, " n_rows"],
    trainable: Bool[Array, " n_nodes"],
) -> dict[int, Reduced]:
    """Return the reduced problem of each node of a depth that may move and that rows reach.

    Parameters
    ----------
    at : int64, (n_rows,)
        What each row is at at this depth: a node, or ~leaf.
    """
    which = np.flatnonzero(at >= 0)
    which = which[trainable[at[which]]]
    which = which[np.argsort(at[which], kind="stable")]
    node = at[which]
    left, right = sides(rows, tree, which, node)
    e_left, e_right = loss.of(tree, rows, which, left), loss.of(tree, rows, which, right)
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    ends = np.append(starts, node.size)[1:]
    result = {}
    for start, end in zip(starts, ends, strict=True):
        part = slice(start, end)
        gap = e_left[part] - e_right[part]
        cares = gap != 0
        result[int(node[start])] = Reduced(
            int(end - start), which[part][cares], gap[cares] > 0, np.abs(gap[cares])
        )
    return result


def misrouted(walk: Walk, rows: Rows, node: int, problem: Reduced) -> float:
    """Return the weight of care rows that a node sends to the worse side."""
    goes_right = turns(walk, rows, problem.care, node)
    return float(problem.weight[goes_right != problem.target].sum())


def level_step(
    tree: Tree,
    rows: Rows,
    loss: Loss,
    at: Int64[Array, " n_rows"],
    trainable: Bool[Array, " n_nodes"],
    step: Step,
    statistics: NodeStatistics,
) -> tuple[Tree, Bool[Array, " n_nodes"]]:
    """Return the tree with better tests at the nodes of one depth, and which nodes changed.

    The nodes share no row, so that their reduced problems add up: they are solved by several
    threads, and the result depends on neither their number nor their order. Fills in `statistics`.
    """
    problems = reduced_problems(tree, rows, loss, at, trainable)
    nodes = sorted(problems, key=lambda node: (-problems[node].care.size, node))
    penalty = step.penalty * norms(tree, rows.scale)
    chosen: dict[int, Candidate] = {}
    walk = rows.walk(tree)

    def work(part: slice) -> None:
        for node in nodes[part]:
            test = _solved(tree, walk, rows, node, problems[node], step, penalty[node], statistics)
            if test is not None:
                chosen[node] = test

    with warnings.catch_warnings():
        # A machine that is not quite done is a candidate like any other.
        warnings.filterwarnings("ignore", message="Liblinear failed to converge")
        for_each_block(work, len(nodes), block=1, n_threads=rows.n_threads)
    changed = np.zeros(tree.n_nodes, bool)
    changed[list(chosen)] = True
    return with_tests(tree, chosen), changed


def _solved(
    tree: Tree,
    walk: Walk,
    rows: Rows,
    node: int,
    problem: Reduced,
    step: Step,
    penalty: float,
    statistics: NodeStatistics,
) -> Candidate | None:
    """Return the test that a node is to take, or None where it stays as it is."""
    statistics.n_rows[node], statistics.n_care[node] = problem.n_rows, problem.care.size
    statistics.before[node] = statistics.after[node] = penalty
    statistics.verdict[node] = Verdict.NO_CARE
    if not problem.care.size:
        return None
    before = misrouted(walk, rows, node, problem) + penalty
    statistics.before[node] = statistics.after[node] = before
    statistics.verdict[node] = Verdict.NO_TEST
    given = (tree, rows, node, problem.care, problem.target, problem.weight)
    is_axis = tree.kind[node] == NodeKind.AXIS and not step.is_oblique
    test = best_axis_test(*given) if is_axis else best_oblique_test(*given, step.svm)
    if test is None:
        return None
    size = 0.0 if test.w is None else float(np.abs(test.w.astype(np.float64)) @ rows.scale)
    after = misrouted(stump(tree, node, test), rows, 0, problem) + step.penalty * size
    if is_axis:
        # Strictly: a pass that changes nothing is the last one.
        accepted = after < before - ROUNDING * float(problem.weight.sum())
    else:
        accepted = after <= before or not step.monotone
    statistics.verdict[node] = Verdict.ACCEPTED if accepted else Verdict.NOT_BETTER
    if not accepted:
        return None
    statistics.after[node] = after
    return None if holds(tree, node, test) else test
