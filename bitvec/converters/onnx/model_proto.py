"""An ONNX message made of a graph of the core, with the metadata of its forest."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bitvec.converters.onnx.operator_schema import LARGEST_FILE
from bitvec.core.arrays import Array
from bitvec.core.forest import Forest
from bitvec.core.graph.operators import Graph
from bitvec.distribution import version
from bitvec.errors import UnsupportedModelError, needs

with needs("onnx", "onnx", "Writing ONNX files"):
    import onnx


def model_proto(graph: Graph, forest: Forest, *, name: str, form: str) -> Any:
    """Return a graph as an `onnx.ModelProto`, checked.

    Raises
    ------
    UnsupportedModelError
        If the model would not fit in one file.
    InputError
        If the interface asks for an output that there is not.
    """
    graph.finish()
    size = sum(array.nbytes for array in graph.constants.values())
    if size > LARGEST_FILE:
        raise UnsupportedModelError(
            f"an ONNX file must be smaller than 2 GiB, got {size / 2**30:.1f} GiB of arrays: "
            "save the forest itself, or export fewer trees with forest.take."
        )
    helper, columns = onnx.helper, _columns(forest)
    made = helper.make_graph(
        [
            helper.make_node(
                operator.kind,
                operator.inputs,
                operator.outputs,
                name=operator.name,
                domain=operator.domain,
                **{k: _attribute(k, v) for k, v in operator.attributes.items()},
            )
            for operator in graph.operators
        ],
        name,
        [_value(*item, columns) for item in graph.inputs.items()],
        [_value(*item, columns) for item in graph.outputs.items()],
        [onnx.numpy_helper.from_array(_plain(a), k) for k, a in graph.constants.items()],
    )
    domains = [("", graph.interface.opset)]
    if any(operator.domain for operator in graph.operators):
        domains.append(("ai.onnx.ml", graph.ml_opset))
    model = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid(*domain) for domain in domains],
        ir_version=graph.interface.ir_version,
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
        facts["bitvec.source"] = told.encode(errors="backslashreplace").decode()
    return facts


def _plain(array: Array) -> Array:
    # Strings go into ONNX as objects; everything else contiguous as it is.
    return array.astype(object) if array.dtype.kind == "U" else np.require(array, requirements="C")


def _attribute(name: str, value: Any) -> Any:
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
"""Descriptions of inputs and outputs, for those who open the file in a viewer."""


def _value(name: str, spec: tuple[np.dtype, tuple[str | int, ...]], columns: str) -> Any:
    dtype, shape = spec
    kind = np.dtype(object) if dtype.kind == "U" else dtype
    element = onnx.helper.np_dtype_to_tensor_dtype(kind)
    meaning = _MEANINGS.get(name.split("_")[0], "").format(columns)
    return onnx.helper.make_tensor_value_info(name, element, shape, doc_string=meaning)
