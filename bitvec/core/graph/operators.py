"""A computation as plain data: standard operators, constants, inputs and outputs, no library named.

The ONNX forms are written as such a graph; the module that writes a file hands its `onnx` to
`Graph.model`, so that the core describes graphs without importing anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.interface import ML_OPSET, Interface
from bitvec.distribution import version
from bitvec.errors import InputError, UnsupportedModelError

TENSOR_TYPE = {
    "float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11,
}  # fmt: skip
"""Numbers of the ONNX standard for the element types that Cast is asked for here."""

LARGEST_FILE = 2**31 - 1
"""Bytes that one protobuf message may have."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One node of a graph; `name` is that of its first output when it was added."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    name: str
    domain: str = ""


@dataclass(slots=True)
class Graph:
    """Operators in the order of computation, built by `add`; names are unique and readable.

    Parameters
    ----------
    interface : Interface
        What the file's inputs and outputs are to be.
    """

    interface: Interface = field(default_factory=Interface)
    operators: list[Operator] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, tuple[np.dtype, tuple[str | int, ...]]] = field(default_factory=dict)
    outputs: dict[str, tuple[np.dtype, tuple[str | int, ...]]] = field(default_factory=dict)
    ml_opset: int = ML_OPSET
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
        for value in inputs:
            if isinstance(value, np.ndarray):
                _require_kept(kind, value)
        outputs = tuple(self._fresh(name) for name in names)
        read = tuple(
            value if isinstance(value, str) else self.constant(f"{outputs[0]}.{place}", value)
            for place, value in enumerate(inputs)
        )
        self.operators.append(Operator(kind, read, outputs, attributes, outputs[0], domain))
        return outputs

    def constant(self, name: str, value: Array) -> str:
        """Store an array under a fresh name."""
        name = self._fresh(name)
        self.constants[name] = np.asarray(value)
        return name

    def input(self, name: str, dtype: np.dtype, shape: tuple[str | int, ...]) -> str:
        """Declare an input of the graph and return the tensor that holds it in this dtype."""
        given = self.interface.input_dtype or dtype
        self.inputs[self._fresh(name)] = (given, self._shape(shape))
        return name if given == dtype else cast(self, name, dtype, f"{name}_as_{dtype.name}")

    def output(self, name: str, value: str, dtype: np.dtype, shape: tuple[str | int, ...]) -> None:
        """Declare an output of the graph: `value` under the name `name`."""
        self.operators.append(Operator("Identity", (value,), (name,), {}, name))
        self.outputs[name] = (dtype, self._shape(shape))

    def _shape(self, shape: tuple[str | int, ...]) -> tuple[str | int, ...]:
        batch = self.interface.batch
        return tuple(batch if size == "batch" and batch else size for size in shape)

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
        InputError
            If the interface asks for an output that there is not.
        """
        self._keep_outputs()
        self._name_outputs()
        size = sum(array.nbytes for array in self.constants.values())
        if size > LARGEST_FILE:
            raise UnsupportedModelError(
                f"an ONNX file must be smaller than 2 GiB, got {size / 2**30:.1f} GiB of arrays: "
                "save the forest itself, or export fewer trees with forest.take."
            )
        helper, columns = onnx.helper, _columns(forest)
        graph = helper.make_graph(
            [
                helper.make_node(
                    operator.kind,
                    operator.inputs,
                    operator.outputs,
                    name=operator.name,
                    domain=operator.domain,
                    **{k: _attribute(onnx, k, v) for k, v in operator.attributes.items()},
                )
                for operator in self.operators
            ],
            name,
            [_value(onnx, *item, columns) for item in self.inputs.items()],
            [_value(onnx, *item, columns) for item in self.outputs.items()],
            [onnx.numpy_helper.from_array(_plain(a), k) for k, a in self.constants.items()],
        )
        domains = [("", self.interface.opset)]
        if any(operator.domain for operator in self.operators):
            domains.append(("ai.onnx.ml", self.ml_opset))
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*domain) for domain in domains],
            ir_version=self.interface.ir_version,
            producer_name="bitvec",
            producer_version=version(),
        )
        helper.set_model_props(model, metadata(forest, form))
        if model.ByteSize() > LARGEST_FILE:
            raise UnsupportedModelError(
                f"an ONNX file must be smaller than 2 GiB, got {model.ByteSize() / 2**30:.1f} GiB: "
                "save the forest itself, or export fewer trees with forest.take."
            )
        onnx.checker.check_model(model, full_check=True)
        return model

    def _keep_outputs(self) -> None:
        """Drop the outputs that are not asked for, and what nothing else needs."""
        wanted = self.interface.outputs
        if wanted is None:
            return
        for name in wanted:
            if name not in self.outputs:
                raise InputError(
                    f"`outputs` must be among {', '.join(self.outputs)}, got {name!r}: "
                    "choose among them."
                )
        self.outputs = {name: self.outputs[name] for name in wanted}
        needed, kept = set(wanted), []
        for operator in reversed(self.operators):
            if needed.intersection(operator.outputs):
                needed.update(operator.inputs)
                kept.append(operator)
        self.operators = kept[::-1]
        self.constants = {name: a for name, a in self.constants.items() if name in needed}

    def _name_outputs(self) -> None:
        """Give what an Identity would only rename the output's own name, where it has none yet."""
        made = {name for operator in self.operators for name in operator.outputs}
        names: dict[str, str] = {}
        for operator in self.operators:
            value = operator.inputs[0] if operator.inputs else ""
            renames = operator.kind == "Identity" and operator.outputs[0] in self.outputs
            if renames and value in made and value not in self.outputs:
                names.setdefault(value, operator.outputs[0])
        self.operators = [
            replace(
                operator,
                inputs=tuple(names.get(name, name) for name in operator.inputs),
                outputs=tuple(names.get(name, name) for name in operator.outputs),
            )
            for operator in self.operators
            if operator.kind != "Identity" or names.get(operator.inputs[0]) != operator.outputs[0]
        ]


