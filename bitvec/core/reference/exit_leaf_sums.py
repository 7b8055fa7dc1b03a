"""Sums of the exit leaves of a row, in the source's order and dtype."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Float, Int


def leaf_vectors(
    forest: Forest, X: Float[Array, "batch n_features"], leaf: Int[Array, " batch"]
) -> Float[Array, "batch width"]:
    """Return v at one leaf (of the forest) per row, linear terms included.

    The terms are added to the constant in the order of storage, in the dtype of v; a row with NaN
    in one of the leaf's columns takes the constant vector of v instead.
    """
    v, linear = forest.leaves.v, forest.leaves.linear
    if linear is None:
        return v[leaf]
    value = linear.constant[leaf]
    count = np.diff(linear.leaf_ptr)[leaf]
    missing = count == 0
    for k in range(int(count.max(initial=0))):
        at = np.flatnonzero(k < count)
        term = linear.leaf_ptr[leaf[at]] + k
        with np.errstate(invalid="ignore", over="ignore"):
            x = X[at, linear.column[term]].astype(v.dtype)
            if linear.zero_threshold:
                x[np.abs(x) <= v.dtype.type(linear.zero_threshold)] = 0
            value[at] += linear.weight[term] * x[:, None]
        missing[at] |= np.isnan(x)
    return np.where(missing[:, None], v[leaf], value)


def accumulate(
    forest: Forest, X: Float[Array, "batch n_features"], exits: Int[Array, "batch n_trees"]
) -> Float[Array, "batch n_outputs"]:
    """Combine the exit leaves of all trees into the raw score, in the source's order and dtype."""
    leaf = exits + forest.bitvectors.leaf_ptr[:-1]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite leaves are legal
        vectors = [leaf_vectors(forest, X, leaf[:, tree]) for tree in range(forest.n_trees)]
        return combine(forest, vectors, leaf)


def combine(
    forest: Forest,
    vectors: list[Float[Array, "batch width"]],
    leaf: Int[Array, "batch n_trees"] | None = None,
) -> Float[Array, "batch n_outputs"]:
    """Aggregate one vector per row and tree.

    `leaf` names the outputs of leaves that add to one only; without it, vectors are dense.
    """
    output, leaves = forest.output, forest.leaves
    n_rows = len(leaf) if leaf is not None else (len(vectors[0]) if vectors else 0)
    total = np.zeros((n_rows, output.n_outputs), output.dtype)
    if output.base_first:
        total[:] = output.base_score  # not added to 0, which would lose a base score of -0.0
    if output.aggregate is Aggregate.WEIGHTED_MEDIAN and vectors:
        dense = [_spread(forest, vector, leaf, tree) for tree, vector in enumerate(vectors)]
        total = _weighted_median(forest, np.stack(dense, axis=1))
    elif output.aggregate in (Aggregate.MIN, Aggregate.MAX):
        extreme = np.minimum if output.aggregate is Aggregate.MIN else np.maximum
        for tree, vector in enumerate(vectors):
            part = _spread(forest, vector, leaf, tree)
            total = part if tree == 0 else extreme(total, part)
    else:
        every = np.arange(n_rows)
        for tree, vector in enumerate(vectors):
            weighted = vector.astype(output.dtype, copy=False)
            if output.tree_weight is not None:
                weighted = output.tree_weight[tree] * weighted
            if leaves.output is None or leaf is None:
                total += weighted
            else:
                total[every, leaves.output[leaf[:, tree]]] += weighted[:, 0]
    return output.finish(total, len(vectors))


def _spread(forest: Forest, vector: Array, leaf: Array | None, tree: int) -> Array:
    vector = vector.astype(forest.output.dtype, copy=False)
    if forest.leaves.output is None or leaf is None:
        return vector
    dense = np.zeros((len(vector), forest.n_outputs), forest.output.dtype)
    dense[np.arange(len(vector)), forest.leaves.output[leaf[:, tree]]] = vector[:, 0]
    return dense


def _weighted_median(
    forest: Forest, vectors: Float[Array, "batch n_trees n_outputs"]
) -> Float[Array, "batch n_outputs"]:
    weight = forest.output.tree_weight
    assert weight is not None
    order = np.argsort(vectors, axis=1, kind="stable")
    cumulative = np.cumsum(weight[order], axis=1)
    reached = cumulative >= 0.5 * cumulative[:, -1:]
    pick = np.take_along_axis(order, reached.argmax(axis=1)[:, None], axis=1)
    return np.take_along_axis(vectors, pick, axis=1)[:, 0]
