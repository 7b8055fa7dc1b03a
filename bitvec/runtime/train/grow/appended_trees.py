"""New trees behind those of a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.joined_parts import joined_tests, joined_trees
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import (
    CodeRule,
    Kind,
    MissingRule,
    NodeTests,
    Relation,
    axis_aligned,
    set_bits,
)
from bitvec.core.source import retrained_source
from bitvec.core.structure import arrange
from bitvec.runtime.train.grow.column_bins import Bins


@dataclass(frozen=True, slots=True, eq=False)
class NewTree:
    """A tree as it was grown: see `histogram_kernels.Tree`.

    Parameters
    ----------
    feature, cut, left, right : int32, (n_nodes,)
    missing_right : bool, (n_nodes,)
    goes_right : bool, (n_nodes, MOST_BINS)
    value : float64, (n_leaves, width)
    output : int
        That its leaves add to, -1 for all.
    """

    feature: Array
    cut: Array
    left: Array
    right: Array
    missing_right: Array
    goes_right: Array
    value: Array
    output: int


def appended(forest: Forest, trees: Sequence[NewTree], bins: Bins) -> Forest:
    """Return a forest with new trees behind its own, each of the weight of a tree without one.

    The source keeps what it says of the model, but no ids and counts of nodes and leaves.
    """
    if not trees:
        return forest
    n_nodes = np.array([len(tree.feature) for tree in trees])
    n_leaves = np.array([len(tree.value) for tree in trees])
    node, leaf = np.cumsum(n_nodes) - n_nodes, np.cumsum(n_leaves) - n_leaves
    left, right = (
        np.concatenate(
            [
                np.where(side < 0, side - b, side + a)
                for side, a, b in zip([getattr(t, name) for t in trees], node, leaf, strict=True)
            ]
        )
        for name in ("left", "right")
    )
    if bins.others_right:
        turned = bins.is_set[np.concatenate([tree.feature for tree in trees])]
        left, right = np.where(turned, right, left), np.where(turned, left, right)
    B, order = arrange(left, right, np.where(n_nodes > 0, node, ~leaf))
    at = ~order.leaf
    v = np.concatenate([tree.value for tree in trees])[at]
    own, output = forest.leaves, None
    if own.output is not None:
        named = np.repeat([tree.output for tree in trees], n_leaves)[at].astype(np.int32)
        output = np.concatenate([own.output, named])
    return replace(
        forest,
        tests=joined_tests([forest.tests, _tests(trees, order.node, bins)]),
        bitvectors=joined_trees([forest.bitvectors, B]),
        leaves=Leaves(np.concatenate([own.v, v.astype(own.v.dtype)]), output),
        output=_output(forest, trees),
        source=without_ids(forest),
    )


def kept(forest: Forest, trees: Array) -> Forest:
    """Return the forest of some trees, whose iterations are counted anew."""
    if len(trees) == forest.n_trees:
        return forest
    found = forest.take(trees)
    output = found.output
    if output.iteration is not None:
        again = np.unique(output.iteration, return_inverse=True)[1].astype(np.int32)
        output = replace(output, iteration=again)
    return replace(found, output=output, source=without_ids(found))


def without_ids(forest: Forest) -> Any:
    """Return the source of a forest whose nodes and leaves are others."""
    source = retrained_source(forest.source)
    return None if source is None else replace(source, node_id=None, leaf_id=None)


def _output(forest: Forest, trees: Sequence[NewTree]) -> Any:
    output, n = forest.output, len(trees)
    weight, iteration = output.tree_weight, output.iteration
    if weight is not None:
        weight = np.concatenate([weight, np.ones(n, weight.dtype)])
    if iteration is not None:
        a_round = output.n_outputs if forest.leaves.output is not None else 1
        rounds = int(iteration.max(initial=-1)) + 1 + np.arange(n) // a_round
        iteration = np.concatenate([iteration, rounds.astype(np.int32)])
    return replace(output, tree_weight=weight, iteration=iteration)


def _tests(trees: Sequence[NewTree], order: Array, bins: Bins) -> NodeTests:
    feature, cut, missing_right, goes_right = (
        np.concatenate([getattr(tree, name) for tree in trees])[order]
        for name in ("feature", "cut", "missing_right", "goes_right")
    )
    is_set, cuts = bins.is_set[feature], [bins.cuts[column] for column in feature.tolist()]
    b = np.array([c[at] for c, at in zip(cuts, cut.tolist(), strict=True)], bins.forest.dtype)
    sets: dict[str, Any] = {}
    if bins.others_right:
        missing_right = missing_right ^ is_set
    if is_set.any():
        right = [
            c[chosen[: len(c)]].astype(np.int64) if s else np.zeros(0, np.int64)
            for s, c, chosen in zip(is_set, cuts, goes_right, strict=True)
        ]
        pointer, words = set_bits(right)
        sets = {"set_ptr": pointer, "set_words": words}
        if bins.others_right:
            sets = {"set_ptr": pointer, "set_words": ~words, "other_right": is_set}
    return axis_aligned(
        feature,
        np.where(is_set, 0, b).astype(b.dtype),
        relation=np.where(is_set, Relation.GREATER, bins.relation),
        missing_right=missing_right,
        missing_rule=np.where(is_set, MissingRule.NAN, bins.missing_rule[feature]),
        kind=np.where(is_set, Kind.SET, Kind.MARGIN),
        code_rule=np.where(is_set, bins.code_rule, CodeRule.EXACT),
        **sets,
    )
