"""The columns that a tree operator reads, where its own rule of missing values is not the node's.

The operators know NaN as missing. A column that a node reads by another rule, and the column of
every set, is read from a copy behind X: NaN where the rule says missing, and for a set the code, -1
where the value is none. Sets would not need that by the standard, but onnxruntime 1.31 truncates
2.5 to member 2. Where it could look NaN up as member 0, the copy holds -1 in its place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitvec.converters.onnx.branches import Branches
from bitvec.core.forest import Forest
from bitvec.core.graph.operators import Graph
from bitvec.core.node_tests import ZERO_THRESHOLD, CodeRule, Kind, MissingRule

_AS_IT_IS = 0
"""A column that no set reads; a set's is 1 + its CodeRule."""


def treated_columns(graph: Graph, forest: Forest, X: str, nodes: Branches) -> tuple[str, Branches]:
    """Append what the operator reads, (batch, n_columns), and return the nodes on its columns."""
    tests, dtype = forest.tests, forest.dtype
    sentinel = forest.inputs.missing_sentinel
    rule = tests.missing_rule.astype(np.int64)
    if sentinel is None:
        rule[rule == MissingRule.NAN_OR_SENTINEL] = MissingRule.NAN
    is_set = tests.kind == Kind.SET
    reading = np.where(is_set, 1 + tests.code_rule.astype(np.int64), _AS_IT_IS)
    feature = nodes.feature.copy()
    wanted = np.stack([rule, reading, feature, nodes.nan_is_code_0, nodes.turn], axis=1)
    copied = (rule != MissingRule.NAN) | is_set
    copies, which = np.unique(wanted[copied], axis=0, return_inverse=True)
    feature[copied] = forest.n_features + which.ravel()
    if not len(copies):
        return X, nodes
    x = graph.add("Gather", X, copies[:, 2], axis=1, name="column_copy")
    nan, zero = np.array(np.nan, dtype), np.zeros((), dtype)
    if np.any(copies[:, 0] == MissingRule.NAN_OR_ZERO):
        size = graph.add("Abs", x, name="magnitude")
        small = graph.add("LessOrEqual", size, np.array(ZERO_THRESHOLD, dtype), name="small")
        small = graph.add("And", small, copies[:, 0] == MissingRule.NAN_OR_ZERO, name="is_zero")
        x = graph.add("Where", small, nan, x, name="zero_as_missing")
    if np.any(copies[:, 0] == MissingRule.NAN_OR_SENTINEL):
        equal = graph.add("Equal", x, np.array(sentinel, dtype), name="equals_sentinel")
        marked = copies[:, 0] == MissingRule.NAN_OR_SENTINEL
        equal = graph.add("And", equal, marked, name="is_sentinel")
        x = graph.add("Where", equal, nan, x, name="sentinel_as_missing")
    if np.any(copies[:, 1] != _AS_IT_IS):
        negative = graph.add("Less", x, zero, name="is_negative")
        up, down = graph.add("Ceil", x, name="ceiling"), graph.add("Floor", x, name="floor")
        whole = graph.add("Where", negative, up, down, name="truncated")
        same = graph.add("Equal", x, whole, name="is_whole")
        nan_too = graph.add("IsNaN", x, name="is_missing")
        kept = graph.add("Or", same, nan_too, name="is_code_or_missing")
        exact = graph.add("Where", kept, x, np.array(-1, dtype), name="exact_code")
        truncating = copies[:, 1] == 1 + CodeRule.TRUNCATE
        code = graph.add("Where", truncating, whole, exact, name="code_or_truncated")
        flooring = copies[:, 1] == 1 + CodeRule.FLOOR
        code = graph.add("Where", flooring, down, code, name="code")
        x = graph.add("Where", copies[:, 1] != _AS_IT_IS, code, x, name="column_treated")
        if np.any(copies[:, 3]):
            no_code = graph.add("And", nan_too, copies[:, 3] != 0, name="missing_is_no_code")
            x = graph.add("Where", no_code, np.array(-1, dtype), x, name="column_without_nan")
    X = graph.add("Concat", X, x, axis=1, name="X_treated")
    return X, replace(nodes, feature=feature)
