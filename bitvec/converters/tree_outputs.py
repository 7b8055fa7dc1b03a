"""Output that each tree adds to, for formats that say so of trees and not of leaves."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest


def output_of_tree(forest: Forest) -> Int64[Array, " n_trees"] | None:
    """Return the output that each tree adds to; 0 where it adds to all.

    None if the leaves of some tree name several outputs.
    """
    named = forest.leaves.output
    if named is None:
        return np.zeros(forest.n_trees, np.int64)
    leaf_ptr = forest.bitvectors.leaf_ptr
    first = named[leaf_ptr[:-1]].astype(np.int64)
    return first if np.array_equal(np.repeat(first, np.diff(leaf_ptr)), named) else None
