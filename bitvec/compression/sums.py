"""Weighted sums of forests as one forest: trees stand side by side, leaves are multiplied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.leaves import Leaves
from bitvec.core.node_tests import NodeTests
from bitvec.core.structure import Bitvectors

_POINTERS = ("node_ptr", "row_ptr", "set_ptr")
_ABSENT = {"substitute": np.nan, "indicator": -1}


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
    B = [one.bitvectors for one in forests]
    output = None
    if first.leaves.output is not None:
        output = np.concatenate([one.leaves.output for one in forests])
    return replace(
        first,
        tests=_tests([one.tests for one in forests]),
        bitvectors=Bitvectors(
            np.concatenate([one.lo for one in B]),
            np.concatenate([one.mid for one in B]),
            np.concatenate([one.hi for one in B]),
            _chained([one.leaf_ptr for one in B]),
        ),
        leaves=Leaves(np.concatenate(v), output),
        output=replace(
            first.output,
            base_score=np.asarray(base).astype(first.output.base_score.dtype),
            iteration=None,
        ),
        source=None,
    )


def _tests(parts: Sequence[NodeTests]) -> NodeTests:
    """Return the nodes of all, one part after the other."""
    found: dict[str, Any] = {}
    for field in fields(NodeTests):
        arrays = [getattr(one, field.name) for one in parts]
        if field.name in _POINTERS:
            found[field.name] = _chained(arrays)
        elif all(array is None for array in arrays):
            found[field.name] = None
        else:
            absent = _ABSENT.get(field.name)
            found[field.name] = np.concatenate(
                [
                    np.full(one.column.shape, absent) if array is None else array
                    for one, array in zip(parts, arrays, strict=True)
                ]
            ).astype(next(array.dtype for array in arrays if array is not None))
    return NodeTests(**found)


def _chained(pointers: Sequence[Array]) -> Array:
    """Return the offsets of parts that stand one after the other."""
    counts = np.concatenate([np.diff(one) for one in pointers])
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
