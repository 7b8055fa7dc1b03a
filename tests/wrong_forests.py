"""Forests that are wrong in one field of the first node or leaf, or in what is said of the sum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitvec.core.forest import Forest
from bitvec.core.node_tests import Kind


def wrong(forest: Forest, *, missing: bool) -> dict[str, Forest]:
    """Return wrong forests by what is wrong; `missing` says whether rows may hold NaN."""
    tests, output, found = forest.tests, forest.output, {}

    def put(part: Any, name: str, value: Any, at: Any = 0) -> Any:
        array = getattr(part, name).copy()
        array[at] = value
        return replace(part, **{name: array})

    if forest.n_nodes:
        if forest.n_features > 1:
            column = (tests.column[0] + 1) % forest.n_features
            found["column"] = replace(forest, tests=put(tests, "column", column))
        if missing and tests.feature[0] >= 0:
            other = put(tests, "missing_right", not tests.missing_right[0])
            found["missing side"] = replace(forest, tests=other)
        if tests.kind[0] == Kind.SET:
            other = put(tests, "set_words", tests.set_words[0] ^ np.uint32(1))
            found["set bit"] = replace(forest, tests=other)
        elif np.isfinite(tests.b[0]):
            above = np.nextafter(tests.b[0], tests.dtype.type(np.inf))
            found["threshold by one ulp"] = replace(forest, tests=put(tests, "b", above))
    v = np.nextafter(forest.leaves.v[0, 0], forest.leaves.v.dtype.type(np.inf))
    found["leaf by one ulp"] = replace(forest, leaves=put(forest.leaves, "v", v, (0, 0)))
    base = np.nextafter(output.base_score[0], output.base_score.dtype.type(np.inf))
    found["base score by one ulp"] = replace(forest, output=put(output, "base_score", base))
    if output.tree_weight is not None:
        weight = np.nextafter(output.tree_weight[0], np.inf)
        found["tree weight by one ulp"] = replace(forest, output=put(output, "tree_weight", weight))
    if output.classes is not None:
        turned = (output.classes[0][::-1], *output.classes[1:])
        found["labels"] = replace(forest, output=replace(output, classes=turned))
    if forest.n_trees > 1:
        found["order of trees"] = forest.take([1, 0, *range(2, forest.n_trees)])
    return found
