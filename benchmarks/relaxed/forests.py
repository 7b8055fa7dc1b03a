"""Complete trees of one depth, and rows for them."""

from __future__ import annotations

import numpy as np

from bitvec.core import structure
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import axis_aligned
from bitvec.core.output import Output

COLUMNS = 32
BATCH = 1024


def complete(n_trees: int, depth: int, seed: int = 0) -> Forest:
    """Return complete trees of one depth with drawn tests and leaves, in float32."""
    rng = np.random.default_rng(seed)
    n, n_leaves = 2**depth - 1, 2**depth
    node, tree = np.arange(n), np.arange(n_trees)[:, None]
    left, right = (
        np.where(child < n, tree * n + child, ~(tree * n_leaves + child - n)).ravel()
        for child in (2 * node + 1, 2 * node + 2)
    )
    B = structure.arrange(left, right, tree[:, 0] * n)[0]
    tests = axis_aligned(
        rng.integers(0, COLUMNS, B.n_nodes), rng.normal(size=B.n_nodes).astype(np.float32)
    )
    v = rng.normal(size=(B.n_leaves, 1)).astype(np.float32)
    return Forest(tests, B, Leaves(v), Output(1, np.dtype(np.float32)), Inputs(COLUMNS))


def rows(seed: int = 1) -> Array:
    """Return normally distributed rows."""
    return np.random.default_rng(seed).normal(size=(BATCH, COLUMNS)).astype(np.float32)
