"""Soft forms of the exit leaf: memberships u with u >= 0 and one sum of 1 per tree; raw scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core import matrices, tree_paths
from bitvec.core.arrays import Array
from bitvec.core.directions import margins
from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind
from bitvec.core.reference.exit_leaf_forms import exit_leaves
from bitvec.core.reference.exit_leaf_sums import accumulate, combine, leaf_vectors
from bitvec.core.reference.node_outcomes import columns, hard_tests
from bitvec.core.shape_annotations import Bool, Float
from bitvec.core.structure import Bitvectors


def kernel_memberships(forest: Forest, X: Array) -> Float[Array, "batch n_leaves"]:
    """Return the probability that x' around x reaches each leaf, in float64.

    u_l(x) = prod over columns j of F_j(Hi_lj; x) − F_j(Lo_lj; x), over the leaf boxes that the
    kernel nodes span; every other node on the path, and a kernel node whose value is missing,
    counts 0 or 1. Exact for kernel nodes; in a mixed tree the other nodes see the unperturbed x.

    Notes
    -----
    Algorithm 2 of the Kernel Density Decision Tree paper, in its equivalent box form.
    """
    assert forest.kernel is not None
    Z = columns(forest, X)
    h = hard_tests(forest, Z)
    ptr, path_node, path_right = tree_paths.path_table(forest.bitvectors)
    is_kernel = forest.tests.kind == Kind.KERNEL
    feature = forest.tests.feature
    u = np.ones((len(Z), forest.n_leaves))
    for leaf in range(forest.n_leaves):
        bounds: dict[int, tuple[Array, Array]] = {}
        for node, right in zip(
            path_node[ptr[leaf] : ptr[leaf + 1]], path_right[ptr[leaf] : ptr[leaf + 1]], strict=True
        ):
            soft = np.zeros(len(Z), bool)
            if is_kernel[node]:
                soft = ~_is_missing_at(forest, Z, int(node))
                low, high = bounds.get(
                    int(feature[node]), (np.full(len(Z), -np.inf), np.full(len(Z), np.inf))
                )
                b = float(forest.tests.b[node])
                if right:
                    low = np.where(soft, np.maximum(low, b), low)
                else:
                    high = np.where(soft, np.minimum(high, b), high)
                bounds[int(feature[node])] = low, high
            u[:, leaf] *= soft | (h[:, node] == right)
        for column, (low, high) in bounds.items():
            kernel = forest.kernel[column]
            assert kernel is not None
            x = Z[:, column].astype(np.float64)
            unbounded = np.isneginf(low) & np.isposinf(high)
            mass = np.maximum(0.0, kernel.cdf(high, x) - kernel.cdf(low, x))
            u[:, leaf] *= np.where(unbounded, 1.0, mass)
    return u


def _is_missing_at(forest: Forest, Z: Array, node: int) -> Bool[Array, " batch"]:
    every = np.arange(len(Z))
    at = np.full(len(Z), node)
    return margins(forest.tests, Z, every, at, forest.inputs.missing_sentinel)[1]


def soft_vectors(forest: Forest, X: Array) -> list[Float[Array, "batch n_outputs"]]:
    """Return sum over leaves of u · v for each tree of a forest with a prediction kernel.

    A leaf of membership 0 adds nothing, not even where its linear terms are infinite.
    """
    X = np.asarray(X).astype(forest.dtype, copy=False)
    u = kernel_memberships(forest, X)
    hard = replace(forest, kernel=None)
    vectors = []
    for tree in range(forest.n_trees):
        total = np.zeros((len(X), forest.n_outputs))
        for leaf in range(forest.bitvectors.leaf_ptr[tree], forest.bitvectors.leaf_ptr[tree + 1]):
            vector = leaf_vectors(hard, X, np.full(len(X), leaf))
            target = slice(None)
            if forest.leaves.output is not None:
                target = slice(forest.leaves.output[leaf], forest.leaves.output[leaf] + 1)
            reached = u[:, leaf, None]
            total[:, target] += np.where(reached > 0, reached * vector, 0)
        vectors.append(total)
    return vectors


def sigmoid_memberships(
    B: Bitvectors, m: Float[Array, "batch n_nodes"], gamma: float = 1.0
) -> Float[Array, "batch n_leaves"]:
    """Return the path products of s = 1 / (1 + exp(−gamma · m)), from log s and log(1 − s)."""
    D = matrices.ternary(B)
    log_right, log_left = -np.logaddexp(0, -gamma * m), -np.logaddexp(0, gamma * m)
    return np.exp(log_right @ (D == 1).T + log_left @ (D == -1).T)


def raw(forest: Forest, X: Array) -> Float[Array, "batch n_outputs"]:
    """Return the raw score of every row: hard, or soft if the forest has a prediction kernel."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinite inputs and leaves are legal
        X = np.asarray(X).astype(forest.dtype, copy=False)
        if forest.kernel is None:
            return accumulate(forest, X, exit_leaves(forest, X))
        return combine(forest, soft_vectors(forest, X))
