"""Operators around the tree operator in an ONNX graph, and whether they change anything.

Here the operator reads the graph's one input, through Identity and Cast at most: what else stands
before it, `bitvec.converters.onnx.prepared_graph` takes off. What may stand behind it is told in
`bitvec.converters.onnx.outputs`. Any other operator is refused by its name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from bitvec.converters.onnx.operator_schema import CLASSIFIER, DOMAIN, ENSEMBLE, OPERATORS
from bitvec.converters.onnx.outputs import (
    FLOATS,
    Behind,
    behind,
    cast_target,
    is_standard,
    unsupported,
)
from bitvec.errors import FileFormatError, UnsupportedModelError

_INTEGERS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
_NARROW = tuple(
    getattr(onnx.TensorProto, name) for name in ("BOOL", "INT8", "INT16", "UINT8", "UINT16")
)
"""Types of a graph's input that the operators do not read, but a Cast makes floats of exactly."""
LARGEST_FEATURES = 1 << 31
"""Columns are numbered in int32."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The tree operator of a graph, and what reaches and leaves it.

    Parameters
    ----------
    node : onnx.NodeProto
        The tree operator.
    ml_version : int
        Of its operator set.
    n_features : int or None
        Columns of the graph's input, where the graph says.
    threshold_dtype : numpy dtype
        In which the operator compares and sums: float32 where it reads integers.
    dtype : numpy dtype
        The narrowest floating type between the graph's input and the operator.
    label_used : bool
        Whether a classifier's label reaches the graph's outputs.
    after : Behind
        What becomes of the operator's outputs.
    """

    node: Any
    ml_version: int
    n_features: int | None
    threshold_dtype: np.dtype
    dtype: np.dtype
    label_used: bool
    after: Behind

    @property
    def rounds(self) -> bool:
        """Tell whether the operator answers in a narrower dtype than it sums in."""
        return self.node.op_type != ENSEMBLE and self.threshold_dtype == np.float64


def surroundings(model: Any) -> Surroundings:
    """Find the tree operator of a model and check everything else.

    Raises
    ------
    FileFormatError
        If the graph is damaged: a value without origin, or with two.
    UnsupportedModelError
        If the graph computes anything besides one tree operator.
    """
    graph = model.graph
    node = the_operator(model)
    if len(node.input) != 1 or not 1 <= len(node.output) <= (
        2 if node.op_type == CLASSIFIER else 1
    ):
        raise FileFormatError(
            f"{node.op_type} must have one input and its outputs, got {len(node.input)} and "
            f"{len(node.output)}."
        )
    origin = {name: other for other in graph.node for name in other.output if name}
    if len(origin) != sum(bool(name) for other in graph.node for name in other.output):
        raise FileFormatError("each value of the graph must have one origin, got a second one.")
    path, source = _to_input(graph, node, origin)
    element = source.type.tensor_type.elem_type
    types = [element, *(cast_target(step) for step in path if step.op_type == "Cast")]
    known = (*FLOATS, *_INTEGERS, *_NARROW)
    if element not in known or any(t not in FLOATS for t in types[1:]) or types[-1] in _NARROW:
        raise UnsupportedModelError(
            "the operator's input must be float32, float64, int32 or int64, or one of these, bool "
            "and narrower integers cast to floats at once, got ONNX types "
            f"{[_type_name(t) for t in types]}: rounding in between would be "
            "lost."
        )
    twice = types[:2] == [onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE]
    if twice and onnx.TensorProto.FLOAT in types[2:]:
        raise UnsupportedModelError(
            "an int64 input must be cast to float32 at once, got a Cast to float64 first: numbers "
            "above 2**53 are then rounded twice, unless a runtime joins the casts: leave it out."
        )
    if node.op_type == ENSEMBLE and types[-1] in _INTEGERS:
        raise UnsupportedModelError(
            "TreeEnsemble must read float32 or float64, got integers: cast them in the graph."
        )
    read = FLOATS.get(types[-1], np.dtype(np.float32))
    floats = [FLOATS[t] for t in types if t in FLOATS]
    after = behind(graph, node, path)
    return Surroundings(
        node,
        _versions(model)[DOMAIN],
        _columns(source),
        read,
        min([read, *floats], key=lambda dtype: dtype.itemsize),
        label_used=node.op_type == CLASSIFIER and node.output[0] in after.used,
        after=after,
    )


def _versions(model: Any) -> dict[str, int]:
    return {opset.domain: int(opset.version) for opset in model.opset_import}


def the_operator(model: Any) -> Any:
    """Return the tree operator of a model.

    Raises
    ------
    UnsupportedModelError
        If there is none, or another beside it, or it has a version that is not known.
    """
    graph = model.graph
    if model.functions or graph.sparse_initializer:
        raise UnsupportedModelError(
            "the model must be one plain graph, got functions or sparse constants: inline them."
        )
    found = [n for n in graph.node if n.domain == DOMAIN and n.op_type in OPERATORS]
    if len(found) != 1:
        kinds = Counter(f"{n.domain}:{n.op_type}" if n.domain else n.op_type for n in graph.node)
        most = ", ".join(f"{count} x {kind!r}" for kind, count in kinds.most_common(5))
        raise UnsupportedModelError(
            "an ONNX model must have one TreeEnsemble, TreeEnsembleRegressor or "
            f"TreeEnsembleClassifier, got {len(found)} among {most}: convert the model that it was "
            "exported from."
        )
    node = found[0]
    version = _versions(model).get(DOMAIN)
    wanted = (5,) if node.op_type == ENSEMBLE else (1, 2, 3, 4)
    if version not in wanted:
        raise UnsupportedModelError(
            f"{node.op_type} must be of {DOMAIN} version {wanted[0]} to {wanted[-1]}, got "
            f"{version}: export with another target_opset."
        )
    return node


def _to_input(graph: Any, node: Any, origin: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the Cast and Identity nodes from the graph's input on, and that input."""
    constants = {constant.name for constant in graph.initializer}
    inputs = {value.name: value for value in graph.input if value.name not in constants}
    if len(inputs) != 1:
        raise UnsupportedModelError(
            f"the graph must have one input, got {len(inputs)} ({list(inputs)[:5]}): "
            "export with one matrix of features."
        )
    path: list[Any] = []
    name = node.input[0]
    while name not in inputs:
        step = origin.get(name)
        if step is None or len(path) > len(graph.node):
            raise FileFormatError(f"value {name!r} must come from the input, got no way to it.")
        if not is_standard(step, "Identity", "Cast"):
            raise unsupported(step, "between the input and the trees")
        if len(step.input) != 1:
            raise FileFormatError(f"{step.op_type} must have one input, got {len(step.input)}.")
        path.append(step)
        name = step.input[0]
    return path[::-1], inputs[name]


def _columns(source: Any) -> int | None:
    dims = source.type.tensor_type.shape.dim
    if not source.type.HasField("tensor_type") or len(dims) not in (0, 2):
        raise UnsupportedModelError(
            f"input {source.name!r} must be a matrix (rows, features), got another type: "
            "export with one matrix of features."
        )
    if not dims or not dims[1].HasField("dim_value") or dims[1].dim_value <= 0:
        return None
    if dims[1].dim_value >= LARGEST_FEATURES:
        raise FileFormatError(f"a matrix must have fewer columns than {dims[1].dim_value}.")
    return int(dims[1].dim_value)


def _type_name(number: int) -> str:
    """Return the name of an element type; the number itself where a damaged file has no type."""
    known = onnx.TensorProto.DataType
    return str(known.Name(number)) if number in known.values() else str(number)
