"""A torch module as operators of a graph: traced by torch's own exporter, then copied."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import nn

from bitvec.core.arrays import Array
from bitvec.core.graph.operators import Graph
from bitvec.errors import MissingLibraryError, UnsupportedModelError, needs

with needs("onnx", "onnx", "Writing ONNX files"):
    import onnx
    from onnx.inliner import inline_local_functions

if find_spec("onnxscript") is None:
    raise MissingLibraryError("onnxscript", "soft", "Writing torch modules as ONNX files")

ROWS = 3
"""Rows of the example that is traced; any number that is neither 0 nor 1, which torch keeps."""
INDEXED = ("Gather", "GatherElements")
"""Operators whose second input may be int32 as well as int64."""


def append(graph: Graph, module: nn.Module, X: str, dtype: np.dtype, n_features: int) -> str:
    """Append a module and return the name of its output.

    Parameters
    ----------
    module : nn.Module
        From one tensor (batch, n_features) to another, without branches on values.
    X : str
        The tensor of the graph that it reads, in `dtype`.

    Raises
    ------
    UnsupportedModelError
        If torch cannot export the module.
    """
    example = torch.zeros((ROWS, n_features), dtype=torch.tensor(np.zeros(0, dtype)).dtype)
    try:
        with torch.no_grad(), _quietly():
            program = torch.onnx.export(
                module.eval(),
                (example,),
                dynamo=True,
                input_names=["X"],
                output_names=["score"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                opset_version=graph.interface.opset,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason"
        raise UnsupportedModelError(
            "a torch module must be exportable by torch.onnx.export, without branches on values, "
            f"got: {reason}"
        ) from error
    assert program is not None
    return _copy(graph, program.model_proto, X)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the exporter's remarks on its own progress, and on torchvision, to itself."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _copy(graph: Graph, model: Any, X: str) -> str:
    """Append the operators of a model of one input and one output."""
    if model.functions:
        model = inline_local_functions(model)
    opset = {one.domain: one.version for one in model.opset_import}[""]
    if opset != graph.interface.opset:
        raise UnsupportedModelError(
            f"torch must write version {graph.interface.opset} of the operators, got {opset}: "
            "leave `opset` out."
        )
    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    names = {"": "", model.graph.input[0].name: X}
    for node in model.graph.node:
        if any(a.type in (a.GRAPH, a.GRAPHS) for a in node.attribute):
            raise UnsupportedModelError(
                f"a torch module must be exportable without control flow, got {node.op_type}: "
                "write it without loops and branches on values."
            )
        if node.op_type == "Softplus":
            names[node.output[0]] = _softplus(graph, names[node.input[0]])
            continue
        outputs = [_readable(name, node.op_type) for name in node.output]
        inputs = []
        for place, name in enumerate(node.input):
            narrow = place == 1 and node.op_type in INDEXED
            key = f"{name} (int32)" if narrow and name in arrays else name
            if key not in names:
                array = _narrow(arrays[name]) if narrow else arrays[name]
                names[key] = graph.constant(_constant_name(name, outputs[0], place), array)
            inputs.append(names[key])
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        made = graph.split(
            node.op_type, *inputs, names=tuple(outputs), domain=node.domain, **attributes
        )
        names.update(zip(node.output, made, strict=True))
    output = model.graph.output[0].name
    if output in arrays and output not in names:
        names[output] = graph.constant(output, arrays[output])
    return names[output]


def _softplus(graph: Graph, x: str) -> str:
    """Append log(1 + exp(x)): onnxruntime has no Softplus of float64."""
    share = graph.add("Sigmoid", graph.add("Abs", x, name="magnitude"), name="share")
    above = graph.add("Relu", x, name="above_0")
    return graph.add("Sub", above, graph.add("Log", share, name="log_share"), name="softplus")


def _readable(name: str, kind: str) -> str:
    return kind.lower() if name.startswith("val_") else name


def _constant_name(name: str, output: str, place: int) -> str:
    """Keep the name of a parameter, and name any other constant by who reads it."""
    is_unnamed = name.startswith(("val_", "c_lifted_tensor", "lifted_tensor", "_tensor_constant"))
    return f"{output}.{place}" if is_unnamed else name


def _narrow(index: Array) -> Array:
    if index.dtype == np.int64 and index.size and np.abs(index).max() <= np.iinfo(np.int32).max:
        return index.astype(np.int32)
    return index
