"""What stands around the tree operator in an ONNX graph, and whether it changes anything.

Accepted: the operator reads the graph's one input, through Identity and Cast at most; its outputs
are the graph's outputs, through Identity, Cast, ZipMap and a Reshape that keeps the rows. Any other
operator computes something that a forest does not hold, so it is refused by its name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from bitvec.converters.onnx.file import tensor
from bitvec.converters.onnx.schema import CLASSIFIER, DOMAIN, ENSEMBLE, OPERATORS
from bitvec.errors import FileFormatError, UnsupportedModelError

_FLOATS: dict[int, np.dtype[Any]] = {
    onnx.TensorProto.FLOAT: np.dtype(np.float32),
    onnx.TensorProto.DOUBLE: np.dtype(np.float64),
}
_INTEGERS = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
_LABELS = (onnx.TensorProto.INT64, onnx.TensorProto.STRING)
_STANDARD = ("", "ai.onnx")
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
    """

    node: Any
    ml_version: int
    n_features: int | None
    threshold_dtype: np.dtype
    dtype: np.dtype
    label_used: bool


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
    node = _the_operator(model)
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
    types = [element, *(_cast_target(step) for step in path if step.op_type == "Cast")]
    if any(t not in _FLOATS and t not in _INTEGERS for t in types) or any(
        t in _INTEGERS for t in types[1:]
    ):
        raise UnsupportedModelError(
            "the operator's input must be float32, float64, int32 or int64, cast to floats at "
            f"most, got ONNX types {types}: rounding in between would be lost."
        )
    if node.op_type == ENSEMBLE and types[-1] in _INTEGERS:
        raise UnsupportedModelError(
            "TreeEnsemble must read float32 or float64, got integers: cast them in the graph."
        )
    read = _FLOATS.get(types[-1], np.dtype(np.float32))
    floats = [_FLOATS[t] for t in types if t in _FLOATS]
    used = _to_outputs(graph, node, path)
    return Surroundings(
        node,
        _versions(model)[DOMAIN],
        _columns(source),
        read,
        min([read, *floats], key=lambda dtype: dtype.itemsize),
        label_used=node.op_type == CLASSIFIER and node.output[0] in used,
    )


def _versions(model: Any) -> dict[str, int]:
    return {opset.domain: int(opset.version) for opset in model.opset_import}


def _the_operator(model: Any) -> Any:
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


def _refuse(node: Any, why: str) -> UnsupportedModelError:
    kind = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    return UnsupportedModelError(
        f"the graph must hold nothing that changes values around the trees, got operator {kind!r} "
        f"(node {node.name!r}, outputs {list(node.output)[:3]!r}), {why}: convert the model that "
        "it was exported from, or cut the graph."
    )


def _is(node: Any, *kinds: str) -> bool:
    return node.domain in _STANDARD and node.op_type in kinds


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
        if not _is(step, "Identity", "Cast"):
            raise _refuse(step, "between the input and the trees")
        if len(step.input) != 1:
            raise FileFormatError(f"{step.op_type} must have one input, got {len(step.input)}.")
        path.append(step)
        name = step.input[0]
    return path[::-1], inputs[name]


def _to_outputs(graph: Any, node: Any, before: list[Any]) -> set[str]:
    """Return the outputs of the operator that reach outputs of the graph."""
    readers: dict[str, list[Any]] = {}
    for other in graph.node:
        for name in other.input:
            readers.setdefault(name, []).append(other)
    wanted = {value.name for value in graph.output}
    constants = {constant.name: constant for constant in graph.initializer}
    met = {name for other in (node, *before) for name in other.output}
    reached: set[str] = set()
    used: set[str] = set()
    for place, first in enumerate(node.output):
        is_label = node.op_type == CLASSIFIER and place == 0
        todo = [first] if first else []
        while todo:
            name = todo.pop()
            if name in wanted:
                reached.add(name)
                used.add(first)
            for reader in readers.get(name, []):
                if any(output in met for output in reader.output):
                    raise FileFormatError("the graph must have no cycle, got one.")
                _require_neutral(reader, name, node, is_label, constants)
                met.update(reader.output)
                todo += list(reader.output)
    for other in graph.node:
        if not all(output in met for output in other.output):
            raise _refuse(other, "beside the trees")
    if reached != wanted:
        others = sorted(wanted - reached, key=str)[:5]  # a damaged name is bytes, not str
        raise UnsupportedModelError(
            f"all outputs of the graph must be the trees' own, got {others}: drop those outputs."
        )
    return used


def _classes(node: Any) -> list[Any]:
    for attribute in node.attribute:
        if attribute.name == "classlabels_strings" and attribute.strings:
            return list(attribute.strings)
        if attribute.name == "classlabels_int64s" and attribute.ints:
            return list(attribute.ints)
    return []


def _n_targets(node: Any) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "n_targets"), len(_classes(node)))


def _require_neutral(
    node: Any, name: str, trees: Any, is_label: bool, constants: dict[str, Any]
) -> None:
    """Refuse a node behind the trees that changes values; a wider or an equal cast does not."""
    if _is(node, "Identity"):
        return
    if _is(node, "Cast"):
        allowed = _LABELS if is_label else tuple(_FLOATS)
        if _cast_target(node) in allowed:
            return
        raise _refuse(node, f"a cast to ONNX type {_cast_target(node)}")
    if node.domain == DOMAIN and node.op_type == "ZipMap" and not is_label:
        labels: list[Any] = []
        for attribute in node.attribute:
            labels += list(attribute.strings) + list(attribute.ints)
        if labels == _classes(trees):
            return
        raise _refuse(node, "whose labels are not the classifier's")
    if _is(node, "Reshape") and len(node.input) == 2 and node.input[0] == name:
        shape = constants.get(node.input[1])
        one_column = is_label or _n_targets(trees) == 1
        if one_column and shape is not None:
            wanted = tensor(shape, shape.name).ravel().tolist()
            if wanted in ([-1], [-1, 1]):
                return
    raise _refuse(node, "between the trees and the output")


def _cast_target(node: Any) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "to"), 0)


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
