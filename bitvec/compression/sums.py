"""Weighted sums of forests as one forest: trees stand side by side, leaves are multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.joined_parts import joined_tests, joined_trees
from bitvec.core.leaves import Leaves


def weighted_sum(forests: Sequence[Forest], weights: Sequence[float]) -> Forest:
    """Return the forest whose raw score is the weighted sum of those of some forests.

    Parameters
    ----------
    forests : sequence of Forest
        Sums of constant leaves, with leaves and links of one form.
    weights : sequence of float

    Examples
    --------
    >>> from bitvec.runtime.predict.predictor import compile
    >>> stump = Forest.from_matrices([[1]], [0], [[0], [1]], [1.0, 3.0])
    >>> compile(weighted_sum([stump, stump], [0.5, 2.0])).raw([[-1.0], [1.0]]).ravel().tolist()
    [2.5, 7.5]
    """
    first = forests[0]
    v = [
        (one.leaves.v * weight).astype(first.leaves.v.dtype)
        for one, weight in zip(forests, weights, strict=True)
    ]
    base = sum(
        weight * one.output.base_score.astype(np.float64)
        for one, weight in zip(forests, weights, strict=True)
    )
    output = None
    if first.leaves.output is not None:
        output = np.concatenate([one.leaves.output for one in forests])
    return replace(
        first,
        tests=joined_tests([one.tests for one in forests]),
        bitvectors=joined_trees([one.bitvectors for one in forests]),
        leaves=Leaves(np.concatenate(v), output),
        output=replace(
            first.output,
            base_score=np.asarray(base).astype(first.output.base_score.dtype),
            iteration=None,
        ),
        source=None,
    )
