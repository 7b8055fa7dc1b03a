"""Tests and trees of several forests, one part after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.node_tests import NodeTests
from bitvec.core.structure import Bitvectors

_POINTERS: Final = ("node_ptr", "row_ptr", "set_ptr")
_ABSENT: Final = {"substitute": np.nan, "indicator": -1}
"""Values of entries in a part that has no such array: they read x itself."""


def joined_tests(parts: Sequence[NodeTests]) -> NodeTests:
    """Return the nodes of all parts, in the dtype of the first."""
    joined: dict[str, Any] = {}
    for field in fields(NodeTests):
        arrays = [getattr(part, field.name) for part in parts]
        known = [array for array in arrays if array is not None]
        if field.name in _POINTERS:
            joined[field.name] = _chained(arrays)
        elif known:
            found = [
                np.full(part.column.size, _ABSENT[field.name]) if array is None else array
                for part, array in zip(parts, arrays, strict=True)
            ]
            joined[field.name] = np.concatenate(found).astype(known[0].dtype, copy=False)
    return NodeTests(**joined)


def joined_trees(parts: Sequence[Bitvectors]) -> Bitvectors:
    """Return the trees of all parts."""
    lo, mid, hi = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("lo", "mid", "hi")
    )
    return Bitvectors(lo, mid, hi, _chained([part.leaf_ptr for part in parts]))


def _chained(pointers: Sequence[Array]) -> Array:
    """Return the offsets of parts that stand one after the other."""
    counts = np.concatenate([np.diff(one) for one in pointers])
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
