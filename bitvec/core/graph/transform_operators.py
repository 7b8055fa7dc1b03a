"""Post-transforms of raw scores as operators of a graph: those of `bitvec.core.links`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitvec.core.graph.operators import TENSOR_TYPE, Graph
from bitvec.core.links import GROUPED, LINKS, Symbol, Writing
from bitvec.core.output import Output

PARAMETER = "link_parameter"
"""Name of the constant that a link's parameter becomes."""


def columns(graph: Graph, value: str, start: int, size: int, total: int) -> str:
    if size == total:
        return value
    ends = (np.array([start]), np.array([start + size]), np.array([1]))
    return graph.add("Slice", value, *ends, name="group_raw")


def transform(graph: Graph, output: Output, raw: str) -> str:
    """Append the post-transform of all outputs; softmax goes group by group."""
    if output.post_transform not in GROUPED or len(output.groups) == 1:
        return transform_group(graph, output, raw)
    ends = np.cumsum(output.groups).tolist()
    parts = [
        transform_group(graph, output, columns(graph, raw, end - size, size, output.n_outputs))
        for end, size in zip(ends, output.groups, strict=True)
    ]
    return graph.add("Concat", *parts, axis=1, name="transformed")


def transform_group(graph: Graph, output: Output, raw: str) -> str:
    """Append the post-transform of one group by operators that have its name."""
    f = _Operations(graph, output)
    value: _Value = LINKS[output.post_transform](f, _Value(f, raw, output.dtype))
    return value.name


class _Value(Symbol):
    """A tensor of the graph."""

    def __init__(self, f: _Operations, name: str, dtype: np.dtype) -> None:
        self.f, self.name, self.dtype = f, name, dtype

    def write(self, kind: str, *operands: Any, **attributes: Any) -> _Value:
        names = [
            operand.name if isinstance(operand, _Value) else np.array(operand, self.dtype)
            for operand in operands
        ]
        return self.f.add(kind, *names, dtype=self.dtype, **attributes)


class _Operations(Writing):
    """Operations of the standard of `bitvec.core.graph.operators`."""

    def __init__(self, graph: Graph, output: Output) -> None:
        super().__init__(output, output.dtype)
        self.graph = graph

    def add(self, kind: str, *inputs: Any, dtype: np.dtype, **attributes: Any) -> _Value:
        name = self.graph.add(kind, *inputs, name=str(self.output.post_transform), **attributes)
        return _Value(self, name, dtype)

    @property
    def parameter(self) -> _Value:
        value = np.array(self.output.parameter, self.dtype)
        return _Value(self, self.graph.constant(PARAMETER, value), self.dtype)

    def finite(self, x: _Value) -> _Value:
        return x  # infinity becomes the same 0, but for subnormal numbers

    def copysign(self, size: _Value, x: _Value) -> _Value:
        return x.write("Sign", x) * size  # a choice that is made by a sum loses the sign of -0

    def indicator(self, condition: _Value) -> _Value:
        return self.cast(condition, self.dtype, always=True)

    def cast(self, x: _Value, dtype: np.dtype, *, always: bool = False) -> _Value:
        if x.dtype == dtype and not always:
            return x
        return self.add("Cast", x.name, dtype=dtype, to=TENSOR_TYPE[dtype.name])

    def largest(self, x: _Value) -> _Value:
        return self.add("ReduceMax", x.name, np.array([1]), dtype=x.dtype, keepdims=1)

    def total(self, x: _Value, *, wide: bool) -> _Value:
        return self.add("ReduceSum", x.name, np.array([1]), dtype=x.dtype, keepdims=1)

    def softmax(self, x: _Value) -> _Value:
        return x.write("Softmax", x, axis=1)

    def softplus(self, x: _Value) -> Any:
        # Correct to a few units in the last place, and NaN of NaN: runtimes lack the operator
        # Softplus for float64 and lose small results in float32. log1p(u) is
        # log(w) · u / (w − 1) with w the rounded 1 + u, and u itself where w is 1. Infinite where
        # exp(x) is, as in the source.
        u = self.exp(-abs(x))
        w = u + 1
        log1p = self.where(x.write("Equal", w, 1), u, self.log(w) * (u / (w - 1)))
        exp = self.exp(x)
        return self.where(x.write("Equal", exp, np.inf), exp, self.where(x > 0, x, 0) + log1p)
