"""Forests as the operator TreeEnsemble (ai.onnx.ml, version 5).

The operator walks the trees; two ways lead from leaves to scores, and the forest decides:

* A leaf that adds one number to one output goes into the operator itself, which sums. On
  one thread onnxruntime 1.31 adds the trees in order, and raw scores equal the reference; on more
  it adds partial sums, and the last places may differ.
* Otherwise (vector leaves, minimum, maximum, linear leaves, or sums narrower than comparisons) the
  operator yields leaf numbers, one output per tree, and standard operators look the vectors up
  and sum them in the source's order. The operator's leaves hold one number each, so a forest of
  vectors would have to be repeated per output.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from bitvec.converters.onnx.branches import Branches
from bitvec.converters.onnx.operator_schema import (
    AGGREGATE_SUM,
    DOMAIN,
    ENSEMBLE,
    POST_TRANSFORM_NONE,
)
from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.operators import Graph, cast
from bitvec.core.graph.score_operators import finish, tree_output, weighted_leaves
from bitvec.core.output import Aggregate


def sums_in_operator(forest: Forest) -> bool:
    output, leaves = forest.output, forest.leaves
    return (
        leaves.linear is None
        and leaves.v.shape[1] == 1
        and (leaves.output is None or tree_output(forest) is not None)
        and output.aggregate in (Aggregate.SUM, Aggregate.MEAN)
        # The operator has one type; comparing in float64 and summing in float32 are two.
        and (forest.dtype == np.float32 or output.dtype == np.float64)
    )


def summed_in_operator(graph: Graph, forest: Forest, columns: str, nodes: Branches) -> str:
    """Append the raw score, (batch, n_outputs), summed by the operator."""
    output = forest.output
    weights = weighted_leaves(forest)[:, 0]
    named = tree_output(forest)
    per_tree = np.zeros(forest.n_trees, np.int64) if named is None else named
    targets = np.repeat(per_tree, np.diff(forest.bitvectors.leaf_ptr))
    if forest.dtype != output.dtype:  # float32 comparisons stay exact in float64
        columns = cast(graph, columns, output.dtype, "X_as_output")
    base = output.base_score if output.base_first else None
    total = _ensemble(
        graph, forest, columns, nodes, weights, targets, output.n_outputs, base, "score"
    )
    return finish(graph, forest, total)


def leaf_numbers(graph: Graph, forest: Forest, columns: str, nodes: Branches) -> str:
    """Append the exit leaves as numbers within each tree, int64, (batch, n_trees)."""
    sizes = np.diff(forest.bitvectors.leaf_ptr)
    number = np.arange(forest.n_leaves) - np.repeat(forest.bitvectors.leaf_ptr[:-1], sizes)
    tree = np.repeat(np.arange(forest.n_trees), sizes)
    weights = number.astype(forest.dtype)
    found = _ensemble(
        graph, forest, columns, nodes, weights, tree, forest.n_trees, None, "leaf_number"
    )
    return cast(graph, found, np.dtype(np.int64), "exit_leaf")


def _ensemble(
    graph: Graph,
    forest: Forest,
    columns: str,
    nodes: Branches,
    weights: Array,
    targets: Array,
    n_targets: int,
    base: Array | None,
    name: str,
) -> str:
    """Append one TreeEnsemble; `base` becomes single-leaf trees ahead of the others."""
    dtype = weights.dtype
    B = forest.bitvectors
    left, right = structure.children(B)
    true = np.where(nodes.true_right, right, left)
    false = np.where(nodes.true_right, left, right)
    roots = np.where(np.diff(B.leaf_ptr) > 1, B.node_ptr[:-1], ~B.leaf_ptr[:-1])
    if base is not None:
        added = B.n_leaves + np.arange(n_targets)
        roots = np.concatenate([~added, roots])
        weights = np.concatenate([weights, base])
        targets = np.concatenate([targets, np.arange(n_targets)])
    # A tree of one leaf is a node whose two branches are that leaf. These stand first, node and
    # leaf under one number: `onnx.reference` looks such a leaf up by the number of its node.
    alone = np.flatnonzero(roots < 0)
    first, unused = alone.size, _leaf_shift(true[roots[roots >= 0]], false[roots[roots >= 0]])
    constant = ~roots[alone]
    others = np.delete(np.arange(weights.size), constant)
    place = np.empty(weights.size, np.int64)
    place[constant] = np.arange(first)
    place[others] = np.arange(first + unused, unused + weights.size)
    true, false = (
        np.concatenate([~constant, side + first * (side >= 0)]) for side in (true, false)
    )
    roots = roots + first
    roots[alone] = np.arange(first)

    def beside(values: Array) -> Array:
        """Return what nodes hold, with zeros for those of constant trees."""
        return np.concatenate([np.zeros(first, values.dtype), values])

    def of_leaves(values: Array) -> Array:
        """Return what leaves hold, in their places."""
        placed = np.zeros(unused + weights.size, values.dtype)
        placed[place] = values
        return placed

    def child(side: Array) -> list[int]:
        numbers: list[int] = np.where(side < 0, place[~side], side).tolist()
        return numbers

    attributes: dict[str, Any] = {
        "n_targets": n_targets,
        "aggregate_function": AGGREGATE_SUM,
        "post_transform": POST_TRANSFORM_NONE,
        "tree_roots": roots.tolist(),
        "nodes_modes": beside(nodes.mode).astype(np.uint8),
        "nodes_featureids": beside(nodes.feature).tolist(),
        "nodes_splits": beside(nodes.split).astype(dtype),
        "nodes_missing_value_tracks_true": beside(nodes.missing_true).astype(np.int64).tolist(),
        "nodes_truenodeids": child(true),
        "nodes_trueleafs": (true < 0).astype(np.int64).tolist(),
        "nodes_falsenodeids": child(false),
        "nodes_falseleafs": (false < 0).astype(np.int64).tolist(),
        "leaf_weights": of_leaves(weights),
        "leaf_targetids": of_leaves(targets).tolist(),
    }
    if nodes.members.size:
        attributes["membership_values"] = nodes.members.astype(dtype)
    return graph.add(ENSEMBLE, columns, name=name, domain=DOMAIN, **attributes)


def _leaf_shift(true: Array, false: Array) -> int:
    """Return how many unused leaves to put first so that no root's leaf has its node's number.

    Some onnxruntime versions take a root for a tree of one leaf if its two children, a node and a
    leaf, have the same number (microsoft/onnxruntime#24679).
    """
    one_leaf = (true < 0) != (false < 0)
    node = np.where(true < 0, false, true)[one_leaf]
    leaf = ~np.where(true < 0, true, false)[one_leaf]
    taken = set((node - leaf).tolist())
    return next(shift for shift in itertools.count() if shift not in taken)
