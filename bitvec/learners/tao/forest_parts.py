"""One tree of a forest at a time, the others fixed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.reference.exit_leaf_sums import leaf_vectors
from bitvec.core.shape_annotations import Float64
from bitvec.learners.tao.forest_trees import fixed_outcomes, tree_of
from bitvec.learners.tao.node_step import NodeStatistics, Step
from bitvec.learners.tao.optimise import Optimised, Passes, optimise
from bitvec.learners.tao.score_losses import Link, ScoreLoss
from bitvec.learners.tao.tao_options import Choice
from bitvec.learners.tao.training_rows import Rows, make_rows, route
from bitvec.learners.tao.tree import NodeKind, Tree, as_oblique


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Setting that all trees of a forest share; fields as those of `ScoreLoss` and `optimise`."""

    loss: str
    link: Link | None
    y: Array
    weight: Float64[Array, " n_rows"]
    factor: Float64[Array, "n_trees n_outputs"]
    step: Step
    choice: Choice
    n_threads: int


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One tree of a forest.

    Parameters
    ----------
    forest : Forest
        Of this tree alone, as it was.
    number : int
        The tree's place.
    first_node, first_leaf : int
        Where its nodes and leaves begin.
    tree : Tree
        As it is.
    rows : Rows
        Without outcomes of fixed nodes, which `_with_outcomes` adds while the tree is looked at.
    X : F, (n_rows, n_features)
        What linear leaves read.
    has_moved : bool
    """

    forest: Forest
    number: int
    first_node: int
    first_leaf: int
    tree: Tree
    rows: Rows
    X: Array
    has_moved: bool = False


def parts_of(forest: Forest, Z: Array, X: Array, setting: Setting) -> list[Part]:
    """Return the trees of a forest; one copy of the rows serves all."""
    B = forest.bitvectors
    trees = [tree_of(alone) for alone in forest]
    is_axis = any(np.any(tree.kind == NodeKind.AXIS) for tree in trees)
    rows = make_rows(
        Z,
        setting.weight,
        n_threads=setting.n_threads,
        is_sorted=is_axis and not setting.step.is_oblique,
    )
    parts = []
    for number, (alone, tree) in enumerate(zip(forest, trees, strict=True)):
        first = int(B.node_ptr[number])
        if setting.step.is_oblique:
            tree = as_oblique(tree, setting.choice.nodes[first : first + tree.n_nodes])
        parts.append(Part(alone, number, first, int(B.leaf_ptr[number]), tree, rows, X))
    return parts


def _with_outcomes(part: Part) -> Rows:
    outcomes, place = fixed_outcomes(part.forest, part.tree.kind, part.rows.Z)
    return replace(part.rows, outcomes=outcomes, outcome_row=place)


def _loss(part: Part, setting: Setting, offset: Array) -> ScoreLoss:
    leaves = part.forest.leaves
    vectors = None
    if leaves.linear is not None:
        vectors = partial(_linear_vectors, part.forest, part.X)
    return ScoreLoss(
        setting.loss,
        setting.link,
        setting.y,
        setting.weight,
        offset,
        setting.factor[part.number],
        leaves.output,
        vectors,
    )


def _linear_vectors(forest: Forest, X: Array, which: Array, leaf: Array) -> Array:
    return leaf_vectors(forest, X[which], leaf)


def added(part: Part, setting: Setting) -> Float64[Array, "n_rows n_outputs"]:
    """Return what a tree adds to the raw score of each row."""
    rows = _with_outcomes(part)
    loss = _loss(part, setting, np.zeros((rows.n_rows, setting.factor.shape[1])))
    return loss.added(part.tree, np.arange(rows.n_rows), ~route(rows, part.tree)[-1])


def refined(
    part: Part, total: Float64[Array, "n_rows n_outputs"], setting: Setting
) -> tuple[Part, Float64[Array, "n_rows n_outputs"], Optimised]:
    """Return a tree after one pass, and the raw scores with it."""
    tree, rows = part.tree, _with_outcomes(part)
    offset = total - added(part, setting)
    loss = _loss(part, setting, offset)
    nodes = slice(part.first_node, part.first_node + tree.n_nodes)
    leaves = slice(part.first_leaf, part.first_leaf + tree.n_leaves)
    passes = Passes(
        nodes=setting.choice.nodes[nodes], leaves=setting.choice.leaves[leaves], max_iter=1
    )
    result = optimise(tree, rows, loss, setting.step, passes)
    if not result.history[-1].objective < result.start:
        return part, total, result
    moved = replace(part, tree=result.tree, has_moved=True)
    scores = offset + loss.added(result.tree, np.arange(rows.n_rows), result.leaf)
    return moved, scores, result


def note(statistics: NodeStatistics, first: int, own: NodeStatistics) -> None:
    """Fill in the statistics of a tree's nodes among those of the forest."""
    for field in fields(own):
        values = getattr(own, field.name)
        getattr(statistics, field.name)[first : first + values.size] = values
