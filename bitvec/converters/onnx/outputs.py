"""Operators behind the tree operator of an ONNX graph, and whether they change anything.

Neutral are Identity, a Cast that keeps the values, ZipMap, Mul by 1, Slice of one class's column,
and a Reshape of one column. Two operators change a regressor's scores in a way that a forest holds:
Div by a constant, then Exp. Anything else computes what a forest does not hold, so it is refused by
its name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from bitvec.converters.onnx.file import tensor
from bitvec.converters.onnx.operator_schema import CLASSIFIER, DOMAIN
from bitvec.core.arrays import Array
from bitvec.errors import FileFormatError, UnsupportedModelError

FLOATS: dict[int, np.dtype[Any]] = {
    onnx.TensorProto.FLOAT: np.dtype(np.float32),
    onnx.TensorProto.DOUBLE: np.dtype(np.float64),
}
_LABELS = (onnx.TensorProto.INT64, onnx.TensorProto.STRING)
_STANDARD = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class Behind:
    """Steps between the operator's outputs and the graph's.

    Parameters
    ----------
    used : set of str
        The outputs of the operator that reach outputs of the graph.
    steps : tuple of onnx.NodeProto
        The Div and Exp that change a regressor's scores, in their order.
    divisor : float or None
        Of the Div.
    """

    used: set[str]
    steps: tuple[Any, ...]
    divisor: float | None

    @property
    def is_exponential(self) -> bool:
        """Tell whether the last step is an Exp."""
        return bool(self.steps) and self.steps[-1].op_type == "Exp"


@dataclass(frozen=True, slots=True)
class _Value:
    """A value behind the trees: the label or scores, their columns, and whether cast on the way."""

    name: str
    is_label: bool
    n_columns: int
    is_cast: bool = False


def behind(graph: Any, node: Any, before: list[Any]) -> Behind:
    """Follow the outputs of the tree operator `node` to those of the graph.

    Parameters
    ----------
    before : list of onnx.NodeProto
        The operators between the graph's input and `node`.

    Raises
    ------
    FileFormatError
        If values run in a circle.
    UnsupportedModelError
        If an operator changes values, or an output of the graph is not the trees'.
    """
    readers: dict[str, list[Any]] = {}
    for other in graph.node:
        for name in other.input:
            readers.setdefault(name, []).append(other)
    wanted = {value.name for value in graph.output}
    constants = {constant.name: constant for constant in graph.initializer}
    met = {name for other in (node, *before) for name in other.output}
    reached: set[str] = set()
    used: set[str] = set()
    steps: list[Any] = []
    for place, first in enumerate(node.output):
        is_label = node.op_type == CLASSIFIER and place == 0
        todo = [_Value(first, is_label, 1 if is_label else _n_targets(node))] if first else []
        while todo:
            value = todo.pop()
            if value.name in wanted:
                reached.add(value.name)
                used.add(first)
            for reader in readers.get(value.name, []):
                if any(output in met for output in reader.output):
                    raise FileFormatError("the graph must have no cycle, got one.")
                alone = not todo and first not in used and len(readers[value.name]) == 1
                if alone and _is_step(reader, value, node, steps, constants):
                    steps.append(reader)
                    onward = value
                else:
                    onward = _passed(reader, value, node, constants)
                met.update(reader.output)
                todo += [replace(onward, name=output) for output in reader.output]
    for other in graph.node:
        if not all(output in met for output in other.output):
            raise unsupported(other, "beside the trees")
    if reached != wanted:
        others = sorted(wanted - reached, key=str)[:5]  # a damaged name is bytes, not str
        raise UnsupportedModelError(
            f"all outputs of the graph must be the trees' own, got {others}: drop those outputs."
        )
    divisors = [_number(step.input[1], constants) for step in steps if step.op_type == "Div"]
    return Behind(used, tuple(steps), divisors[0] if divisors else None)


def unsupported(node: Any, where: str) -> UnsupportedModelError:
    """Return the error that names an operator."""
    kind = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    return UnsupportedModelError(
        "the graph must hold nothing that changes values around the trees, got operator "
        f"{kind!r} (node {node.name!r}, outputs {list(node.output)[:3]}), {where}: convert the "
        "model that it was exported from, or cut the graph."
    )


def is_standard(node: Any, *kinds: str) -> bool:
    """Return whether an operator is one of the standard's `kinds`."""
    return node.domain in _STANDARD and node.op_type in kinds


