"""Comparison of a forest with the sizes and the output that its source states."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.output import PostTransform
from bitvec.verify.certificates.difference import Difference
from bitvec.verify.source_trees import SourceTrees

BY_ROWS = {
    *("base_score", "tree_weight", "scale", "divisor", "aggregate", "classes", "post_transform"),
}
"""Fields of the output that rows compare where the library does not state them."""


def size_differences(forest: Forest, own: SourceTrees, trees: SourceTrees) -> list[Difference]:
    """Return differences in the numbers of trees, columns and outputs, and in dtypes of rows."""
    pairs: dict[str, tuple[Any, Any]] = {
        "{} trees": (trees.root.size, own.root.size),
        "{} features": (trees.n_features, own.n_features),
        "rows of {}": (trees.row_dtype, own.row_dtype),
        "leaves of width {}": (trees.v.shape[1], own.v.shape[1]),
    }
    if forest.n_outputs > 1:
        words = ("leaves for all outputs", "leaves for one output each")
        pairs["{}"] = words[trees.output is not None], words[own.output is not None]
    return [
        Difference("structure", 0, text.format(a), text.format(b), ())
        for text, (a, b) in pairs.items()
        if a != b
    ]


def stated_differences(forest: Forest, trees: SourceTrees) -> list[Difference]:
    """Compare what the library states of its output, bit by bit."""
    found = []
    stated_transform = trees.stated.get("post_transform", PostTransform.SOFTMAX)
    is_plain = {stated_transform, forest.output.post_transform} == {PostTransform.IDENTITY}
    for name, expected in trees.stated.items():
        if name == "softmax_sum" and is_plain:  # it names the exponential of all transforms
            continue
        got = getattr(forest.output, name)
        if _bits(expected) != _bits(got):
            texts = [f"{name} {_plain(value)!r}" for value in (expected, got)]
            found.append(Difference("structure", 0, texts[0], texts[1], ()))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value.tolist() if isinstance(value, np.ndarray) else value


def _bits(value: Any) -> Any:
    """Return what is equal for equal values of one kind: labels True, 1 and "1" are three."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (np.dtype, type)):
        return np.dtype(value).name
    if isinstance(value, tuple):
        return tuple(map(_bits, value))
    array = np.asarray(value)
    if array.dtype == object and all(isinstance(label, str) for label in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind in "iu":
        return "whole", array.shape, array.astype(np.int64).tobytes()
    if array.dtype.kind == "f":
        wide = array.astype(np.float64)
        return "number", array.shape, np.where(np.isnan(wide), np.nan, wide).tobytes()
    return array.dtype.kind, array.shape, array.tolist()
