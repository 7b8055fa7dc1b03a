"""Leaves that are linear in x, added to sums from the exit leaves."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.runtime.predict.cpu.compiling import kernel
from bitvec.runtime.predict.cpu.kernel_arrays import constant


@kernel
def _sum_linear(
    X,
    exits,
    leaf_ptr,
    v,
    term_ptr,
    column,
    weight,
    base,
    zero_threshold,
    tree_weight,
    output,
    total,
):
    """Add each tree's linear leaves to `total`: in the dtype of v, then cast and weighted.

    |x| of at most `zero_threshold` counts as 0; a row with NaN in one of the leaf's columns takes
    the leaf's constant vector.
    """
    for tree in range(leaf_ptr.shape[0] - 1):
        for row in range(X.shape[0]):
            leaf = leaf_ptr[tree] + exits[row, tree]
            first, last = term_ptr[leaf], term_ptr[leaf + 1]
            constant_only = first == last
            for k in range(first, last):
                x = v.dtype.type(X[row, column[k]])
                constant_only |= x != x
            for width in range(v.shape[1]):
                value = v[leaf, width]
                if not constant_only:
                    value = base[leaf, width]
                    for k in range(first, last):
                        x = v.dtype.type(X[row, column[k]])
                        if zero_threshold > 0 and abs(x) <= zero_threshold:
                            x = v.dtype.type(0)
                        value += weight[k, width] * x
                score = total.dtype.type(value)
                if tree_weight.shape[0]:
                    score = tree_weight[tree] * score
                total[row, output[leaf] if output.shape[0] else width] += score


class LinearLeaves:
    """The linear leaves of a forest, ready to be added."""

    def __init__(self, forest: Forest) -> None:
        leaves, output = forest.leaves, forest.output
        linear = leaves.linear
        assert linear is not None
        weight, of_leaf = output.tree_weight, leaves.output
        self._arguments = (
            constant(forest.bitvectors.leaf_ptr),
            constant(leaves.v),
            constant(linear.leaf_ptr),
            constant(linear.column),
            constant(linear.weight),
            constant(linear.constant),
            leaves.v.dtype.type(linear.zero_threshold),
            constant(np.zeros(0, output.dtype) if weight is None else weight),
            constant(np.zeros(0, np.int32) if of_leaf is None else of_leaf),
        )

    def add(self, X: Array, exits: Array, total: Array) -> None:
        """Add to `total` the leaves that rows exit at; X is in the forest's dtype, contiguous."""
        _sum_linear(constant(X), constant(exits), *self._arguments, total)
