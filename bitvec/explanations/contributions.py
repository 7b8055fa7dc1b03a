"""Contributions of leaves to raw scores, in float64: values times tree weights, divided, scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Float, Float64, Int
from bitvec.runtime.predict.cpu.kernel_arrays import constant


def leaf_contributions(forest: Forest) -> Float[Array, "n_leaves width"]:
    """Return what each leaf adds to its outputs, float64, in the width of `forest.leaves.v`.

    The reached leaves' contributions and the base score sum to the raw score, but for the
    roundings of the dtype in which the source library sums.
    """
    output, leaves = forest.output, forest.leaves
    value = leaves.v.astype(np.float64)
    if output.tree_weight is not None:
        weight = output.tree_weight.astype(np.float64)
        value *= np.repeat(weight, np.diff(forest.bitvectors.leaf_ptr))[:, None]
    factor = np.ones(forest.n_outputs)
    if output.aggregate is Aggregate.MEAN and forest.n_trees:
        factor /= forest.n_trees if output.divisor is None else output.divisor
    if output.scale is not None:
        factor *= output.scale
    return value * (factor if leaves.output is None else factor[leaves.output][:, None])


def in_float64(forest: Forest) -> Forest:
    """Return the forest with leaves in float64, and so added, averaged or compared in it."""
    wide, leaves, output = np.dtype(np.float64), forest.leaves, forest.output

    def cast(part: Any, names: tuple[str, ...], **others: Any) -> Any:
        given = {name: getattr(part, name) for name in names}
        cast = {name: old.astype(wide) for name, old in given.items() if old is not None}
        return replace(part, **cast, **others)

    linear = None if leaves.linear is None else cast(leaves.linear, ("weight", "constant"))
    numbers = ("base_score", "scale", "tree_weight", "divisor")
    return replace(
        forest,
        leaves=cast(leaves, ("v",), linear=linear),
        output=cast(output, numbers, dtype=wide),
    )


def contribution_sums(
    forest: Forest, exits: Int[Array, "batch n_trees"]
) -> Float[Array, "batch n_outputs"]:
    """Return base score plus contributions of exit leaves, numbered within their trees."""
    value = leaf_contributions(forest)
    total = np.tile(forest.output.base_score.astype(np.float64), (len(exits), 1))
    every = np.arange(len(exits))
    for leaf in (exits + forest.bitvectors.leaf_ptr[:-1]).T:
        if forest.leaves.output is None:
            total += value[leaf]
        else:
            total[every, forest.leaves.output[leaf]] += value[leaf, 0]
    return total


class TreeOutputs(NamedTuple):
    """The outputs that trees add to, and the contributions of leaves to these, as kernels take it.

    Parameters
    ----------
    output_ptr : int64, (n_trees + 1,)
    output : int64
        The outputs of each tree.
    value_at : int64, (n_leaves,)
        Where the contributions of a leaf begin in `value`, one for each output of its tree.
    value : float64
    """

    output_ptr: Any
    output: Any
    value_at: Any
    value: Any

    @property
    def most(self) -> int:
        """The outputs of the tree that has most."""
        return int(np.diff(self.output_ptr).max(initial=0))


def tree_outputs(forest: Forest) -> TreeOutputs:
    """Return the outputs of the trees of a forest."""
    value, n_outputs = leaf_contributions(forest), forest.n_outputs
    leaf_ptr, named = forest.bitvectors.leaf_ptr, forest.leaves.output
    if named is None:
        every = np.tile(np.arange(n_outputs), forest.n_trees)
        ptr = np.arange(forest.n_trees + 1) * n_outputs
        value_at = np.arange(forest.n_leaves) * n_outputs
        return TreeOutputs(*map(constant, (ptr, every, value_at, value.ravel())))
    tree = np.repeat(np.arange(forest.n_trees), np.diff(leaf_ptr))
    pairs, which = np.unique(tree * n_outputs + named, return_inverse=True)
    output_ptr = np.searchsorted(pairs, np.arange(forest.n_trees + 1) * n_outputs)
    width = np.diff(output_ptr)[tree]
    value_at = np.cumsum(width) - width
    spread = np.zeros(int(width.sum()))
    spread[value_at + which.ravel() - output_ptr[tree]] = value[:, 0]
    return TreeOutputs(*map(constant, (output_ptr, pairs % n_outputs, value_at, spread)))


def centred(
    forest: Forest, outputs: TreeOutputs, reached: Float64[Array, " n_leaves"]
) -> tuple[TreeOutputs, Float64[Array, " n_outputs"]]:
    """Return contributions less their mean over each tree, by cover, and the sums of these means.

    Values are of differences between leaves alone, which keep their digits so in float32.
    """
    B = forest.bitvectors
    tree = np.repeat(np.arange(forest.n_trees), np.diff(B.leaf_ptr))
    width = np.diff(outputs.output_ptr)[tree]
    leaf = np.repeat(np.arange(forest.n_leaves), width)
    at = outputs.output_ptr[tree][leaf] + np.arange(leaf.size) - outputs.value_at[leaf]
    mean = np.bincount(at, reached[leaf] * outputs.value, outputs.output.size)
    total = np.bincount(outputs.output, mean, forest.n_outputs)
    return outputs._replace(value=constant(outputs.value - mean[at])), total