def metadata(forest: Forest, form: str) -> dict[str, str]:
    """Return what an exported file says of its forest: strings, and JSON where the name says so."""
    facts = {
        "bitvec.version": version(),
        "bitvec.form": form,
        "bitvec.post_transform": forest.output.post_transform.value,
    }
    if forest.inputs.feature_names is not None:
        facts["bitvec.feature_names.json"] = json.dumps(forest.inputs.feature_names)
    inputs = forest.inputs
    if inputs.categories is not None or inputs.whole_numbers:
        kept = ("whole_numbers", "decimals", "refuses_unseen")
        books = {
            "books": inputs.categories or (None,) * inputs.n_features,
            "hashed": inputs.hashed,
            **{name: value for name in kept if (value := getattr(inputs, name))},
        }
        facts["bitvec.categories.json"] = json.dumps(books, default=np.generic.item)
    if forest.output.classes is not None:
        labels = [labels.tolist() for labels in forest.output.classes]
        facts["bitvec.classes.json"] = json.dumps(labels)
    if forest.source is not None:
        source = forest.source.library, forest.source.version, forest.source.model
        told = " ".join(filter(None, source))
        facts["bitvec.core.source"] = told.encode(errors="backslashreplace").decode()
    return facts


def _require_kept(kind: str, constant: Array) -> None:
    """Refuse a number that onnxruntime 1.31 takes for 1 or 0, and drops its operator.

    It rounds a single number of float64 to float32 to see whether the operator changes anything.
    """
    nothing = {"Mul": 1.0, "Div": 1.0, "Add": 0.0, "Sub": 0.0}.get(kind)
    if nothing is None or constant.size != 1 or constant.dtype != np.float64:
        return
    number = float(constant.ravel()[0])
    with np.errstate(over="ignore", under="ignore"):
        dropped = number != nothing and float(np.float32(number)) == nothing
    if dropped:
        raise UnsupportedModelError(
            f"a scale, divisor or base score must not round to {nothing:g} in float32, got "
            f"{number!r}: onnxruntime would leave it out; predict with bitvec."
        )


def _plain(array: Array) -> Array:
    # Strings go into ONNX as objects; everything else contiguous as it is.
    return array.astype(object) if array.dtype.kind == "U" else np.require(array, requirements="C")


def _attribute(onnx: Any, name: str, value: Any) -> Any:
    return onnx.numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value


def _columns(forest: Forest) -> str:
    """Return what the columns of X are, for a person."""
    names, most = forest.inputs.feature_names, 100
    if names is None:
        return f"{forest.inputs.n_features} columns as in training"
    shown = ", ".join(names[:most]).encode(errors="backslashreplace").decode()
    return shown if len(names) <= most else f"{shown}, and {len(names) - most} more"


_MEANINGS = {
    "X": "Rows to predict, one value for each of: {}.",
    "present": "1 where the value in X is known, 0 where it is missing; X holds any finite number "
    "there.",
    "raw": "The raw score of each output, before any post-transform.",
    "prediction": "The predicted value of each output.",
    "label": "The predicted class.",
    "probabilities": "The probability of each class.",
    "leaves": "The exit leaf in each tree, numbered from left to right.",
}
"""What inputs and outputs are, for those who open the file in a viewer."""


def _value(onnx: Any, name: str, spec: tuple[np.dtype, tuple[str | int, ...]], columns: str) -> Any:
    dtype, shape = spec
    kind = np.dtype(object) if dtype.kind == "U" else dtype
    element = onnx.helper.np_dtype_to_tensor_dtype(kind)
    meaning = _MEANINGS.get(name.split("_")[0], "").format(columns)
    return onnx.helper.make_tensor_value_info(name, element, shape, doc_string=meaning)


def cast(graph: Graph, value: str, dtype: np.dtype, name: str) -> str:
    """Append a Cast to a dtype."""
    return graph.add("Cast", value, name=name, to=TENSOR_TYPE[dtype.name])


def greater(graph: Graph, a: str | Array, b: str | Array, name: str, *, equal: bool = False) -> str:
    """Append a > b, or a >= b, as b < a or b <= a: OpenVINO calls NaN greater than anything."""
    return graph.add("LessOrEqual" if equal else "Less", b, a, name=name)


def table(graph: Graph, numbers: Array, dtype: np.dtype) -> str:
    """Append whole numbers from 0 on, stored in as few bytes as they need and cast at load."""
    narrow = numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
    return cast(graph, graph.constant("narrow_table", narrow), dtype, "table")
