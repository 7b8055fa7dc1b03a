"""Contributions of leaves to raw scores, in float64: values times tree weights, divided, scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import Aggregate
from bitvec.core.shape_annotations import Float, Int


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
