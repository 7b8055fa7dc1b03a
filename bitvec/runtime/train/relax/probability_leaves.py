"""Leaves that hold class probabilities, as those of random forests do."""

from __future__ import annotations

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform

ROUNDING = 1e-5
"""By how much probabilities may differ from a sum of 1, or lie outside of [0, 1]."""


def groups(forest: Forest) -> tuple[slice, ...] | None:
    """Return the outputs of each group if every leaf holds class probabilities, else None.

    A group of one output holds the probability of the second of two classes.
    """
    output, leaves = forest.output, forest.leaves
    plain = output.post_transform in (PostTransform.IDENTITY, PostTransform.AT_MOST_ONE)
    if not (output.is_classifier and plain) or leaves.output is not None:
        return None
    if leaves.linear is not None or (output.n_outputs == 1 and output.second_above != 0.5):
        return None
    ends = np.cumsum(output.groups)
    parts = tuple(
        slice(int(end) - size, int(end)) for end, size in zip(ends, output.groups, strict=True)
    )
    return parts if all(_are_probabilities(leaves.v[:, part]) for part in parts) else None


def _are_probabilities(v: Array) -> bool:
    if v.shape[1] == 1:
        return bool(np.all((v >= -ROUNDING) & (v <= 1 + ROUNDING)))
    return are_distributions(v)


def are_distributions(v: Array) -> bool:
    """Return whether each leaf vector, (n_leaves, width), holds probabilities that sum to 1."""
    total = v.sum(axis=1, dtype=np.float64)
    return bool(v.shape[1] > 1 and np.all(v >= 0) and np.all(np.abs(total - 1) < ROUNDING))


def has_probability_leaves(forest: Forest) -> bool:
    """Return whether every leaf holds class probabilities of one group, which sum to 1."""
    return forest.n_outputs > 1 and len(groups(forest) or ()) == 1
