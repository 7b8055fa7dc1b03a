"""The trees of a file that bitvec wrote in the form `tree_ensemble`, as its operator states them.

Columns beyond those of X are copies that operators prepare by rules of missing values and codes;
leaf vectors may stand in a table behind the operator. Both are found by the names of operators.
What becomes of leaf vectors is not read here: a certificate compares it on rows.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bitvec.converters.onnx.walker import attributes, by_ids, by_positions, dtypes_of, tests_of
from bitvec.core.arrays import Array
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, NodeTests
from bitvec.verify.source_trees import SourceTrees

_MOST_VALUES = 1 << 27
"""Numbers that dense leaf vectors may take."""


def exported_trees(model: Any) -> SourceTrees | None:
    """Return the trees of a file, or None if it states none.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
    """
    if isinstance(model, str | PathLike):
        model = Path(model).read_bytes()
    if isinstance(model, bytes):
        model = onnx.ModelProto.FromString(model)
    try:
        return _trees(model.graph)
    except (KeyError, IndexError, ValueError):
        return None  # the file was changed: answers to rows must tell


def _trees(graph: Any) -> SourceTrees | None:
    operators = {node.name: node for node in graph.node}
    node = operators.get("score", operators.get("leaf_number"))
    if node is None or not node.op_type.startswith("TreeEnsemble"):
        node = operators.get("leaf_number")
    if node is None or len(graph.input) != 1 or "leaf_fallback" in operators:
        return None
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in graph.initializer}
    given = attributes(node)
    read, row_dtype = dtypes_of(graph, node)
    is_5 = node.op_type == "TreeEnsemble"
    nodes = by_positions(given, read) if is_5 else by_ids(given, read)
    tests, left, right = tests_of(nodes)
    n_features = int(graph.input[0].type.tensor_type.shape.dim[1].dim_value)
    sentinel = constants.get("equals_sentinel.1")
    trees = SourceTrees(
        tests=_untreated(tests, constants, n_features),
        left=left,
        right=right,
        root=nodes.root,
        leaf_id=nodes.leaf_id,
        v=np.zeros((nodes.leaf_id.size, 1), read),
        row_dtype=row_dtype,
        n_features=n_features,
        missing_sentinel=None if sentinel is None else float(sentinel),
    )
    tree = trees.tree_of_leaf
    order = np.lexsort((nodes.leaf_id, tree))
    number = np.empty(tree.size, np.int64)
    number[order] = np.arange(tree.size) - np.searchsorted(tree[order], tree[order])
    if node.name == "score":
        if nodes.leaf_id.size * given["n_targets"] > _MOST_VALUES:
            return None
        v = np.zeros((nodes.leaf_id.size, given["n_targets"]), read)
        v[nodes.weight_leaf, nodes.weight_target] = nodes.weight
    else:
        held = np.zeros(nodes.leaf_id.size, np.int64)
        held[nodes.weight_leaf] = nodes.weight.astype(np.int64)
        v = constants["leaf_vector.0"][np.where(tree >= 0, constants["leaf.1"][tree] + held, 0)]
    return replace(trees, leaf_id=number, v=v)


def _untreated(tests: NodeTests, constants: dict[str, Array], n_features: int) -> NodeTests:
    """Return the tests on the columns of X, with the rules by which their copies were prepared."""
    copied = tests.column >= n_features
    if not np.any(copied):
        return tests
    source = constants["column_copy.1"]
    copy = np.where(copied, tests.column - n_features, 0)
    rules = np.zeros(source.size, np.uint8)
    rules[constants.get("is_zero.1", rules) != 0] = MissingRule.NAN_OR_ZERO
    rules[constants.get("is_sentinel.1", np.zeros(source.size)) != 0] = MissingRule.NAN_OR_SENTINEL
    codes = np.full(source.size, CodeRule.EXACT)
    codes[constants.get("code_or_truncated.0", np.zeros(source.size)) != 0] = CodeRule.TRUNCATE
    codes[constants.get("code.0", np.zeros(source.size)) != 0] = CodeRule.FLOOR
    reads_code = constants.get("column_treated.0", np.zeros(source.size)) != 0
    on_code = copied & reads_code[copy]
    # A set without members is a comparison with infinity, which codes and values answer alike.
    plain = on_code & (tests.kind != Kind.SET)
    if np.any(np.isfinite(tests.b[plain])) or np.any(tests.kind[plain] != Kind.MARGIN):
        raise ValueError("a column of codes must be read by sets only.")
    is_set = copied & (tests.kind == Kind.SET)
    # Such a copy holds -1 for a missing value, which goes left from a set, as no member of it.
    no_nan = constants.get("missing_is_no_code.1", np.zeros(source.size)) != 0
    to_left = copied & no_nan[copy]
    if np.any(to_left & ~is_set):
        raise ValueError("a copy without NaN must be read by sets only.")
    return replace(
        tests,
        column=np.where(copied, source[copy], tests.column).astype(np.int32),
        missing_rule=np.where(copied, rules[copy], tests.missing_rule),
        missing_right=tests.missing_right & ~to_left,
        code_rule=np.where(is_set, codes[copy], tests.code_rule).astype(np.uint8),
    )
