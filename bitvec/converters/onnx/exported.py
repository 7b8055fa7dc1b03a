"""ONNX files that bitvec wrote in the form `tree_ensemble`, read back as the forest they hold.

Such a file has operators around the trees: columns prepared for missing rules and category codes,
leaf vectors looked up and summed, answers. Their constants are taken by the names that the writer
gives, and the forest made of them is written once more: only if that gives the same graph, operator
for operator and byte for byte, is the forest what the file computes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from bitvec.converters.onnx.exported_answers import answers, candidates
from bitvec.converters.onnx.file import attributes, tensor, text
from bitvec.converters.onnx.operator import Operator, read_by_positions
from bitvec.converters.onnx.operator_schema import ENSEMBLE, Mode
from bitvec.converters.onnx.stored_inputs import stored_inputs
from bitvec.converters.onnx.trees import Trees, trees_of
from bitvec.converters.onnx.write import FORM, to_onnx
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.node_tests import CodeRule, Kind, MissingRule, NodeTests
from bitvec.core.source import Source
from bitvec.errors import BitvecError, InvalidForestError, UnsupportedModelError

_DTYPES: dict[int, np.dtype[Any]] = {
    onnx.TensorProto.FLOAT: np.dtype(np.float32),
    onnx.TensorProto.DOUBLE: np.dtype(np.float64),
}


@dataclass(frozen=True, slots=True)
class Parts:
    """A graph of the writer's by names: operators, constants as arrays, outputs."""

    operators: dict[str, Any]
    constants: dict[str, Array]
    outputs: dict[str, Any]


def form_of(message: Any) -> str | None:
    """Return the form of a file that bitvec wrote; None of others, and of version 3's operators.

    Those stand for themselves, as those of other exporters do.
    """
    form = next((p.value for p in message.metadata_props if p.key == "bitvec.form"), None)
    of_trees = any(node.op_type == ENSEMBLE for node in message.graph.node)
    return None if form == FORM and not of_trees else form


def read(message: Any) -> Forest:
    """Return the forest of a file that bitvec wrote.

    Raises
    ------
    UnsupportedModelError
        If the file is of another form, or was changed since.
    """
    form = form_of(message)
    if form != FORM:
        raise UnsupportedModelError(
            f"an ONNX file of bitvec must have the form `{FORM}` to be converted, got `{form}`, "
            "which holds matrices instead of trees: convert the forest's own file or its source."
        )
    if "raw" not in {value.name for value in message.graph.output}:
        raise UnsupportedModelError(
            "an ONNX file of bitvec must have the output `raw` to be converted, got others: "
            "convert the forest's own file or its source."
        )
    try:
        forest = _forest(message)
    except InvalidForestError:
        forest = None
    except BitvecError:  # a ValueError too
        raise
    except (KeyError, IndexError, ValueError):
        forest = None
    if forest is None:
        raise UnsupportedModelError(
            "an ONNX file of bitvec must be as this version writes it, got other operators or "
            "constants: it was changed, or written by another version; convert its source."
        )
    return forest


def _forest(message: Any) -> Forest | None:
    graph = message.graph
    parts = Parts(
        {node.name: node for node in graph.node},
        {c.name: _constant(c) for c in graph.initializer},
        {value.name: value for value in graph.output},
    )
    declared = graph.input[0].type.tensor_type
    dtype, n_features = _DTYPES[declared.elem_type], int(declared.shape.dim[1].dim_value)
    name = "score" if "score" in parts.operators else "leaf_number"
    node = parts.operators[name]
    if node.op_type != ENSEMBLE:
        node = parts.operators["leaf_number"]
    given = attributes(node)
    summed = node.name == "score"
    raw = parts.outputs["raw"].type.tensor_type
    output_dtype, n_outputs = _DTYPES[raw.elem_type], int(raw.shape.dim[1].dim_value)
    operator = read_by_positions(given, output_dtype if summed else dtype)
    base = None
    if summed and not {"raw_score", "raw_score_wide"} & parts.operators.keys():
        # The base score stands ahead of the trees, as trees of one leaf each.
        first = ~operator.roots[:n_outputs]
        base = operator.weight[first]
        operator = replace(operator, roots=operator.roots[n_outputs:])
    trees = trees_of(operator, dtype, whole=False)
    tests, sentinel = _tests(parts, operator, trees, n_features)
    leaves, output = answers(
        parts, operator if summed else None, trees, n_outputs, output_dtype, base
    )
    inputs = stored_inputs(message, n_features, sentinel)
    source = Source("onnx", onnx.__version__, ENSEMBLE, metadata={"producer": "bitvec"})
    for choice in candidates(parts, output):
        forest = Forest(tests, trees.bitvectors, leaves, choice, inputs, source)
        again = to_onnx(forest, name=graph.name, leaves="leaves" in parts.outputs)
        if again.graph == graph:
            return forest
    return None


def _constant(value: Any) -> Array:
    if value.data_type == onnx.TensorProto.STRING:
        return np.array([text(part, value.name) for part in value.string_data])
    return tensor(value, value.name)


def _tests(
    parts: Parts, operator: Operator, trees: Trees, n_features: int
) -> tuple[NodeTests, float | None]:
    """Return the tests on the columns of X itself, with the rules by which copies were prepared."""
    tests, constants = trees.tests, parts.constants
    if "column_copy.1" not in constants:
        return tests, None
    column = constants["column_copy.1"]
    nothing = np.zeros(column.size, bool)
    rule = np.full(column.size, MissingRule.NAN, np.uint8)
    rule[constants.get("is_zero.1", nothing)] = MissingRule.NAN_OR_ZERO
    rule[constants.get("is_sentinel.1", nothing)] = MissingRule.NAN_OR_SENTINEL
    reads_code = constants.get("column_treated.0", nothing)
    code_rule = np.full(column.size, CodeRule.EXACT, np.uint8)
    code_rule[constants.get("code_or_truncated.0", nothing)] = CodeRule.TRUNCATE
    code_rule[constants.get("code.0", nothing)] = CodeRule.FLOOR
    feature = tests.feature
    copied = feature >= n_features
    copy = feature[copied] - n_features
    kind, missing_rule, rules = (
        tests.kind.copy(), tests.missing_rule.copy(), tests.code_rule.copy()
    )  # fmt: skip
    other_right, b, at = tests.other_right.copy(), tests.b.copy(), tests.column.copy()
    at[copied], missing_rule[copied] = column[copy], rule[copy]
    rules[copied] = code_rule[copy]
    # A set without members is written as a comparison with infinity.
    empty = np.flatnonzero(copied)[reads_code[copy] & (kind[copied] != Kind.SET)]
    was = operator.mode[trees.node[empty]]
    if np.any(was != Mode.BRANCH_LEQ) or np.any(~np.isinf(b[empty])):
        raise UnsupportedModelError("a column of category codes must be read by sets only.")
    other_right[empty], kind[empty], b[empty] = np.isneginf(b[empty]), Kind.SET, 0
    sentinel = constants.get("equals_sentinel.1")
    treated = replace(
        tests,
        column=at,
        kind=kind,
        missing_rule=missing_rule,
        code_rule=rules,
        other_right=other_right,
        b=b,
    )
    return treated, None if sentinel is None else float(sentinel)