def cast_target(node: Any) -> int:
    """Return the ONNX type that a Cast makes."""
    return next((int(a.i) for a in node.attribute if a.name == "to"), 0)


def _is_step(
    node: Any, value: _Value, trees: Any, steps: list[Any], constants: dict[str, Any]
) -> bool:
    """Return whether a node is the Div or Exp that a forest of `trees` can hold."""
    if trees.op_type == CLASSIFIER or value.is_cast or any(s.op_type == "Exp" for s in steps):
        return False
    if is_standard(node, "Exp"):
        return len(node.input) == 1
    if steps or not is_standard(node, "Div") or list(node.input[:1]) != [value.name]:
        return False
    divisor = _number(node.input[1], constants) if len(node.input) == 2 else None
    return divisor is not None and np.isfinite(divisor) and divisor != 0


def _passed(node: Any, value: _Value, trees: Any, constants: dict[str, Any]) -> _Value:
    """Return the value behind a neutral node, or refuse the node."""
    if is_standard(node, "Identity"):
        return value
    if is_standard(node, "Cast"):
        if cast_target(node) in (_LABELS if value.is_label else tuple(FLOATS)):
            return replace(value, is_cast=True)
        raise unsupported(node, f"a cast to ONNX type {cast_target(node)}")
    if node.domain == DOMAIN and node.op_type == "ZipMap" and not value.is_label:
        labels: list[Any] = []
        for attribute in node.attribute:
            labels += list(attribute.strings) + list(attribute.ints)
        if labels == _classes(trees):
            return value
        raise unsupported(node, "whose labels are not the classifier's")
    if is_standard(node, "Mul") and not value.is_label:
        factors = [_number(name, constants) for name in node.input if name != value.name]
        if factors == [1.0]:
            return value
    if is_standard(node, "Reshape") and list(node.input[:1]) == [value.name]:
        shape = _integers(node.input[1:2], constants)
        if value.n_columns == 1 and shape in ([-1], [-1, 1]):
            return value
    if is_standard(node, "Slice") and trees.op_type == CLASSIFIER and not value.is_label:
        start, end, axis = (_integers(node.input[at : at + 1], constants) for at in (1, 2, 3))
        one_column = axis == [1] and len(start) == 1 and end == [start[0] + 1]
        if len(node.input) == 4 and one_column and 0 <= start[0] < value.n_columns:
            return replace(value, n_columns=1)
    raise unsupported(node, "between the trees and the output")


def _number(name: str, constants: dict[str, Any]) -> float | None:
    """Return a constant of one float, or None."""
    if name not in constants:
        return None
    values = tensor(constants[name], name)
    return float(values.ravel()[0]) if values.size == 1 and values.dtype.kind == "f" else None


def _integers(names: Any, constants: dict[str, Any]) -> list[int]:
    """Return the integers of the constant that `names` holds, if it holds one."""
    if not names or names[0] not in constants:
        return []
    values: Array = tensor(constants[names[0]], names[0]).ravel()
    integers: list[int] = values.tolist() if values.dtype.kind == "i" else []
    return integers


def _classes(node: Any) -> list[Any]:
    for attribute in node.attribute:
        if attribute.name == "classlabels_strings" and attribute.strings:
            return list(attribute.strings)
        if attribute.name == "classlabels_int64s" and attribute.ints:
            return list(attribute.ints)
    return []


def _n_targets(node: Any) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "n_targets"), len(_classes(node)))
