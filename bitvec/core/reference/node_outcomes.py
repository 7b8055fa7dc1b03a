"""Outcomes of the tests of a forest, for rows of what S reads."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.directions import turns
from bitvec.core.forest import Forest
from bitvec.core.shape_annotations import Bool, Float, Int


def columns(forest: Forest, X: Array) -> Float[Array, "batch n_columns"]:
    """Return what S reads, X or φ(X), in the forest's dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        X = np.asarray(X).astype(forest.dtype, copy=False)
    return X if forest.feature_map is None else forest.feature_map(X)


def outcomes(
    forest: Forest,
    Z: Float[Array, "batch n_columns"],
    row: Int[Array, " n_pairs"],
    node: Int[Array, " n_pairs"],
) -> Bool[Array, " n_pairs"]:
    """Return h for pairs of a row of Z and a node: True goes right."""
    return turns(forest.tests, Z, row, node, forest.inputs.missing_sentinel)


def hard_tests(forest: Forest, Z: Float[Array, "batch n_columns"]) -> Bool[Array, "batch n_nodes"]:
    """Return h = σ(Sx − b) for every row and node."""
    row, node = np.divmod(np.arange(len(Z) * forest.n_nodes), max(forest.n_nodes, 1))
    return outcomes(forest, Z, row, node).reshape(len(Z), forest.n_nodes)
