"""Files of one operator each, of those on which forms rely, for a row with NaN and infinities.

A runtime that answers one otherwise than the standard says misreads a form that uses it: the table
of targets leaves such forms out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bitvec.core.graph.score_operators import FORWARD

X: Final = np.array([[np.nan, 1, np.inf, -np.inf, 0, -0.0, 2.5, -2.5]], np.float32)
HALF: Final = {"c": np.array([0.5], np.float32)}
BOUNDS: Final = {"low": np.array(0, np.float32), "high": np.array(1, np.float32)}
FINITE: Final = np.nan_to_num(X, nan=3, posinf=9, neginf=-9)
OPERATORS: Final[dict[str, tuple[list[tuple[Any, ...]], dict[str, np.ndarray], np.ndarray]]] = {
    "Less": ([("Less", "X", "c")], HALF, X),
    "Not(Less)": ([("Less", "X", "c"), ("Not", "n0")], HALF, X),
    "LessOrEqual": ([("LessOrEqual", "X", "c")], HALF, X),
    "Greater": ([("Greater", "X", "c")], HALF, X),
    "IsNaN": ([("IsNaN", "X")], {}, X),
    "Equal(x, x)": ([("Equal", "X", "X")], {}, X),
    "CumSum": ([("CumSum", "X", "axis")], {"axis": np.array(1, np.int64)}, FINITE),
    "Ceil, Clip": ([("Ceil", "X"), ("Clip", "n0", "low", "high")], BOUNDS, FINITE),
    "Relu": ([("Relu", "X")], {}, FINITE),
}
"""Operators, each with its inputs of which n0 is the first one's result; constants; and the row."""
ATTRIBUTES: Final[dict[str, dict[str, int]]] = {"CumSum": FORWARD}


def write(folder: Path) -> Iterator[tuple[str, Path, np.ndarray]]:
    """Write the files, with the outputs of a forest's, and yield name, path and row."""
    for name, (operators, constants, row) in OPERATORS.items():
        nodes = [
            helper.make_node(kind, inputs, [f"n{i}"], **ATTRIBUTES.get(kind, {}))
            for i, (kind, *inputs) in enumerate(operators)
        ]
        last = f"n{len(nodes) - 1}"
        is_bool = name.startswith(("Less", "Not", "Greater", "IsNaN", "Equal"))
        number = {"to": TensorProto.FLOAT} if is_bool else {}
        kind = "Cast" if is_bool else "Identity"
        nodes += [helper.make_node(kind, [last], [out], **number) for out in ("raw", "leaves")]
        ends = [
            helper.make_tensor_value_info(end, TensorProto.FLOAT, row.shape)
            for end in ("X", "raw", "leaves")
        ]
        stored = [numpy_helper.from_array(value, key) for key, value in constants.items()]
        graph = helper.make_graph(nodes, "operator", ends[:1], ends[1:], stored)
        opsets = [helper.make_opsetid("", 18)]
        path = folder / f"operator_{len(list(folder.glob('operator_*.onnx')))}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        yield name, path, row
