"""Preprocessing in an ONNX graph: the part before its trees, taken apart and folded into them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from bitvec.converters.onnx.file import tensor
from bitvec.converters.onnx.graph import LARGEST_FEATURES, the_operator
from bitvec.converters.onnx.operator_schema import DOMAIN
from bitvec.converters.onnx.outputs import is_standard
from bitvec.converters.onnx.prepared_columns import (
    FLOAT,
    STRING,
    WHOLE,
    WIDE,
    Prepared,
    Preparing,
    Value,
    raw_column,
)
from bitvec.converters.onnx.preparing_operators import follow
from bitvec.converters.pipelines.fold import folded, raw_columns
from bitvec.converters.pipelines.operations import DOUBLE, SINGLE
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.inputs import Inputs
from bitvec.errors import FileFormatError, UnsupportedModelError

_NEUTRAL = ("Identity", "Cast")


@dataclass(frozen=True, eq=False)
class GraphInput:
    """One input of a graph: its name, its ONNX type and its columns."""

    name: str
    element: int
    n_columns: int


@dataclass(frozen=True, eq=False)
class Preparation:
    """A graph whose trees read prepared columns.

    Parameters
    ----------
    inputs : tuple of GraphInput
        Their columns are those of the raw rows, one input after the other.
    dtype : numpy dtype
        Of the raw rows: float32 where all numbers are.
    prepared : Prepared
        What the trees read.
    trees : onnx.ModelProto
        The rest of the graph: the trees, over a matrix of what they read, and what is behind them.
    """

    inputs: tuple[GraphInput, ...]
    dtype: np.dtype
    prepared: Prepared
    trees: Any

    @property
    def n_features(self) -> int:
        """Columns of the raw rows."""
        return sum(given.n_columns for given in self.inputs)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the raw columns, where the graph has inputs of one column each."""
        alone = all(given.n_columns == 1 for given in self.inputs)
        return tuple(given.name for given in self.inputs) if alone else None

    def fold(self, forest: Forest) -> Forest:
        """Return the forest of `trees` over the raw columns.

        Raises
        ------
        UnsupportedModelError
            If a set of values would take too many nodes.
        """
        columns = [column.to(forest.dtype) for column in self.prepared.columns]
        place = Preparing(next(node for node in self.trees.graph.node if node.domain))
        raw = raw_columns(columns, self.n_features, self.dtype, place)
        result = folded(forest, columns, raw, self.names, place)
        return replace(result, inputs=_any_dtype(result.inputs))


def preparation(message: Any) -> Preparation | None:
    """Take a graph apart; None where no more than Identity and Cast of one input precede its trees.

    Raises
    ------
    FileFormatError
        If the graph is damaged.
    UnsupportedModelError
        If an operator before the trees is not known, or cannot be folded exactly.
    """
    graph, node = message.graph, the_operator(message)
    origin = {name: other for other in graph.node for name in other.output if name}
    before = _before(node, origin)
    given = {value.name for value in graph.input} - {c.name for c in graph.initializer}
    if len(given) < 2 and all(is_standard(step, *_NEUTRAL) for step in before):
        return None
    constants = {constant.name: constant for constant in graph.initializer}
    inputs = tuple(_graph_input(v) for v in graph.input if v.name not in constants)
    numbers = [given.element for given in inputs if given.element != STRING]
    single = numbers and all(element == FLOAT for element in numbers)
    dtype = SINGLE if single else DOUBLE
    version = next((o.version for o in message.opset_import if o.domain == DOMAIN), 1)
    values: dict[str, Value] = {}
    at = 0
    for one in inputs:
        places = range(at, at := at + one.n_columns)
        columns = tuple(raw_column(place, one.element, dtype) for place in places)
        values[one.name] = Prepared(columns, one.element)
    for step in before:
        operands = [_value(name, values, constants) for name in step.input if name]
        if is_standard(step, "Constant"):
            stored = next((a for a in step.attribute if a.name == "value"), None)
            if stored is None:
                raise Preparing(step).refuse("its value is no tensor")
            values[step.output[0]] = tensor(stored.t, step.output[0])
        else:
            values[step.output[0]] = follow(step, operands, version)
    prepared = _value(node.input[0], values, constants)
    if not isinstance(prepared, Prepared) or prepared.n_axes != 2 or prepared.element == STRING:
        raise Preparing(node).refuse("it must read a matrix of numbers")
    return Preparation(inputs, dtype, prepared, _trees_alone(message, node, before, prepared))


