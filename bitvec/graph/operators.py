"""A computation as plain data: standard operators, constants, inputs and outputs, no library named.

The ONNX forms are written as such a graph; the module that writes a file hands its `onnx` to
`Graph.model`, so that the core describes graphs without importing anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from bitvec.arrays import Array
from bitvec.errors import UnsupportedModelError
from bitvec.forest import Forest

OPSET = 21
ML_OPSET = 5
IR_VERSION = 10
"""Pinned, since the onnx library writes newer versions by default than runtimes load."""

TENSOR_TYPE = {"float32": 1, "int64": 7, "bool": 9, "float64": 11}
"""Numbers of the ONNX standard for the element types that Cast is asked for here."""

LARGEST_FILE = 2**31 - 1
"""Bytes that one protobuf message may have."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One node of a graph; its name is the name of its first output."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    domain: str = ""


@dataclass(slots=True)
class Graph:
    """Operators in the order of computation, built by `add`; names are unique and readable."""

    operators: list[Operator] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, tuple[np.dtype, tuple[str | int, ...]]] = field(default_factory=dict)
    outputs: dict[str, tuple[np.dtype, tuple[str | int, ...]]] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)

    def add(
        self, kind: str, *inputs: str | Array, name: str, domain: str = "", **attributes: Any
    ) -> str:
        """Append an operator and return the name of its output; arrays become constants."""
        return self.split(kind, *inputs, names=(name,), domain=domain, **attributes)[0]

    def split(
        self,
        kind: str,
        *inputs: str | Array,
        names: tuple[str, ...],
        domain: str = "",
        **attributes: Any,
    ) -> tuple[str, ...]:
        """Append an operator of several outputs and return their names."""
        outputs = tuple(self._fresh(name) for name in names)
        read = tuple(
            value if isinstance(value, str) else self.constant(f"{outputs[0]}.{place}", value)
            for place, value in enumerate(inputs)
        )
        self.operators.append(Operator(kind, read, outputs, attributes, domain))
        return outputs

    def constant(self, name: str, value: Array) -> str:
        """Store an array under a fresh name."""
        name = self._fresh(name)
        self.constants[name] = np.asarray(value)
        return name

    def input(self, name: str, dtype: np.dtype, shape: tuple[str | int, ...]) -> str:
        """Declare an input of the graph."""
        self.inputs[self._fresh(name)] = (dtype, shape)
        return name

    def output(self, name: str, value: str, dtype: np.dtype, shape: tuple[str | int, ...]) -> None:
        """Declare an output of the graph: `value` under the name `name`."""
        self.operators.append(Operator("Identity", (value,), (name,), {}))
        self.outputs[name] = (dtype, shape)

    def _fresh(self, name: str) -> str:
        count = self._taken.get(name, 0)
        self._taken[name] = count + 1
        return name if count == 0 else self._fresh(f"{name}_{count}")

    def model(self, onnx: Any, forest: Forest, *, name: str, form: str) -> Any:
        """Return the graph as an `onnx.ModelProto`, checked; `onnx` is the imported library.

        Raises
        ------
        UnsupportedModelError
            If the model would not fit in one file.
        """
        size = sum(array.nbytes for array in self.constants.values())
        if size > LARGEST_FILE:
            raise UnsupportedModelError(
                f"an ONNX file must be smaller than 2 GiB, got {size / 2**30:.1f} GiB of arrays: "
                "save the forest itself, or export fewer trees with forest.take."
            )
        helper = onnx.helper
        graph = helper.make_graph(
            [
                helper.make_node(
                    operator.kind,
                    operator.inputs,
                    operator.outputs,
                    name=operator.outputs[0],
                    domain=operator.domain,
                    **{k: _attribute(onnx, k, v) for k, v in operator.attributes.items()},
                )
                for operator in self.operators
            ],
            name,
            [_value(onnx, *item) for item in self.inputs.items()],
            [_value(onnx, *item) for item in self.outputs.items()],
            [onnx.numpy_helper.from_array(_plain(a), k) for k, a in self.constants.items()],
        )
        domains = [("", OPSET)]
        if any(operator.domain for operator in self.operators):
            domains.append(("ai.onnx.ml", ML_OPSET))
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*domain) for domain in domains],
            ir_version=IR_VERSION,
            producer_name="bitvec",
            producer_version=version("bitvec"),
        )
        helper.set_model_props(model, metadata(forest, form))
        if model.ByteSize() > LARGEST_FILE:
            raise UnsupportedModelError(
                f"an ONNX file must be smaller than 2 GiB, got {model.ByteSize() / 2**30:.1f} GiB: "
                "save the forest itself, or export fewer trees with forest.take."
            )
        onnx.checker.check_model(model, full_check=True)
        return model


def metadata(forest: Forest, form: str) -> dict[str, str]:
    """Return what an exported file says of its forest: strings, and JSON where the name says so."""
    facts = {
        "bitvec.version": version("bitvec"),
        "bitvec.form": form,
        "bitvec.post_transform": forest.output.post_transform.value,
    }
    if forest.inputs.feature_names is not None:
        facts["bitvec.feature_names.json"] = json.dumps(forest.inputs.feature_names)
    if forest.output.classes is not None:
        labels = [labels.tolist() for labels in forest.output.classes]
        facts["bitvec.classes.json"] = json.dumps(labels)
    if forest.source is not None:
        facts["bitvec.source"] = " ".join(
            filter(None, (forest.source.library, forest.source.version, forest.source.model))
        )
    return facts


def _plain(array: Array) -> Array:
    # Strings go into ONNX as objects; everything else contiguous as it is.
    return array.astype(object) if array.dtype.kind == "U" else np.require(array, requirements="C")


def _attribute(onnx: Any, name: str, value: Any) -> Any:
    return onnx.numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value


def _value(onnx: Any, name: str, spec: tuple[np.dtype, tuple[str | int, ...]]) -> Any:
    dtype, shape = spec
    kind = np.dtype(object) if dtype.kind == "U" else dtype
    element = onnx.helper.np_dtype_to_tensor_dtype(kind)
    return onnx.helper.make_tensor_value_info(name, element, shape)


def cast(graph: Graph, value: str, dtype: np.dtype, name: str) -> str:
    """Append a Cast to a dtype."""
    return graph.add("Cast", value, name=name, to=TENSOR_TYPE[dtype.name])
