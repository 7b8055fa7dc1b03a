"""Base scores as trees of one leaf, for formats that cannot state them where they are added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.structure import Bitvectors


def base_as_trees(forest: Forest) -> Forest:
    """Return a forest whose base score is an iteration of constant trees, where it was added.

    A sum that begins with the base score now begins with these trees, and one that ends with it
    ends with them: the same numbers are added in the same order, from 0.

    Parameters
    ----------
    forest : Forest
        A sum of trees with constant leaves, whose base score is of the dtype of the sum.
    """
    output, leaves, B, source = forest.output, forest.leaves, forest.bitvectors, forest.source
    base = output.base_score
    base = base.astype(leaves.v.dtype)
    v = base[None, :] if leaves.output is None else base[:, None]
    count = len(v)
    first = output.base_first

    def beside(constants: Array, values: Array) -> Array:
        return np.concatenate([constants, values] if first else [values, constants])

    iteration = output.iteration
    if iteration is not None:
        last = int(iteration.max(initial=-1)) + 1
        own = np.full(count, 0 if first else last, np.int32)
        iteration = beside(own, iteration + np.int32(first))
    if source is not None:
        zeros = np.zeros(count)
        source = replace(
            source,
            leaf_id=None if source.leaf_id is None else beside(zeros.astype(int), source.leaf_id),
            leaf_cover=None if source.leaf_cover is None else beside(zeros, source.leaf_cover),
        )
    sizes = beside(np.ones(count, np.int64), np.diff(B.leaf_ptr))
    named = leaves.output
    return replace(
        forest,
        bitvectors=Bitvectors(
            B.lo, B.mid, B.hi, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        ),
        leaves=Leaves(
            beside(v, leaves.v),
            None if named is None else beside(np.arange(count, dtype=np.int32), named),
        ),
        output=replace(
            output,
            base_score=np.zeros_like(base),
            iteration=iteration,
            tree_weight=None
            if output.tree_weight is None
            else beside(np.ones(count, output.dtype), output.tree_weight),
        ),
        source=source,
    )