def _before(node: Any, origin: dict[str, Any]) -> list[Any]:
    """Return the operators whose results the trees read, each behind those that it reads."""
    result: list[Any] = []
    state: dict[int, bool] = {}  # whether an operator is done
    waiting = [(origin[name], False) for name in node.input if name in origin]
    while waiting:
        step, is_done = waiting.pop()
        if is_done:
            state[id(step)] = True
            result.append(step)
            continue
        if id(step) in state:
            if not state[id(step)]:
                raise FileFormatError("the graph must have no cycle, got one.")
            continue
        state[id(step)] = False
        waiting.append((step, True))
        waiting += [
            (origin[name], False)
            for name in step.input
            if name in origin and not state.get(id(origin[name]), False)
        ]
    return result


def _value(name: str, values: dict[str, Value], constants: dict[str, Any]) -> Value:
    if name not in values:
        if name not in constants:
            raise FileFormatError(f"value {name!r} must come from the input, got no way to it.")
        values[name] = tensor(constants[name], name)
    return values[name]


def _graph_input(value: Any) -> GraphInput:
    kind = value.type.tensor_type
    known = (FLOAT, WIDE, STRING, *WHOLE)
    if not value.type.HasField("tensor_type") or kind.elem_type not in known:
        raise UnsupportedModelError(
            f"input {value.name!r} must be a tensor of float32, float64, signed whole numbers or "
            "texts, got another type: export with other types."
        )
    dims = kind.shape.dim
    if len(dims) != 2 or not dims[1].HasField("dim_value") or dims[1].dim_value <= 0:
        raise UnsupportedModelError(
            f"input {value.name!r} must say how many columns it has, as in [None, 1], got "
            f"{len(dims)} axes: export with that shape."
        )
    if dims[1].dim_value >= LARGEST_FEATURES:
        raise FileFormatError(f"a matrix must have fewer columns than {dims[1].dim_value}.")
    return GraphInput(value.name, kind.elem_type, int(dims[1].dim_value))


def _trees_alone(message: Any, node: Any, before: list[Any], prepared: Prepared) -> Any:
    """Return the model without what precedes its trees."""
    trees = onnx.ModelProto()
    trees.CopyFrom(message)
    dropped = {name for step in before for name in step.output}
    kept = [other for other in message.graph.node if not dropped.intersection(other.output)]
    del trees.graph.node[:], trees.graph.input[:]
    trees.graph.node.extend(kept)
    matrix = onnx.helper.make_tensor_value_info(
        node.input[0], prepared.element, [None, len(prepared.columns)]
    )
    trees.graph.input.append(matrix)
    return trees


def _any_dtype(inputs: Inputs) -> Inputs:
    """Return the columns without a dtype that rows must have: they are cast before the graph."""
    domains = tuple(
        domain if domain.dtype in ("text", "dropped") else replace(domain, dtype="any")
        for domain in inputs.domains or ()
    )
    plain = all(domain.is_everything and domain.dtype == "any" for domain in domains)
    return replace(inputs, domains=None if plain else domains)


def feeds(given: tuple[GraphInput, ...], columns: list[Array]) -> dict[str, Array]:
    """Return raw columns, texts as texts, as the inputs of a graph."""
    result, at = {}, 0
    for one in given:
        part = np.stack(columns[at : (at := at + one.n_columns)], axis=1)
        is_text = one.element == STRING
        kind = object if is_text else onnx.helper.tensor_dtype_to_np_dtype(one.element)
        with np.errstate(over="ignore"):
            result[one.name] = part.astype(kind)
    return result
