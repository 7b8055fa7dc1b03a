"""The oracle of proofs: rows walked through a source's trees one by one, node by node."""

from __future__ import annotations

import numpy as np

from bitvec.core.reference import turns
from bitvec.verify.source_trees import SourceTrees


def exit_leaf(trees: SourceTrees, row: np.ndarray, tree: int) -> int:
    """Return the leaf, in the arrays of leaves, at which a row leaves a tree."""
    with np.errstate(over="ignore"):
        x = row.astype(trees.row_dtype)
        sentinel = trees.missing_sentinel
        sentinel = None if sentinel is None else float(trees.row_dtype.type(sentinel))
    child = int(trees.root[tree])
    while child >= 0:
        node = np.array([child])
        goes_right = turns(
            trees.tests, x.astype(trees.tests.dtype)[None], np.array([0]), node, sentinel
        )[0]
        child = int((trees.right if goes_right else trees.left)[child])
    return ~child


def exit_leaves(trees: SourceTrees, X: np.ndarray) -> np.ndarray:
    """Return the exit leaves of all rows in all trees, (n_rows, n_trees)."""
    n_trees = trees.root.size
    found = [[exit_leaf(trees, row, tree) for tree in range(n_trees)] for row in X]
    return np.array(found, np.int64).reshape(len(X), n_trees)


def leaf_ids(trees: SourceTrees, X: np.ndarray) -> np.ndarray:
    """Return the library's own leaf ids, as its `apply` does, (n_rows, n_trees)."""
    return trees.leaf_id[exit_leaves(trees, X)]
